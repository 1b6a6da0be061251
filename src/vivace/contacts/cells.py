"""What lies near what: a uniform hash grid for things of one size, a coarser one for those twice as large, and so on.

Space is cut into cells, and a cell's place in the table is its coordinates modulo a power of two each: far away cells
share a place, neighbors lie side by side or not far away. A thing is stored once, where its middle is, in the grid of
its size; things are sorted by place, so what is near is in a few runs, and a run is looked at eight things at a time.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel, doubles_at, floats_at, ints_at
from ..kernels.lanes import WIDTH, absolute, lane_bits, lowest_bit, maximum, minimum, value_function
from ..kernels.rows import load_block
from ..kernels.vec3 import dot, norm, sub

CHUNKS = 64  # pieces of work, for any number of threads
FAR = 2.0**30  # cells
LEVELS = 24  # each for things up to twice as large as the one before
CELL = 1.25  # the size of a cell, in largest half sizes of what is in it
# Of a thing: its middle, half of it (from end to end, or along the axes), how far it may go beyond its way, how far it
# may be from it, and half of its way.
FIELDS = 12
POINT, EDGE, TRIANGLE, END, BOX = range(5)  # what asks: triangles and ends ask for points, others for their like
ASKED = 26  # the same of what asks, then normal, sides and reach of a triangle, distance, distance sideways
ONE, TINY = np.float32(1), np.float32(1e-30)


@dataclass(frozen=True, eq=False)
class Cells:
    """Things sorted by level and cell."""

    order: np.ndarray  # (n,) int32, the things as they are sorted
    fields: np.ndarray  # (blocks, FIELDS, 8) float32
    begins: np.ndarray  # (LEVELS + 1,) int32, where each level begins
    inverses: np.ndarray  # (LEVELS,) float64, cells a meter
    bits: np.ndarray  # (LEVELS, 2) int32, size of the table along x and z, and along y
    bases: np.ndarray  # (LEVELS,) int32, where in `offsets` the level's table begins
    reaches: np.ndarray  # (LEVELS, 3) float32, how far a thing goes from its middle, with its margin
    offsets: np.ndarray  # where in `order` each cell begins

    @cached_property
    def addresses(self) -> np.ndarray:
        """Where all that is: compiled code goes by them, since counting references to arrays would take most of it."""
        arrays = self.order, self.fields, self.begins, self.inverses, self.bits, self.bases, self.reaches, self.offsets
        return np.array([array.ctypes.data for array in arrays], np.int64)


@compiled
def lists_at(addresses):
    """What `Cells` has, without its class."""
    order, fields, begins = ints_at(addresses[0]), floats_at(addresses[1]), ints_at(addresses[2])
    inverses, bits, bases = doubles_at(addresses[3]), ints_at(addresses[4]), ints_at(addresses[5])
    return order, fields, begins, inverses, bits, bases, floats_at(addresses[6]), ints_at(addresses[7])


def into_cells(
    middles: np.ndarray, halves: np.ndarray, ways: np.ndarray, margins: np.ndarray, asked: float = 0.0
) -> Cells:
    """Things by their middles, halves, half ways (n, 3) and margins (n, 2), all float32.

    What asks is mostly `asked` [m] wide.
    """
    extents, sizes, space = _extents(middles, halves, ways, margins)
    smallest = max(1.5 * float(sizes.sum()) / max(len(sizes), 1), 0.1 * asked, 1e-9)
    levels, counts, reaches = _levels(extents, sizes, smallest)
    inverses, bits = np.zeros(LEVELS), np.zeros((LEVELS, 2), np.int64)
    for level in np.flatnonzero(counts):
        apart = float(np.prod(np.maximum(space, 1e-6)) / counts[level] / 4) ** (1 / 3)
        inverses[level] = 1 / max(CELL * float(reaches[level].max()), 0.45 * asked, apart)
        bits[level] = _bits(space * inverses[level], int(counts[level]))
    bases = np.concatenate([[0], np.cumsum(1 << (2 * bits[:, 0] + bits[:, 1]))])
    begins = np.concatenate([[0], np.cumsum(counts)])
    places = _places(middles, levels, inverses, bits, bases)
    order, offsets = _sort(places, int(bases[-1]))
    fields = _write(order, middles, halves, ways, margins)
    small = begins.astype(np.int32), inverses, bits.astype(np.int32), bases.astype(np.int32)
    return Cells(order, fields, *small, reaches, offsets)


@compiled
def _extents(middles, halves, ways, margins):
    """How far things reach from their middles along each axis, the largest of that, and the size of space."""
    count = len(middles)
    extents, sizes, low, high = np.empty((count, 3), np.float32), np.empty(count, np.float32), np.zeros(3), np.zeros(3)
    for i in range(count):
        sizes[i] = 0
        for axis in range(3):
            extents[i, axis] = abs(halves[i, axis]) + abs(ways[i, axis]) + margins[i, 0] + margins[i, 1]
            sizes[i] = max(sizes[i], extents[i, axis])
            low[axis] = middles[i, axis] if i == 0 else min(low[axis], middles[i, axis])
            high[axis] = middles[i, axis] if i == 0 else max(high[axis], middles[i, axis])
    return extents, sizes, high - low


@compiled
def _levels(extents, sizes, smallest):
    """The level of each thing, how many there are in each, and their largest extents."""
    levels, counts = np.zeros(len(sizes), np.int32), np.zeros(LEVELS, np.int64)
    reaches = np.zeros((LEVELS, 3), np.float32)
    for i in range(len(sizes)):
        level, size = 0, smallest
        while sizes[i] > size and level < LEVELS - 1:
            level, size = level + 1, 2 * size
        levels[i] = level
        counts[level] += 1
        for axis in range(3):
            reaches[level, axis] = max(reaches[level, axis], extents[i, axis])
    return levels, counts, reaches


def _bits(cells: np.ndarray, count: int) -> tuple[int, int]:
    """A table's size along x and z, and along y, as powers of two: as many cells as space has, but not many more than
    things.
    """
    x, y, z = np.ceil(np.log2(np.clip(cells, 1, FAR))).astype(np.int64)
    side, most = min(max(x, z), 16), max(2 * count, 64).bit_length()
    while 2 * side + y > most:
        side, y = (side - 1, y) if side >= y else (side, y - 1)
    return side, y


@compiled
def _cell_of(coordinate, inverse):
    return int(np.floor(min(max(coordinate * inverse, -FAR), FAR)))


@compiled
def _column(x, z, side_bits, y_bits):
    """Where in a level's table a column of cells along y begins: bits of x and z in turn, so neighbors are near."""
    mask = (1 << side_bits) - 1
    return (_spread(x & mask) << 1 | _spread(z & mask)) << y_bits


@compiled
def _spread(bits):
    """Sixteen bits with a zero between any two."""
    bits = (bits | bits << 8) & 0x00FF00FF
    bits = (bits | bits << 4) & 0x0F0F0F0F
    bits = (bits | bits << 2) & 0x33333333
    return (bits | bits << 1) & 0x55555555


@compiled_parallel
def _places(middles, levels, inverses, bits, bases):
    places = np.empty(len(middles), np.int32)
    for i in prange(len(middles)):
        level = levels[i]
        inverse, size = inverses[level], bits[level]
        x, z = _cell_of(middles[i, 0], inverse), _cell_of(middles[i, 2], inverse)
        column = _column(x, z, size[0], size[1])
        places[i] = bases[level] + column + (_cell_of(middles[i, 1], inverse) & ((1 << size[1]) - 1))
    return places


@compiled
def _sort(places, size):
    """By place, in the order they came."""
    offsets, order = np.zeros(size + 1, np.int32), np.empty(len(places), np.int32)
    for i in range(len(places)):
        offsets[places[i] + 1] += 1
    for place in range(size):
        offsets[place + 1] += offsets[place]
    to = offsets[:-1].copy()
    for i in range(len(places)):
        order[to[places[i]]] = i
        to[places[i]] += 1
    return order, offsets


@compiled_parallel
def _write(order, middles, halves, ways, margins):
    fields = np.zeros(((len(order) + WIDTH - 1) // WIDTH, FIELDS, WIDTH), np.float32)
    for block in prange(len(fields)):
        for lane in range(min(WIDTH, len(order) - block * WIDTH)):
            i = order[block * WIDTH + lane]
            for axis in range(3):
                fields[block, axis, lane], fields[block, 3 + axis, lane] = middles[i, axis], halves[i, axis]
                fields[block, 8 + axis, lane] = ways[i, axis]
            fields[block, 6, lane], fields[block, 7, lane] = margins[i, 0], margins[i, 1]
    return fields


@value_function
def _clamped(value):
    return minimum(maximum(value, -ONE), ONE)


@value_function
def edges_within(middle, half, asked_middle, asked_half, distance):
    """Whether two edges, middle + s half with s from -1 to 1, are at most so far apart (Ericson 2005, 5.1.9)."""
    way = sub(asked_middle, middle)
    a, e, b = dot(asked_half, asked_half), dot(half, half), dot(asked_half, half)
    c, f = dot(asked_half, way), dot(half, way)
    s = _clamped((b * f - c * e) / maximum(a * e - b * b, TINY))
    t = _clamped((b * s + f) / maximum(e, TINY))
    s = _clamped((b * t - c) / maximum(a, TINY))
    between = (
        way[0] + s * asked_half[0] - t * half[0],
        way[1] + s * asked_half[1] - t * half[1],
        way[2] + s * asked_half[2] - t * half[2],
    )
    return dot(between, between) <= distance * distance


@value_function
def prism_within(point, way, corner, normal, first, second, third, reach, distance, beyond):
    """Whether a point comes at most so near to a triangle's plane, and at most so far `beyond` each of its sides.

    It goes from point - way to point + way, as seen from the triangle. `first`, `second`, `third` point outwards in the
    plane; the third side is at `reach` from `corner` along its own.
    """
    at = sub(point, corner)
    outside = maximum(dot(at, first) - absolute(dot(way, first)), dot(at, second) - absolute(dot(way, second)))
    outside = maximum(outside, dot(at, third) - absolute(dot(way, third)) - reach)
    return (outside <= beyond) & (absolute(dot(at, normal)) - absolute(dot(way, normal)) <= distance)


@compiled
def _near_in_block(kind, fields, block, asked):
    """Bits of the things in a block that are near what asks."""
    x, y, z, u, v, w, beyond, room, i, j, k, _ = load_block(fields, block, FIELDS)
    way = i - asked[8], j - asked[9], k - asked[10]
    distance = asked[24] + maximum(beyond, asked[6]) + room + asked[7]
    if kind == TRIANGLE:
        near = prism_within(
            (x, y, z),
            way,
            (asked[0], asked[1], asked[2]),
            (asked[11], asked[12], asked[13]),
            (asked[14], asked[15], asked[16]),
            (asked[17], asked[18], asked[19]),
            (asked[20], asked[21], asked[22]),
            asked[23],
            distance,
            asked[25] + room,
        )
    elif kind == BOX:
        apart = maximum(
            absolute(x - asked[0]) - absolute(u) - absolute(i) - asked[3],
            absolute(y - asked[1]) - absolute(v) - absolute(j) - asked[4],
        )
        near = maximum(apart, absolute(z - asked[2]) - absolute(w) - absolute(k) - asked[5]) <= distance
    else:
        middle, half = (asked[0], asked[1], asked[2]), (asked[3], asked[4], asked[5])
        near = edges_within((x, y, z), (u, v, w), middle, half, distance + norm(way))
    return lane_bits(near)


@compiled
def ask_as_stored(place, lists, distance, asked, low, high):
    """Let what is stored at a place ask for what is near: its numbers, the box around it, and its level."""
    fields, begins = lists[1], lists[2]
    first, level = place // WIDTH * WIDTH * FIELDS + place % WIDTH, 0
    while begins[level + 1] <= place:
        level += 1
    asked[24] = distance
    for number in range(FIELDS):
        asked[number] = fields[first + number * WIDTH]
    for axis in range(3):
        size = abs(asked[3 + axis]) + abs(asked[8 + axis]) + asked[6] + asked[7] + distance
        low[axis], high[axis] = asked[axis] - size, asked[axis] + size
    return level


@compiled
def near_things(kind, asked, low, high, level, after, lists, found):
    """Where in the order the things are that are near what asks, from a level on and behind place `after`.

    `low` and `high` are a box around all places near enough, on which the margins of things come on top. Gives their
    number, and `found`, larger if there was not room.
    """
    _, fields, begins, inverses, bits, bases, reaches, offsets = lists
    count = 0
    for of in range(level, LEVELS):
        if begins[of] == begins[of + 1] or begins[of + 1] <= after:
            continue
        inverse, base = inverses[of], np.int64(bases[of])
        side_bits, y_bits = np.int64(bits[2 * of]), np.int64(bits[2 * of + 1])
        x_reach, y_reach, z_reach = reaches[3 * of], reaches[3 * of + 1], reaches[3 * of + 2]
        x0, x1 = _cell_of(low[0] - x_reach, inverse), _cell_of(high[0] + x_reach, inverse)
        y0, y1 = _cell_of(low[1] - y_reach, inverse), _cell_of(high[1] + y_reach, inverse)
        z0, z1 = _cell_of(low[2] - z_reach, inverse), _cell_of(high[2] + z_reach, inverse)
        x1 = min(x1, x0 + (1 << side_bits) - 1)  # once around is all there is
        y1 = min(y1, y0 + (1 << y_bits) - 1)
        z1 = min(z1, z0 + (1 << side_bits) - 1)
        top = (1 << y_bits) - 1
        begin, end = y0 & top, (y0 & top) + y1 - y0
        for x in range(x0, x1 + 1):
            for z in range(z0, z1 + 1):
                column = base + _column(x, z, side_bits, y_bits)
                for wrapped in range(1 if end <= top else 2):  # the run along y may go over the table's edge
                    first = max(np.int64(offsets[column + (0 if wrapped else begin)]), after + 1)
                    last = np.int64(offsets[column + (end - top if wrapped else min(end, top) + 1)])
                    if first >= last:
                        continue
                    for block in range(first // WIDTH, (last - 1) // WIDTH + 1):
                        near = _near_in_block(kind, fields, block, asked)
                        begun, ended = first - block * WIDTH, last - block * WIDTH
                        if begun > 0:
                            near &= -1 << begun
                        if ended < WIDTH:
                            near &= (1 << ended) - 1
                        if near and count + WIDTH > len(found):
                            larger = np.empty(2 * len(found), np.int32)
                            larger[:count] = found[:count]
                            found = larger
                        while near:
                            found[np.uint64(count)] = block * WIDTH + lowest_bit(near)
                            near &= near - 1
                            count += 1
    return count, found

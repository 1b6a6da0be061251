"""Which boxes overlap: a uniform hash grid for boxes of one size, a coarser one for those twice as large, and so on.

Space is cut into cells, and a cell's place in the table is its coordinates modulo a power of two each: far away cells
share a place, neighbors lie side by side or not far away. A box is stored once, where its middle is, in the grid of its
size; boxes are sorted by place, so what is near is in a few runs, and a run is looked at eight boxes at a time.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel, doubles_at, floats_at, ints_at
from ..kernels.lanes import WIDTH, lane_bits, lowest_bit
from ..kernels.rows import load_block

CHUNKS = 64  # pieces of work, for any number of threads
FAR = 2.0**30  # cells
LEVELS = 24  # each for boxes up to twice as large as the one before
CELL = 1.25  # the size of a cell, in largest half sizes of what is in it


@dataclass(frozen=True, eq=False)
class Cells:
    """Boxes sorted by level and cell."""

    order: np.ndarray  # (n,) int32, the boxes as they are sorted
    fields: np.ndarray  # (blocks, 6, 8) float32: lowest and highest corners of eight boxes
    begins: np.ndarray  # (LEVELS + 1,) int32, where each level begins
    inverses: np.ndarray  # (LEVELS,) float64, cells a meter
    bits: np.ndarray  # (LEVELS, 2) int32, size of the table along x and z, and along y
    bases: np.ndarray  # (LEVELS,) int32, where in `offsets` the level's table begins
    reaches: np.ndarray  # (LEVELS, 3) float32, how far a box goes from its middle
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


def into_cells(boxes: np.ndarray) -> Cells:
    """Boxes (n, 6) float32: lowest and highest corner of each."""
    middles, extents, sizes, space = _extents(boxes)
    smallest = max(1.5 * float(sizes.sum()) / max(len(sizes), 1), 1e-9)
    levels, counts, reaches = _levels(extents, sizes, smallest)
    inverses, bits = np.zeros(LEVELS), np.zeros((LEVELS, 2), np.int64)
    for level in np.flatnonzero(counts):
        apart = float(np.prod(np.maximum(space, 1e-6)) / counts[level] / 4) ** (1 / 3)
        inverses[level] = 1 / max(CELL * float(reaches[level].max()), apart, 1e-12)
        bits[level] = _bits(space * inverses[level], int(counts[level]))
    bases = np.concatenate([[0], np.cumsum(1 << (2 * bits[:, 0] + bits[:, 1]))])
    begins = np.concatenate([[0], np.cumsum(counts)])
    places = _places(middles, levels, inverses, bits, bases)
    order, offsets = _sort(places, int(bases[-1]))
    small = begins.astype(np.int32), inverses, bits.astype(np.int32), bases.astype(np.int32)
    return Cells(order, _write(order, boxes), *small, reaches, offsets)


@compiled
def _extents(boxes):
    """Middles of boxes, half sizes along each axis, the largest of these, and the size of space."""
    count, half = len(boxes), np.float32(0.5)
    middles, extents, sizes = np.empty((count, 3), np.float32), np.empty((count, 3), np.float32), np.empty(count)
    low, high = np.zeros(3), np.zeros(3)
    for i in range(count):
        sizes[i] = 0
        for axis in range(3):
            middles[i, axis] = half * (boxes[i, axis] + boxes[i, 3 + axis])
            extent = max(middles[i, axis] - boxes[i, axis], boxes[i, 3 + axis] - middles[i, axis])
            extents[i, axis] = extent * np.float32(1.000001)  # it is rounded, and so was the middle
            sizes[i] = max(sizes[i], extents[i, axis])
            low[axis] = middles[i, axis] if i == 0 else min(low[axis], middles[i, axis])
            high[axis] = middles[i, axis] if i == 0 else max(high[axis], middles[i, axis])
    return middles, extents, sizes, high - low


@compiled
def _levels(extents, sizes, smallest):
    """The level of each box, how many there are in each, and their largest extents."""
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
    """A table's size along x and z, and along y, as powers of two: as many cells as space has, or not many more than
    boxes.
    """
    x, y, z = np.ceil(np.log2(np.clip(np.nan_to_num(cells), 1, FAR))).astype(np.int64)
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
def _write(order, boxes):
    fields = np.zeros(((len(order) + WIDTH - 1) // WIDTH, 6, WIDTH), np.float32)
    for block in prange(len(fields)):
        for lane in range(min(WIDTH, len(order) - block * WIDTH)):
            for side in range(6):
                fields[block, side, lane] = boxes[order[block * WIDTH + lane], side]
    return fields


@compiled
def overlapping(fields, block, low, high):
    """Bits of those of eight boxes that overlap a box."""
    x0, y0, z0, x1, y1, z1 = load_block(fields, block, 6)
    meet = (x0 <= high[0]) & (y0 <= high[1]) & (z0 <= high[2])
    return lane_bits(meet & (x1 >= low[0]) & (y1 >= low[1]) & (z1 >= low[2]))


@compiled
def near_boxes(low, high, lists, found):
    """The boxes that overlap the one from `low` to `high`: how many, and `found`, larger if there was not room."""
    order, fields, begins, inverses, bits, bases, reaches, offsets = lists
    count = 0
    for level in range(LEVELS):
        if begins[level] == begins[level + 1]:
            continue
        inverse, base = inverses[level], np.int64(bases[level])
        side_bits, y_bits = np.int64(bits[2 * level]), np.int64(bits[2 * level + 1])
        x_reach, y_reach = np.float64(reaches[3 * level]), np.float64(reaches[3 * level + 1])
        z_reach = np.float64(reaches[3 * level + 2])
        x0, x1 = _cell_of(low[0] - x_reach, inverse), _cell_of(high[0] + x_reach, inverse)
        y0, y1 = _cell_of(low[1] - y_reach, inverse), _cell_of(high[1] + y_reach, inverse)
        z0, z1 = _cell_of(low[2] - z_reach, inverse), _cell_of(high[2] + z_reach, inverse)
        x1 = min(x1, x0 + (1 << side_bits) - 1)  # once around is all there is
        y1 = min(y1, y0 + (1 << y_bits) - 1)
        z1 = min(z1, z0 + (1 << side_bits) - 1)
        if x0 > x1 or y0 > y1 or z0 > z1:  # of something that is not finite
            continue
        top = (1 << y_bits) - 1
        begin, end = y0 & top, (y0 & top) + y1 - y0
        for x in range(x0, x1 + 1):
            for z in range(z0, z1 + 1):
                column = base + _column(x, z, side_bits, y_bits)
                for wrapped in range(1 if end <= top else 2):  # the run along y may go over the table's edge
                    first = np.int64(offsets[column + (0 if wrapped else begin)])
                    last = np.int64(offsets[column + (end - top if wrapped else min(end, top) + 1)])
                    if first >= last:
                        continue
                    for block in range(first // WIDTH, (last - 1) // WIDTH + 1):
                        near = overlapping(fields, block, low, high)
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
                            found[np.uint64(count)] = order[block * WIDTH + lowest_bit(near)]
                            near &= near - 1
                            count += 1
    return count, found

"""Pairs of things that may touch for some time: which are nearer than the balls of their corners allow for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel, floats_at
from ..kernels.lanes import WIDTH
from .cells import ASKED, CHUNKS, EDGE, END, POINT, TRIANGLE, Cells, ask_as_stored, into_cells, lists_at, near_things
from .distances import edge_distance, nearest_on_edge, nearest_on_triangle
from .narrow import OUTER

if TYPE_CHECKING:
    from .detect import Surfaces, Tubes

STRIDE = 32  # what asks goes in short runs, dealt out in turn, so that a crowded place is shared by all threads


@dataclass(eq=False)
class Pairs:
    """Things that may touch, by the first and then by the second; memory that lists of one kind use again and again."""

    count: int = 0
    listed: int = 0  # how many there were when all were listed
    members: np.ndarray = field(default_factory=partial(np.empty, (0, 2), np.int32))  # two things
    # Of point and triangle, point and end with what is opposite, two edges, or two points and twice the spare row.
    corners: np.ndarray = field(default_factory=partial(np.empty, (0, 4), np.int32))
    emitted: np.ndarray = field(default_factory=partial(np.empty, (CHUNKS, 256, 2), np.int32))  # unsorted
    times_grown: int = 0
    _other: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def size(self) -> int:
        """How many there is room for; behind them there is some more for a whole block of lanes."""
        return len(self.members)

    def make_room(self, count: int) -> None:
        """For so many new ones."""
        if count > self.size:
            self.members, self.corners = _room(count)

    def put_in(self, keys: np.ndarray, kind: int, asking: np.ndarray, stored: np.ndarray, spare: int) -> None:
        """Add pairs by their keys, which are sorted; those that are there stay."""
        if self._other is None or len(self._other[0]) < self.count + len(keys):
            self._other = _room(self.count + len(keys))
        here, there = (self.members, self.corners), self._other
        self.count = _merge(kind, self.count, *here, keys, len(stored), asking, stored, spare, *there)
        (self.members, self.corners), self._other = there, here


def _room(count: int) -> tuple[np.ndarray, np.ndarray]:
    size = count + count // 2
    return np.empty((size, 2), np.int32), np.zeros((size + WIDTH, 4), np.int32)


@dataclass(frozen=True, eq=False)
class Things:
    """What asks and what is asked for: points (n, 1), edges (n, 2), triangles or ends (n, 3), and which are stored."""

    kind: int
    asking: np.ndarray
    stored: np.ndarray
    chosen: np.ndarray  # (k,) int32
    cells: Cells


def stored_things(things: np.ndarray, tubes: Tubes, chosen: np.ndarray, asked: float) -> Cells:
    """Points (n, 1) or edges (n, 2) in cells, of which the `chosen` count; what asks for them is about so wide."""
    middles, halves, ways, margins = _things(things, chosen, tubes.middles, tubes.ways, tubes.margins)
    return into_cells(middles, halves, ways, margins, asked)


def list_pairs(
    pairs: Pairs, things: Things, surfaces: Surfaces, tubes: Tubes, distance: np.float32, thickness: np.float32
) -> None:
    """Find all pairs that come nearer than `distance` within their tubes.

    What has a corner in common does not count, nor what is nearer than the thickness within a body without forces.
    """
    places = _by_place(things.asking, things.stored, things.chosen, things.cells.order, len(tubes.middles))
    in_order = things.kind in (EDGE, POINT)  # what asks for its like does so in the order in which it is stored
    counts = _ask_all(pairs, things, in_order, places, surfaces, tubes, distance, thickness)
    pairs.count = pairs.listed = int(counts.sum())
    pairs.make_room(pairs.count)
    arrays = pairs.emitted, things.asking, things.stored, len(tubes.middles) - 1
    _sort_pairs(things.kind, counts, *arrays, pairs.members, pairs.corners)


def pairs_of(
    pairs: Pairs,
    things: Things,
    places: np.ndarray,
    surfaces: Surfaces,
    tubes: Tubes,
    distance: np.float32,
    thickness: np.float32,
) -> np.ndarray:
    """Keys of the pairs of some that ask with all that are stored, in no order."""
    counts = _ask_all(pairs, things, False, places, surfaces, tubes, distance, thickness)
    return _keys(counts, pairs.emitted, len(things.stored))


def _ask_all(
    pairs: Pairs,
    things: Things,
    in_order: bool,
    places: np.ndarray,
    surfaces: Surfaces,
    tubes: Tubes,
    distance: np.float32,
    thickness: np.float32,
) -> np.ndarray:
    arrays = things.asking, things.stored, things.chosen, places
    rows = tubes.middles, tubes.ways, tubes.margins, surfaces.bodies, surfaces.rest
    numbers = distance, thickness
    while True:
        counts = _ask(things.kind, in_order, *arrays, *rows, *numbers, things.cells.addresses, pairs.emitted)
        if counts.max() <= pairs.emitted.shape[1]:
            return counts
        pairs.emitted, pairs.times_grown = np.empty((CHUNKS, 2 * counts.max(), 2), np.int32), pairs.times_grown + 1


@compiled_parallel
def _things(members, chosen, middles, ways, margins):
    """Middle, half from end to end, half way and margins of some points or edges."""
    count, last = len(chosen), members.shape[1] - 1
    middle, half = np.empty((count, 3), np.float32), np.empty((count, 3), np.float32)
    way, margin, part = np.empty((count, 3), np.float32), np.empty((count, 2), np.float32), np.float32(0.5)
    for i in prange(count):
        a, b, apart = members[chosen[i], 0], members[chosen[i], last], np.float32(0)
        for axis in range(3):
            middle[i, axis] = part * (middles[a, axis] + middles[b, axis])
            half[i, axis] = part * (middles[b, axis] - middles[a, axis])
            way[i, axis] = part * (ways[a, axis] + ways[b, axis])
            apart += (part * (ways[b, axis] - ways[a, axis])) ** 2
        margin[i, 0] = max(margins[a, 0], margins[b, 0])
        margin[i, 1] = max(margins[a, 1], margins[b, 1]) + np.sqrt(apart)
    return middle, half, way, margin


@compiled
def _by_place(asking, stored, chosen, order, rows):
    """What asks, sorted by where its first corner is among what is stored, so that neighbors come one after another."""
    rank, begins = np.zeros(rows, np.int32), np.zeros(len(order) + 1, np.int32)
    for place in range(len(order)):
        rank[stored[chosen[order[place]], 0]] = place
    for i in range(len(asking)):
        begins[rank[asking[i, 0]] + 1] += 1
    for place in range(len(order)):
        begins[place + 1] += begins[place]
    places = np.empty(len(asking), np.int32)
    for i in range(len(asking)):
        at = rank[asking[i, 0]]
        places[begins[at]] = i
        begins[at] += 1
    return places


@compiled_parallel
def _ask(
    kind,
    in_order,
    asking,
    stored,
    chosen,
    places,
    middles,
    ways,
    margins,
    bodies,
    rest,
    distance,
    thickness,
    cells,
    emitted,
):
    """Pairs of what asks with what is stored: how many in each chunk; `emitted` takes as many as it can."""
    counts = np.zeros(CHUNKS, np.int64)
    for chunk in prange(CHUNKS):
        things = asking, stored, chosen, middles, ways, margins, bodies, rest
        counts[chunk] = _ask_chunk(chunk, kind, in_order, things, places, distance, thickness, cells, emitted[chunk])
    return counts


@compiled
def _ask_chunk(chunk, kind, in_order, things, places, distance, thickness, cells, emitted):
    """What one chunk finds. A function of its own: within a parallel loop, arrays that grow are Numba's undoing.

    `in_order`: what is stored asks in its own order, for what comes after it; else what is in `places` asks for all.
    """
    asking, stored, chosen, middles, ways, margins, bodies, rest = things
    like, lists = kind == EDGE or kind == POINT, lists_at(cells)
    order, asking_count = lists[0], len(chosen) if in_order else len(places)
    near, asked = np.empty(256, np.int32), np.zeros(ASKED, np.float32)
    low, high, numbers = np.empty(3, np.float32), np.empty(3, np.float32), floats_at(asked.ctypes.data)
    total = 0
    for run in range(chunk, (asking_count + STRIDE - 1) // STRIDE, CHUNKS):
        for place in range(run * STRIDE, min((run + 1) * STRIDE, asking_count)):
            level, after = 0, -1
            if in_order:
                level, after = ask_as_stored(place, lists, distance, asked, low, high), place
                i = chosen[order[place]]
            else:
                i = places[place]
                if kind == TRIANGLE:
                    _describe_triangle(i, asking, middles, ways, margins, distance, asked, low, high)
                else:
                    _describe_edge(i, asking, middles, ways, margins, distance, asked, low, high)
            count, near = near_things(kind, numbers, low, high, level, after, lists, near)
            for k in range(count):
                j = chosen[order[near[k]]]
                one, other = (min(i, j), max(i, j)) if like else (i, j)
                if _may_touch(kind, one, other, asking, stored, bodies, rest, thickness):
                    if total < len(emitted):
                        emitted[total, 0], emitted[total, 1] = one, other
                    total += 1
    return total


@compiled
def _describe_triangle(i, triangles, middles, ways, margins, distance, asked, low, high):
    """What is to be known of a triangle that asks, and the box around it.

    A point faces it only within its sides, or as far beyond as points and sides may move, the plane's tilt included.
    """
    a, b, c = triangles[i, 0], triangles[i, 1], triangles[i, 2]
    third, apart = np.float32(1 / 3), np.float32(0)
    for axis in range(3):
        asked[axis], asked[8 + axis] = middles[a, axis], third * (ways[a, axis] + ways[b, axis] + ways[c, axis])
    for corner in range(3):
        square = np.float32(0)
        for axis in range(3):
            square += (ways[triangles[i, corner], axis] - asked[8 + axis]) ** 2
        apart = max(apart, square)
    ux, uy, uz = middles[b, 0] - middles[a, 0], middles[b, 1] - middles[a, 1], middles[b, 2] - middles[a, 2]
    vx, vy, vz = middles[c, 0] - middles[a, 0], middles[c, 1] - middles[a, 1], middles[c, 2] - middles[a, 2]
    nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    area = np.sqrt(nx * nx + ny * ny + nz * nz)
    scale = np.float32(1) / area if area > 0 else np.float32(0)
    nx, ny, nz = nx * scale, ny * scale, nz * scale
    u, v = ux * ux + uy * uy + uz * uz, vx * vx + vy * vy + vz * vz
    longest = np.sqrt(max(u, v, (vx - ux) ** 2 + (vy - uy) ** 2 + (vz - uz) ** 2))
    asked[6] = max(margins[a, 0], margins[b, 0], margins[c, 0])
    asked[7] = max(margins[a, 1], margins[b, 1], margins[c, 1]) + np.sqrt(apart)
    asked[11], asked[12], asked[13] = nx, ny, nz
    asked[14], asked[15], asked[16] = _outwards(ux, uy, uz, nx, ny, nz)
    asked[17], asked[18], asked[19] = _outwards(-vx, -vy, -vz, nx, ny, nz)
    asked[20], asked[21], asked[22] = _outwards(vx - ux, vy - uy, vz - uz, nx, ny, nz)
    asked[23] = asked[20] * ux + asked[21] * uy + asked[22] * uz
    asked[24] = distance
    over = distance + asked[6] + asked[7]
    tilt = np.float32(2) * asked[7] * longest * scale if area > 0 else np.float32(1)
    sideways = min(asked[7] + np.float32(1.2 * OUTER) * longest + tilt * over, over)
    asked[25] = sideways
    for axis in range(3):
        least = min(middles[a, axis], middles[b, axis], middles[c, axis])
        most = max(middles[a, axis], middles[b, axis], middles[c, axis])
        across, size = asked[11 + axis], over
        if sideways < over:
            size = over * abs(across) + sideways * np.sqrt(max(1 - across * across, np.float32(0)))
        size += abs(asked[8 + axis])
        low[axis], high[axis] = least - size, most + size


@compiled
def _describe_edge(i, edges, middles, ways, margins, distance, asked, low, high):
    """The same of an edge, an end or a point."""
    a, b, half, apart = edges[i, 0], edges[i, min(1, edges.shape[1] - 1)], np.float32(0.5), np.float32(0)
    for axis in range(3):
        asked[axis] = half * (middles[a, axis] + middles[b, axis])
        asked[3 + axis] = half * (middles[b, axis] - middles[a, axis])
        asked[8 + axis] = half * (ways[a, axis] + ways[b, axis])
        apart += (half * (ways[b, axis] - ways[a, axis])) ** 2
    asked[6] = max(margins[a, 0], margins[b, 0])
    asked[7] = max(margins[a, 1], margins[b, 1]) + np.sqrt(apart)
    asked[24] = distance
    for axis in range(3):
        reach = abs(asked[3 + axis]) + abs(asked[8 + axis]) + asked[6] + asked[7] + distance
        low[axis], high[axis] = asked[axis] - reach, asked[axis] + reach


@compiled
def _outwards(x, y, z, nx, ny, nz):
    """The unit vector to the right of a side, in the plane of the normal."""
    a, b, c = y * nz - z * ny, z * nx - x * nz, x * ny - y * nx
    length = np.sqrt(a * a + b * b + c * c)
    scale = np.float32(1) / length if length > 0 else np.float32(0)
    return a * scale, b * scale, c * scale


@compiled
def _row(rows, row):
    return np.float64(rows[row, 0]), np.float64(rows[row, 1]), np.float64(rows[row, 2])


@compiled
def _may_touch(kind, i, j, asking, stored, bodies, rest, thickness):
    """Whether two things have no corner in common, and are not near each other from the start."""
    if kind == POINT:
        p, q = asking[i, 0], asking[j, 0]
        return bodies[p] != bodies[q] or nearest_on_edge(_row(rest, p), _row(rest, q), _row(rest, q)) >= thickness
    if kind == EDGE:
        a, b, c, d = asking[i, 0], asking[i, 1], asking[j, 0], asking[j, 1]
        if a == c or a == d or b == c or b == d:
            return False
        if bodies[a] != bodies[c]:
            return True
        return edge_distance(_row(rest, a), _row(rest, b), _row(rest, c), _row(rest, d)) >= thickness
    p, a, b, c = stored[j, 0], asking[i, 0], asking[i, 1], asking[i, 2]
    if p == a or p == b or p == c:
        return False
    if bodies[p] != bodies[a]:
        return True
    return nearest_on_triangle(_row(rest, p), _row(rest, a), _row(rest, b), _row(rest, c)) >= thickness


@compiled
def _by_first(counts, emitted, size):
    """The second of every pair, by the first: where each begins, and the seconds as they came."""
    begins = np.zeros(size + 1, np.int64)
    for chunk in range(CHUNKS):
        for k in range(counts[chunk]):
            begins[emitted[chunk, k, 0] + 1] += 1
    for i in range(size):
        begins[i + 1] += begins[i]
    to, seconds = begins[:-1].copy(), np.empty(begins[-1], np.int32)
    for chunk in range(CHUNKS):
        for k in range(counts[chunk]):
            i = emitted[chunk, k, 0]
            seconds[to[i]] = emitted[chunk, k, 1]
            to[i] += 1
    return begins, seconds


@compiled
def _sort(values, first, last):
    """By insertion: there are few of them, and nearly in order."""
    for k in range(first + 1, last):
        value, place = values[k], k
        while place > first and values[place - 1] > value:
            values[place] = values[place - 1]
            place -= 1
        values[place] = value


@compiled
def _write_corners(kind, i, j, asking, stored, spare, corners, k):
    if kind == TRIANGLE or kind == END:
        corners[k, 0] = stored[j, 0]
        corners[k, 1], corners[k, 2], corners[k, 3] = asking[i, 0], asking[i, 1], asking[i, 2]
    elif kind == EDGE:
        corners[k, 0], corners[k, 1] = asking[i, 0], asking[i, 1]
        corners[k, 2], corners[k, 3] = asking[j, 0], asking[j, 1]
    else:
        corners[k, 0], corners[k, 1], corners[k, 2], corners[k, 3] = asking[i, 0], asking[j, 0], spare, spare


@compiled_parallel
def _sort_pairs(kind, counts, emitted, asking, stored, spare, members, corners):
    """All pairs and their corners."""
    begins, seconds = _by_first(counts, emitted, len(asking))
    for i in prange(len(asking)):
        _sort(seconds, begins[i], begins[i + 1])
        for k in range(begins[i], begins[i + 1]):
            members[k, 0], members[k, 1] = i, seconds[k]
            _write_corners(kind, i, seconds[k], asking, stored, spare, corners, k)


@compiled
def _keys(counts, emitted, size):
    """A number for each pair: `size` times the first, and the second."""
    keys, filled = np.empty(counts.sum(), np.int64), 0
    for chunk in range(CHUNKS):
        for k in range(counts[chunk]):
            keys[filled] = np.int64(emitted[chunk, k, 0]) * size + emitted[chunk, k, 1]
            filled += 1
    return keys


@compiled
def _merge(kind, count, members, corners, keys, size, asking, stored, spare, to_members, to_corners):
    """Pairs that are there and new ones, sorted; how many there are then."""
    filled, at = 0, 0
    for new in range(len(keys) + 1):
        key = keys[new] if new < len(keys) else np.int64(2**62)
        found = False
        while at < count:
            present = np.int64(members[at, 0]) * size + members[at, 1]
            if present > key:
                break
            found = present == key
            to_members[filled, 0], to_members[filled, 1] = members[at, 0], members[at, 1]
            for corner in range(4):
                to_corners[filled, corner] = corners[at, corner]
            at, filled = at + 1, filled + 1
        if new < len(keys) and not found:
            i, j = key // size, key % size
            to_members[filled, 0], to_members[filled, 1] = i, j
            _write_corners(kind, i, j, asking, stored, spare, to_corners, filled)
            filled += 1
    return filled

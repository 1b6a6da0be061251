"""Contacts between soft things within a substep: points against triangles, edges against edges, or point against point.

All that moves does so in a straight line from where it is to where it is predicted. Pairs that may touch are listed for
some time: every particle gets a tube around its way, as seen by who goes along with the mean of all. One that is no
longer near its tube's end gets a new one, and its pairs are added. Which pairs of the list touch is looked at in every
substep, eight at once; the list only spares work, so contacts and their order do not depend on when it was made.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel, floats_at, ints_at
from ..kernels.lanes import WIDTH, lane_bits, lowest_bit, maximum, minimum
from ..kernels.region import threads_set
from ..kernels.rows import gather, store_block
from ..kernels.vec3 import sub
from .cells import CHUNKS, EDGE, END, POINT, TRIANGLE, Cells
from .edges import COUNTS, PRESSED, Hinges, find_hinges
from .narrow import end_meeting, longest_way, meeting, of_edges, of_point, points_meeting
from .pairs import Pairs, Things, list_pairs, pairs_of, stored_things

# How far the solver may move things beyond what was predicted: part of the thickness, and what may be stopped on its
# way by something else, which is its whole way, up to some thicknesses.
SLACK, LONGEST_WAY = 0.2, 1.5
ROOM = 0.25  # how many thicknesses particles may be from where they were predicted, for a list to hold for them
MOST_LEFT, MOST_GROWTH = 0.02, 1.5  # all is listed anew when so many particles have left, or lists have grown so much
FASTER, MORE = 1.25, 0.15  # how much longer ways may get, and by how many thicknesses, before the list is made anew
DATA = 8  # four shares, the direction, the thickness
MARKS, FINENESS = 1 << 18, 3  # a power of two; cells within reach
NOTHING, NO_ROWS = np.zeros(0, np.uint8), np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False)
class Surfaces:
    """What may touch, in rows: points, edges and triangles, and what they were like without forces."""

    points: np.ndarray  # (p, 1) int32
    edges: np.ndarray  # (e, 2) int32
    triangles: np.ndarray  # (t, 3) int32
    bodies: np.ndarray  # (rows,) int32, the body of each row
    rest: np.ndarray  # (rows, 3) float32
    hinges: Hinges
    ends: np.ndarray  # (k, 3) int32, edges at which a surface ends, and what is opposite

    @cached_property
    def edge_length(self) -> float:
        """The mean length of edges [m]."""
        a, b = self.rest[self.edges[:, 0]], self.rest[self.edges[:, 1]]
        return float(np.linalg.norm(a - b, axis=1).mean()) if len(self.edges) else 0.0


def make_surfaces(
    points: np.ndarray, triangles: np.ndarray, bodies: np.ndarray, rest: np.ndarray, thickness: float
) -> Surfaces:
    """Of points (p,), triangles (t, 3), and the body and place at rest of every row."""
    triangles = triangles.astype(np.int32)
    edges = np.unique(np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
    hinges, ends = find_hinges(edges, triangles, rest, thickness)
    return Surfaces(points.astype(np.int32)[:, None], edges, triangles, bodies, rest, hinges, ends)


@dataclass(frozen=True, eq=False)
class Found:
    """Contacts, always in the same order. gap = n . (sum of share_i x_i) is to stay at least the thickness."""

    corners: np.ndarray  # (m, 4) int32, rows
    data: np.ndarray  # (m, 8) float32: shares (4), direction n (3), thickness [m]

    def __len__(self) -> int:
        return len(self.corners)


@dataclass(frozen=True, eq=False)
class Tubes:
    """Where particles may be for a list to hold, as seen by who goes along with the mean of all."""

    mean: np.ndarray  # (3,) of all when the list was made
    middles: np.ndarray  # (rows, 3) float32, of their ways
    ways: np.ndarray  # (rows, 3) float32, half of them
    margins: np.ndarray  # (rows, 2) float32, how far they may go beyond what is predicted, and be from it


class Detector:
    """Finds the contacts of a substep. `capacity` grows when there are more pairs than ever before."""

    def __init__(self, surfaces: Surfaces, thickness: float, by_particles: bool):
        self.surfaces, self.thickness = surfaces, np.float32(thickness)
        self.distance = np.float32((1 + SLACK) * 1.02 * thickness)  # a little more, for rounding
        self.kinds = [POINT] if by_particles else [TRIANGLE, END]
        self.times_listed = 0
        self._tubes: Tubes | None = None
        self._pairs = {kind: Pairs() for kind in (*self.kinds, EDGE)}
        self._room = {kind: (np.empty((0, 4), np.int32), np.empty((0, DATA), np.float32)) for kind in self._pairs}
        self._listed: np.ndarray | None = None  # which edges are in their list

    @property
    def times_grown(self) -> int:
        """How often there was not room enough for all pairs."""
        return sum(pairs.times_grown for pairs in self._pairs.values())

    def find(self, start: np.ndarray, end: np.ndarray, threads: int = 1) -> Found:
        """Contacts of rows that go from `start` to `end`, both (rows, 4) float32; none if a number is not finite."""
        with threads_set(threads):
            means = _means(self.surfaces.points, start, end)
            if not np.isfinite(means).all():
                return Found(np.zeros((0, 4), np.int32), np.zeros((0, DATA), np.float32))
            self._keep_lists(start, end, means)
            found = [self._touching(kind, start, end) for kind in self.kinds]
            if TRIANGLE in self.kinds:
                found.append(self._touching_edges(found[0], start, end))
        return Found(np.concatenate([corners for corners, _ in found]), np.concatenate([data for _, data in found]))

    def _keep_lists(self, start: np.ndarray, end: np.ndarray, means: np.ndarray) -> None:
        """Let the lists have all that may touch: add pairs of the particles that left their tubes, or list all anew."""
        left = self._left(start, end, means)
        if self._tubes is None or len(left) > MOST_LEFT * len(self.surfaces.points) or self._is_overgrown():
            self._tubes = Tubes(means[0], *_around(start, end, means[1] - means[0], self.thickness))
            self._list_all()
        elif len(left):
            tubes, moved = self._tubes, means - self._tubes.mean
            anew = _around(start[left], end[left], means[1] - means[0], self.thickness)
            tubes.middles[left], tubes.ways[left], tubes.margins[left] = anew
            tubes.middles[left] -= moved[0].astype(np.float32)
            self._list_again(left)

    def _left(self, start: np.ndarray, end: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Rows that left their tubes. They have gone their ways: from now on they may be only near the ends of them."""
        if self._tubes is None:
            return NO_ROWS
        tubes, longest = self._tubes, np.float32(LONGEST_WAY * self.thickness)
        tubes.middles[:] += tubes.ways
        tubes.ways[:] = 0
        points = self.surfaces.points
        left = _leave(points, start, end, means - tubes.mean, tubes.middles, tubes.margins, longest)
        return points[left, 0]

    def _is_overgrown(self) -> bool:
        return any(pairs.count > MOST_GROWTH * pairs.listed + 1000 for pairs in self._pairs.values())

    def _asking(self, kind: int) -> np.ndarray:
        surfaces = self.surfaces
        return {POINT: surfaces.points, TRIANGLE: surfaces.triangles, END: surfaces.ends, EDGE: surfaces.edges}[kind]

    def _things(self, kind: int, chosen: np.ndarray, cells: Cells) -> Things:
        stored = self.surfaces.edges if kind == EDGE else self.surfaces.points
        return Things(kind, self._asking(kind), stored, chosen, cells)

    def _cells(self, things: np.ndarray, chosen: np.ndarray) -> Cells:
        assert self._tubes is not None
        return stored_things(things, self._tubes, chosen, self.surfaces.edge_length + 2 * float(self.distance))

    def _list_all(self) -> None:
        """Pairs with points that may touch until a particle leaves its tube; edges have to be listed anew as well."""
        every = np.arange(len(self.surfaces.points), dtype=np.int32)
        cells = self._cells(self.surfaces.points, every)
        for kind in self.kinds:
            self._list(self._things(kind, every, cells))
        self._listed = None
        self.times_listed += 1

    def _list(self, things: Things) -> None:
        assert self._tubes is not None
        pairs = self._pairs[things.kind]
        list_pairs(pairs, things, self.surfaces, self._tubes, self.distance, self.thickness)
        self._make_room(things.kind)

    def _list_again(self, left: np.ndarray) -> None:
        """Add the pairs of all that has a corner among some rows."""
        tubes, surfaces, points = self._tubes, self.surfaces, self.surfaces.points
        assert tubes is not None
        is_left = np.zeros(len(surfaces.bodies), np.bool_)
        is_left[left] = True
        every, some = np.arange(len(points), dtype=np.int32), _with(is_left, points)
        cells, few = self._cells(points, every), self._cells(points, some)
        reach = _longest(surfaces.edges, tubes.middles) + 2 * float(tubes.margins.max() + np.abs(tubes.ways).max())
        around = _marked(left, tubes.middles, reach + float(self.distance))
        for kind in self.kinds:
            asking = self._asking(kind)
            keys = [self._pairs_of(self._things(kind, every, cells), _with(is_left, asking))]
            if kind != POINT:
                near = _in_marked(asking, tubes.middles, *around)
                keys.append(self._pairs_of(self._things(kind, some, few), near))
            self._put_in(kind, keys)
        if self._listed is not None:
            chosen = np.flatnonzero(self._listed).astype(np.int32)
            things = self._things(EDGE, chosen, self._cells(surfaces.edges, chosen))
            self._put_in(EDGE, [self._pairs_of(things, chosen[_with(is_left, surfaces.edges[chosen])])])

    def _pairs_of(self, things: Things, places: np.ndarray) -> np.ndarray:
        assert self._tubes is not None
        pairs = self._pairs[things.kind]
        return pairs_of(pairs, things, places, self.surfaces, self._tubes, self.distance, self.thickness)

    def _put_in(self, kind: int, keys: list[np.ndarray]) -> None:
        assert self._tubes is not None
        asking, stored = self._asking(kind), self.surfaces.edges if kind == EDGE else self.surfaces.points
        self._pairs[kind].put_in(np.unique(np.concatenate(keys)), kind, asking, stored, len(self._tubes.middles) - 1)
        self._make_room(kind)

    def _make_room(self, kind: int) -> None:
        """For what may be found."""
        if len(self._room[kind][0]) < self._pairs[kind].count:
            size = self._pairs[kind].size
            self._room[kind] = np.empty((size, 4), np.int32), np.empty((size, DATA), np.float32)

    def _touching(
        self, kind: int, start: np.ndarray, end: np.ndarray, counting: np.ndarray = NOTHING
    ) -> tuple[np.ndarray, np.ndarray]:
        """Corners and data of the contacts of a kind."""
        pairs, room = self._pairs[kind], self._room[kind]
        arrays = pairs.count, pairs.corners, pairs.members, counting
        counts = _touching(kind, *arrays, start, end, self.thickness, *room)
        return _together(counts, pairs.count, *room)

    def _touching_edges(
        self, of_points: tuple[np.ndarray, np.ndarray], start: np.ndarray, end: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Contacts of the edges that count; they are listed anew if one of them is not in the list."""
        surfaces = self.surfaces
        counting = surfaces.hinges.counting(surfaces.edges, *of_points, start, end, self.thickness)
        if self._listed is None or ((counting == COUNTS) & ~self._listed).any():
            self._listed = counting > 0
            chosen = np.flatnonzero(self._listed).astype(np.int32)
            self._list(self._things(EDGE, chosen, self._cells(surfaces.edges, chosen)))
        return self._touching(EDGE, start, end, counting)


@compiled
def _with(is_left, things):
    """Which things have a corner among the rows."""
    found, count = np.empty(len(things), np.int32), 0
    for i in range(len(things)):
        one = False
        for corner in range(things.shape[1]):
            one |= is_left[things[i, corner]]
        found[count] = i
        count += one
    return found[:count].copy()


@compiled
def _longest(edges, middles):
    longest = 0.0
    for i in range(len(edges)):
        square = 0.0
        for axis in range(3):
            square += (middles[edges[i, 0], axis] - middles[edges[i, 1], axis]) ** 2
        longest = max(longest, square)
    return np.sqrt(longest)


@compiled
def _place(x, y, z):
    return (x * 73856093 ^ y * 19349663 ^ z * 83492791) & (MARKS - 1)


@compiled
def _marked(rows, middles, reach):
    """Marks for the cells that are not farther than `reach` from some rows, and cells a meter."""
    marks, inverse = np.zeros(MARKS, np.bool_), FINENESS / reach
    for row in rows:
        x, y = int(np.floor(middles[row, 0] * inverse)), int(np.floor(middles[row, 1] * inverse))
        z = int(np.floor(middles[row, 2] * inverse))
        for i in range(x - FINENESS, x + FINENESS + 1):
            for j in range(y - FINENESS, y + FINENESS + 1):
                for k in range(z - FINENESS, z + FINENESS + 1):
                    marks[_place(i, j, k)] = True
    return marks, inverse


@compiled
def _in_marked(things, middles, marks, inverse):
    """Which things have their first corner in a marked cell; a few others may, too."""
    found, count = np.empty(len(things), np.int32), 0
    for i in range(len(things)):
        row = things[i, 0]
        x, y = int(np.floor(middles[row, 0] * inverse)), int(np.floor(middles[row, 1] * inverse))
        found[count] = i
        count += marks[_place(x, y, int(np.floor(middles[row, 2] * inverse)))]
    return found[:count].copy()


@compiled_parallel
def _means(points, start, end):
    """Of all points, at the start and at the end."""
    sums, count = np.zeros((CHUNKS, 2, 3)), len(points)
    for chunk in prange(CHUNKS):
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            for axis in range(3):
                sums[chunk, 0, axis] += start[points[i, 0], axis]
                sums[chunk, 1, axis] += end[points[i, 0], axis]
    return sums.sum(axis=0) / max(count, 1)


@compiled
def _around(start, end, mean_way, thickness):
    """Middles, half ways and margins of the tubes of all rows."""
    rows = len(start)
    middles, ways = np.empty((rows, 3), np.float32), np.empty((rows, 3), np.float32)
    margins, longest = np.empty((rows, 2), np.float32), np.float32(LONGEST_WAY) * thickness
    for row in range(rows):
        whole = np.float32(0)
        for axis in range(3):
            way = end[row, axis] - start[row, axis]
            whole += way * way
            ways[row, axis] = np.float32(0.5) * np.float32(way - mean_way[axis])
            middles[row, axis] = start[row, axis] + ways[row, axis]
        margins[row, 0] = min(np.float32(FASTER) * np.sqrt(whole) + np.float32(MORE) * thickness, longest)
        margins[row, 1] = np.float32(ROOM) * thickness
    return middles, ways, margins


@compiled_parallel
def _leave(points, start, end, moved, middles, margins, longest):
    """Which points are not within their room at the start or at the end, or go farther than they may."""
    left = np.zeros(len(points), np.bool_)
    for i in prange(len(points)):
        row = points[i, 0]
        before, after, way = 0.0, 0.0, np.float32(0)
        for axis in range(3):
            before += (start[row, axis] - moved[0, axis] - middles[row, axis]) ** 2
            after += (end[row, axis] - moved[1, axis] - middles[row, axis]) ** 2
            way += (end[row, axis] - start[row, axis]) ** 2
        left[i] = max(before, after) > margins[row, 1] ** 2 or min(np.sqrt(way), longest) > margins[row, 0]
    return left


@compiled_parallel
def _touching(kind, count, pairs, members, counting, start, end, thickness, corners, data):
    """Those of the pairs that touch: how many in each chunk, written from the chunk's first place on."""
    counts, blocks = np.zeros(CHUNKS, np.int64), (count + WIDTH - 1) // WIDTH
    for chunk in prange(CHUNKS):
        first, last = chunk * blocks // CHUNKS, (chunk + 1) * blocks // CHUNKS
        counts[chunk] = _touching_of(
            kind, count, pairs, members, counting, start, end, thickness, corners, data, first, last
        )
    return counts


@compiled
def _touching_of(kind, count, pairs, members, counting, start, end, thickness, corners, data, first, last):
    here, there, rows = floats_at(start.ctypes.data), floats_at(end.ctypes.data), ints_at(pairs.ctypes.data)
    numbers = np.empty((DATA, WIDTH), np.float32)
    made = floats_at(numbers.ctypes.data)
    slack, longest, one = np.float32(SLACK) * thickness, np.float32(LONGEST_WAY) * thickness, np.float32(1)
    place = first * WIDTH
    for block in range(first, last):
        before, after = gather(here, rows, block, 4), gather(there, rows, block, 4)
        ways = sub(after[0], before[0]), sub(after[1], before[1]), sub(after[2], before[2]), sub(after[3], before[3])
        if kind == TRIANGLE:
            near = slack + longest_way(ways, longest)
            met, f, g, normal, _ = meeting(True, of_point(before), of_point(after), thickness, near)
            shares = one + f * np.float32(0), f + g - one, -f, -g
        elif kind == EDGE:
            near = slack + longest_way(ways, longest)
            met, f, g, normal, gap = meeting(False, of_edges(before), of_edges(after), thickness, near)
            shares = one - f, f, g - one, -g
            apart = minimum(maximum(gap, np.float32(PRESSED) * thickness), thickness)
        elif kind == END:
            near = slack + longest_way(ways[:3], longest)
            met, f, normal = end_meeting(before, after, thickness, near)
            shares = one + f * np.float32(0), f - one, -f, f * np.float32(0)
        else:
            near = slack + longest_way(ways[:2], longest)
            met, normal = points_meeting(sub(before[0], before[1]), sub(after[0], after[1]), thickness, near)
            zero = met * np.float32(0)
            shares = zero + one, zero - one, zero, zero
        if kind != EDGE:
            apart = met * np.float32(0) + thickness
        bits = lane_bits(met > np.float32(0))
        if block == last - 1:
            bits &= (1 << min(count - block * WIDTH, WIDTH)) - 1
        if bits == 0:
            continue
        for i in range(4):
            store_block(made, i, shares[i])
        for i in range(3):
            store_block(made, 4 + i, normal[i])
        store_block(made, 7, apart)
        while bits:
            lane = lowest_bit(bits)
            bits &= bits - 1
            if kind == EDGE:
                first_edge, second_edge = members[block * WIDTH + lane]
                if min(counting[first_edge], counting[second_edge]) < COUNTS:
                    continue
            for i in range(4):
                corners[place, i] = pairs[block * WIDTH + lane, i]
            for i in range(DATA):
                data[place, i] = numbers[i, lane]
            place += 1
    return place - first * WIDTH


@compiled_parallel
def _together(counts, count, corners, data):
    """What the chunks of a list have found, one after the other."""
    begins, blocks = np.zeros(CHUNKS + 1, np.int64), (count + WIDTH - 1) // WIDTH
    for chunk in range(CHUNKS):
        begins[chunk + 1] = begins[chunk] + counts[chunk]
    of, numbers = np.empty((begins[-1], 4), np.int32), np.empty((begins[-1], DATA), np.float32)
    for chunk in prange(CHUNKS):
        first, last, place = begins[chunk], begins[chunk + 1], chunk * blocks // CHUNKS * WIDTH
        of[first:last], numbers[first:last] = (
            corners[place : place + last - first],
            data[place : place + last - first],
        )
    return of, numbers

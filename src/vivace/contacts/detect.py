"""Contacts between soft things within a substep: points against triangles, edges against edges, or point against point.

All that moves does so in a straight line from where it is to where it is predicted. Boxes around these ways go into a
grid; the mean way of all is taken off first, so that a heap that falls as one does not make its boxes long.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel, floats_at, ints_at
from ..kernels.lanes import WIDTH
from ..kernels.region import threads_set
from ..kernels.rows import gather, load_block, store_block
from .grid import CHUNKS, Grid, overlapping
from .narrow import (
    edge_distance,
    edge_edge,
    edge_sides,
    nearest_on_edge,
    nearest_on_triangle,
    point_point,
    point_sides,
    point_triangle,
    stay_apart,
)

# How far the solver may move things beyond what was predicted: part of the thickness, and what may be stopped on its
# way by something else, which is its whole way, up to some thicknesses.
SLACK, LONGEST_WAY = 0.5, 1.5
STRIDE = 32  # what asks goes in short runs, dealt out in turn, so that a crowded place is shared by all threads
POINT, EDGE, TRIANGLE = 1, 2, 3  # by their corners
DATA = 8  # four shares, the direction, the thickness


@dataclass(frozen=True, eq=False)
class Surfaces:
    """What may touch, in rows: points, edges and triangles, and what they were like without forces."""

    points: np.ndarray  # (p, 1) int32
    edges: np.ndarray  # (e, 2) int32
    triangles: np.ndarray  # (t, 3) int32
    bodies: np.ndarray  # (rows,) int32, the body of each row
    rest: np.ndarray  # (rows, 3) float32

    @cached_property
    def cell(self) -> float:
        """A size for the grid's cells [m]: about that of a triangle."""
        a, b = self.rest[self.edges[:, 0]], self.rest[self.edges[:, 1]]
        return float(np.linalg.norm(a - b, axis=1).mean())


@dataclass(frozen=True, eq=False)
class Found:
    """Contacts, always in the same order. gap = n . (sum of share_i x_i) is to stay at least the thickness."""

    corners: np.ndarray  # (m, 4) int32, rows
    data: np.ndarray  # (m, 8) float32: shares (4), direction n (3), thickness [m]

    def __len__(self) -> int:
        return len(self.corners)


class Detector:
    """Finds the contacts of a substep. `capacity` grows when there are more than ever before."""

    def __init__(self, surfaces: Surfaces, thickness: float, by_particles: bool):
        self.surfaces, self.thickness = surfaces, thickness
        self.by_particles = by_particles
        self.capacity = 256  # of each chunk
        self.times_grown = 0

    def find(self, start: np.ndarray, end: np.ndarray, threads: int = 1) -> Found:
        """Contacts of rows that go from `start` to `end`, both (rows, 4) float32; none if a number is not finite."""
        if not (np.isfinite(start).all() and np.isfinite(end).all()):
            return Found(np.zeros((0, 4), np.int32), np.zeros((0, DATA), np.float32))
        with threads_set(threads):
            if self.by_particles:
                return self._pairs(self.surfaces.points, self.surfaces.points, start, end, threads)
            of_points = self._pairs(self.surfaces.triangles, self.surfaces.points, start, end, threads)
            of_edges = self._pairs(self.surfaces.edges, self.surfaces.edges, start, end, threads)
        return Found(
            np.concatenate([of_points.corners, of_edges.corners]), np.concatenate([of_points.data, of_edges.data])
        )

    def _pairs(self, asking: np.ndarray, stored: np.ndarray, start: np.ndarray, end: np.ndarray, threads: int) -> Found:
        mean = _mean_way(self.surfaces.points, start, end)
        low, high, slack = _boxes(stored, start, end, mean, self.thickness)
        cell = max(2 * self.surfaces.cell, 2 * self.thickness)
        grid = Grid(low, high, cell, threads)
        same = asking is stored
        asking_low, asking_high, asking_slack = (
            (low, high, slack) if same else _boxes(asking, start, end, mean, self.thickness)
        )
        while True:
            counts, corners, data = _ask(
                asking,
                stored,
                asking_low,
                asking_high,
                asking_slack,
                slack,
                *grid.lists,
                start,
                end,
                self.surfaces.bodies,
                self.surfaces.rest,
                self.thickness,
                self.capacity,
            )
            if counts.max() <= self.capacity:
                break
            self.capacity = 2 * int(counts.max())
            self.times_grown += 1
        kept = np.arange(self.capacity)[None, :] < counts[:, None]
        return Found(corners[kept], data[kept])


@compiled_parallel
def _mean_way(points: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    sums, count = np.zeros((CHUNKS, 3)), len(points)
    for chunk in prange(CHUNKS):
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            for axis in range(3):
                sums[chunk, axis] += end[points[i, 0], axis] - start[points[i, 0], axis]
    return (sums.sum(axis=0) / max(count, 1)).astype(np.float32)


@compiled_parallel
def _boxes(
    members: np.ndarray, start: np.ndarray, end: np.ndarray, mean: np.ndarray, thickness: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Around the ways of all corners, as seen by who goes along with the mean, and larger by half the thickness and a
    slack, which is the third.
    """
    count, corners = members.shape
    low, high = np.empty((count, 3), np.float32), np.empty((count, 3), np.float32)
    slack = np.empty(count, np.float32)
    for i in prange(count):
        longest = np.float32(0)
        for corner in range(corners):
            row, square = members[i, corner], np.float32(0)
            for axis in range(3):
                square += (end[row, axis] - start[row, axis]) ** 2
            longest = max(longest, square)
        slack[i] = 0.5 * SLACK * thickness + min(np.sqrt(longest), LONGEST_WAY * thickness)
        grown = slack[i] + np.float32(0.5 * thickness)
        for axis in range(3):
            least, most = start[members[i, 0], axis], start[members[i, 0], axis]
            for corner in range(corners):
                row = members[i, corner]
                here, there = start[row, axis], end[row, axis] - mean[axis]
                least, most = min(least, here, there), max(most, here, there)
            low[i, axis], high[i, axis] = least - grown, most + grown
    return low, high, slack


@compiled
def _at(rows, row):
    return np.float64(rows[row, 0]), np.float64(rows[row, 1]), np.float64(rows[row, 2])


@compiled
def _gap(rows, pair, found):
    """n . (sum of share x)."""
    gap = 0.0
    for corner in range(4):
        for axis in range(3):
            gap += found[4 + axis] * found[corner] * rows[pair[corner], axis]
    return gap


@compiled
def _meets(kind, pair, start, end, bodies, rest, thickness, slack, found):
    """Whether a point and a triangle, two edges or two points come near; `found` takes the contact's data.

    Within a body, what is nearer than the thickness without forces is let be.
    """
    a, b, c, d = pair
    a0, a1, b0, b1 = _at(start, a), _at(end, a), _at(start, b), _at(end, b)
    c0, c1, d0, d1 = _at(start, c), _at(end, c), _at(start, d), _at(end, d)
    if kind == TRIANGLE:
        near = point_triangle(a0, a1, b0, b1, c0, c1, d0, d1, thickness, slack, found)
    elif kind == EDGE:
        near = edge_edge(a0, a1, b0, b1, c0, c1, d0, d1, thickness, slack, found)
    else:
        near = point_point(a0, a1, b0, b1, thickness, slack, found)
    if not near:
        return False
    # The direction is that of the moment they met; at the start they must be on its side.
    if _gap(start, pair, found) < 0:
        found[4], found[5], found[6] = -found[4], -found[5], -found[6]
    if _gap(end, pair, found) > thickness + slack:
        return False
    found[7] = thickness
    if bodies[a] != bodies[d if kind == EDGE else b]:
        return True
    if kind == TRIANGLE:
        return nearest_on_triangle(_at(rest, a), _at(rest, b), _at(rest, c), _at(rest, d)) >= thickness
    if kind == EDGE:
        return edge_distance(_at(rest, a), _at(rest, b), _at(rest, c), _at(rest, d)) >= thickness
    return nearest_on_edge(_at(rest, a), _at(rest, b), _at(rest, b)) >= thickness


@compiled
def _pair_up(kind, asking, i, stored, near, count, slacks, stored_slacks, pairs, reaches, filled, spare):
    """Write down the pairs of i with all that is near and has no corner in common with it; how many there are now."""
    for k in range(count):
        j = near[k]
        if kind == TRIANGLE:
            p, a, b, c = stored[j, 0], asking[i, 0], asking[i, 1], asking[i, 2]
            if p == a or p == b or p == c:
                continue
        elif kind == EDGE:
            p, a, b, c = asking[i, 0], asking[i, 1], stored[j, 0], stored[j, 1]
            if j <= i or p == b or p == c or a == b or a == c:
                continue
        else:
            p, a, b, c = asking[i, 0], stored[j, 0], spare, spare
            if j <= i:
                continue
        pairs[filled, 0], pairs[filled, 1], pairs[filled, 2], pairs[filled, 3] = p, a, b, c
        reaches[filled] = slacks[i] + stored_slacks[j]
        filled += 1
    return filled


@compiled
def _look_quickly(kind, pairs, reaches, filled, start, end, thickness, apart):
    """1 in `apart` for each pair that a quick look tells apart; the last block is filled up with its last pair."""
    blocks = (filled + WIDTH - 1) // WIDTH
    for k in range(filled, blocks * WIDTH):
        pairs[k] = pairs[filled - 1]
        reaches[k] = reaches[filled - 1]
    here, there = floats_at(start.ctypes.data), floats_at(end.ctypes.data)
    corners, slack, answers = ints_at(pairs.ctypes.data), floats_at(reaches.ctypes.data), floats_at(apart.ctypes.data)
    for block in range(blocks):
        before, after = gather(here, corners, block, 4), gather(there, corners, block, 4)
        near = load_block(slack, block, 1) + np.float32(thickness)
        if kind == TRIANGLE:
            store_block(answers, block, stay_apart(point_sides(before), point_sides(after), near))
        else:
            store_block(answers, block, stay_apart(edge_sides(before), edge_sides(after), near))


@compiled_parallel
def _ask(
    asking,
    stored,
    low,
    high,
    slacks,
    stored_slacks,
    inverse,
    reach,
    bits,
    offsets,
    tiles,
    boxes,
    flags,
    start,
    end,
    bodies,
    rest,
    thickness,
    capacity,
):
    """Contacts of what asks with what is stored: how many in each chunk, their corners and their data."""
    counts = np.zeros(CHUNKS, np.int64)
    corners, data = np.empty((CHUNKS, capacity, 4), np.int32), np.empty((CHUNKS, capacity, DATA), np.float32)
    grid = inverse, reach, bits, offsets, tiles, boxes, flags
    for chunk in prange(CHUNKS):
        counts[chunk] = _ask_chunk(
            chunk,
            asking,
            stored,
            low,
            high,
            slacks,
            stored_slacks,
            grid,
            start,
            end,
            bodies,
            rest,
            thickness,
            corners[chunk],
            data[chunk],
        )
    return counts, corners, data


@compiled
def _ask_chunk(
    chunk,
    asking,
    stored,
    low,
    high,
    slacks,
    stored_slacks,
    grid,
    start,
    end,
    bodies,
    rest,
    thickness,
    corners,
    data,
):
    """What one chunk finds. A function of its own: within a parallel loop, arrays that grow are Numba's undoing."""
    runs, spare, kind = (len(asking) + STRIDE - 1) // STRIDE, len(start) - 1, asking.shape[1]
    found, near, asked = np.empty(DATA), np.empty(256, np.int32), np.zeros(8, np.float32)
    pairs, reaches, apart = np.empty((4096, 4), np.int32), np.empty(4096, np.float32), np.zeros(4096, np.float32)
    total = 0
    for run in range(chunk, runs, CHUNKS):
        filled = 0
        for i in range(run * STRIDE, min((run + 1) * STRIDE, len(asking))):
            count, near = overlapping(i, low, high, *grid, asked, near)
            if filled + count + WIDTH > len(pairs):
                size = 2 * (filled + count + WIDTH)
                larger, longer = np.empty((size, 4), np.int32), np.empty(size, np.float32)
                larger[:filled] = pairs[:filled]
                longer[:filled] = reaches[:filled]
                pairs, reaches, apart = larger, longer, np.zeros(size, np.float32)
            filled = _pair_up(
                kind, asking, i, stored, near, count, slacks, stored_slacks, pairs, reaches, filled, spare
            )
        if kind != POINT and filled:
            _look_quickly(kind, pairs, reaches, filled, start, end, thickness, apart)
        for k in range(filled):
            if apart[k] == 0:
                pair = pairs[k, 0], pairs[k, 1], pairs[k, 2], pairs[k, 3]
                if _meets(kind, pair, start, end, bodies, rest, thickness, reaches[k], found):
                    if total < len(corners):
                        for corner in range(4):
                            corners[total, corner] = pair[corner]
                        for number in range(DATA):
                            data[total, number] = found[number]
                    total += 1
    return total

"""Pairs that come near on their ways: block by block, without a list of all that there are."""

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel, floats_at, ints_at
from ..kernels.lanes import WIDTH, lowest_bit
from .cells import CHUNKS, Cells, lists_at, near_boxes, overlapping
from .describe import EDGE, END, POINT, TRIANGLE, Described, near_prisms, near_segments
from .distances import edge_distance, nearest_on_edge, nearest_on_triangle

# How far the solver may move things beyond what was predicted: part of the thickness, and what may be stopped on its
# way by something else, which is its whole way, up to some thicknesses.
SLACK, LONGEST_WAY = 0.2, 1.5
SHUFFLE = 37  # neighbors in space are dealt out to all threads


class Pairs:
    """Pairs of one kind that come near, in chunks: memory that is used again and again, and grows."""

    def __init__(self, capacity: int = 64):
        self.rows, self.counts, self.times_grown = in_chunks(capacity, 4, np.int32), np.zeros(CHUNKS, np.int64), 0
        self._ends = np.zeros(0, np.int64)  # where in its chunk the pairs of each block end
        self._other_rows = self.rows.copy()

    def clear(self) -> None:
        self.counts[:] = 0

    def find(
        self,
        kind: int,
        asking: Described,
        stored: Described,
        cells: Cells,
        bodies: np.ndarray,
        rest: np.ndarray,
        distance: np.float32,
        thickness: np.float32,
        again: np.ndarray | None = None,
    ) -> None:
        """Let these be the pairs of what is described; only the blocks `again` are asked, if given, others keep theirs.

        What has a corner in common does not count, nor what is nearer than the thickness within a body without forces.
        """
        of_asking, of_stored = (
            (one.corners, one.lanes, one.chosen, one.numbers, one.members, one.boxes) for one in (asking, stored)
        )
        many = len(asking.chosen)
        again, ends = np.ones(many, np.bool_) if again is None else again, np.empty(many, np.int64)
        of_rows, before = (bodies, rest), (again, self.rows, self._ends)
        while True:
            to = self._other_rows, ends, self.counts
            _find(kind, of_asking, of_stored, cells.addresses, of_rows, distance, thickness, before, *to)
            if self.counts.max() <= self._other_rows.shape[1]:
                break
            self.times_grown += 1
            self._other_rows = in_chunks(2 * int(self.counts.max()), 4, np.int32)
        self.rows, self._other_rows, self._ends = self._other_rows, self.rows, ends


def in_chunks(capacity: int, width: int, kind: type) -> np.ndarray:
    """So many rows in each chunk, filled up to whole blocks."""
    return np.empty((CHUNKS, -(-capacity // WIDTH) * WIDTH, width), kind)


@compiled_parallel
def _find(kind, asking, stored, cells, rows, distance, thickness, before, pairs, ends, counts):
    for turn in prange(CHUNKS):
        chunk = turn * SHUFFLE % CHUNKS
        to = pairs[chunk], ends
        counts[chunk] = _find_some(kind, chunk, asking, stored, cells, rows, distance, thickness, before, *to)


@compiled
def _find_some(kind, chunk, asking, stored, cells, rows, distance, thickness, before, pairs, ends):
    """What one chunk finds: how many; it writes as many as there is room for.

    A function of its own: within a parallel loop, arrays that grow are Numba's undoing.
    """
    corners, lanes, chosen, numbers, members, boxes = asking
    other_corners, other_lanes, other_chosen, other_numbers, other_members, other_hulls = stored
    bodies, rest = rows
    again, old_pairs, old_ends = before
    lists, like, many = lists_at(cells), kind == EDGE or kind == POINT, len(chosen)
    own, others = floats_at(numbers.ctypes.data), floats_at(other_numbers.ctypes.data)
    own_boxes, other_boxes = floats_at(members.ctypes.data), floats_at(other_members.ctypes.data)
    own_hulls, hulls = floats_at(boxes.ctypes.data), floats_at(other_hulls.ctypes.data)
    own_rows, other_rows = ints_at(corners.ctypes.data), ints_at(other_corners.ctypes.data)
    arity, other_arity = corners.shape[1], other_corners.shape[1]
    reach = np.float32(0) if kind == TRIANGLE else distance  # a triangle's box has it
    near, to_pairs, spare, found = np.empty(256, np.int32), ints_at(pairs.ctypes.data), len(bodies) - 1, 0
    begin = chunk * many // CHUNKS
    for i in range(begin, (chunk + 1) * many // CHUNKS):
        if i > begin:
            ends[i - 1] = found
        if not again[i]:
            for place in range(np.int64(0) if i == begin else old_ends[i - 1], old_ends[i]):
                if found < len(pairs):
                    pairs[found] = old_pairs[chunk, place]
                found += 1
            continue
        block = np.int64(chosen[i])
        low, high = _corner(own_hulls, 2 * i, -reach), _corner(own_hulls, 2 * i + 1, reach)
        count, near = near_boxes(low, high, lists, near)
        _sort(near, count)
        for k in range(count):
            j = np.int64(near[k])
            other = np.int64(other_chosen[j])
            if like and other < block:
                continue
            asked = overlapping(own_boxes, block, _corner(hulls, 2 * j, -reach), _corner(hulls, 2 * j + 1, reach))
            found_near = overlapping(other_boxes, other, low, high) & other_lanes[other]
            asked &= lanes[block]
            while asked and found_near:
                if kind == TRIANGLE:
                    second = other * WIDTH + lowest_bit(found_near)
                    found_near &= found_near - 1
                    hits, first = near_prisms(others, second, own, block, distance) & asked, block * WIDTH
                else:
                    first = block * WIDTH + lowest_bit(asked)
                    asked &= asked - 1
                    hits, second = near_segments(own, first, others, other, distance) & found_near, other * WIDTH
                    if like and other == block:
                        hits &= -2 << first % WIDTH
                while hits:
                    hit = lowest_bit(hits)
                    hits &= hits - 1
                    one, two = (first + hit, second) if kind == TRIANGLE else (first, second + hit)
                    one, two = one * arity, two * other_arity
                    if _may_touch(kind, own_rows, one, other_rows, two, bodies, rest, thickness):
                        if found < len(pairs):
                            _write_pair(kind, own_rows, one, other_rows, two, spare, to_pairs, 4 * found)
                        found += 1
    if begin < (chunk + 1) * many // CHUNKS:
        ends[(chunk + 1) * many // CHUNKS - 1] = found
    if 0 < found <= len(pairs):
        for place in range(4 * found, 4 * ((found + WIDTH - 1) // WIDTH * WIDTH)):
            to_pairs[place] = to_pairs[place - 4]  # fills the last block
    return found


@compiled
def _corner(numbers, corner, moved):
    """One of two opposite corners of each of some boxes, moved along all axes."""
    return numbers[3 * corner] + moved, numbers[3 * corner + 1] + moved, numbers[3 * corner + 2] + moved


@compiled
def _sort(values, count):
    """By insertion, if there are few of them."""
    if count > 64:
        values[:count].sort()
        return
    for k in range(1, count):
        value, place = values[k], k
        while place > 0 and values[place - 1] > value:
            values[place] = values[place - 1]
            place -= 1
        values[place] = value


@compiled
def _may_touch(kind, own, i, others, j, bodies, rest, thickness):
    """Whether two things are not near each other from the start."""
    a, p = own[i], others[j]
    if kind == POINT:
        return bodies[a] != bodies[p] or nearest_on_edge(_row(rest, a), _row(rest, p), _row(rest, p)) >= thickness
    b = own[i + 1]
    if kind == EDGE:
        q = others[j + 1]
        if bodies[a] != bodies[p]:
            return True
        return edge_distance(_row(rest, a), _row(rest, b), _row(rest, p), _row(rest, q)) >= thickness
    c = own[i + 2]
    if bodies[a] != bodies[p]:
        return True
    if kind == END and p == c:
        return False
    return nearest_on_triangle(_row(rest, p), _row(rest, a), _row(rest, b), _row(rest, c)) >= thickness


@compiled
def _row(rows, row):
    return np.float64(rows[row, 0]), np.float64(rows[row, 1]), np.float64(rows[row, 2])


@compiled
def _write_pair(kind, own, i, others, j, spare, pairs, place):
    """Of point and triangle, point and end with what is opposite, two edges, or two points and twice the spare row."""
    if kind == TRIANGLE or kind == END:
        pairs[place] = others[j]
        pairs[place + 1], pairs[place + 2], pairs[place + 3] = own[i], own[i + 1], own[i + 2]
    elif kind == EDGE:
        pairs[place], pairs[place + 1] = own[i], own[i + 1]
        pairs[place + 2], pairs[place + 3] = others[j], others[j + 1]
    else:
        pairs[place], pairs[place + 1], pairs[place + 2], pairs[place + 3] = own[i], others[j], spare, spare

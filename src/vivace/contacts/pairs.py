"""Pairs that come near on their ways, and which of them touch: block by block, without a list of all pairs."""

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel, floats_at, ints_at
from ..kernels.lanes import WIDTH, lane_bits, lowest_bit, maximum, minimum
from ..kernels.rows import gather, store_block
from ..kernels.vec3 import sub
from .cells import CHUNKS, Cells, lists_at, near_boxes, overlapping
from .describe import EDGE, END, POINT, TINY, TRIANGLE, Described, near_prisms, near_segments
from .distances import edge_distance, nearest_on_edge, nearest_on_triangle
from .edges import PRESSED
from .narrow import end_meeting, longest_way, meeting, of_edges, of_point, points_meeting

# How far the solver may move things beyond what was predicted: part of the thickness, and what may be stopped on its
# way by something else, which is its whole way, up to some thicknesses.
SLACK, LONGEST_WAY = 0.2, 1.5
DATA = 8  # four shares, the direction, the thickness
PAIRS = 1024
SHUFFLE = 37  # neighbors in space are dealt out to all threads


class Chunks:
    """Contacts of one kind, in chunks: memory that is used again and again, and grows."""

    def __init__(self, room: int = 64):
        self.corners, self.data = np.empty((CHUNKS, room, 4), np.int32), np.empty((CHUNKS, room, DATA), np.float32)
        self.counts, self.times_grown = np.zeros(CHUNKS, np.int64), 0
        self._waiting = np.empty((CHUNKS, PAIRS, 4), np.int32)  # pairs that are still to be looked at

    def find(
        self,
        kind: int,
        asking: Described,
        stored: Described,
        cells: Cells,
        bodies: np.ndarray,
        rest: np.ndarray,
        start: np.ndarray,
        end: np.ndarray,
        distance: np.float32,
        thickness: np.float32,
    ) -> None:
        """Let these be the contacts of rows that go from `start` to `end`.

        What has a corner in common does not count, nor what is nearer than the thickness within a body without forces.
        """
        of_asking, of_stored = (
            (one.corners, one.lanes, one.chosen, one.numbers, one.members, one.boxes) for one in (asking, stored)
        )
        rows = bodies, rest, start, end
        while True:
            to = self._waiting, self.corners, self.data, self.counts
            _find(kind, of_asking, of_stored, cells.addresses, rows, distance, thickness, *to)
            if self.counts.max() <= self.corners.shape[1]:
                return
            self.times_grown += 1
            room = 2 * int(self.counts.max())
            self.corners, self.data = np.empty((CHUNKS, room, 4), np.int32), np.empty((CHUNKS, room, DATA), np.float32)

    def write(self, corners: np.ndarray, data: np.ndarray, first: int) -> int:
        """All of them, one after the other, from a place on; gives the place behind them."""
        return int(_together(self.counts, self.corners, self.data, corners, data, first))


@compiled_parallel
def _find(kind, asking, stored, cells, rows, distance, thickness, pairs, corners, data, counts):
    for turn in prange(CHUNKS):
        chunk = turn * SHUFFLE % CHUNKS
        to = pairs[chunk], corners[chunk], data[chunk]
        counts[chunk] = _find_some(kind, chunk, asking, stored, cells, rows, distance, thickness, *to)


@compiled
def _find_some(kind, chunk, asking, stored, cells, rows, distance, thickness, pairs, to_corners, to_data):
    """What one chunk finds: how many; it writes as many as there is room for.

    A function of its own: within a parallel loop, arrays that grow are Numba's undoing.
    """
    corners, lanes, chosen, numbers, members, boxes = asking
    other_corners, other_lanes, other_chosen, other_numbers, other_members, other_hulls = stored
    bodies, rest, start, end = rows
    lists, like, many = lists_at(cells), kind == EDGE or kind == POINT, len(chosen)
    own, others = floats_at(numbers.ctypes.data), floats_at(other_numbers.ctypes.data)
    own_boxes, other_boxes = floats_at(members.ctypes.data), floats_at(other_members.ctypes.data)
    own_hulls, hulls = floats_at(boxes.ctypes.data), floats_at(other_hulls.ctypes.data)
    own_rows, other_rows = ints_at(corners.ctypes.data), ints_at(other_corners.ctypes.data)
    arity, other_arity = corners.shape[1], other_corners.shape[1]
    reach = np.float32(0) if kind == TRIANGLE else distance  # a triangle's box has it
    near, to_pairs, spare, waiting, found = np.empty(256, np.int32), ints_at(pairs.ctypes.data), len(start) - 1, 0, 0
    for i in range(chunk * many // CHUNKS, (chunk + 1) * many // CHUNKS):
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
                        _write_pair(kind, own_rows, one, other_rows, two, spare, to_pairs, 4 * waiting)
                        waiting += 1
            if waiting + WIDTH * WIDTH > PAIRS:
                whole = waiting // WIDTH
                found = _look(kind, to_pairs, whole * WIDTH, start, end, thickness, to_corners, to_data, found)
                for place in range(4 * (waiting - whole * WIDTH)):
                    to_pairs[place] = to_pairs[4 * whole * WIDTH + place]
                waiting -= whole * WIDTH
    for place in range(4 * waiting, 4 * ((waiting + WIDTH - 1) // WIDTH * WIDTH)):
        to_pairs[place] = to_pairs[place - 4]  # fills the last block
    return _look(kind, to_pairs, waiting, start, end, thickness, to_corners, to_data, found)


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


@compiled
def _look(kind, pairs, count, start, end, thickness, to_corners, to_data, found):
    """Write those of the pairs that touch behind the `found` ones; gives how many there are then."""
    here, there = floats_at(start.ctypes.data), floats_at(end.ctypes.data)
    numbers = np.empty((DATA, WIDTH), np.float32)
    made = floats_at(numbers.ctypes.data)
    slack, longest, one = np.float32(SLACK) * thickness, np.float32(LONGEST_WAY) * thickness, np.float32(1)
    for block in range((count + WIDTH - 1) // WIDTH):
        before, after = gather(here, pairs, block, 4), gather(there, pairs, block, 4)
        ways = sub(after[0], before[0]), sub(after[1], before[1]), sub(after[2], before[2]), sub(after[3], before[3])
        if kind == TRIANGLE:
            near = slack + longest_way(ways, longest)
            met, f, g, normal, _ = meeting(True, of_point(before), of_point(after), thickness, near)
            shares = one + f * np.float32(0), f + g - one, -f, -maximum(g, TINY)  # see `contact_normal`
        elif kind == EDGE:
            near = slack + longest_way(ways, longest)
            met, f, g, normal, gap = meeting(False, of_edges(before), of_edges(after), thickness, near)
            shares = one - f, f, g - one, -maximum(g, TINY)
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
        if count - block * WIDTH < WIDTH:
            bits &= (1 << (count - block * WIDTH)) - 1
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
            if found < len(to_corners):
                for i in range(4):
                    to_corners[found, i] = pairs[4 * (block * WIDTH + lane) + i]
                for i in range(DATA):
                    to_data[found, i] = numbers[i, lane]
            found += 1
    return found


@compiled_parallel
def _together(counts, of_corners, of_data, corners, data, first):
    begins = np.empty(CHUNKS + 1, np.int64)
    begins[0] = first
    for chunk in range(CHUNKS):
        begins[chunk + 1] = begins[chunk] + counts[chunk]
    for chunk in prange(CHUNKS):
        for i in range(counts[chunk]):
            corners[begins[chunk] + i] = of_corners[chunk, i]
            data[begins[chunk] + i] = of_data[chunk, i]
    return begins[-1]

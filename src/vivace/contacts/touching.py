"""Which of the pairs that come near touch on their ways, and where."""

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel, floats_at, ints_at
from ..kernels.lanes import WIDTH, lane_bits, lowest_bit, maximum, minimum
from ..kernels.rows import gather, store_block
from ..kernels.vec3 import sub
from .cells import CHUNKS
from .describe import EDGE, END, TINY, TRIANGLE
from .edges import PRESSED
from .narrow import end_meeting, longest_way, meeting, of_edges, of_point, points_meeting
from .pairs import LONGEST_WAY, SHUFFLE, SLACK, Pairs, in_chunks

DATA = 8  # four shares, the direction, the thickness


class Touching:
    """Contacts of one kind, in chunks: those of the pairs that touch."""

    def __init__(self) -> None:
        self.corners, self.data = in_chunks(0, 4, np.int32), in_chunks(0, DATA, np.float32)
        self.counts = np.zeros(CHUNKS, np.int64)

    def look(self, kind: int, pairs: Pairs, start: np.ndarray, end: np.ndarray, thickness: np.float32) -> None:
        """Let these be the contacts of rows that go from `start` to `end`."""
        capacity = pairs.rows.shape[1]
        if self.corners.shape[1] < capacity:
            self.corners, self.data = in_chunks(capacity, 4, np.int32), in_chunks(capacity, DATA, np.float32)
        _look_at_all(kind, pairs.rows, pairs.counts, start, end, thickness, self.corners, self.data, self.counts)

    def write(self, corners: np.ndarray, data: np.ndarray, first: int) -> int:
        """All of them, one after the other, from a place on; gives the place behind them."""
        return int(_together(self.counts, self.corners, self.data, corners, data, first))


@compiled_parallel
def _look_at_all(kind, pairs, pair_counts, start, end, thickness, corners, data, counts):
    for turn in prange(CHUNKS):
        chunk = turn * SHUFFLE % CHUNKS
        to = corners[chunk], data[chunk]
        counts[chunk] = look(kind, ints_at(pairs[chunk].ctypes.data), pair_counts[chunk], start, end, thickness, *to)


@compiled
def look(kind, pairs, count, start, end, thickness, to_corners, to_data):
    """Write those of the pairs that touch; gives how many they are."""
    here, there = floats_at(start.ctypes.data), floats_at(end.ctypes.data)
    numbers = np.empty((DATA, WIDTH), np.float32)
    made, found = floats_at(numbers.ctypes.data), 0
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

"""Rooms that things stay in while they lie still: balls around where they were when pairs were listed.

While no row leaves its room, a list of all that may touch within the rooms has every contact. Contacts looked for in it
are those of a new list, in the same order, so nothing depends on when it was made, or on how large the rooms are. What
leaves its room gets another one; only blocks near such rows are looked at again.
"""

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel
from ..kernels.lanes import WIDTH
from .cells import CHUNKS, into_cells, lists_at, near_boxes
from .describe import Described, Rows

SPARE = 0.15  # thicknesses that a row may go without leaving its room
MOST_MOVED = 0.02  # share of rows that may leave; if more do, all get new ones
# So many looks: rooms that all leave sooner are not worth being large for a while, and those of what was fast once get
# too large.
SHORT_STAY, LONGEST_STAY = 3, 16


class Rooms:
    """Of each row, as seen by who goes along with the mean of all: `rows` are places without ways, in balls."""

    def __init__(self, points: np.ndarray, rows: int, thickness: float, longest_way: float):
        self.points, self.spare, self.longest_way = points, np.float32(SPARE * thickness), np.float32(longest_way)
        nowhere = np.zeros((rows, 4), np.float32)
        nowhere[:, 3] = np.arange(rows)
        self.rows = Rows(np.zeros((rows, 4), np.float32), nowhere, np.full(rows, -1, np.float32))
        self.moved = np.zeros(rows, np.bool_)
        self._looks = self._looks_without_spare = 0  # since all rooms are new; still to come

    def follow(self, start: np.ndarray, end: np.ndarray) -> int:
        """Rows that leave their rooms on their way from `start` to `end` have `moved`, and get others; how many."""
        if self._looks_without_spare:
            self._looks_without_spare -= 1
            if not self._looks_without_spare:
                self.leave()
        elif self._looks >= LONGEST_STAY:
            self.leave()
        self._looks += 1
        count = self._follow(start, end)
        if self._looks > 1 and count > MOST_MOVED * len(self.points):
            if self._looks <= SHORT_STAY and not self._looks_without_spare:
                self._looks_without_spare = LONGEST_STAY
            self.leave()
            count, self._looks = self._follow(start, end), 1
        return count

    def leave(self) -> None:
        """Let no row have one."""
        self.rows.rooms[:] = -1
        self._looks = 0

    def _follow(self, start: np.ndarray, end: np.ndarray) -> int:
        places, _, radii = self.rows
        spare = np.float32(0) if self._looks_without_spare else self.spare
        return int(_follow(self.points, start, end, spare, self.longest_way, places, radii, self.moved))


@compiled_parallel
def _mean_way(points, places, others):
    """Of all points from places to others."""
    sums, count = np.zeros((CHUNKS, 3)), len(points)
    for chunk in prange(CHUNKS):
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            for axis in range(3):
                sums[chunk, axis] += others[points[i, 0], axis] - places[points[i, 0], axis]
    return sums.sum(axis=0) / max(count, 1)


@compiled_parallel
def _follow(points, start, end, spare, longest_way, places, radii, moved):
    to_start, to_end = _mean_way(points, places, start), _mean_way(points, places, end)
    counts, count = np.zeros(CHUNKS, np.int64), len(points)
    for chunk in prange(CHUNKS):
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            row = points[i, 0]
            here, there, between, way = 0.0, 0.0, 0.0, 0.0
            for axis in range(3):
                now = start[row, axis] - to_start[axis]
                later = end[row, axis] - to_end[axis]
                here += (now - places[row, axis]) ** 2
                there += (later - places[row, axis]) ** 2
                between += (later - now) ** 2
                way += (end[row, axis] - start[row, axis]) ** 2
            here, there, way = np.sqrt(here), np.sqrt(there), min(np.sqrt(way), longest_way)
            moved[row] = not (max(here, there) <= radii[row] and way <= places[row, 3])
            if moved[row]:
                counts[chunk] += 1
                # What goes back and forth gets a room that has both ends; what is gone for good, a small one.
                back = here if radii[row] >= 0 and here <= longest_way else 0.0
                radii[row] = np.sqrt(between) + max(spare, back)
                places[row, 3] = way + spare
                for axis in range(3):
                    places[row, axis] = start[row, axis] - to_start[axis]
    return counts.sum()


def add_near(asking: Described, others: np.ndarray, reach: np.float32, again: np.ndarray) -> None:
    """Note the chosen blocks that come within reach of other boxes (k, 6)."""
    if len(others):
        cells = into_cells(others)  # its arrays live as long as it does
        _add_near(asking.boxes, reach, cells.addresses, again)


def have_moved(described: Described, moved: np.ndarray) -> np.ndarray:
    """Which chosen blocks have a corner that has."""
    return _have_moved(described.corners, described.chosen, moved)


@compiled_parallel
def _have_moved(corners, chosen, moved):
    found = np.zeros(len(chosen), np.bool_)
    for i in prange(len(chosen)):
        for lane in range(chosen[i] * WIDTH, (chosen[i] + 1) * WIDTH):
            for corner in range(corners.shape[1]):
                found[i] |= moved[corners[lane, corner]]
    return found


@compiled_parallel
def _add_near(boxes, reach, cells, again):
    for chunk in prange(CHUNKS):
        _add_some(boxes, reach, cells, again, chunk * len(boxes) // CHUNKS, (chunk + 1) * len(boxes) // CHUNKS)


@compiled
def _add_some(boxes, reach, cells, again, first, last):
    lists, near = lists_at(cells), np.empty(256, np.int32)
    for i in range(first, last):
        if not again[i]:
            low = boxes[i, 0] - reach, boxes[i, 1] - reach, boxes[i, 2] - reach
            high = boxes[i, 3] + reach, boxes[i, 4] + reach, boxes[i, 5] + reach
            count, near = near_boxes(low, high, lists, near)
            again[i] = count > 0

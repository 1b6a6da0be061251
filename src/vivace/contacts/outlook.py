"""How far ahead contacts are looked for: where hardly anything moves, once a frame is enough.

Things that fly at each other need new contacts in every substep. In a pile at rest, those of one substep are those of
the next; and it comes to rest sooner when they stay, for contacts that come and go kick what they hold.
"""

import numpy as np
from numba import prange

from ..kernels.compile import compiled_parallel
from .cells import CHUNKS

STILL = 0.25  # thicknesses that particles may go, as seen by who goes along with the mean of all
MOST_FAST = 0.01  # share of particles that may go farther


class Outlook:
    """What is left of a frame, and how much of that the contacts that were found last are good for."""

    def __init__(self, points: np.ndarray, thickness: float):
        self.points, self.still = points, STILL * thickness
        self._left = self._held = 0.0  # [s]

    def begin(self, duration: float) -> None:
        """A new frame of so many seconds."""
        self._left, self._held = duration, 0.0

    def ahead(self, start: np.ndarray, end: np.ndarray, step: float) -> int:
        """In a substep of `step` [s] from `start` to `end`: how many substeps to look ahead, 0 if contacts hold."""
        substeps = max(round(self._left / step), 1)
        self._left -= step
        if self._held > 0.99 * step:
            self._held -= step
            return 0
        while substeps > 1 and _fast(self.points, start, end, self.still / substeps) > MOST_FAST * len(self.points):
            substeps //= 2
        self._held = (substeps - 1) * step
        return substeps


@compiled_parallel
def _fast(points, start, end, longest):
    """How many points go farther, as seen by who goes along with the mean of all."""
    sums, counts, count = np.zeros((CHUNKS, 3)), np.zeros(CHUNKS, np.int64), len(points)
    for chunk in prange(CHUNKS):
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            for axis in range(3):
                sums[chunk, axis] += end[points[i, 0], axis] - start[points[i, 0], axis]
    mean = sums.sum(axis=0) / max(count, 1)
    for chunk in prange(CHUNKS):
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            square = 0.0
            for axis in range(3):
                square += (end[points[i, 0], axis] - start[points[i, 0], axis] - mean[axis]) ** 2
            counts[chunk] += not square <= longest * longest
    return counts.sum()

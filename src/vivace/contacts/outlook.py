"""How far ahead contacts are looked for: where hardly anything moves, once a frame is enough.

Things that fly at each other need new contacts in every substep. In a pile at rest, those of one substep are those of
the next; and it comes to rest sooner when they stay, for contacts that come and go kick what they hold. Which pairs may
touch at all changes more slowly: these are listed for as long as things stay near where their ways lead.
"""

from dataclasses import dataclass

import numpy as np
from numba import prange

from ..kernels.compile import compiled_parallel
from .cells import CHUNKS

STILL = 0.25  # thicknesses that particles may go while contacts hold, as seen by who goes along with the mean of all
FAR = 1.5  # and while pairs do
STRAY = 0.15  # thicknesses that particles may be from where their ways lead, beyond as much as these are long
MOST_FAST = 1e-4  # share of particles that may go farther: a fast one where others rest is about to pass through them
MOST_ASTRAY = 0.01  # share of particles that may go farther, or astray, while pairs do: lists have a margin


@dataclass(frozen=True)
class Ahead:
    """For how many substeps to list pairs, and to look for contacts; 0 if those there are hold.

    `still`: hardly anything moves in the whole frame.
    """

    pairs: int
    contacts: int
    still: bool = False


class Outlook:
    """What is left of a frame, and how much of that the contacts that were found last are good for."""

    def __init__(self, points: np.ndarray, thickness: float):
        self.points, self.thickness = points, thickness
        self._left = self._held = self._listed = 0.0  # [s]
        self._begins = False
        self._ways: tuple[np.ndarray, np.ndarray, float] | None = None  # from where, by how much in how many [s]
        self._passed = 0.0  # [s] since pairs were listed

    def begin(self, duration: float) -> None:
        """A new frame of so many seconds."""
        self._left, self._held, self._listed = duration, 0.0, 0.0
        self._begins = True

    def ahead(self, start: np.ndarray, end: np.ndarray, step: float) -> Ahead:
        """In a substep of `step` [s] from `start` to `end`."""
        left, begins, self._begins = max(round(self._left / step), 1), self._begins, False
        self._left -= step
        self._passed += step
        if self._held > 0.99 * step:
            self._held -= step
            return Ahead(0, 0)
        if begins and self._few_go(start, end, STILL / left, MOST_FAST):
            self._held = (left - 1) * step
            return Ahead(0, left, still=True)
        contacts = self._halved(left, start, end, STILL, MOST_FAST)
        self._held = (contacts - 1) * step
        listed = round((self._listed - self._passed + step) / step)  # substeps of the list that are left
        if listed >= contacts and not self._strayed(start, self._passed - step):
            return Ahead(0, contacts)
        pairs = max(self._halved(left, start, end, FAR, MOST_ASTRAY), contacts)
        self._listed, self._passed = pairs * step, step
        self._ways = start.copy(), end - start, step
        return Ahead(pairs, contacts)

    def _halved(self, substeps: int, start: np.ndarray, end: np.ndarray, most: float, few: float) -> int:
        """So many substeps, or a half or a quarter of them, that few go farther than so many thicknesses."""
        while substeps > 1 and not self._few_go(start, end, most / substeps, few):
            substeps //= 2
        return substeps

    def _few_go(self, start: np.ndarray, end: np.ndarray, far: float, few: float) -> bool:
        """Whether no more than this share goes so many thicknesses."""
        return bool(_fast(self.points, start, end, far * self.thickness) <= few * len(self.points))

    def _strayed(self, start: np.ndarray, passed: float) -> bool:
        """Whether too many are not where the ways lead that pairs were listed for."""
        assert self._ways is not None
        origin, ways, step = self._ways
        share, whole = np.float32(passed / step), np.float32(self._listed / step)
        stray = _stray(self.points, origin, ways, share, whole, start, np.float32(STRAY * self.thickness))
        return bool(stray > MOST_ASTRAY * len(self.points))


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


@compiled_parallel
def _stray(points, origin, ways, share, whole, now, most):
    """How many points are farther from where a share of their ways led than `most` and their `whole` ways."""
    counts, count = np.zeros(CHUNKS, np.int64), len(points)
    for chunk in prange(CHUNKS):
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            off, way = np.float32(0), np.float32(0)
            for axis in range(3):
                gone = ways[points[i, 0], axis]
                off += (now[points[i, 0], axis] - origin[points[i, 0], axis] - share * gone) ** 2
                way += gone * gone
            counts[chunk] += not np.sqrt(off) <= most + whole * np.sqrt(way)
    return counts.sum()

"""Eight points, edges or triangles that lie side by side without forces: blocks that are looked at as one.

They are made once, by cutting each body in two across its longest side, until eight are left. In a sweep through all
that is near, a block costs one look at its box; only where boxes overlap, its eight members are looked at, at once.
"""

from dataclasses import dataclass

import numpy as np

from ..kernels.compile import compiled
from ..kernels.lanes import WIDTH


@dataclass(frozen=True, eq=False)
class Clusters:
    """Things of one kind in blocks of eight."""

    things: np.ndarray  # (blocks * 8,) int32; -1 where a block is not full
    corners: np.ndarray  # (blocks * 8, arity) int32 rows; those of another of the block where there is nothing

    @property
    def blocks(self) -> int:
        return len(self.things) // WIDTH

    def lanes(self, chosen: np.ndarray | None = None) -> np.ndarray:
        """Which members there are: eight bits for each block; only those that are `chosen` (n,), if given."""
        return _lanes(self.things, np.ones(self.things.max(initial=-1) + 1, np.bool_) if chosen is None else chosen)


def make_clusters(corners: np.ndarray, rest: np.ndarray, labels: np.ndarray) -> Clusters:
    """Of things by their corners (n, arity), which are rows of `rest`; those with different labels (n,) are apart."""
    order = np.argsort(labels, kind="stable")
    sizes = np.unique(labels, return_counts=True)[1]
    ends = np.cumsum(sizes)
    _halve(rest[corners].mean(axis=1), order, ends - sizes, ends)
    blocks = -(-sizes // WIDTH)
    first = (np.cumsum(blocks) - blocks) * WIDTH  # the place of each label's first
    places = np.repeat(first - (ends - sizes), sizes) + np.arange(len(order))
    things = np.full(int(blocks.sum()) * WIDTH, -1, np.int32)
    things[places] = order
    filled = np.where(things < 0, np.repeat(things[::WIDTH], WIDTH), things)
    return Clusters(things, np.ascontiguousarray(corners[filled], np.int32))


@compiled
def _lanes(things, chosen):
    lanes = np.zeros(len(things) // WIDTH, np.uint8)
    for place in range(len(things)):
        if things[place] >= 0 and chosen[things[place]]:
            lanes[place // WIDTH] |= np.uint8(1 << place % WIDTH)
    return lanes


@compiled
def _halve(middles, order, firsts, lasts):
    """Sort each part of the order so that every eight in turn are near each other."""
    for part in range(len(firsts)):
        waiting = [(firsts[part], lasts[part])]
        while len(waiting):
            first, last = waiting.pop()
            if last - first <= WIDTH:
                continue
            axis, longest = 0, -1.0
            for k in range(3):
                low, high = np.inf, -np.inf
                for place in range(first, last):
                    low, high = min(low, middles[order[place], k]), max(high, middles[order[place], k])
                if high - low > longest:
                    axis, longest = k, high - low
            along = np.empty(last - first)
            for place in range(first, last):
                along[place - first] = middles[order[place], axis]
            order[first:last] = order[first:last][np.argsort(along, kind="mergesort")]
            middle = first + WIDTH * ((last - first + 2 * WIDTH - 1) // (2 * WIDTH))
            waiting.append((first, middle))
            waiting.append((middle, last))

"""Eight points, edges or triangles that lie side by side without forces: blocks that are looked at as one.

They are made once, by cutting each body in two across its longest side, until eight are left. In a sweep through all
that is near, a block costs one look at its box; only where boxes overlap, its eight members are looked at, at once.
"""

from dataclasses import dataclass

import numpy as np

from ..halving import halve
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
    middles = rest[corners].mean(axis=1)
    for first, last in zip(ends - sizes, ends):
        halve(middles, order, first, last, False)
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

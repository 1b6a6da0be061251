"""The order in which a solver visits constraints: batches whose members share no particle, and perhaps a remainder."""

from dataclasses import dataclass

import numpy as np

from .coloring import Coloring


@dataclass(frozen=True, eq=False)
class Partition:
    """`order[offsets[i]:offsets[i + 1]]` are the members of batch i. Those after the last batch are the remainder.

    Members of the remainder may share particles: they are projected apart from each other, then averaged.
    """

    order: np.ndarray  # (m,) int32 or int64
    offsets: np.ndarray  # (batches + 1,) int64

    @classmethod
    def from_coloring(cls, coloring: Coloring, locality: np.ndarray, most: int | None = None) -> "Partition":
        """A batch for each color; within it, members in the order of `locality`, so that memory is read forward.

        `most`: only the first so many colors become batches, the others are the remainder.
        """
        colors = coloring.colors if most is None else np.minimum(coloring.colors, most)
        order = np.lexsort((locality, colors))
        return cls(order, np.concatenate([[0], np.cumsum(coloring.sizes)])[: None if most is None else most + 1])

    @property
    def batch_count(self) -> int:
        return len(self.offsets) - 1

    @property
    def remainder(self) -> slice:
        """Where in `order` the remainder is."""
        return slice(int(self.offsets[-1]), len(self.order))

"""The order in which a solver visits things: batches whose members share no particle."""

from dataclasses import dataclass

import numpy as np

from .coloring import Coloring


@dataclass(frozen=True, eq=False)
class Partition:
    """`order[offsets[i]:offsets[i + 1]]` are the members of batch i."""

    order: np.ndarray  # (m,) int64
    offsets: np.ndarray  # (batches + 1,) int64

    @classmethod
    def from_coloring(cls, coloring: Coloring, locality: np.ndarray) -> "Partition":
        """A batch for each color; within it, members in the order of `locality`, so that memory is read forward."""
        order = np.lexsort((locality, coloring.colors))
        return cls(order, np.concatenate([[0], np.cumsum(coloring.sizes)]))

    @property
    def batch_count(self) -> int:
        return len(self.offsets) - 1

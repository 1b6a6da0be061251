"""What every coloring is and must hold."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InputError
from ..graph import Graph, unsigned
from .conflicts import first_conflict

# Colors, or colors and the number of rounds that they took.
Algorithm = Callable[[Graph, np.random.Generator], np.ndarray | tuple[np.ndarray, int]]
REPAIRED, COLORED_ANEW = "repaired", "colored anew"


class ColoringError(InputError):
    """Two neighbors have the same color, or a node has none."""


@dataclass(frozen=True, eq=False)
class Coloring:
    """A color for each node of a graph; colors are 0, 1, 2, ..."""

    graph: Graph
    colors: np.ndarray  # (nodes,) int32
    algorithm: str = ""
    milliseconds: float = 0.0
    rounds: int = 1
    renewal: str = ""  # REPAIRED or COLORED_ANEW, if it was made from another one

    @cached_property
    def count(self) -> int:
        """The number of colors."""
        return int(self.colors.max(initial=-1)) + 1

    @cached_property
    def sizes(self) -> np.ndarray:
        """The number of nodes of each color."""
        return np.bincount(self.colors, minlength=self.count)

    @property
    def balance(self) -> float:
        """Mean size over largest size: 1 if all colors are equally large."""
        return float(self.sizes.mean() / self.sizes.max()) if self.count else 1.0

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for tables and JSON."""
        return {
            "algorithm": self.algorithm,
            "colors": self.count,
            "at least": self.graph.largest_hub,
            "smallest": int(self.sizes.min(initial=self.graph.node_count)),
            "largest": int(self.sizes.max(initial=0)),
            "rounds": self.rounds,
            "balance": self.balance,
            "milliseconds": self.milliseconds,
            "sizes": self.sizes.tolist(),
        }

    def validate(self) -> "Coloring":
        """Itself if it is complete and proper; else an error that names the first two nodes at fault."""
        name = self.algorithm or "coloring"
        if self.colors.shape != (self.graph.node_count,) or self.colors.dtype.kind not in "iu":
            raise ColoringError(
                f"{name}: expected {self.graph.node_count} whole numbers, got {self.colors.dtype} {self.colors.shape}"
            )
        if len(self.colors) and self.colors.min() < 0:
            raise ColoringError(f"{name}: node {int(np.argmin(self.colors))} has no color")
        if self.count > len(self.colors):
            raise ColoringError(f"{name}: color {self.colors.max()}, though there are only {len(self.colors)} nodes")
        one, other = first_conflict(self.colors, *unsigned(self.graph.node_offsets, self.graph.nodes), self.count)
        if one >= 0:
            raise ColoringError(f"{name}: nodes {one} and {other} are neighbors and both have color {self.colors[one]}")
        if (self.sizes == 0).any():
            raise ColoringError(f"{name}: color {int(np.argmin(self.sizes))} is never used, though {self.count - 1} is")
        return self


def as_generator(seed: int | np.random.Generator) -> np.random.Generator:
    """A generator as it is, or a new one from a seed."""
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed is {seed!r}; it must be a whole number, at least 0, or a numpy.random.Generator")
    return np.random.default_rng(seed)

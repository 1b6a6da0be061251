"""Graph colorings. A file here with a dictionary ALGORITHMS adds its algorithms by name."""

import time

import numpy as np

from ..checks import choice
from ..graph import Graph
from ..registry import declared
from .base import Algorithm, Coloring, ColoringError, as_generator

__all__ = ["Algorithm", "Coloring", "ColoringError", "algorithms", "color"]


def algorithms() -> dict[str, Algorithm]:
    """Every coloring algorithm by its name."""
    return declared(__name__, "ALGORITHMS")


def color(graph: Graph, algorithm: str | Algorithm = "smallest-last", seed: int | np.random.Generator = 0) -> Coloring:
    """Color a graph so that neighbors differ; the result is checked before it is returned.

    `algorithm` is a name (`vivace.coloring.algorithms()`) or a function (graph, generator) -> colors.
    """
    name = algorithm if isinstance(algorithm, str) else getattr(algorithm, "__name__", "coloring")
    function = algorithms()[choice("coloring", algorithm, algorithms())] if isinstance(algorithm, str) else algorithm
    generator = as_generator(seed)
    start = time.perf_counter()
    made = function(graph, generator)
    milliseconds = (time.perf_counter() - start) * 1e3
    colors, rounds = made if isinstance(made, tuple) else (made, 1)
    return Coloring(graph, np.asarray(colors), name, milliseconds, rounds).validate()

"""Coloring a graph by an algorithm, or its name."""

import time
from functools import cache

import numpy as np

from ..checks import choice
from ..graph import Graph
from ..registry import declared
from .base import Algorithm, Coloring, as_generator


def algorithms() -> dict[str, Algorithm]:
    """Every coloring algorithm by its name."""
    return declared(__package__, "ALGORITHMS")


@cache  # to look into the folder takes as long as to color a small graph
def _named(name: str) -> Algorithm:
    known = algorithms()
    return known[choice("coloring", name, known)]


def color(graph: Graph, algorithm: str | Algorithm = "smallest-last", seed: int | np.random.Generator = 0) -> Coloring:
    """Color a graph so that neighbors differ; the result is checked before it is returned.

    `algorithm` is a name (`vivace.coloring.algorithms()`) or a function (graph, generator) -> colors.
    """
    name = algorithm if isinstance(algorithm, str) else getattr(algorithm, "__name__", "coloring")
    function = _named(algorithm) if isinstance(algorithm, str) else algorithm
    generator = as_generator(seed)
    start = time.perf_counter()
    made = function(graph, generator)
    milliseconds = (time.perf_counter() - start) * 1e3
    colors, rounds = made if isinstance(made, tuple) else (made, 1)
    return Coloring(graph, np.asarray(colors), name, milliseconds, rounds).validate()

"""Largest degree first (Welsh and Powell 1967) in parallel: nodes with most uncolored neighbors go first.

Like Jones and Plassmann, but the weight is the degree among what is left, renewed every round; random numbers break
ties. Fewer colors, more rounds.
"""

import numpy as np

from ..graph import Graph
from ..kernels.region import run_together
from .jones_plassmann import local_maxima_colorer
from .rounds import seed_from


def largest_degree_first(graph: Graph, generator: np.random.Generator) -> tuple[np.ndarray, int]:
    """Degrees among the uncolored, renewed every round."""
    return run_together(local_maxima_colorer(), *graph.adjacency, seed_from(generator), True)


ALGORITHMS = {"largest-degree-first": largest_degree_first}

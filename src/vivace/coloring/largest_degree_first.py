"""Largest degree first (Welsh and Powell 1967) in parallel: nodes with most uncolored neighbors go first.

Like Jones and Plassmann, but the weight is the degree among what is left, renewed every round; random numbers break
ties. Fewer colors, more rounds.
"""

import numpy as np
from numba import prange

from ..graph import Graph
from ..kernels.compile import compiled_parallel
from .jones_plassmann import color_local_maxima
from .rounds import hashed, seed_from, still_without

SHIFT, TIE = np.uint64(44), np.uint64(0xFFF00000000)


@compiled_parallel
def weigh_by_degree(
    left: np.ndarray,
    seed: np.uint64,
    offsets: np.ndarray,
    neighbors: np.ndarray,
    colors: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Weights of the nodes of `left`: uncolored neighbors, then 12 random bits, then the node's number."""
    for i in prange(len(left)):
        node = left[i]
        degree = np.uint64(0)
        for n in range(offsets[node], offsets[node + 1]):
            if colors[neighbors[n]] < 0:
                degree += np.uint64(1)
        weights[node] = (degree << SHIFT) | (hashed(seed, 0, node) & TIE) | np.uint64(node)


def largest_degree_first(graph: Graph, generator: np.random.Generator) -> tuple[np.ndarray, int]:
    """Degrees among the uncolored, renewed every round."""
    offsets, neighbors = graph.adjacency
    seed, weights = seed_from(generator), np.zeros(graph.node_count, np.uint64)
    colors, left, rounds = np.full(graph.node_count, -1, np.int32), np.arange(graph.node_count, dtype=np.int32), 0
    while len(left):
        weigh_by_degree(left, seed, offsets, neighbors, colors, weights)
        colors = color_local_maxima(left, weights, offsets, neighbors, colors)
        left = still_without(colors, left)
        rounds += 1
    return colors, rounds


ALGORITHMS = {"largest-degree-first": largest_degree_first}

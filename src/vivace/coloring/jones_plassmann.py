"""Jones and Plassmann 1993: local maxima of random weights take the smallest free color, round after round."""

import numpy as np
from numba import prange

from ..graph import Graph
from ..kernels.compile import compiled_parallel
from .rounds import random_weights, seed_from, smallest_free, still_without


@compiled_parallel
def color_local_maxima(
    left: np.ndarray, weights: np.ndarray, offsets: np.ndarray, neighbors: np.ndarray, colors: np.ndarray
) -> np.ndarray:
    """Colors after one round: a node of `left` is colored if it outweighs all its uncolored neighbors."""
    new = colors.copy()
    for i in prange(len(left)):
        node = left[i]
        largest = True
        for n in range(offsets[node], offsets[node + 1]):
            other = neighbors[n]
            if colors[other] < 0 and weights[other] > weights[node]:
                largest = False
                break
        if largest:
            new[node] = smallest_free(colors, neighbors, offsets[node], offsets[node + 1])
    return new


def jones_plassmann(graph: Graph, generator: np.random.Generator) -> tuple[np.ndarray, int]:
    """Random weights, drawn once."""
    offsets, neighbors = graph.adjacency
    weights = random_weights(seed_from(generator), 0, graph.node_count)
    colors, left, rounds = np.full(graph.node_count, -1, np.int32), np.arange(graph.node_count, dtype=np.int32), 0
    while len(left):
        colors = color_local_maxima(left, weights, offsets, neighbors, colors)
        left = still_without(colors, left)
        rounds += 1
    return colors, rounds


ALGORITHMS = {"jones-plassmann": jones_plassmann}

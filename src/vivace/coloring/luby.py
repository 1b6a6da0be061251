"""Luby 1985: a maximal independent set of what is left gets the next color, set after set."""

import numpy as np
from numba import prange

from ..graph import Graph
from ..kernels.compile import compiled_parallel
from .rounds import random_weights, seed_from, still_without

CANDIDATE, CHOSEN, BARRED = 0, 1, 2


@compiled_parallel
def choose_local_maxima(
    left: np.ndarray, weights: np.ndarray, offsets: np.ndarray, neighbors: np.ndarray, state: np.ndarray
) -> tuple[np.ndarray, int]:
    """States after one round: candidates that outweigh all around them are chosen, their neighbors barred."""
    chosen, new = state.copy(), state.copy()
    for i in prange(len(left)):
        node = left[i]
        if state[node] == CANDIDATE:
            largest = True
            for n in range(offsets[node], offsets[node + 1]):
                other = neighbors[n]
                if state[other] == CANDIDATE and weights[other] > weights[node]:
                    largest = False
                    break
            if largest:
                chosen[node] = CHOSEN
    waiting = 0
    for i in prange(len(left)):
        node = left[i]
        new[node] = chosen[node]
        if chosen[node] == CANDIDATE:
            for n in range(offsets[node], offsets[node + 1]):
                if chosen[neighbors[n]] == CHOSEN:
                    new[node] = BARRED
                    break
            if new[node] == CANDIDATE:
                waiting += 1
    return new, waiting


def luby(graph: Graph, generator: np.random.Generator) -> tuple[np.ndarray, int]:
    """Fresh random weights for each color."""
    offsets, neighbors = graph.adjacency
    seed, rounds, color = seed_from(generator), 0, 0
    colors, left = np.full(graph.node_count, -1, np.int32), np.arange(graph.node_count, dtype=np.int32)
    while len(left):
        weights = random_weights(seed, color, graph.node_count)
        state, waiting = np.full(graph.node_count, BARRED, np.int8), 1
        state[left] = CANDIDATE
        while waiting:
            state, waiting = choose_local_maxima(left, weights, offsets, neighbors, state)
            rounds += 1
        colors[state == CHOSEN] = color
        left = still_without(colors, left)
        color += 1
    return colors, rounds


ALGORITHMS = {"luby": luby}

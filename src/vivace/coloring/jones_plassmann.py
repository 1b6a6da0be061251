"""Jones and Plassmann 1993: local maxima of random weights take the smallest free color, round after round."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import prange

from ..graph import Graph
from ..kernels import barrier
from ..kernels.compile import compiled_parallel, source_digest
from ..kernels.region import run_together, share
from .rounds import LINE, hashed, keep_uncolored, random_weight, seed_from, smallest_free

SHIFT, TIE = np.uint64(44), np.uint64(0xFFF00000000)


@cache
def local_maxima_colorer() -> Callable[..., Any]:
    digest = source_digest(barrier.wait.py_func, share.py_func, keep_uncolored.py_func)

    @compiled_parallel
    def color_local_maxima(
        offsets: np.ndarray,
        neighbors: np.ndarray,
        seed: np.uint64,
        by_degree: bool,
        counter: np.ndarray,
        threads: int,
    ) -> tuple[np.ndarray, int]:
        """In each round, nodes that outweigh all their uncolored neighbors are colored. Also gives how many.

        Weights are random, or the degree among the uncolored, then random bits, then the node's number.
        """
        _ = digest  # part of the cache key
        count = len(offsets) - 1
        colors, chosen = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
        weights, left = np.empty(count, np.uint64), np.arange(count).astype(np.int32)
        remaining, rounds = np.zeros(threads * LINE, np.int64), np.zeros(1, np.int64)
        for thread in prange(threads):
            begin, end = share(0, count, thread, threads)
            mine, size, turn = left[begin:end], end - begin, 0
            for node in range(begin, end):
                weights[node] = random_weight(seed, 0, node)
            while True:
                if by_degree:
                    for i in range(size):
                        degree = np.uint64(0)
                        for n in range(offsets[mine[i]], offsets[mine[i] + 1]):
                            if colors[neighbors[n]] < 0:
                                degree += np.uint64(1)
                        weights[mine[i]] = (degree << SHIFT) | (hashed(seed, 0, mine[i]) & TIE) | np.uint64(mine[i])
                barrier.wait(counter, threads)
                for i in range(size):
                    node = mine[i]
                    largest = True
                    for n in range(offsets[node], offsets[node + 1]):
                        if colors[neighbors[n]] < 0 and weights[neighbors[n]] > weights[node]:
                            largest = False
                            break
                    chosen[node] = smallest_free(colors, neighbors, offsets[node], offsets[node + 1]) if largest else -1
                barrier.wait(counter, threads)
                for i in range(size):
                    colors[mine[i]] = chosen[mine[i]]
                size = keep_uncolored(colors, mine, size)
                remaining[thread * LINE] = size
                barrier.wait(counter, threads)
                turn += 1
                if remaining.sum() == 0:
                    break
            if thread == 0:
                rounds[0] = turn
        return colors, rounds[0]

    return color_local_maxima


def jones_plassmann(graph: Graph, generator: np.random.Generator) -> tuple[np.ndarray, int]:
    """Random weights, drawn once."""
    return run_together(local_maxima_colorer(), *graph.adjacency, seed_from(generator), False)


ALGORITHMS = {"jones-plassmann": jones_plassmann}

"""Luby 1985: a maximal independent set of what is left gets the next color, set after set."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import prange

from ..graph import Graph
from ..kernels import barrier
from ..kernels.compile import compiled_parallel, source_digest
from ..kernels.region import run_together, share
from .rounds import LINE, keep_uncolored, random_weight, seed_from

CANDIDATE, CHOSEN, BARRED = 0, 1, 2


@cache
def independent_set_colorer() -> Callable[..., Any]:
    digest = source_digest(barrier.wait.py_func, share.py_func, keep_uncolored.py_func)

    @compiled_parallel
    def color_independent_sets(
        offsets: np.ndarray, neighbors: np.ndarray, seed: np.uint64, counter: np.ndarray, threads: int
    ) -> tuple[np.ndarray, int]:
        """Each set grows round by round: candidates that outweigh all around them join, their neighbors cannot.

        Weights are drawn anew for each set. Also gives the number of rounds.
        """
        _ = digest  # part of the cache key
        count = len(offsets) - 1
        colors, left = np.full(count, -1, np.int32), np.arange(count).astype(np.int32)
        state, joins = np.full(count, CANDIDATE, np.int8), np.zeros(count, np.int8)
        waiting, remaining = np.zeros(threads * LINE, np.int64), np.zeros(threads * LINE, np.int64)
        rounds = np.zeros(1, np.int64)
        for thread in prange(threads):
            begin, end = share(0, count, thread, threads)
            mine, size, turn, color = left[begin:end], end - begin, 0, 0
            while True:
                for i in range(size):
                    state[mine[i]] = CANDIDATE
                while True:
                    barrier.wait(counter, threads)
                    for i in range(size):
                        node = mine[i]
                        joins[node] = 0
                        if state[node] == CANDIDATE:
                            weight, joins[node] = random_weight(seed, color, node), 1
                            for n in range(offsets[node], offsets[node + 1]):
                                other = neighbors[n]
                                if colors[other] < 0 and state[other] == CANDIDATE:
                                    if random_weight(seed, color, other) > weight:
                                        joins[node] = 0
                                        break
                    barrier.wait(counter, threads)
                    waiting[thread * LINE] = 0
                    for i in range(size):
                        node = mine[i]
                        if joins[node]:
                            state[node] = CHOSEN
                        elif state[node] == CANDIDATE:
                            for n in range(offsets[node], offsets[node + 1]):
                                if colors[neighbors[n]] < 0 and joins[neighbors[n]]:
                                    state[node] = BARRED
                                    break
                            waiting[thread * LINE] += state[node] == CANDIDATE
                    turn += 1
                    barrier.wait(counter, threads)
                    if waiting.sum() == 0:
                        break
                for i in range(size):
                    if state[mine[i]] == CHOSEN:
                        colors[mine[i]] = color
                size = keep_uncolored(colors, mine, size)
                remaining[thread * LINE] = size
                color += 1
                barrier.wait(counter, threads)
                if remaining.sum() == 0:
                    break
            if thread == 0:
                rounds[0] = turn
        return colors, rounds[0]

    return color_independent_sets


def luby(graph: Graph, generator: np.random.Generator) -> tuple[np.ndarray, int]:
    """A color for each maximal independent set."""
    return run_together(independent_set_colorer(), *graph.adjacency, seed_from(generator))


ALGORITHMS = {"luby": luby}

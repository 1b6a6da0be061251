"""Randomized Brooks-Vizing coloring (Grable and Panconesi 2000) as in Vivace (paper 001, alg. 2), with its errata.

Every node draws a color from a small palette; who clashes with nobody, or has the highest number among those it clashes
with, keeps it; the others lose it from their palette, and get a new color when it is empty.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numba import prange

from .. import checks
from ..graph import Graph
from ..kernels import barrier
from ..kernels.compile import compiled, compiled_parallel, source_digest
from ..kernels.region import run_together, share
from .rounds import LINE, hashed, keep_uncolored, seed_from

ONE = np.uint64(1)


@compiled
def draw(palette: np.ndarray, number: np.uint64) -> int:
    """A color of a palette, which is a row of bits, picked by a random number."""
    size = 0
    for bits in palette:
        while bits:
            bits &= bits - ONE
            size += 1
    skipped = np.int64(number % np.uint64(max(size, 1)))
    for word in range(len(palette)):
        bits, color = palette[word], 64 * word
        while bits:
            if bits & ONE:
                if skipped == 0:
                    return color
                skipped -= 1
            bits >>= ONE
            color += 1
    return -1


@compiled
def feed(palette: np.ndarray, fresh: int, taken: np.ndarray) -> int:
    """Give an empty palette the first color that it has never held and no neighbor has; returns the one after it."""
    for word in palette:
        if word:
            return fresh
    color = fresh
    while taken[color // 64] >> np.uint64(color % 64) & ONE:
        color += 1
    palette[color // 64] |= ONE << np.uint64(color % 64)
    return color + 1


@cache
def drawing_colorer() -> Callable[..., Any]:
    digest = source_digest(barrier.wait.py_func, share.py_func, keep_uncolored.py_func)

    @compiled_parallel
    def color_by_draws(
        offsets: np.ndarray,
        neighbors: np.ndarray,
        fresh: np.ndarray,
        starts: np.ndarray,
        seed: np.uint64,
        counter: np.ndarray,
        threads: int,
    ) -> tuple[np.ndarray, int]:
        """Rounds of drawing, settling and feeding; `fresh` holds the size of each palette. Also gives their number."""
        _ = digest  # part of the cache key
        count = len(offsets) - 1
        colors, drawn = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
        palettes, left = np.zeros(starts[count], np.uint64), np.arange(count).astype(np.int32)
        wins, remaining, rounds = np.zeros(count, np.int8), np.zeros(threads * LINE, np.int64), np.zeros(1, np.int64)
        widest = 0
        for node in range(count):
            widest = max(widest, starts[node + 1] - starts[node])
        for thread in prange(threads):
            begin, end = share(0, count, thread, threads)
            mine, size, turn = left[begin:end], end - begin, 0
            taken = np.zeros(widest, np.uint64)
            for node in range(begin, end):
                for color in range(fresh[node]):
                    palettes[starts[node] + color // 64] |= ONE << np.uint64(color % 64)
            while True:
                for i in range(size):  # tentative coloring, steps 5 and 6
                    node = mine[i]
                    drawn[node] = draw(palettes[starts[node] : starts[node + 1]], hashed(seed, turn, node))
                barrier.wait(counter, threads)
                # Conflict resolution, steps 7 to 11; the highest number wins among the uncolored only.
                for i in range(size):
                    node = mine[i]
                    wins[node] = 1
                    for n in range(offsets[node], offsets[node + 1]):
                        other = neighbors[n]
                        if other > node and colors[other] < 0 and drawn[other] == drawn[node]:
                            wins[node] = 0
                            break
                barrier.wait(counter, threads)
                for i in range(size):
                    if wins[mine[i]]:
                        colors[mine[i]] = drawn[mine[i]]
                size = keep_uncolored(colors, mine, size)
                remaining[thread * LINE] = size
                barrier.wait(counter, threads)
                for i in range(size):  # steps 12 to 16
                    node = mine[i]
                    palette = palettes[starts[node] : starts[node + 1]]
                    taken[: len(palette)] = 0
                    for n in range(offsets[node], offsets[node + 1]):
                        color = colors[neighbors[n]]
                        if 0 <= color < 64 * len(palette):
                            taken[color // 64] |= ONE << np.uint64(color % 64)
                    for word in range(len(palette)):
                        palette[word] &= ~taken[word]
                    fresh[node] = feed(palette, fresh[node], taken)
                turn += 1
                if remaining.sum() == 0:
                    break
            if thread == 0:
                rounds[0] = turn
        return colors, rounds[0]

    return color_by_draws


def brooks_vizing(graph: Graph, generator: np.random.Generator, shrink: float | None = None) -> tuple[np.ndarray, int]:
    """Palettes start with degree / `shrink` colors, at least one; `shrink` is the smallest degree by default."""
    if shrink is not None:
        checks.number("shrink", shrink, 1)
    offsets, neighbors = graph.adjacency
    degrees = np.diff(offsets)
    factor = max(1, degrees.min(initial=graph.node_count)) if shrink is None else shrink
    fresh = np.maximum(degrees // factor, 1).astype(np.int32)
    # A node never needs more than degree + 1 colors: so many bits has its palette, in whole words.
    starts = np.concatenate([[0], np.cumsum(degrees // 64 + 1)])
    colors, rounds = run_together(drawing_colorer(), offsets, neighbors, fresh, starts, seed_from(generator))
    return _without_gaps(colors), rounds


def _without_gaps(colors: np.ndarray) -> np.ndarray:
    """Colors renumbered, should one that was dealt never have been kept."""
    used = np.bincount(colors) > 0
    return colors if used.all() else (np.cumsum(used) - 1)[colors].astype(np.int32)


def with_shrink(shrink: float) -> partial:
    """The same algorithm with another shrink factor."""
    checks.number("shrink", shrink, 1)
    return partial(brooks_vizing, shrink=shrink)


ALGORITHMS = {"brooks-vizing": brooks_vizing}

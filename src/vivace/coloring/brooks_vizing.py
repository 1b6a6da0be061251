"""Randomized Brooks-Vizing coloring (Grable and Panconesi 2000) as in Vivace (paper 001, alg. 2), with its errata.

Every node draws a color from a small palette; who clashes with nobody, or has the highest random number among those it
clashes with, keeps it; the others lose it from their palette, and get a new color when it is empty.

The paper lets the highest node win. On a mesh that is numbered row by row, nodes would wait for each other along whole
rows; a random number ends that.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numba import prange

from .. import checks
from ..graph import Graph, unsigned
from ..kernels import barrier
from ..kernels.compile import compiled_parallel, source_digest
from ..kernels.region import run_together, share
from .palette import HALF, LOWER, NARROW, ONE, draw, draw_wide
from .rounds import LINE, hashed, seed_from

AFTER = np.uint32(1)


@cache
def drawing_colorer() -> Callable[..., Any]:
    digest = source_digest(barrier.wait.py_func, share.py_func, hashed.py_func, draw.py_func)

    @compiled_parallel
    def color_by_draws(
        offsets: np.ndarray,
        neighbors: np.ndarray,
        shrink: float,
        largest_degree: int,
        seed: np.uint64,
        counter: np.ndarray,
        threads: int,
    ) -> tuple[np.ndarray, int]:
        """Rounds of drawing and settling, until all have a color. Also gives their number."""
        _ = digest  # part of the cache key
        count = len(offsets) - 1
        colors, left = np.full(count, -1, np.int32), np.arange(count).astype(np.uint32)
        # What a node draws: the color, and below it half of a random number.
        drawn, dealt = np.empty(count, np.uint64), np.empty(count, np.uint64)
        remaining, rounds = np.zeros(threads * LINE, np.int64), np.zeros(1, np.int64)
        for thread in prange(threads):
            begin, end = share(0, count, thread, threads)
            mine, size, turn = left[begin:end], end - begin, 0
            taken = np.empty(largest_degree + 1, np.uint8)
            for node in range(begin, end):
                dealt[node] = max((offsets[node + 1] - offsets[node]) // shrink, 1)
            while True:
                for i in range(size):  # tentative coloring and feeding the hungry, steps 5, 6 and 12 to 16
                    node = mine[i]
                    first, last, number = offsets[node], offsets[node + AFTER], hashed(seed, turn, node)
                    if last - first < NARROW:  # in the first round nobody has a color
                        color = draw(colors, neighbors, first, last if turn else first, dealt[node], number)
                    else:
                        color = draw_wide(colors, neighbors, first, last, dealt[node], number, taken)
                    dealt[node] = max(dealt[node], color + ONE)
                    drawn[node] = (color << HALF) | (number >> HALF)
                barrier.wait(counter, threads)
                # Conflict resolution, steps 7 to 11, without a branch in the inner loop: a neighbor is in the way if it
                # drew the same color and at least the same number. A colored one drew what nobody near can draw again.
                kept = 0
                for i in range(size):
                    node = mine[i]
                    room, in_the_way = ~drawn[node] & LOWER, False
                    for n in range(offsets[node], offsets[node + AFTER]):
                        in_the_way |= drawn[neighbors[n]] - drawn[node] <= room
                    if in_the_way:
                        mine[kept] = node
                        kept += 1
                    else:
                        colors[node] = drawn[node] >> HALF
                size = kept
                remaining[thread * LINE] = size
                barrier.wait(counter, threads)
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
    most = int(degrees.max(initial=0))
    colors, rounds = run_together(
        drawing_colorer(), *unsigned(offsets, neighbors), float(factor), most, seed_from(generator)
    )
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

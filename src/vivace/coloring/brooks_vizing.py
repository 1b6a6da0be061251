"""Randomized Brooks-Vizing coloring (Grable and Panconesi 2000) as in Vivace (paper 001, alg. 2), with its errata.

Every node draws a color from a small palette; who clashes with nobody, or has the highest number among those it clashes
with, keeps it; the others lose it from their palette, and get a new color when it is empty.
"""

from functools import partial

import numpy as np
from numba import prange

from .. import checks
from ..graph import Graph
from ..kernels.compile import compiled, compiled_parallel
from .rounds import hashed, seed_from, still_without

ONE = np.uint64(1)


@compiled
def _kth_color(palette: np.ndarray, k: int) -> int:
    """The k-th color of a palette, which is a row of bits."""
    for word in range(len(palette)):
        bits, color = palette[word], 64 * word
        while bits:
            if bits & ONE:
                if k == 0:
                    return color
                k -= 1
            bits >>= ONE
            color += 1
    return -1


@compiled
def _size(palette: np.ndarray) -> int:
    count = 0
    for word in palette:
        bits = word
        while bits:
            bits &= bits - ONE
            count += 1
    return count


@compiled_parallel
def _first_palettes(sizes: np.ndarray, words: int) -> np.ndarray:
    palettes = np.zeros((len(sizes), words), np.uint64)
    for node in prange(len(sizes)):
        for color in range(sizes[node]):
            palettes[node, color // 64] |= ONE << np.uint64(color % 64)
    return palettes


@compiled_parallel
def _draw(left: np.ndarray, seed: np.uint64, turn: int, palettes: np.ndarray, drawn: np.ndarray) -> None:
    """Tentative coloring (steps 5 and 6)."""
    for i in prange(len(left)):
        node = left[i]
        size = _size(palettes[node])
        drawn[node] = _kth_color(palettes[node], np.int64(hashed(seed, turn, node) % np.uint64(size)))


@compiled_parallel
def _settle(
    left: np.ndarray, drawn: np.ndarray, offsets: np.ndarray, neighbors: np.ndarray, colors: np.ndarray
) -> np.ndarray:
    """Conflict resolution (steps 7 to 11). The highest number wins among uncolored nodes only."""
    new = colors.copy()
    for i in prange(len(left)):
        node = left[i]
        wins = True
        for n in range(offsets[node], offsets[node + 1]):
            other = neighbors[n]
            if colors[other] < 0 and other > node and drawn[other] == drawn[node]:
                wins = False
                break
        if wins:
            new[node] = drawn[node]
    return new


@compiled_parallel
def _feed(
    left: np.ndarray,
    offsets: np.ndarray,
    neighbors: np.ndarray,
    colors: np.ndarray,
    palettes: np.ndarray,
    fresh: np.ndarray,
) -> None:
    """Take the neighbors' colors from the palettes (step 12), and feed the hungry (steps 14 to 16).

    `fresh[node]` is the first color that its palette has never held.
    """
    for i in prange(len(left)):
        node = left[i]
        for n in range(offsets[node], offsets[node + 1]):
            color = colors[neighbors[n]]
            if color >= 0 and color // 64 < palettes.shape[1]:
                palettes[node, color // 64] &= ~(ONE << np.uint64(color % 64))
        if _size(palettes[node]) == 0:
            color, taken = fresh[node], True
            while taken:
                taken = False
                for n in range(offsets[node], offsets[node + 1]):
                    if colors[neighbors[n]] == color:
                        taken = True
                        color += 1
                        break
            palettes[node, color // 64] |= ONE << np.uint64(color % 64)
            fresh[node] = color + 1


def brooks_vizing(graph: Graph, generator: np.random.Generator, shrink: float | None = None) -> tuple[np.ndarray, int]:
    """Palettes start with degree / `shrink` colors, at least one; `shrink` is the smallest degree by default."""
    if shrink is not None:
        checks.number("shrink", shrink, 1)
    offsets, neighbors = graph.adjacency
    degrees = np.diff(offsets)
    factor = max(1, degrees.min(initial=1)) if shrink is None else shrink
    fresh = np.maximum(degrees // factor, 1).astype(np.int32)
    palettes = _first_palettes(fresh, int(degrees.max(initial=0)) // 64 + 1)
    colors, left, rounds = np.full(graph.node_count, -1, np.int32), np.arange(graph.node_count, dtype=np.int32), 0
    seed, drawn = seed_from(generator), np.zeros(graph.node_count, np.int32)
    while len(left):
        _draw(left, seed, rounds, palettes, drawn)
        colors = _settle(left, drawn, offsets, neighbors, colors)
        left = still_without(colors, left)
        _feed(left, offsets, neighbors, colors, palettes, fresh)
        rounds += 1
    return _without_gaps(colors), rounds


def _without_gaps(colors: np.ndarray) -> np.ndarray:
    """Colors renumbered, should one that was dealt never have been kept."""
    used = np.bincount(colors) > 0
    return (np.cumsum(used) - 1)[colors].astype(np.int32) if not used.all() else colors


def with_shrink(shrink: float) -> partial:
    """The same algorithm with another shrink factor."""
    return partial(brooks_vizing, shrink=checks.number("shrink", shrink, 1))


ALGORITHMS = {"brooks-vizing": brooks_vizing}

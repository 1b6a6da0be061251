"""What the parallel colorings share: random numbers by counting, free colors, and the list of what is left.

Each round reads what the round before has written, never its own, so the order in which threads get to a node cannot
matter. Random numbers are a hash of seed, round and node: the same for any number of threads.
"""

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel

STEP, MIX_ONE, MIX_TWO = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def seed_from(generator: np.random.Generator) -> np.uint64:
    """A seed for `hashed`."""
    return np.uint64(generator.integers(1 << 63))


@compiled
def hashed(seed: np.uint64, turn: int, node: int) -> np.uint64:
    """A random number for a node in a round: splitmix64 (Steele, Lea and Flood 2014) of their numbers."""
    x = seed + STEP * (np.uint64(turn) * np.uint64(0x632BE59BD9B4E019) + np.uint64(node) + np.uint64(1))
    x = (x ^ (x >> np.uint64(30))) * MIX_ONE
    x = (x ^ (x >> np.uint64(27))) * MIX_TWO
    return x ^ (x >> np.uint64(31))


@compiled_parallel
def random_weights(seed: np.uint64, turn: int, count: int) -> np.ndarray:
    """A random weight for each node; the node's number in the lower half makes them all different."""
    weights = np.empty(count, np.uint64)
    for node in prange(count):
        weights[node] = (hashed(seed, turn, node) & ~np.uint64(0xFFFFFFFF)) | np.uint64(node)
    return weights


@compiled
def smallest_free(colors: np.ndarray, neighbors: np.ndarray, first: int, last: int) -> int:
    """The smallest color that none of neighbors[first:last] has."""
    base = 0
    while True:
        taken = np.uint64(0)
        for i in range(first, last):
            color = colors[neighbors[i]] - base
            if 0 <= color < 64:
                taken |= np.uint64(1) << np.uint64(color)
        if taken != ~np.uint64(0):
            color = 0
            while (taken >> np.uint64(color)) & np.uint64(1):
                color += 1
            return base + color
        base += 64


@compiled
def still_without(colors: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Those of `nodes` that have no color yet, in the same order."""
    left = np.empty(len(nodes), np.int32)
    count = 0
    for node in nodes:
        if colors[node] < 0:
            left[count] = node
            count += 1
    return left[:count]

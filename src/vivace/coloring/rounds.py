"""What the parallel colorings share: random numbers by counting, free colors, and lists of what is left.

A coloring is one parallel region: every thread goes through its part of the nodes, round after round, and waits for the
others at a barrier. What a round reads of other nodes was written before its last barrier, so the order in which
threads get to a node cannot matter. Random numbers are a hash of seed, round and node: the same for any number of
threads.
"""

import numpy as np

from ..kernels.compile import compiled

STEP, MIX_ONE, MIX_TWO = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
LINE = 8  # words of a cache line: each thread writes to its own


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


@compiled
def random_weight(seed: np.uint64, turn: int, node: int) -> np.uint64:
    """A random weight; the node's number in the lower half makes them all different."""
    return (hashed(seed, turn, node) & ~np.uint64(0xFFFFFFFF)) | np.uint64(node)


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
def keep_uncolored(colors: np.ndarray, nodes: np.ndarray, count: int) -> int:
    """Move those of the first `count` nodes that have no color to the front; how many they are."""
    kept = 0
    for i in range(count):
        if colors[nodes[i]] < 0:
            nodes[kept] = nodes[i]
            kept += 1
    return kept

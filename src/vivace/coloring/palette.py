"""Palettes: the colors that a node may draw from.

A palette is never stored. It is the colors below `dealt`, the first one that the node has never held, without those
that a neighbor has; when none is left, the next one that no neighbor has is dealt. So one pass over the neighbors finds
it. It holds no color above the degree, and is one word of bits for a node with fewer than `NARROW` neighbors.
"""

import numpy as np

from ..kernels.compile import compiled

NARROW = 63
ONE, HALF, TOP, ALL = np.uint64(1), np.uint64(32), np.uint64(63), ~np.uint64(0)
LOWER = np.uint64(0xFFFFFFFF)


@compiled
def size_of(bits: np.uint64) -> np.uint64:
    """How many bits are set, as Warren 2012 counts them; LLVM makes one instruction of it."""
    bits -= (bits >> ONE) & np.uint64(0x5555555555555555)
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (bits * np.uint64(0x0101010101010101)) >> np.uint64(56)


@compiled
def lowest(bits: np.uint64) -> np.uint64:
    """The place of the lowest bit that is set."""
    return size_of(~bits & (bits - ONE))


@compiled
def draw(
    colors: np.ndarray, neighbors: np.ndarray, first: int, last: int, dealt: np.uint64, number: np.uint64
) -> np.uint64:
    """A color that none of neighbors[first:last] has, by the lower half of a random number; at least `dealt` if new.

    The uncolored have -1, a large number without its sign.
    """
    taken = np.uint64(0)
    for n in range(first, last):
        taken |= ONE << min(np.uint64(colors[neighbors[n]]), TOP)
    palette = ~taken & ((ONE << dealt) - ONE)
    if palette == 0:
        return lowest(~taken & (ALL << dealt))
    for _ in range(((number & LOWER) * size_of(palette)) >> HALF):
        palette &= palette - ONE
    return lowest(palette)


@compiled
def draw_wide(
    colors: np.ndarray,
    neighbors: np.ndarray,
    first: int,
    last: int,
    dealt: np.uint64,
    number: np.uint64,
    taken: np.ndarray,
) -> np.uint64:
    """The same for any number of neighbors; `taken` is scratch memory, a byte for each of them and one more."""
    most = np.uint64(last - first)
    for place in range(most + ONE):
        taken[place] = 0
    for n in range(first, last):
        held = np.uint64(colors[neighbors[n]])
        if held <= most:
            taken[held] = 1
    free = np.uint64(0)
    for place in range(dealt):
        free += ONE - taken[place]
    color, skipped = np.uint64(0) if free else dealt, ((number & LOWER) * free) >> HALF
    while taken[color] or skipped:
        skipped -= ONE - taken[color]
        color += ONE
    return color

"""Points in an order in which those in turn are near each other: halves of halves, across the longest side."""

import numpy as np

from .kernels.compile import compiled
from .kernels.lanes import WIDTH


@compiled
def halve(points: np.ndarray, order: np.ndarray, first: int, last: int, by_powers: bool) -> None:
    """Sort a part of an order so that every eight in turn are near each other.

    by_powers: cut at eight times a power of two, so that runs of such a length are compact too; else in the middle.
    """
    waiting = [(first, last)]
    while len(waiting):
        first, last = waiting.pop()
        if last - first <= WIDTH:
            continue
        axis, longest = 0, -1.0
        for k in range(3):
            low, high = np.inf, -np.inf
            for place in range(first, last):
                low, high = min(low, points[order[place], k]), max(high, points[order[place], k])
            if high - low > longest:
                axis, longest = k, high - low
        along = np.empty(last - first)
        for place in range(first, last):
            along[place - first] = points[order[place], axis]
        order[first:last] = order[first:last][np.argsort(along, kind="mergesort")]
        half = WIDTH * ((last - first + 2 * WIDTH - 1) // (2 * WIDTH))
        if by_powers:
            half = WIDTH
            while 2 * half < last - first:
                half *= 2
        waiting.append((first, first + half))
        waiting.append((first + half, last))

"""Greedy colorings that choose the next node by what its neighbors have become.

Incidence degree (Coleman and Moré 1983): the node with most colored neighbors. Saturation (Brélaz 1979): the node whose
neighbors have most different colors. Serial by nature: good colors, no speed. Among equals, the node that got there
last goes first; at the start, the one with the largest degree.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..graph import Graph
from ..kernels.compile import compiled, source_digest
from .greedy import push, unlink
from .rounds import smallest_free


@cache
def most_urgent_colorer() -> Callable[..., Any]:
    digest = source_digest(smallest_free.py_func, push.py_func)

    @compiled
    def color_most_urgent(order: np.ndarray, offsets: np.ndarray, neighbors: np.ndarray, by_color: bool) -> np.ndarray:
        """Color the node with the largest key again and again; nodes wait in a list for each key.

        The key counts colored neighbors, or, `by_color`, the different colors among them.
        """
        _ = digest  # part of the cache key
        count = len(order)
        colors, key = np.full(count, -1, np.int32), np.zeros(count, np.int32)
        met = np.empty(
            offsets[count] if by_color else 0, np.int32
        )  # the colors that each node has met, as many as its key
        head = np.full(count + 1, -1, np.int32)
        after, before = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
        for i in range(count - 1, -1, -1):
            push(order[i], 0, head, after, before)
        largest = 0
        for _ in range(count):
            while head[largest] < 0:
                largest -= 1
            node = head[largest]
            unlink(node, largest, head, after, before)
            colors[node] = smallest_free(colors, neighbors, offsets[node], offsets[node + 1])
            for n in range(offsets[node], offsets[node + 1]):
                other = neighbors[n]
                if colors[other] >= 0:
                    continue
                new = True
                if by_color:
                    first = offsets[other]
                    for m in range(first, first + key[other]):
                        if met[m] == colors[node]:
                            new = False
                            break
                    if new:
                        met[first + key[other]] = colors[node]
                if new:
                    unlink(other, key[other], head, after, before)
                    key[other] += 1
                    push(other, key[other], head, after, before)
                    largest = max(largest, key[other])
        return colors

    return color_most_urgent


def incidence_degree(graph: Graph, generator: np.random.Generator) -> np.ndarray:
    """Most colored neighbors first."""
    return most_urgent_colorer()(_by_degree(graph), *graph.adjacency, False)


def saturation(graph: Graph, generator: np.random.Generator) -> np.ndarray:
    """Most different colors around first."""
    return most_urgent_colorer()(_by_degree(graph), *graph.adjacency, True)


def _by_degree(graph: Graph) -> np.ndarray:
    return np.argsort(-np.diff(graph.adjacency[0]), kind="stable").astype(np.int32)


ALGORITHMS = {"incidence-degree": incidence_degree, "saturation": saturation}

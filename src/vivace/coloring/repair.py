"""A coloring for a graph that has changed a little: who clashes gets another color, all others keep theirs."""

import time
from dataclasses import replace

import numpy as np

from .. import checks
from ..graph import Graph, unsigned
from .base import COLORED_ANEW, REPAIRED, Algorithm, Coloring
from .by_name import color
from .conflicts import nodes_to_color
from .greedy import first_fit


def renewed(
    before: Coloring,
    graph: Graph,
    algorithm: str | Algorithm = "brooks-vizing",
    seed: int | np.random.Generator = 0,
    most: float = 0.1,
) -> Coloring:
    """A coloring for `graph`, from that of a graph that was much the same; `renewal` says what was done.

    If nothing has changed, it is `before` itself. Else nodes that are new, and the higher of two neighbors with the
    same color, take the smallest free color, in the order of their numbers; no color vanishes, for its lowest node
    keeps it. If there are more of them than the share `most` of all nodes, or fewer nodes than before, all are colored
    anew by `algorithm`, as `color` does.
    """
    checks.number("most", most, 0, 1)
    start = time.perf_counter()
    if _same_topology(before.graph, graph):
        return before
    added = graph.node_count - len(before.colors)
    if 0 <= added <= most * graph.node_count and before.count <= graph.node_count:
        colors = np.concatenate([before.colors, np.full(added, -1)], dtype=np.int32)
        waiting = nodes_to_color(colors, *unsigned(graph.node_offsets, graph.nodes), before.count)
        if len(waiting) <= most * graph.node_count:
            colors[waiting] = -1
            first_fit(colors, waiting, graph.hub_offsets, graph.hubs, graph.node_offsets, graph.nodes)
            milliseconds = (time.perf_counter() - start) * 1e3
            return Coloring(graph, colors, before.algorithm, milliseconds, renewal=REPAIRED).validate()
    looked = (time.perf_counter() - start) * 1e3
    anew = color(graph, algorithm, seed)
    return replace(anew, milliseconds=anew.milliseconds + looked, renewal=COLORED_ANEW)


def _same_topology(one: Graph, other: Graph) -> bool:
    return one is other or (
        one.node_count == other.node_count
        and np.array_equal(one.node_offsets, other.node_offsets)
        and np.array_equal(one.nodes, other.nodes)
    )

"""Greedy coloring: each node in turn takes the smallest color that no neighbor has.

Fratarcangeli and Pellacini 2015, alg. 1, with the orderings that it can take. Work goes over the incidence lists and
costs the sum of squared hub sizes: linear for meshes, quadratic in the constraints of one hub particle.
"""

import numpy as np

from ..graph import Graph
from ..kernels.compile import compiled


@compiled
def first_fit(
    colors: np.ndarray,
    order: np.ndarray,
    hub_offsets: np.ndarray,
    hubs: np.ndarray,
    node_offsets: np.ndarray,
    nodes: np.ndarray,
) -> np.ndarray:
    """The smallest free color for each node, in the given order; `colors` is written, and -1 where a node has none."""
    taken_by = np.full(len(colors) + 1, -1, np.int32)
    for node in order:
        for h in range(hub_offsets[node], hub_offsets[node + 1]):
            for m in range(node_offsets[hubs[h]], node_offsets[hubs[h] + 1]):
                if colors[nodes[m]] >= 0:
                    taken_by[colors[nodes[m]]] = node
        color = 0
        while taken_by[color] == node:
            color += 1
        colors[node] = color
    return colors


@compiled
def unlink(node: int, key: int, head: np.ndarray, after: np.ndarray, before: np.ndarray) -> None:
    """Take a node out of the list of its key."""
    if before[node] >= 0:
        after[before[node]] = after[node]
    else:
        head[key] = after[node]
    if after[node] >= 0:
        before[after[node]] = before[node]


@compiled
def push(node: int, key: int, head: np.ndarray, after: np.ndarray, before: np.ndarray) -> None:
    """Put a node in front of the list of a key."""
    before[node], after[node] = -1, head[key]
    if head[key] >= 0:
        before[head[key]] = node
    head[key] = node


@compiled
def smallest_last_order(
    degrees: np.ndarray, hub_offsets: np.ndarray, hubs: np.ndarray, node_offsets: np.ndarray, nodes: np.ndarray
) -> tuple[np.ndarray, int]:
    """Take away a node of smallest remaining degree, again and again; the last one taken comes first.

    Nodes wait in a list for each degree. Distinct neighbors are found by stamping, so that two constraints with two
    particles in common count once, else the bound of eq. 14 would not hold. Also returns that bound.
    """
    count = len(degrees)
    degree = degrees.copy()
    head = np.full(count + 1, -1, np.int32)
    after, before = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    for node in range(count - 1, -1, -1):
        push(node, degree[node], head, after, before)
    order, seen, bound, smallest = np.empty(count, np.int32), np.full(count, -1, np.int32), 0, 0
    for place in range(count - 1, -1, -1):
        while head[smallest] < 0:
            smallest += 1
        node = head[smallest]
        bound = max(bound, smallest + 1)
        unlink(node, smallest, head, after, before)
        degree[node] = -1
        order[place] = node
        seen[node] = node
        for h in range(hub_offsets[node], hub_offsets[node + 1]):
            for m in range(node_offsets[hubs[h]], node_offsets[hubs[h] + 1]):
                other = nodes[m]
                if degree[other] < 0 or seen[other] == node:
                    continue
                seen[other] = node
                unlink(other, degree[other], head, after, before)
                degree[other] -= 1
                push(other, degree[other], head, after, before)
        smallest = max(smallest - 1, 0)
    return order, bound


def _lists(graph: Graph) -> tuple[np.ndarray, ...]:
    return graph.hub_offsets, graph.hubs, graph.node_offsets, graph.nodes


def in_order(graph: Graph, order: np.ndarray) -> np.ndarray:
    """All nodes by first fit."""
    return first_fit(np.full(graph.node_count, -1, np.int32), order.astype(np.int32, copy=False), *_lists(graph))


def natural(graph: Graph, generator: np.random.Generator) -> np.ndarray:
    """Nodes in the order of their numbers."""
    return in_order(graph, np.arange(graph.node_count))


def random(graph: Graph, generator: np.random.Generator) -> np.ndarray:
    """Nodes in random order."""
    return in_order(graph, generator.permutation(graph.node_count))


def largest_first(graph: Graph, generator: np.random.Generator) -> np.ndarray:
    """Nodes of many neighbors first (Welsh and Powell 1967)."""
    return in_order(graph, np.argsort(-graph.degrees, kind="stable"))


def smallest_last(graph: Graph, generator: np.random.Generator) -> np.ndarray:
    """Matula and Beck 1983: at most 1 + the largest smallest degree of any subgraph (paper 002, eq. 14)."""
    order, _ = smallest_last_order(graph.degrees, *_lists(graph))
    return in_order(graph, order)


def smallest_last_bound(graph: Graph) -> int:
    """The bound of eq. 14, max(1 + smallest degree) over all subgraphs."""
    return int(smallest_last_order(graph.degrees, *_lists(graph))[1])


ALGORITHMS = {"natural": natural, "random": random, "largest-first": largest_first, "smallest-last": smallest_last}

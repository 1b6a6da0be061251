"""Graphs to color: nodes without meaning, joined where they share a hub.

A hub joins all its nodes with each other. An ordinary edge is a hub of two nodes; a particle is a hub of all the
constraints on it. So the graph of a million constraints is its incidence lists, and its cliques are never written out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from . import checks
from .errors import InputError
from .kernels.compile import compiled


@dataclass(frozen=True, eq=False)
class Graph:
    """Compressed incidence lists: node i has the hubs `hubs[hub_offsets[i]:hub_offsets[i + 1]]`, and back again."""

    hub_offsets: np.ndarray  # (nodes + 1,) int64
    hubs: np.ndarray  # int32
    node_offsets: np.ndarray  # (hubs + 1,) int64
    nodes: np.ndarray  # int32

    @classmethod
    def from_edges(cls, node_count: int, edges: Any) -> "Graph":
        """A graph of `node_count` nodes from pairs of nodes, (m, 2). Doubled edges count once, loops are refused."""
        node_count = checks.whole("node_count", node_count, 0)
        edges = checks.indices("edges", edges, node_count, 2, "node")
        loops = edges[:, 0] == edges[:, 1]
        if loops.any():
            first = int(np.argmax(loops))
            raise InputError(f"edges: edge {first} joins node {edges[first, 0]} with itself")
        return cls.from_members(np.unique(np.sort(edges, axis=1), axis=0), node_count)

    @classmethod
    def from_scipy(cls, matrix: Any) -> "Graph":
        """The graph of a square sparse matrix: i and j are joined where the entries (i, j) and (j, i) are not zero.

        One of them without the other is refused; the diagonal counts for nothing.
        """
        if getattr(matrix, "ndim", 0) != 2 or matrix.shape[0] != matrix.shape[1] or not hasattr(matrix, "tocoo"):
            raise InputError(
                f"matrix: expected a square scipy.sparse matrix, got {type(matrix).__name__} "
                f"of shape {getattr(matrix, 'shape', None)}"
            )
        entries = matrix.tocsr().tocoo()  # with entries given twice added up
        joined = (entries.row != entries.col) & (entries.data != 0)
        rows, columns = entries.row[joined].astype(np.int64), entries.col[joined].astype(np.int64)
        alone = np.setdiff1d(rows * matrix.shape[0] + columns, columns * matrix.shape[0] + rows)
        if len(alone):
            row, column = divmod(int(alone[0]), matrix.shape[0])
            raise InputError(
                f"matrix: entry ({row}, {column}) is not zero and ({column}, {row}) is; both or none can be"
            )
        return cls.from_edges(matrix.shape[0], np.column_stack([rows, columns])[rows < columns])

    @classmethod
    def from_members(cls, members: np.ndarray, node_count: int) -> "Graph":
        """Nodes 0..node_count-1 joined within each row of `members` (hubs, k)."""
        return vertex_graph([members], node_count)

    @property
    def transposed(self) -> "Graph":
        """Hubs become nodes and nodes become hubs."""
        return Graph(self.node_offsets, self.nodes, self.hub_offsets, self.hubs)

    @property
    def node_count(self) -> int:
        return len(self.hub_offsets) - 1

    @property
    def hub_count(self) -> int:
        return len(self.node_offsets) - 1

    def neighbors(self, node: int) -> np.ndarray:
        """The nodes that share a hub with `node`, ascending."""
        joined = [
            self.nodes[self.node_offsets[h] : self.node_offsets[h + 1]]
            for h in self.hubs[self.hub_offsets[node] : self.hub_offsets[node + 1]]
        ]
        return np.setdiff1d(np.concatenate(joined), [node]) if joined else np.zeros(0, np.int32)

    @cached_property
    def adjacency(self) -> tuple[np.ndarray, np.ndarray]:
        """Compressed rows: node i has the neighbors `neighbors[offsets[i]:offsets[i + 1]]`, each once.

        Written out for the colorings that go over the nodes many times; a hub of k nodes makes k (k - 1) entries.
        """
        return _adjacency(*unsigned(self.hub_offsets, self.hubs, self.node_offsets, self.nodes), True)

    @property
    def degrees(self) -> np.ndarray:
        """How many neighbors each node has. Costs the sum of squared hub sizes, as coloring does."""
        offsets, _ = _adjacency(*unsigned(self.hub_offsets, self.hubs, self.node_offsets, self.nodes), False)
        return np.diff(offsets).astype(np.int32)

    @cached_property
    def largest_hub(self) -> int:
        """The nodes of the largest hub, which all need different colors: a lower bound."""
        return int(np.diff(self.node_offsets).max(initial=1 if self.node_count else 0))


def constraint_graph(vertices: np.ndarray, particle_count: int) -> Graph:
    """Constraints as nodes, joined where they share a particle; `vertices` is (m, arity)."""
    return Graph.from_members(vertices, particle_count).transposed


def vertex_graph(groups: Sequence[np.ndarray], particle_count: int) -> Graph:
    """Particles as nodes, joined where a constraint of any group holds both; each group is (m, arity)."""
    nodes = np.concatenate([np.zeros(0, np.int32), *(group.ravel() for group in groups)]).astype(np.int32, copy=False)
    sizes = np.array([group.shape for group in groups], np.int64).reshape(-1, 2)
    offsets = np.concatenate([[0], np.cumsum(np.repeat(sizes[:, 1], sizes[:, 0]))])
    hub_offsets, hubs = _hubs_of_nodes(offsets, nodes, particle_count)
    return Graph(hub_offsets, hubs, offsets, nodes)


def unsigned(*lists: np.ndarray) -> tuple[np.ndarray, ...]:
    """The same numbers without a sign: Numba asks of every signed index whether it counts from the end."""
    return tuple(numbers.view(f"u{numbers.itemsize}") for numbers in lists)


@compiled
def _hubs_of_nodes(node_offsets: np.ndarray, nodes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The hubs of each of `count` nodes, ascending, from the nodes of each hub: their offsets, and all in a row."""
    offsets, hubs = np.zeros(count + 1, np.int64), np.empty(len(nodes), np.int32)
    for node in nodes:
        offsets[node + 1] += 1
    for node in range(count):
        offsets[node + 1] += offsets[node]
    places = offsets[:-1].copy()
    for hub in range(len(node_offsets) - 1):
        for m in range(node_offsets[hub], node_offsets[hub + 1]):
            hubs[places[nodes[m]]] = hub
            places[nodes[m]] += 1
    return offsets, hubs


@compiled
def _adjacency(
    hub_offsets: np.ndarray, hubs: np.ndarray, node_offsets: np.ndarray, nodes: np.ndarray, written: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Compressed rows of neighbors; only their offsets if they are not to be written."""
    count, one = len(hub_offsets) - 1, np.uint64(1)
    most, place = np.uint64(0), np.uint64(0)
    if written:
        for hub in hubs:
            most += node_offsets[hub + one] - node_offsets[hub]
    offsets, neighbors = np.zeros(count + 1, np.int64), np.empty(most, np.int32)
    seen = np.full(count, count, np.uint32)
    for node in range(count):
        seen[node] = node
        for h in range(hub_offsets[node], hub_offsets[node + 1]):
            for m in range(node_offsets[hubs[h]], node_offsets[hubs[h] + one]):
                if seen[nodes[m]] != node:
                    seen[nodes[m]] = node
                    if written:
                        neighbors[place] = nodes[m]
                    place += one
        offsets[node + 1] = place
    return offsets, neighbors[:place].copy() if written else neighbors

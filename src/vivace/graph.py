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
        """The graph of a square sparse matrix: i and j are joined where entry (i, j) or (j, i) is not zero."""
        if getattr(matrix, "ndim", 0) != 2 or matrix.shape[0] != matrix.shape[1] or not hasattr(matrix, "tocoo"):
            raise InputError(
                f"matrix: expected a square scipy.sparse matrix, got {type(matrix).__name__} "
                f"of shape {getattr(matrix, 'shape', None)}"
            )
        entries = matrix.tocoo()
        off_diagonal = (entries.row != entries.col) & (entries.data != 0)
        return cls.from_edges(matrix.shape[0], np.column_stack([entries.row, entries.col])[off_diagonal])

    @classmethod
    def from_members(cls, members: np.ndarray, node_count: int) -> "Graph":
        """Nodes 0..node_count-1 joined within each row of `members` (hubs, k)."""
        back = _group_by(members.ravel(), np.repeat(np.arange(len(members)), members.shape[1]), node_count)
        offsets = np.arange(len(members) + 1, dtype=np.int64) * members.shape[1]
        return cls(*back, offsets, np.ascontiguousarray(members.ravel(), np.int32))

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
        offsets = np.zeros(self.node_count + 1, np.int64)
        np.cumsum(self.degrees, out=offsets[1:])
        return offsets, _neighbors(offsets, self.hub_offsets, self.hubs, self.node_offsets, self.nodes)

    @property
    def degrees(self) -> np.ndarray:
        """How many neighbors each node has. Costs the sum of squared hub sizes, as coloring does."""
        return _degrees(self.hub_offsets, self.hubs, self.node_offsets, self.nodes)

    @cached_property
    def largest_hub(self) -> int:
        """The nodes of the largest hub, which all need different colors: a lower bound."""
        return int(np.diff(self.node_offsets).max(initial=1 if self.node_count else 0))


def constraint_graph(vertices: np.ndarray, particle_count: int) -> Graph:
    """Constraints as nodes, joined where they share a particle; `vertices` is (m, arity)."""
    return Graph.from_members(vertices, particle_count).transposed


def vertex_graph(groups: Sequence[np.ndarray], particle_count: int) -> Graph:
    """Particles as nodes, joined where a constraint of any group holds both; each group is (m, arity)."""
    members = [group.ravel() for group in groups]
    owners, first = [], 0
    for group in groups:
        owners.append(np.repeat(np.arange(first, first + len(group)), group.shape[1]))
        first += len(group)
    nodes = np.concatenate(members) if members else np.zeros(0, np.int32)
    hubs = np.concatenate(owners) if owners else np.zeros(0, np.int64)
    return Graph(*_group_by(nodes, hubs, particle_count), *_group_by(hubs, nodes, first))


def _group_by(keys: np.ndarray, values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and values sorted by key; within a key they keep their order."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=offsets[1:])
    return offsets, values[np.argsort(keys, kind="stable")].astype(np.int32)


@compiled
def _degrees(hub_offsets: np.ndarray, hubs: np.ndarray, node_offsets: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    count = len(hub_offsets) - 1
    degrees, seen = np.zeros(count, np.int32), np.full(count, -1, np.int32)
    for node in range(count):
        seen[node] = node
        for h in range(hub_offsets[node], hub_offsets[node + 1]):
            for m in range(node_offsets[hubs[h]], node_offsets[hubs[h] + 1]):
                if seen[nodes[m]] != node:
                    seen[nodes[m]] = node
                    degrees[node] += 1
    return degrees


@compiled
def _neighbors(
    offsets: np.ndarray, hub_offsets: np.ndarray, hubs: np.ndarray, node_offsets: np.ndarray, nodes: np.ndarray
) -> np.ndarray:
    count = len(hub_offsets) - 1
    neighbors, seen = np.empty(offsets[count], np.int32), np.full(count, -1, np.int32)
    for node in range(count):
        seen[node] = node
        place = offsets[node]
        for h in range(hub_offsets[node], hub_offsets[node + 1]):
            for m in range(node_offsets[hubs[h]], node_offsets[hubs[h] + 1]):
                if seen[nodes[m]] != node:
                    seen[nodes[m]] = node
                    neighbors[place] = nodes[m]
                    place += 1
    return neighbors

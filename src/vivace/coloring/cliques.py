"""Maximal cliques by Bron and Kerbosch 1973, in degeneracy order (Eppstein, Löffler and Strash 2010).

For each node in the order in which smallest-last takes nodes away: all maximal cliques of it and nodes taken later. Its
neighbors are few then, so sets of them are short rows of bits.
"""

import numpy as np

from ..errors import InputError
from ..graph import Graph
from ..kernels.compile import compiled
from ..progress import pieces
from .greedy import smallest_last_order

MOST_MEMBERS = 100_000_000


@compiled
def _bits(word: np.uint64) -> int:
    """How many bits are set."""
    count = 0
    while word:
        word &= word - np.uint64(1)
        count += 1
    return count


@compiled
def _lowest(word: np.uint64) -> int:
    """The place of the lowest bit that is set."""
    place = 0
    while not word & (np.uint64(1) << np.uint64(place)):
        place += 1
    return place


@compiled
def _candidates(candidates: np.ndarray, open_: np.ndarray, done: np.ndarray, joined: np.ndarray, count: int) -> int:
    """Open nodes not joined with the pivot, the one joined with most of them (Tomita 2006); how many are open."""
    pivot, most, total = 0, -1, 0
    for word in open_:
        total += _bits(word)
    for node in range(count):
        if (open_[node >> 6] | done[node >> 6]) >> np.uint64(node & 63) & np.uint64(1):
            covered = 0
            for w in range(len(open_)):
                covered += _bits(open_[w] & joined[node, w])
            if covered > most:
                pivot, most = node, covered
    for w in range(len(open_)):
        candidates[w] = open_[w] & ~joined[pivot, w]
    return total


@compiled
def _cliques_of(
    nodes: np.ndarray, rank: np.ndarray, offsets: np.ndarray, neighbors: np.ndarray, larger_than: int, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """The sizes and members of the maximal cliques whose first-ranked node is one of `nodes`; stops above `most`."""
    sizes, members = np.empty(1024, np.int64), np.empty(8192, np.int32)
    found, written = 0, 0
    local = np.full(len(rank), -1, np.int32)
    for node in nodes:
        near = neighbors[offsets[node] : offsets[node + 1]]
        count = len(near)
        words = (count + 63) >> 6
        joined = np.zeros((count, words), np.uint64)
        open_, done = np.zeros((count + 1, words), np.uint64), np.zeros((count + 1, words), np.uint64)
        candidates, path = np.zeros((count + 1, words), np.uint64), np.empty(count + 1, np.int32)
        for i in range(count):
            local[near[i]] = i
        for i in range(count):
            bit = np.uint64(1) << np.uint64(i & 63)
            if rank[near[i]] > rank[node]:
                open_[0, i >> 6] |= bit
            else:
                done[0, i >> 6] |= bit
            for other in neighbors[offsets[near[i]] : offsets[near[i] + 1]]:
                if local[other] >= 0:
                    joined[i, local[other] >> 6] |= np.uint64(1) << np.uint64(local[other] & 63)
        for i in range(count):
            local[near[i]] = -1
        depth = 0
        if count == 0:
            depth = -1
            if larger_than < 1:
                sizes, members, found, written = _kept(sizes, members, found, written, node, path, near, 0)
        elif 1 + _candidates(candidates[0], open_[0], done[0], joined, count) <= larger_than:
            depth = -1
        while depth >= 0:
            word = 0
            while word < words and not candidates[depth, word]:
                word += 1
            if word == words:
                depth -= 1
                continue
            chosen = (word << 6) + _lowest(candidates[depth, word])
            bit = np.uint64(1) << np.uint64(chosen & 63)
            path[depth] = chosen
            some_open, some_done = False, False
            for w in range(words):
                open_[depth + 1, w] = open_[depth, w] & joined[chosen, w]
                done[depth + 1, w] = done[depth, w] & joined[chosen, w]
                some_open |= open_[depth + 1, w] != 0
                some_done |= done[depth + 1, w] != 0
            candidates[depth, word] &= ~bit
            open_[depth, word] &= ~bit
            done[depth, word] |= bit
            size = depth + 2
            if some_open:
                left = _candidates(candidates[depth + 1], open_[depth + 1], done[depth + 1], joined, count)
                if size + left > larger_than:
                    depth += 1
            elif not some_done and size > larger_than:
                sizes, members, found, written = _kept(sizes, members, found, written, node, path, near, depth + 1)
                if written > most:
                    return sizes[:found].copy(), members[:written].copy()
    return sizes[:found].copy(), members[:written].copy()


@compiled
def _kept(
    sizes: np.ndarray,
    members: np.ndarray,
    found: int,
    written: int,
    node: int,
    path: np.ndarray,
    near: np.ndarray,
    length: int,
) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Write a clique down, in larger arrays where these are full."""
    if found == len(sizes):
        sizes = np.concatenate((sizes, np.empty_like(sizes)))
    while written + length + 1 > len(members):
        members = np.concatenate((members, np.empty_like(members)))
    members[written] = node
    for i in range(length):
        members[written + 1 + i] = near[path[i]]
    sizes[found] = length + 1
    return sizes, members, found + 1, written + length + 1


def maximal_cliques(graph: Graph, larger_than: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """All maximal cliques of more than `larger_than` nodes: clique i is members[offsets[i]:offsets[i + 1]].

    Their number may grow exponentially with the degeneracy; where it gets out of hand, an error says so.
    """
    order, _ = smallest_last_order(graph.degrees, graph.hub_offsets, graph.hubs, graph.node_offsets, graph.nodes)
    rank = np.empty(graph.node_count, np.int32)
    rank[order[::-1]] = np.arange(graph.node_count)
    sizes, members, room = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], MOST_MEMBERS
    for piece in pieces("finding cliques", order[::-1]):
        found = _cliques_of(piece, rank, *graph.adjacency, larger_than, room)
        sizes.append(found[0])
        members.append(found[1])
        room -= len(found[1])
        if room < 0:
            raise InputError("cliques: there are too many to write down; use cliques='particles'")
    return np.concatenate([[0], np.cumsum(np.concatenate(sizes))]), np.concatenate(members)


def clique_number(graph: Graph) -> int:
    """The size of the largest clique: a hub, or nodes that share different hubs."""
    return int(np.diff(maximal_cliques(graph, graph.largest_hub)[0]).max(initial=graph.largest_hub))

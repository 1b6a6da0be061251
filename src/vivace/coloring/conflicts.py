"""Neighbors of one color: looked for hub by hub, and only where there can be any.

Each node has one bit, its color modulo 32. Where the bits of a hub add up to no more than their union, all its colors
differ; that is three times as fast as to look at the colors themselves.
"""

import numpy as np

from ..kernels.compile import compiled


@compiled
def doubtful_hubs(colors: np.ndarray, node_offsets: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """The hubs that hold two nodes of one color, or of two that are a multiple of 32 apart, or one node twice."""
    bits, one = np.empty(len(colors), np.uint64), np.uint64(1)
    for node in range(len(colors)):
        bits[node] = one << (np.uint64(colors[node]) & np.uint64(31))
    doubtful, found = np.empty(len(node_offsets) - 1, np.int32), 0
    m = np.uint64(0)
    for hub in range(len(node_offsets) - 1):
        total = union = np.uint64(0)
        while m < node_offsets[hub + 1]:  # the nodes of all hubs lie in a row
            total += bits[nodes[m]]
            union |= bits[nodes[m]]
            m += one
        if total != union:
            doubtful[found] = hub
            found += 1
    return doubtful[:found]


@compiled
def first_conflict(
    colors: np.ndarray, node_offsets: np.ndarray, nodes: np.ndarray, count: int
) -> tuple[np.int64, np.int64]:
    """Two neighbors with one of `count` colors, or -1 twice."""
    owner, hub_of = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    for hub in doubtful_hubs(colors, node_offsets, nodes):
        for m in range(node_offsets[hub], node_offsets[hub + 1]):
            color = colors[nodes[m]]
            if hub_of[color] == hub and owner[color] != nodes[m]:
                return owner[color], np.int64(nodes[m])
            hub_of[color], owner[color] = hub, nodes[m]
    return np.int64(-1), np.int64(-1)


@compiled
def nodes_to_color(colors: np.ndarray, node_offsets: np.ndarray, nodes: np.ndarray, count: int) -> np.ndarray:
    """The nodes, ascending, that have none of the `count` colors (a number below 0), or that of a lower neighbor."""
    lowest, hub_of = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    lost = colors < 0
    for hub in doubtful_hubs(colors, node_offsets, nodes):
        for m in range(node_offsets[hub], node_offsets[hub + 1]):
            node, color = np.int64(nodes[m]), colors[nodes[m]]
            if color < 0:
                continue
            if hub_of[color] != hub:
                hub_of[color], lowest[color] = hub, node
            elif node != lowest[color]:
                lost[max(node, lowest[color])] = True
                lowest[color] = min(node, lowest[color])
    return np.flatnonzero(lost).astype(np.int32)

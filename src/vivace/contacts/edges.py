"""Which edges count: those where a surface ends, or is bent or pressed too much for its points to stand for it.

Let two edges cross, each bent by 2 theta, so that its triangles fall away by theta. The ends of one, half its length L
away, are L / 2 sin(theta) farther from the other's triangles than the edges are from each other. While that is less
than the thickness, the points of one and the triangles of the other meet before the edges do; so edges have to be
looked at only where both are sharper than that, or where points are much nearer to triangles than the thickness. In
piles of cloth hardly any are.
"""

from dataclasses import dataclass

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel, floats_at, ints_at
from ..kernels.lanes import WIDTH, lane_bits, select, sqrt, value_function
from ..kernels.rows import gather
from ..kernels.vec3 import cross, dot, sub
from .cells import CHUNKS

SHARP = 0.7  # L / 2 sin(theta) of edges that count, in thicknesses
PRESSED = 0.6  # and distances of their ends from triangles
ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)


@dataclass(frozen=True, eq=False)
class Hinges:
    """Edges between two triangles, and how sharp they may be."""

    ends: np.ndarray  # (k,) int32, edges that are none of them
    edges: np.ndarray  # (h,) int32
    corners: np.ndarray  # (h, 4) int32 rows: both ends, and what is opposite; behind them there is room for a block
    most: np.float32  # the sharpness from which an edge counts, 1 - cos(2 theta)

    def counting(
        self,
        edges: np.ndarray,
        counts: np.ndarray,
        corners: np.ndarray,
        data: np.ndarray,
        start: np.ndarray,
        end: np.ndarray,
        thickness: np.float32,
    ) -> np.ndarray:
        """Which of the edges count; counts, corners and data are those of the points' contacts, in chunks."""
        pressed = _pressed(counts, corners, data, start, thickness)
        chosen = _by_ends(edges, pressed)
        chosen[self.ends] = True
        if len(self.edges):
            _bends(self.edges, self.corners, start, end, self.most, chosen)
        return chosen


def find_hinges(
    edges: np.ndarray, triangles: np.ndarray, rest: np.ndarray, thickness: float
) -> tuple[Hinges, np.ndarray]:
    """Of edges (e, 2), each with its ends in order, all different; and where surfaces end, with what is opposite."""
    sides = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]], axis=2).reshape(-1, 2).astype(np.int64)
    size = int(max(edges.max(initial=0), sides.max(initial=0))) + 1
    keys = edges[:, 0].astype(np.int64) * size + edges[:, 1]
    in_order = np.argsort(keys)
    of = in_order[np.searchsorted(keys[in_order], sides[:, 0] * size + sides[:, 1])]
    opposite = triangles[:, [2, 0, 1]].reshape(-1)
    counts, by_edge = np.bincount(of, minlength=len(edges)), np.argsort(of, kind="stable")
    begins = np.cumsum(counts) - counts
    hinges, alone = np.flatnonzero(counts == 2).astype(np.int32), np.flatnonzero(counts == 1)
    corners = np.zeros((len(hinges) + WIDTH, 4), np.int32)
    corners[: len(hinges), :2] = edges[hinges]
    corners[: len(hinges), 2] = opposite[by_edge[begins[hinges]]]
    corners[: len(hinges), 3] = opposite[by_edge[begins[hinges] + 1]]
    ends = np.concatenate([edges[alone], opposite[by_edge[begins[alone]]][:, None]], axis=1)
    lengths = np.linalg.norm(rest[edges[:, 0]] - rest[edges[:, 1]], axis=1)
    sine = min(2 * SHARP * thickness / max(float(lengths.max(initial=0)), 1e-12), 1.0)
    return Hinges(np.flatnonzero(counts != 2).astype(np.int32), hinges, corners, np.float32(2 * sine**2)), ends.astype(
        np.int32
    )


@value_function
def bend(corners):
    """1 - cos of the angle between the triangles on both sides of edge ab; 2 where one of them has no area."""
    a, b, c, d = corners
    along = sub(b, a)
    one, other = cross(along, sub(c, a)), cross(sub(d, a), along)
    squares = dot(one, one) * dot(other, other)
    flat = select(squares > ZERO, squares, ONE)
    return select(squares > ZERO, ONE - dot(one, other) / sqrt(flat), TWO)


@compiled
def _pressed(counts, corners, data, start, thickness):
    """Which rows are part of a contact whose point and triangle are much nearer than the thickness."""
    pressed = np.zeros(len(start), np.bool_)
    for chunk in range(len(counts)):
        for i in range(counts[chunk]):
            gap = np.float32(0)
            for corner in range(4):
                row, share = corners[chunk, i, corner], data[chunk, i, corner]
                for axis in range(3):
                    gap += data[chunk, i, 4 + axis] * share * start[row, axis]
            if gap < PRESSED * thickness:
                for corner in range(4):
                    pressed[corners[chunk, i, corner]] = True
    return pressed


@compiled_parallel
def _by_ends(edges, pressed):
    chosen = np.empty(len(edges), np.bool_)
    for i in prange(len(edges)):
        chosen[i] = pressed[edges[i, 0]] or pressed[edges[i, 1]]
    return chosen


@compiled_parallel
def _bends(edges, corners, start, end, most, chosen):
    blocks = (len(edges) + WIDTH - 1) // WIDTH
    for chunk in prange(CHUNKS):
        first, last = chunk * blocks // CHUNKS, (chunk + 1) * blocks // CHUNKS
        _bends_of(edges, corners, start, end, most, chosen, first, last)


@compiled
def _bends_of(edges, corners, start, end, most, chosen, first, last):
    here, there, rows = floats_at(start.ctypes.data), floats_at(end.ctypes.data), ints_at(corners.ctypes.data)
    for block in range(first, last):
        bits = lane_bits(bend(gather(here, rows, block, 4)) >= most)
        bits |= lane_bits(bend(gather(there, rows, block, 4)) >= most)
        for lane in range(min(WIDTH, len(edges) - block * WIDTH)):
            if bits >> lane & 1:
                chosen[edges[block * WIDTH + lane]] = True

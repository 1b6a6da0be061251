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
from ..kernels.lanes import WIDTH, select, sqrt, value_function
from ..kernels.rows import gather, store_block
from ..kernels.vec3 import cross, dot, sub
from .cells import CHUNKS

SHARP, NEARLY_SHARP = 0.7, 0.5  # L / 2 sin(theta) of edges that count, and of those that may soon, in thicknesses
PRESSED, NEARLY_PRESSED = 0.6, 0.75  # and distances of their ends from triangles
NEARLY, COUNTS = 1, 2
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
        corners: np.ndarray,
        data: np.ndarray,
        start: np.ndarray,
        end: np.ndarray,
        thickness: np.float32,
    ) -> np.ndarray:
        """COUNTS, NEARLY or 0 for each of the edges; corners and data are those of the points' contacts."""
        pressed = _pressed(corners, data, start, thickness)
        counts = _by_ends(edges, pressed)
        counts[self.ends] = COUNTS
        if len(self.edges):
            _bends(self.edges, self.corners, start, end, self.most, counts)
        return counts


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
def _pressed(corners, data, start, thickness):
    """How near points and triangles are where they touch, for each row: COUNTS, NEARLY or 0."""
    pressed = np.zeros(len(start), np.uint8)
    for i in range(len(corners)):
        gap = np.float32(0)
        for corner in range(4):
            for axis in range(3):
                gap += data[i, 4 + axis] * data[i, corner] * start[corners[i, corner], axis]
        if gap < NEARLY_PRESSED * thickness:
            level = COUNTS if gap < PRESSED * thickness else NEARLY
            for corner in range(4):
                pressed[corners[i, corner]] = max(pressed[corners[i, corner]], level)
    return pressed


@compiled_parallel
def _by_ends(edges, pressed):
    counts = np.empty(len(edges), np.uint8)
    for i in prange(len(edges)):
        counts[i] = max(pressed[edges[i, 0]], pressed[edges[i, 1]])
    return counts


@compiled_parallel
def _bends(edges, corners, start, end, most, counts):
    blocks = (len(edges) + WIDTH - 1) // WIDTH
    for chunk in prange(CHUNKS):
        first, last = chunk * blocks // CHUNKS, (chunk + 1) * blocks // CHUNKS
        _bends_of(edges, corners, start, end, most, counts, first, last)


@compiled
def _bends_of(edges, corners, start, end, most, counts, first, last):
    here, there, rows = floats_at(start.ctypes.data), floats_at(end.ctypes.data), ints_at(corners.ctypes.data)
    numbers = np.empty((2, WIDTH), np.float32)
    made, nearly = floats_at(numbers.ctypes.data), np.float32((NEARLY_SHARP / SHARP) ** 2) * most
    for block in range(first, last):
        store_block(made, 0, bend(gather(here, rows, block, 4)))
        store_block(made, 1, bend(gather(there, rows, block, 4)))
        for lane in range(min(WIDTH, len(edges) - block * WIDTH)):
            sharpness, edge = max(numbers[0, lane], numbers[1, lane]), edges[block * WIDTH + lane]
            if sharpness >= nearly:
                counts[edge] = max(counts[edge], COUNTS if sharpness >= most else NEARLY)

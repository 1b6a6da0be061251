"""Triangles that cross each other: what contacts are there to prevent."""

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel
from .grid import CHUNKS, Grid, overlapping


def crossing_pairs(positions: np.ndarray, triangles: np.ndarray) -> int:
    """How many pairs of triangles without a common corner cross each other; `positions` is (n, 3)."""
    if not len(triangles):
        return 0
    corners = positions[triangles].astype(np.float32)
    low, high = corners.min(axis=1), corners.max(axis=1)
    cell = float(np.linalg.norm(corners[:, 1] - corners[:, 0], axis=1).mean()) or 1.0
    grid = Grid(low, high, cell, 1)
    return int(_count(triangles.astype(np.int32), corners.astype(np.float64), low, high, *grid.lists).sum())


@compiled
def _pierces(a, b, p, q, r):
    """Whether edge ab goes through triangle pqr (Möller and Trumbore 1997)."""
    way, u, v = b - a, q - p, r - p
    h = np.cross(way, v)
    determinant = np.dot(u, h)
    if determinant == 0:
        return False
    s = a - p
    of_q = np.dot(s, h) / determinant
    k = np.cross(s, u)
    of_r = np.dot(way, k) / determinant
    t = np.dot(v, k) / determinant
    return of_q >= 0 and of_r >= 0 and of_q + of_r <= 1 and 0 <= t <= 1


@compiled_parallel
def _count(triangles, corners, low, high, inverse, reach, bits, offsets, tiles, boxes, flags):
    counts = np.zeros(CHUNKS, np.int64)
    grid = inverse, reach, bits, offsets, tiles, boxes, flags
    for chunk in prange(CHUNKS):
        counts[chunk] = _count_chunk(chunk, triangles, corners, low, high, grid)
    return counts


@compiled
def _count_chunk(chunk, triangles, corners, low, high, grid):
    near, asked, crossing, total = np.empty(256, np.int32), np.zeros(8, np.float32), 0, len(triangles)
    for i in range(chunk * total // CHUNKS, (chunk + 1) * total // CHUNKS):
        found, near = overlapping(i, low, high, *grid, asked, near)
        for k in range(found):
            j = near[k]
            if j > i and not _joined(triangles, i, j):
                crosses = False
                for e in range(3):
                    f = (e + 1) % 3
                    crosses = crosses or _pierces(corners[i, e], corners[i, f], *_three(corners, j))
                    crosses = crosses or _pierces(corners[j, e], corners[j, f], *_three(corners, i))
                crossing += crosses
    return crossing


@compiled
def _joined(triangles, i, j):
    """Whether two triangles have a corner in common."""
    for one in range(3):
        for other in range(3):
            if triangles[i, one] == triangles[j, other]:
                return True
    return False


@compiled
def _three(corners, i):
    return corners[i, 0], corners[i, 1], corners[i, 2]

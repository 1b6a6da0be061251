"""Triangles that cross each other: what contacts are there to prevent."""

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel
from .cells import CHUNKS, into_cells, lists_at, near_boxes

FLATTEST = 1e-5  # sine of the angle between edge and plane: positions are rounded


def crossing_pairs(positions: np.ndarray, triangles: np.ndarray) -> int:
    """How many pairs of triangles without a common corner cross each other; `positions` is (n, 3)."""
    if not len(triangles):
        return 0
    corners = positions[triangles].astype(np.float32)
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    cells = into_cells(boxes)
    return int(_count(triangles.astype(np.int32), corners.astype(np.float64), boxes, cells.addresses).sum())


@compiled
def _pierces(a, b, p, q, r):
    """Whether edge ab goes through triangle pqr (Möller and Trumbore 1997); one in its plane does not."""
    way, u, v = b - a, q - p, r - p
    h = np.cross(way, v)
    determinant = np.dot(u, h)
    if abs(determinant) <= FLATTEST * np.linalg.norm(way) * np.linalg.norm(np.cross(u, v)):
        return False
    s = a - p
    of_q = np.dot(s, h) / determinant
    k = np.cross(s, u)
    of_r = np.dot(way, k) / determinant
    t = np.dot(v, k) / determinant
    return of_q >= 0 and of_r >= 0 and of_q + of_r <= 1 and 0 <= t <= 1


@compiled_parallel
def _count(triangles, corners, boxes, cells):
    counts = np.zeros(CHUNKS, np.int64)
    for chunk in prange(CHUNKS):
        counts[chunk] = _count_chunk(chunk, triangles, corners, boxes, cells)
    return counts


@compiled
def _count_chunk(chunk, triangles, corners, boxes, cells):
    near, crossing, total, lists = np.empty(256, np.int32), 0, len(triangles), lists_at(cells)
    for place in range(chunk * total // CHUNKS, (chunk + 1) * total // CHUNKS):
        i = lists[0][place]
        found, near = near_boxes(boxes[i, :3], boxes[i, 3:], lists, near)
        for k in range(found):
            j = near[k]
            if i < j and not _joined(triangles, i, j):
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

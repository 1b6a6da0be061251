"""Stretch and shear of a tetrahedron: its deformation gradient against the nearest allowed one."""

import numpy as np

from ..kernels.lanes import all_lanes, maximum, minimum, value_function
from ..kernels.nearest import distance_gradient_four, less_three_rows, three_rows
from ..kernels.svd3 import composed, pick, rotation, singular_values

ARITY = 4
ROWS = 3
REST_VALUES = 11  # the inverse of the rest frame, row by row, then the least and the largest singular value allowed
UNIT = "1"
ONE = np.float32(1)


@value_function
def coefficients(rest):
    """The columns of the deformation gradient F = (p2 - p1, p3 - p1, p4 - p1) frame^-1 as sums over corners."""
    return (
        (-rest[0] - rest[3] - rest[6], rest[0], rest[3], rest[6]),
        (-rest[1] - rest[4] - rest[7], rest[1], rest[4], rest[7]),
        (-rest[2] - rest[5] - rest[8], rest[2], rest[5], rest[8]),
    )


@value_function
def clamped(projected, low, high):
    u, s, v = singular_values(projected[0], projected[1], projected[2])
    return composed(
        u,
        (minimum(maximum(s[0], low), high), minimum(maximum(s[1], low), high), minimum(maximum(s[2], low), high)),
        v,
    )


@value_function
def nearest(projected, rest):
    """F with its singular values clamped (Bouaziz et al. 2014, section 5.1); both bounds 1 leave a rotation.

    Where F is inside out, the smallest singular value is negative and becomes positive (kernels/svd3.py).
    """
    low, high = rest[9], rest[10]
    turned, settled = rotation(projected[0], projected[1], projected[2])
    simple = settled & (low >= ONE) & (high <= ONE)
    if all_lanes(simple):
        return turned
    general = clamped(projected, low, high)
    return (
        pick(simple, turned[0], general[0]),
        pick(simple, turned[1], general[1]),
        pick(simple, turned[2], general[2]),
    )


def value_gradient(corners, rest):
    """|F - nearest F| and its gradient, both times that length (see kernels/nearest.py)."""
    a = coefficients(rest)
    projected = three_rows(a, corners)
    return distance_gradient_four(a, less_three_rows(projected, nearest(projected, rest)))


def inverse_frames(points: np.ndarray) -> np.ndarray:
    """Inverse of the matrix with columns p2 - p1, p3 - p1, p4 - p1, row by row, (m, 9)."""
    edges = points[:, 1:].astype(np.float64) - points[:, :1]
    return np.linalg.inv(edges.swapaxes(1, 2)).reshape(-1, 9)


def rest_shape(points: np.ndarray, smallest: float = 1.0, largest: float = 1.0) -> np.ndarray:
    """(m, 11) from corners at rest (m, 4, 3) and the singular values that are allowed."""
    return np.column_stack([inverse_frames(points), np.full(len(points), smallest), np.full(len(points), largest)])

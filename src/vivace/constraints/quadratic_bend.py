"""Bending of two triangles that share an edge, as the curvature vector of the hinge."""

import numpy as np

from ..kernels.lanes import select, sqrt, value_function
from ..kernels.nearest import distance_gradient_four, less_one_row, one_row
from ..kernels.vec3 import dot, scale

ARITY = 4
ROWS = 1
REST_VALUES = 5  # the four coefficients, and the length of the curvature vector at rest
UNIT = "1"
ZERO, ONE = np.float32(0), np.float32(1)


@value_function
def coefficients(rest):
    """A = sqrt(1 / (A0 + A1)) (c03 + c04, c01 + c02, -c01 - c03, -c02 - c04), c the cotangents at the edge's ends.

    Bergou et al. 2006, section 3: the edge p1 p2 with wings p3, p4; stiffness is the bending rigidity [N m]. Their
    factor 3 / (A0 + A1) is left at 1 / (A0 + A1): so a sheet rolled up to radius r has the energy of a plate, rigidity
    * area / (2 r^2), within 3 %.
    """
    return ((rest[0], rest[1], rest[2], rest[3]),)


@value_function
def nearest(projected, rest):
    """The curvature vector with the length that it has at rest (zero if flat), in its present direction."""
    length = sqrt(dot(projected[0], projected[0]))
    return (scale(rest[4] / select(length > ZERO, length, ONE), projected[0]),)


def value_gradient(corners, rest):
    """How far the curvature vector is from its length at rest, as a distance (see kernels/nearest.py)."""
    a = coefficients(rest)
    projected = one_row(a, corners)
    return distance_gradient_four(a, less_one_row(projected, nearest(projected, rest)))


def rest_shape(points: np.ndarray) -> np.ndarray:
    """Coefficients and curvature of hinges at rest, (m, 5); `points` is (m, 4, 3)."""
    p1, p2, p3, p4 = np.moveaxis(points.astype(np.float64), 1, 0)
    edge = p2 - p1
    c1, area1 = _cotangent(edge, p3 - p1)
    c2, area2 = _cotangent(edge, p4 - p1)
    c3, _ = _cotangent(-edge, p3 - p2)
    c4, _ = _cotangent(-edge, p4 - p2)
    made = np.stack([c3 + c4, c1 + c2, -c1 - c3, -c2 - c4], axis=1) * np.sqrt(1 / (area1 + area2))[:, None]
    curvature = np.linalg.norm(np.einsum("mc,mcd->md", made, points), axis=1)
    flat = curvature < 1e-4 * np.abs(made).max(axis=1) * np.linalg.norm(edge, axis=1)
    return np.column_stack([made, np.where(flat, 0, curvature)])


def needs_projection(rest: np.ndarray) -> np.ndarray:
    """Which constraints have a nearest point other than zero: those that are not flat at rest."""
    return rest[:, 4] > 0


def _cotangent(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cotangent of the angle between vectors, and the area of their triangle."""
    doubled = np.linalg.norm(np.cross(a, b), axis=1)
    return np.einsum("ij,ij->i", a, b) / doubled, doubled / 2

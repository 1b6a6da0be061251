"""Volume of a tetrahedron as a projection: its deformation gradient against the nearest one of determinant 1."""

import numpy as np

from ..kernels.lanes import maximum, select, value_function
from ..kernels.nearest import distance_gradient_four, less_three_rows, three_rows
from ..kernels.svd3 import composed, singular_values
from .tet_strain import coefficients, inverse_frames

ARITY = 4
ROWS = 3
REST_VALUES = 9  # the inverse of the rest frame, row by row
UNIT = "1"
ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
HALF, SMALL, TINY = np.float32(0.5), np.float32(0.05), np.float32(1e-3)
TANGENT_STEPS, NEWTON_STEPS, LAST_STEPS = 8, 6, 4


@value_function
def of_unit_product(s0, s1, s2):
    """The nearest three numbers x whose product P is 1 (Bouaziz et al. 2014, appendix).

    First by steps to the plane that touches the surface P = 1, which cannot go far astray, then by Newton's method on
    x - s = m grad P, P = 1, which ends exactly for all but the wildest shapes.
    """
    x, y, z = maximum(s0, HALF), maximum(s1, HALF), maximum(s2, HALF)
    m = ZERO * x
    for _ in range(TANGENT_STEPS):
        g0, g1, g2 = y * z, x * z, x * y
        m = (ONE - x * y * z + g0 * (x - s0) + g1 * (y - s1) + g2 * (z - s2)) / (g0 * g0 + g1 * g1 + g2 * g2)
        x, y, z = maximum(s0 + m * g0, SMALL), maximum(s1 + m * g1, SMALL), maximum(s2 + m * g2, SMALL)
    for _ in range(NEWTON_STEPS):
        g0, g1, g2 = y * z, x * z, x * y
        f0, f1, f2 = x - s0 - m * g0, y - s1 - m * g1, z - s2 - m * g2
        # The adjugate of 1 - m Hessian(P), whose entries beside the diagonal are -m z, -m y, -m x.
        a, b, c = m * x, m * y, m * z
        aa, bb, cc, ab, ac, bc = ONE - a * a, ONE - b * b, ONE - c * c, c + a * b, b + a * c, a + b * c
        u0, u1, u2 = aa * f0 + ab * f1 + ac * f2, ab * f0 + bb * f1 + bc * f2, ac * f0 + bc * f1 + cc * f2
        v0, v1, v2 = aa * g0 + ab * g1 + ac * g2, ab * g0 + bb * g1 + bc * g2, ac * g0 + bc * g1 + cc * g2
        determinant = ONE - a * a - b * b - c * c - TWO * a * b * c
        slope = g0 * v0 + g1 * v1 + g2 * v2
        good = (determinant > TINY) & (slope > TINY)
        step = (determinant * (ONE - x * y * z) + g0 * u0 + g1 * u1 + g2 * u2) / select(good, slope, ONE)
        share = select(good, ONE / select(good, determinant, ONE), ZERO)
        x, y, z = x + share * (step * v0 - u0), y + share * (step * v1 - u1), z + share * (step * v2 - u2)
        x, y, z = maximum(x, SMALL), maximum(y, SMALL), maximum(z, SMALL)
        m = m + select(good, step, ZERO)
    for _ in range(LAST_STEPS):  # where all was collapsed or inside out, at least straight on to the surface
        g0, g1, g2 = y * z, x * z, x * y
        way = (ONE - x * y * z) / (g0 * g0 + g1 * g1 + g2 * g2)
        x, y, z = x + way * g0, y + way * g1, z + way * g2
    return x, y, z


@value_function
def nearest(projected, rest):
    """F with singular values whose product is 1."""
    u, s, v = singular_values(projected[0], projected[1], projected[2])
    return composed(u, of_unit_product(s[0], s[1], s[2]), v)


def value_gradient(corners, rest):
    """|F - nearest F| and its gradient, both times that length (see kernels/nearest.py)."""
    a = coefficients(rest)
    projected = three_rows(a, corners)
    return distance_gradient_four(a, less_three_rows(projected, nearest(projected, rest)))


def rest_shape(points: np.ndarray) -> np.ndarray:
    """(m, 9) from corners at rest (m, 4, 3)."""
    return inverse_frames(points)

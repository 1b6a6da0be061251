"""Dihedral angle between two triangles that share an edge."""

import numpy as np

from ..kernels.lanes import atan2, select, sqrt
from ..kernels.vec3 import add, cross, dot, scale, sub

ARITY = 4
UNIT = "rad"
ZERO, ONE, TINY = np.float32(0), np.float32(1), np.float32(1e-30)


def value_gradient(corners, rest):
    """Signed fold of the edge p1 p2 with wings p3, p4, minus rest [rad], and its gradient. Flat is zero.

    C = atan2(e . (n2 x n1), |e| n1 . n2) - rest, e = p2 - p1, n1 = e x (p3 - p1), n2 = (p4 - p1) x e
    The bend of Müller et al. 2007, section 4.1 (there acos(n1 . n2), which is pi at flat). Its acos has no
    gradient at flat, where cloth rests, and loses half the digits there; atan2 has neither fault.
    A triangle without area has no normal: value and gradient are zero and it stays put.
    """
    p1, p2, p3, p4 = corners
    edge, wing3, wing4 = sub(p2, p1), sub(p3, p1), sub(p4, p1)
    n1, n2 = cross(edge, wing3), cross(wing4, edge)
    squared, area1, area2 = dot(edge, edge), dot(n1, n1), dot(n2, n2)
    length = sqrt(squared)
    valid = (area1 > TINY) & (area2 > TINY)
    m1 = scale(select(valid, length / area1, ZERO), n1)
    m2 = scale(select(valid, length / area2, ZERO), n2)
    # How far along the edge the wing's foot lies, 0 at p1, 1 at p2; it shares the wing's pull between p1 and p2.
    inverse = select(valid, ONE / squared, ZERO)
    foot3, foot4 = dot(wing3, edge) * inverse, dot(wing4, edge) * inverse
    g1 = add(scale(foot3 - ONE, m1), scale(foot4 - ONE, m2))
    g2 = add(scale(-foot3, m1), scale(-foot4, m2))
    angle = atan2(dot(cross(n2, n1), edge), length * dot(n1, n2))
    return select(valid, angle - rest, ZERO), (g1, g2, m1, m2), ONE

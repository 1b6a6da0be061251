"""Signed volume of a tetrahedron."""

import numpy as np

from ..kernels.vec3 import add, cross, dot, scale, sub

ARITY = 4
UNIT = "m^3"
SIX, MINUS = np.float32(6), np.float32(-1)


def value_gradient(corners, rest):
    """Signed volume minus rest volume [m^3] and its gradient, both times six. Flat needs no special case.

    C = (p21 x p31) . p41 / 6 - rest, with pij = pi - pj
    (The labels of the gradients in Fratarcangeli and Pellacini 2015, eq. 8-10, are permuted.)
    """
    p21, p31, p41 = sub(corners[1], corners[0]), sub(corners[2], corners[0]), sub(corners[3], corners[0])
    g2, g3, g4 = cross(p31, p41), cross(p41, p21), cross(p21, p31)
    g1 = scale(MINUS, add(add(g2, g3), g4))
    return dot(g4, p41) - SIX * rest, (g1, g2, g3, g4), SIX

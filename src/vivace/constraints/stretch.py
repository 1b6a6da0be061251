"""Distance between two particles."""

import numpy as np

from ..kernels.lanes import select, value_function
from ..kernels.vec3 import norm, scale, sub

ARITY = 2
ROWS = 1
UNIT = "m"
ZERO, ONE, MINUS = np.float32(0), np.float32(1), np.float32(-1)


def value_gradient(corners, rest):
    """Signed stretch of an edge [m] and its gradient, both times the edge's length.

    C = |p1 - p2| - rest, gradient (p1 - p2) / |p1 - p2|        Müller et al. 2007, section 3.3
    The factor spares the division by the length, and an edge of no length gets no gradient and stays put.
    """
    edge = sub(corners[0], corners[1])
    length = norm(edge)
    return length * (length - rest), (edge, scale(MINUS, edge)), length


@value_function
def coefficients(rest):
    """The edge, p1 - p2."""
    return ((ONE, MINUS),)


@value_function
def nearest(projected, rest):
    """The edge at its rest length, in its present direction: the spring of Liu et al. 2013."""
    length = norm(projected[0])
    return (scale(rest / select(length > ZERO, length, ONE), projected[0]),)

"""Distance between two particles."""

import numpy as np

from ..kernels.vec3 import norm, scale, sub

ARITY = 2
UNIT = "m"
MINUS = np.float32(-1)


def value_gradient(corners, rest):
    """Signed stretch of an edge [m] and its gradient, both times the edge's length.

    C = |p1 - p2| - rest, gradient (p1 - p2) / |p1 - p2|        Müller et al. 2007, section 3.3
    The factor spares the division by the length, and an edge of no length gets no gradient and stays put.
    """
    edge = sub(corners[0], corners[1])
    length = norm(edge)
    return length * (length - rest), (edge, scale(MINUS, edge)), length

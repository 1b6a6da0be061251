"""A particle tied to a point in space."""

import numpy as np

from ..kernels.lanes import value_function
from ..kernels.nearest import distance_gradient_one, less_one_row

ARITY = 1
ROWS = 1
REST_VALUES = 3  # the point
UNIT = "m"
ANCHORED = True
ONE = np.float32(1)


@value_function
def coefficients(rest):
    return ((ONE,),)


@value_function
def nearest(projected, rest):
    """The point itself."""
    return ((rest[0], rest[1], rest[2]),)


def value_gradient(corners, rest):
    """Distance to the point [m] and its gradient, both times that distance: at the point there is no direction."""
    return distance_gradient_one(coefficients(rest), less_one_row((corners[0],), ((rest[0], rest[1], rest[2]),)))


def rest_shape(points: np.ndarray) -> np.ndarray:
    """Where the particles are at rest, (m, 3)."""
    return points[:, 0]

"""Ball."""

from dataclasses import dataclass

import numpy as np

from .. import checks
from ..kernels.lanes import select
from ..kernels.vec3 import norm, sub
from .shape import Shape

ZERO, ONE = np.float32(0), np.float32(1)


def distance_normal(point, parameters):
    """d = |p - c| - r; parameters: c (3), r. At the center, which has no direction, the way out is up."""
    x, y, z = sub(point, parameters)
    length = norm((x, y, z))
    away = length > ZERO
    inverse = ONE / select(away, length, ONE)
    return length - parameters[3], (x * inverse, select(away, y * inverse, ONE), z * inverse)


@dataclass(frozen=True)
class Sphere(Shape):
    """A solid ball, radius in meters."""

    radius: float
    center: tuple[float, float, float] = (0.0, 0.0, 0.0)
    distance_normal = staticmethod(distance_normal)

    def __post_init__(self) -> None:
        checks.number("Sphere radius", self.radius, 0, open_below=True)
        checks.vector("Sphere center", self.center)

    @property
    def thinnest(self) -> float:
        return 2 * self.radius

    def parameters(self) -> tuple[float, ...]:
        return (*self.center, self.radius)


COLLIDERS = {"Sphere": Sphere}

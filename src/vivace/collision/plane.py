"""Half-space: everything behind a plane is solid. The floor."""

import math
from dataclasses import dataclass

import numpy as np

from .. import checks
from ..errors import InputError
from ..kernels.vec3 import dot
from .shape import Shape


def distance_normal(point, parameters):
    """d = n . p - offset; parameters: n (3), offset."""
    normal = parameters[0], parameters[1], parameters[2]
    return dot(point, normal) - parameters[3], normal


@dataclass(frozen=True)
class Plane(Shape):
    """Solid below the plane through `point` with the outward `normal`."""

    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    normal: tuple[float, float, float] = (0.0, 1.0, 0.0)
    distance_normal = staticmethod(distance_normal)

    def __post_init__(self) -> None:
        checks.vector("Plane point", self.point)
        if not np.linalg.norm(checks.vector("Plane normal", self.normal)):
            raise InputError("Plane normal has zero length, so it has no direction")

    @property
    def thinnest(self) -> float:
        """Infinite: behind a plane there is no other side."""
        return math.inf

    def parameters(self) -> tuple[float, ...]:
        normal = np.array(self.normal) / np.linalg.norm(self.normal)
        return (*normal, float(normal @ np.array(self.point)))


COLLIDERS = {"Plane": Plane}

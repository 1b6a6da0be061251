"""Ring."""

from dataclasses import dataclass

import numpy as np

from .. import checks
from ..errors import InputError
from ..kernels.lanes import select, sqrt
from ..kernels.vec3 import dot, norm, scale, sub
from .shape import Shape, aside

ZERO, ONE = np.float32(0), np.float32(1)


def distance_normal(point, parameters):
    """Distance to the circle in the middle of the tube, minus the tube's radius.

    Parameters: center (3), axis (3), radius, thickness, a direction across the axis (3).
    On the axis the way to the circle is along that direction; on the circle itself the way out is along the axis.
    """
    axis = parameters[3], parameters[4], parameters[5]
    way = sub(point, parameters)
    along = dot(way, axis)
    x, y, z = sub(way, scale(along, axis))
    ring = norm((x, y, z))
    away = ring > ZERO
    inverse = ONE / select(away, ring, ONE)
    x, y, z = (
        select(away, x * inverse, parameters[8]),
        select(away, y * inverse, parameters[9]),
        select(away, z * inverse, parameters[10]),
    )
    across = ring - parameters[6]
    length = sqrt(across * across + along * along)
    inverse = ONE / select(length > ZERO, length, ONE)
    by_ring, by_axis = across * inverse, select(length > ZERO, along * inverse, ONE)
    return length - parameters[7], (
        by_ring * x + by_axis * axis[0],
        by_ring * y + by_axis * axis[1],
        by_ring * z + by_axis * axis[2],
    )


@dataclass(frozen=True)
class Torus(Shape):
    """A solid ring around `axis`; `radius` [m] runs to the middle of the tube, `thickness` [m] is the tube's radius."""

    radius: float
    thickness: float
    center: tuple[float, float, float] = (0.0, 0.0, 0.0)
    axis: tuple[float, float, float] = (0.0, 1.0, 0.0)
    distance_normal = staticmethod(distance_normal)

    def __post_init__(self) -> None:
        checks.number("Torus radius", self.radius, 0, open_below=True)
        if checks.number("Torus thickness", self.thickness, 0, open_below=True) > self.radius:
            raise InputError(f"Torus thickness is {self.thickness!r}; with a radius of {self.radius!r} it has no hole")
        checks.vector("Torus center", self.center)
        if not np.linalg.norm(checks.vector("Torus axis", self.axis)):
            raise InputError("Torus axis has zero length, so it has no direction")

    @property
    def thinnest(self) -> float:
        return 2 * self.thickness

    def parameters(self) -> tuple[float, ...]:
        axis = np.array(self.axis) / np.linalg.norm(self.axis)
        return (*self.center, *axis, self.radius, self.thickness, *aside(axis))


COLLIDERS = {"Torus": Torus}

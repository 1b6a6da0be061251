"""Rod with round ends."""

from dataclasses import dataclass

import numpy as np

from .. import checks
from ..kernels.lanes import maximum, minimum, select
from ..kernels.vec3 import dot, norm, scale, sub
from .shape import Shape, aside

ZERO, ONE = np.float32(0), np.float32(1)


def distance_normal(point, parameters):
    """Distance to the nearest point of the segment, minus the radius.

    Parameters: start (3), way to the end (3), the same over its squared length (3), radius, a direction across (3).
    """
    from_start = sub(point, parameters)
    way, share = (parameters[3], parameters[4], parameters[5]), (parameters[6], parameters[7], parameters[8])
    along = minimum(maximum(dot(from_start, share), ZERO), ONE)
    x, y, z = sub(from_start, scale(along, way))
    length = norm((x, y, z))
    away = length > ZERO
    inverse = ONE / select(away, length, ONE)
    # On the segment every way across it is as near; any one will do.
    return length - parameters[9], (
        select(away, x * inverse, parameters[10]),
        select(away, y * inverse, parameters[11]),
        select(away, z * inverse, parameters[12]),
    )


@dataclass(frozen=True)
class Capsule(Shape):
    """All within `radius` [m] of the segment from `start` to `end`."""

    start: tuple[float, float, float]
    end: tuple[float, float, float]
    radius: float
    distance_normal = staticmethod(distance_normal)

    def __post_init__(self) -> None:
        checks.vector("Capsule start", self.start)
        checks.vector("Capsule end", self.end)
        checks.number("Capsule radius", self.radius, 0, open_below=True)

    @property
    def thinnest(self) -> float:
        return 2 * self.radius

    def parameters(self) -> tuple[float, ...]:
        way = np.subtract(self.end, self.start, dtype=float)
        share = way / (way @ way) if way.any() else way
        return (*self.start, *way, *share, self.radius, *aside(way))


COLLIDERS = {"Capsule": Capsule}

"""Tube: a solid cylinder, endless or with flat ends."""

import math
from dataclasses import dataclass

import numpy as np

from .. import checks
from ..errors import InputError
from ..kernels.lanes import absolute, maximum, minimum, select, sqrt
from ..kernels.vec3 import dot, norm, scale, sub
from .shape import Shape, aside

ZERO, ONE = np.float32(0), np.float32(1)


def distance_normal(point, parameters):
    """Distance in the plane of radius and axis, where the cylinder is a box.

    Parameters: center (3), axis (3), radius, half length, a direction across the axis (3).
    Near an edge both parts count; elsewhere the side or the end, whichever is nearer to the outside.
    """
    axis = parameters[3], parameters[4], parameters[5]
    way = sub(point, parameters)
    along = dot(way, axis)
    x, y, z = sub(way, scale(along, axis))
    radial = norm((x, y, z))
    side, end = radial - parameters[6], absolute(along) - parameters[7]
    outer_side, outer_end = maximum(side, ZERO), maximum(end, ZERO)
    corner = sqrt(outer_side * outer_side + outer_end * outer_end)
    distance = minimum(maximum(side, end), ZERO) + corner
    at_corner = (side > ZERO) & (end > ZERO)
    inverse_corner = ONE / select(at_corner, corner, ONE)
    by_side = select(at_corner, outer_side * inverse_corner, select(side > end, ONE, ZERO))
    by_end = select(at_corner, outer_end * inverse_corner, select(side > end, ZERO, ONE))
    by_side = by_side / select(radial > ZERO, radial, ONE)
    by_end = select(along < ZERO, -by_end, by_end)
    # On the axis every way out is as near; any one will do.
    away = radial > ZERO
    x, y, z = select(away, x, parameters[8]), select(away, y, parameters[9]), select(away, z, parameters[10])
    return distance, (by_side * x + by_end * axis[0], by_side * y + by_end * axis[1], by_side * z + by_end * axis[2])


@dataclass(frozen=True)
class Cylinder(Shape):
    """A solid cylinder around `axis` through `center`; `length` [m] is endless by default."""

    radius: float
    center: tuple[float, float, float] = (0.0, 0.0, 0.0)
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    length: float = math.inf
    distance_normal = staticmethod(distance_normal)

    def __post_init__(self) -> None:
        checks.number("Cylinder radius", self.radius, 0, open_below=True)
        checks.vector("Cylinder center", self.center)
        if self.length != math.inf:
            checks.number("Cylinder length", self.length, 0, open_below=True)
        if not np.linalg.norm(checks.vector("Cylinder axis", self.axis)):
            raise InputError("Cylinder axis has zero length, so it has no direction")

    @property
    def thinnest(self) -> float:
        return min(2 * self.radius, self.length)

    def parameters(self) -> tuple[float, ...]:
        axis = np.array(self.axis) / np.linalg.norm(self.axis)
        return (*self.center, *axis, self.radius, self.length / 2, *aside(axis))

    def shape(self, reach: float) -> tuple[np.ndarray, np.ndarray]:
        """Vertices and triangles to draw: the tube, at most 2 * `reach` [m] long, and its two ends."""
        axis = np.array(self.parameters()[3:6])
        side = np.array(self.parameters()[8:])
        count, half = 96, min(self.length / 2, reach)
        angle = np.arange(count) * 2 * np.pi / count
        ring = self.radius * (np.cos(angle)[:, None] * side + np.sin(angle)[:, None] * np.cross(axis, side))
        # Rings are doubled, so that the edge between side and end stays sharp.
        vertices = np.concatenate(
            [ring - half * axis, ring + half * axis] * 2 + [[-half * axis, half * axis]]
        ) + np.array(self.center)
        i, j, middle = np.arange(count), (np.arange(count) + 1) % count, 4 * count + np.zeros(count, int)
        triangles = [
            (i, j, j + count),
            (i, j + count, i + count),
            (j + 2 * count, i + 2 * count, middle),
            (i + 3 * count, j + 3 * count, middle + 1),
        ]
        return vertices, np.concatenate([np.stack(corners, axis=1) for corners in triangles])


COLLIDERS = {"Cylinder": Cylinder}

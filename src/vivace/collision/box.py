"""Box, with sharp or rounded edges."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import checks
from ..errors import InputError
from ..kernels.lanes import absolute, maximum, minimum, select, sqrt
from ..kernels.vec3 import sub
from .shape import Shape

ZERO, ONE = np.float32(0), np.float32(1)


def distance_normal(point, parameters):
    """Distance to a box that is smaller by the rounding, minus the rounding; parameters: center (3), its half size (3),
    rounding. Outside, all sides that the point is beyond count; inside, the nearest one.
    """
    x, y, z = sub(point, parameters)
    side_x, side_y, side_z = absolute(x) - parameters[3], absolute(y) - parameters[4], absolute(z) - parameters[5]
    out_x, out_y, out_z = maximum(side_x, ZERO), maximum(side_y, ZERO), maximum(side_z, ZERO)
    outside = sqrt(out_x * out_x + out_y * out_y + out_z * out_z)
    side = maximum(maximum(side_x, side_y), side_z)
    distance = minimum(side, ZERO) + outside - parameters[6]
    is_out = outside > ZERO
    inverse = ONE / select(is_out, outside, ONE)
    nearest_x = select((side_x >= side_y) & (side_x >= side_z), ONE, ZERO)
    nearest_y = select((side_y >= side_z) & (nearest_x < ONE), ONE, ZERO)
    nearest_z = ONE - nearest_x - nearest_y
    normal_x = select(is_out, out_x * inverse, nearest_x)
    normal_y = select(is_out, out_y * inverse, nearest_y)
    normal_z = select(is_out, out_z * inverse, nearest_z)
    return distance, (
        select(x < ZERO, -normal_x, normal_x),
        select(y < ZERO, -normal_y, normal_y),
        select(z < ZERO, -normal_z, normal_z),
    )


@dataclass(frozen=True)
class Box(Shape):
    """A solid box of `size` [m] around `center`; `rounding` [m] is the radius of its edges, and adds nothing."""

    size: tuple[float, float, float]
    center: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rounding: float = 0.0
    distance_normal = staticmethod(distance_normal)

    def __post_init__(self) -> None:
        smallest = min(checks.vector("Box size", self.size))
        if smallest <= 0:
            raise InputError(f"Box size is {self.size!r}; each side must be above 0")
        checks.vector("Box center", self.center)
        if checks.number("Box rounding", self.rounding, 0) > smallest / 2:
            raise InputError(f"Box rounding is {self.rounding!r}; its thinnest side has room for {smallest / 2:g}")

    def rounded(self, radius: float) -> "Box":
        """The same box with its edges rounded."""
        return replace(self, rounding=radius)

    @property
    def thinnest(self) -> float:
        return float(min(self.size))

    def parameters(self) -> tuple[float, ...]:
        return (*self.center, *(side / 2 - self.rounding for side in self.size), self.rounding)

    def shape(self, reach: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Vertices and triangles to draw, each side with corners of its own; none where edges are rounded."""
        if self.rounding:
            return None
        half: Any = np.array(self.size) / 2
        square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
        sides = []
        for axis in range(3):
            for sign in (-1, 1):
                corners = np.full((4, 3), float(sign))
                # Counterclockwise, seen from outside.
                corners[:, [(axis + 1) % 3, (axis + 2) % 3]] = square[::sign]
                sides.append(corners * half + self.center)
        first = 4 * np.arange(6)[:, None]
        return np.concatenate(sides), np.concatenate([first + [0, 1, 2], first + [0, 2, 3]])


COLLIDERS = {"Box": Box}

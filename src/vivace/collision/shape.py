"""What shapes have in common: they can be joined, cut and moved, and the results are shapes again.

A joined shape's `distance_normal` is a closure over those of its parts, and its parameters are theirs, one after the
other. Makers are cached, so that shapes of equal structure share one function, and hence one compiled kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from .. import checks
from ..errors import InputError
from ..kernels.lanes import select, value_function
from ..kernels.pose import POSE, to_local, turned
from .motion import flat, rotation_matrix

Distance = Callable[[Any, Any], Any]
THIN = 1e-3  # [m] of a collider that does not say how thin it is


class Shape:
    """Gives a collider `a | b`, `a & b`, `a - b` and `a.moved(...)`."""

    @property
    def thinnest(self) -> float:
        """[m] through the thinnest part. What goes less than half of it can never be pushed out on the wrong side.

        Infinite where there is no other side; where it is not known, a millimeter.
        """
        return THIN

    def __or__(self, other: Any) -> "Union":
        return Union(self, other)

    def __and__(self, other: Any) -> "Intersection":
        return Intersection(self, other)

    def __sub__(self, other: Any) -> "Difference":
        return Difference(self, other)

    def moved(self, translation: Any = (0.0, 0.0, 0.0), rotation: Any = None) -> Any:
        """The shape turned about the origin by a 3x3 `rotation`, then moved by `translation` [m]."""
        return Moved(self, translation, np.eye(3) if rotation is None else rotation)


def is_collider(thing: Any) -> bool:
    """Whether it has what a collider needs: parameters() and distance_normal()."""
    functions = (getattr(thing, "distance_normal", None), getattr(thing, "parameters", None))
    return not isinstance(thing, type) and all(callable(function) for function in functions)


def aside(direction: np.ndarray) -> np.ndarray:
    """Some unit vector across a direction."""
    across = np.cross(direction, np.eye(3)[np.argmin(np.abs(direction))])
    length = np.linalg.norm(across)
    return across / length if length else np.array([0.0, 1.0, 0.0])


@dataclass(frozen=True)
class Joined(Shape):
    """Two shapes made into one."""

    first: Any
    second: Any
    SIGN: ClassVar[str]
    MAKER: ClassVar[Callable[[Distance, Distance, int], Distance]]

    def __post_init__(self) -> None:
        for part in (self.first, self.second):
            if not is_collider(part):
                raise InputError(f"{self.SIGN} joins colliders; {part!r} is none")
            if hasattr(part, "tables"):
                raise InputError(
                    f"a {type(part).__name__} cannot be joined by {self.SIGN}: its distance is in a grid of its own; "
                    "add it as a collider by itself"
                )

    @property
    def distance_normal(self) -> Distance:
        parts = self.first.distance_normal, self.second.distance_normal
        return type(self).MAKER(*parts, len(self.first.parameters()))

    def parameters(self) -> tuple[float, ...]:
        return (*self.first.parameters(), *self.second.parameters())


@cache
def union_of(first: Distance, second: Distance, split: int) -> Distance:
    first, second = value_function(first), value_function(second)

    def nearer(point, parameters):
        """The part that is nearer: d = min(d1, d2)."""
        d1, (x1, y1, z1) = first(point, parameters[:split])
        d2, (x2, y2, z2) = second(point, parameters[split:])
        chosen = d1 < d2
        return select(chosen, d1, d2), (select(chosen, x1, x2), select(chosen, y1, y2), select(chosen, z1, z2))

    return value_function(nearer)


@cache
def intersection_of(first: Distance, second: Distance, split: int) -> Distance:
    first, second = value_function(first), value_function(second)

    def farther(point, parameters):
        """The part that is farther: d = max(d1, d2)."""
        d1, (x1, y1, z1) = first(point, parameters[:split])
        d2, (x2, y2, z2) = second(point, parameters[split:])
        chosen = d1 > d2
        return select(chosen, d1, d2), (select(chosen, x1, x2), select(chosen, y1, y2), select(chosen, z1, z2))

    return value_function(farther)


@cache
def difference_of(first: Distance, second: Distance, split: int) -> Distance:
    first, second = value_function(first), value_function(second)

    def left_over(point, parameters):
        """The first, where it is not in the second: d = max(d1, -d2)."""
        d1, (x1, y1, z1) = first(point, parameters[:split])
        d2, (x2, y2, z2) = second(point, parameters[split:])
        chosen = d1 > -d2
        return select(chosen, d1, -d2), (select(chosen, x1, -x2), select(chosen, y1, -y2), select(chosen, z1, -z2))

    return value_function(left_over)


@cache
def moved_by_pose(part: Distance) -> Distance:
    part = value_function(part)

    def in_its_place(point, parameters):
        """The part's distance where the point is in the part's own space; parameters: pose (12), the part's."""
        distance, normal = part(to_local(point, parameters), parameters[POSE:])
        return distance, turned(normal, parameters)

    return value_function(in_its_place)


class Union(Joined):
    """What is in one of two shapes. Exact outside; inside, where they overlap, the distance is at most that."""

    SIGN, MAKER = "|", staticmethod(union_of)

    @property
    def thinnest(self) -> float:
        return min(getattr(part, "thinnest", THIN) for part in (self.first, self.second))


class Intersection(Joined):
    """What is in both of two shapes. Exact inside; outside the distance is at least this."""

    SIGN, MAKER = "&", staticmethod(intersection_of)


class Difference(Joined):
    """The first shape without the second. Exact inside; outside the distance is at least this."""

    SIGN, MAKER = "-", staticmethod(difference_of)


class Placed(Shape):
    """A shape whose parameters begin with its pose, so that it can be moved while a simulation runs."""

    pose: np.ndarray  # (3, 4): rotation, translation [m]
    distance_normal: Any
    parameters: Callable[[], Any]


@dataclass(frozen=True)
class Moved(Placed):
    """A shape turned, then moved."""

    part: Any
    translation: Any  # [m]
    rotation: Any  # 3x3

    def __post_init__(self) -> None:
        object.__setattr__(self, "translation", checks.vector("translation", self.translation))
        object.__setattr__(self, "rotation", rotation_matrix("rotation", self.rotation))

    @property
    def distance_normal(self) -> Distance:
        return moved_by_pose(self.part.distance_normal)

    @property
    def thinnest(self) -> float:
        return getattr(self.part, "thinnest", THIN)

    @property
    def pose(self) -> np.ndarray:  # type: ignore[override]
        return np.column_stack([self.rotation, self.translation])

    def parameters(self) -> tuple[float, ...]:
        return (*flat(self.pose), *self.part.parameters())

    def shape(self, reach: float) -> tuple[np.ndarray, np.ndarray] | None:
        """The part's own, where it has one."""
        made = self.part.shape(reach) if hasattr(self.part, "shape") else None
        return made and (made[0] @ self.pose[:, :3].T + self.pose[:, 3], made[1])


def placed(collider: Any) -> Placed:
    """The collider itself, or one with a pose around it."""
    return collider if isinstance(collider, Placed) else Moved(collider, (0.0, 0.0, 0.0), np.eye(3))


COLLIDERS = {"Union": Union, "Intersection": Intersection, "Difference": Difference, "Moved": Moved}

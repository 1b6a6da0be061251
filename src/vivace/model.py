"""What a scene becomes: particles, groups of constraints, colliders. Frozen; solvers read it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

Constraint = ModuleType | Any  # anything with ARITY and value_gradient


@dataclass(frozen=True, eq=False)
class ConstraintGroup:
    """All constraints of one kind."""

    name: str
    constraint: Constraint
    vertices: np.ndarray  # (m, arity) int32
    rest: np.ndarray  # (m,) or (m, REST_VALUES) float32, in the units of the constraint
    stiffness_ratio: np.ndarray  # (m,) float32 in 0..1; depends on iterations and dt
    compliance: np.ndarray | None = None  # (m,) float32 [m/N for lengths]; None where there is a ratio instead
    damping: np.ndarray | None = None  # (m,) float32 [N s/m for lengths], against its own change; None: none

    def __len__(self) -> int:
        return len(self.vertices)


@dataclass(frozen=True, eq=False)
class Surface:
    """A collider with what touching it is like."""

    collider: Any
    friction: float  # Coulomb's coefficient
    margin: float  # [m] particles are kept this far from it
    motion: Callable[[float], Any] | None = None  # time [s] -> pose: a translation (3), or a rigid 3x4 or 4x4 matrix


@dataclass(frozen=True)
class Air:
    """What holds bodies back, or blows them away."""

    drag: float  # [kg / (m^2 s)] of surfaces: the force on an area is drag * area * (wind - velocity)
    wind: tuple[float, float, float]  # [m/s]


@dataclass(frozen=True)
class Touching:
    """How soft things keep apart."""

    thickness: float  # [m]
    friction: float  # Coulomb's coefficient
    by_particles: bool = False  # particles against each other, instead of surfaces
    passes: int = 1  # how often in each iteration contacts are pushed apart


@dataclass(frozen=True, eq=False)
class Model:
    """Particles in the user's order."""

    positions: np.ndarray  # (n, 3) float32 [m], where they start
    velocities: np.ndarray  # (n, 3) float32 [m/s]
    inverse_masses: np.ndarray  # (n,) float32 [1/kg]; 0 is pinned
    groups: tuple[ConstraintGroup, ...]
    surfaces: tuple[Surface, ...]
    gravity: tuple[float, float, float]  # [m/s^2]
    triangles: np.ndarray  # (t, 3) int32, to look at
    bodies: tuple[tuple[str, slice], ...]  # names and particles
    rest: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.float32))  # (n, 3) float32 [m] without forces
    touching: Touching | None = None  # None: soft things pass through each other
    air: Air | None = None  # None: bodies move as in a vacuum

    @property
    def particle_count(self) -> int:
        return len(self.positions)

    @property
    def drag(self) -> np.ndarray:
        """Of each particle [kg/s]: that of a third of the area of each of its triangles."""
        if self.air is None:
            return np.zeros(self.particle_count)
        a, b, c = (self.rest[self.triangles[:, i]].astype(np.float64) for i in range(3))
        areas = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
        shares = np.repeat(areas / 3, 3)
        return self.air.drag * np.bincount(self.triangles.ravel(), weights=shares, minlength=self.particle_count)


def measure(constraint: Constraint, points: np.ndarray, rest: Any = 0.0) -> np.ndarray:
    """C of each constraint in float64; with rest 0 that is what it measures: a length, an angle, a volume.

    `points` is (m, arity, 3).
    """
    corners = tuple(tuple(points[:, corner].T.astype(np.float64)) for corner in range(points.shape[1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        value, _, factor = constraint.value_gradient(corners, rest)
        result = np.where(np.asarray(factor) > 0, value / np.asarray(factor, np.float64), 0.0)
    return np.broadcast_to(result, (len(points),)).astype(np.float64)

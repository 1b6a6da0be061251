"""The slow backend: NumPy, batch by batch, obviously right. What the fast ones are checked against."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial

import numpy as np

from ..collision.surface import Ways
from ..holds import Hold
from ..kernels.apart import correction
from ..kernels.integrate import flight_velocity
from ..kernels.project import compliant_projection, projection
from ..model import measure
from ..plan import Plan
from ..state import State
from . import Outcome, Residual
from .reference_apart import ReferenceApart
from .reference_colliders import ReferenceColliders
from .reference_contacts import ReferenceContacts
from .reference_holds import ReferenceHolds
from .reference_implicit import ReferenceImplicit
from .reference_system import ReferenceSystem
from .reference_touches import ReferenceTouches
from .reference_visits import ReferenceVisits

Sweep = Callable[[], None]


class ReferenceSweeps:
    """Each sweep is a function without arguments."""

    def __init__(self, plan: Plan, state: State, threads: int = 1):
        self.plan, self.state = plan, state
        self.predicted = state.positions.copy()
        self.kept = state.positions.copy(), state.velocities.copy()
        self.multipliers = [np.zeros(len(planned.vertices), np.float32) for planned in plan.groups]
        self.step, self.keep, self.impulse = np.float32(1), np.float32(1), np.zeros(4, np.float32)
        self._forces: tuple[float, tuple[float, float, float]] = 0.0, (0.0, 0.0, 0.0)

    def predict(self) -> None:
        x, v = self.state.positions, self.state.velocities
        self.predicted[:] = x + self.step * self._flight(x, v)

    def update_velocities(self) -> None:
        x, v = self.state.positions, self.state.velocities
        flight = self._flight(x, v)
        v[:] = flight + (self.predicted - (x + self.step * flight)) / self.step
        x[:] = self.predicted

    def project(self, group: int, batch: int) -> Sweep:
        return partial(self._project, group, self._members(group, batch))

    def project_in_order(self, group: int) -> Sweep:
        def one_by_one() -> None:
            for i in range(len(self.plan.groups[group].vertices)):
                self._project(group, np.array([i]))

        return one_by_one

    def project_compliant(self, group: int, batch: int) -> Sweep:
        return partial(self._project, group, self._members(group, batch), compliant=True)

    def _members(self, group: int, batch: int) -> np.ndarray:
        return np.arange(*self.plan.groups[group].partition.offsets[batch : batch + 2])

    def forget_multipliers(self, group: int) -> Sweep:
        return partial(self.multipliers[group].fill, 0)

    @cached_property
    def apart(self) -> ReferenceApart:
        return ReferenceApart(self)

    @cached_property
    def holds(self) -> ReferenceHolds:
        return ReferenceHolds(self)

    @cached_property
    def contacts(self) -> ReferenceContacts:
        return ReferenceContacts(self)

    @cached_property
    def touches(self) -> ReferenceTouches:
        return ReferenceTouches(self)

    @cached_property
    def system(self) -> ReferenceSystem:
        return ReferenceSystem(self)

    @cached_property
    def implicit(self) -> ReferenceImplicit:
        return ReferenceImplicit(self)

    @cached_property
    def visits(self) -> ReferenceVisits:
        return ReferenceVisits(self)

    @cached_property
    def colliders(self) -> ReferenceColliders:
        return ReferenceColliders(self)

    @property
    def carried(self) -> list[np.ndarray]:
        """What goes along with a particle that a collider pushes."""
        return [self.system.aims, *self.system.earlier] if self.plan.system is not None else [self.visits.aims]

    def collide(self, surface: int, carry_aims: bool = False) -> Sweep:
        return self.colliders.collide(surface, carry_aims)

    def advance_colliders(self) -> list[Sweep]:
        return self.colliders.advance()

    def stop_at_colliders(self) -> list[Sweep]:
        return self.colliders.stop()

    def begin_frame(self, ways: Ways, holds: Sequence[Hold], duration: float) -> None:
        self.colliders.surfaces.send(ways, duration)
        self.holds.points.begin(holds, self.plan, duration)
        if self.plan.model.touching is not None:
            self.contacts.outlook.begin(duration)

    def prepare(self, schedule: Iterable[Sweep | None]) -> list[Sweep]:
        return [sweep for sweep in schedule if sweep is not None]

    def run(self, prepared: list[Sweep], step: float, damping: float, gravity: tuple[float, float, float]) -> Outcome:
        self.begin(step, damping, gravity)
        self.advance(prepared)
        return self.finish()

    def begin(self, step: float, damping: float, gravity: tuple[float, float, float]) -> None:
        self._start, self._forces = time.perf_counter(), (damping, gravity)
        self.kept[0][:], self.kept[1][:] = self.state.positions, self.state.velocities
        self.set_step(step)

    def set_step(self, step: float) -> None:
        damping, gravity = self._forces
        self.step, self.keep = np.float32(step), np.float32(np.exp(-damping * step))
        self.impulse = np.array([*gravity, 0], np.float32) * self.step
        self.colliders.surfaces.set_step(step)
        self.holds.points.set_step(step)

    def advance(self, tokens: Iterable[Sweep | None]) -> None:
        with np.errstate(all="ignore"):
            for sweep in tokens:
                if sweep is not None:
                    sweep()

    def finish(self) -> Outcome:
        with np.errstate(all="ignore"):
            residual = {planned.group.name: self._residual(group) for group, planned in enumerate(self.plan.groups)}
        finite = bool(np.isfinite(self.state.positions).all() and np.isfinite(self.state.velocities).all())
        solve = self.implicit.solve if self.plan.net is not None else None
        milliseconds = {"all": (time.perf_counter() - self._start) * 1e3}
        return Outcome(finite, residual, milliseconds, threads=1, solve=solve)

    def take_back(self) -> None:
        """Return to the state before the last run."""
        self.state.put_back(*self.kept)

    def _flight(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return flight_velocity(v, x[:, 3:], self.keep, self.impulse)

    def _project(self, group: int, members: np.ndarray, compliant: bool = False) -> None:
        """Constraints that share no particle, all at once."""
        vertices = self.plan.groups[group].vertices[members]
        for corner, move in enumerate(self.moves(group, members, compliant)):
            self.predicted[vertices[:, corner], :3] += move

    def moves(
        self,
        group: int,
        members: np.ndarray,
        compliant: bool,
        shares: np.ndarray | float = 1.0,
        relaxation: float = 1.0,
    ) -> list[np.ndarray]:
        """How far the projection of some constraints moves each of their corners, (members, 3).

        `shares` (members, arity) multiply inverse masses; multipliers grow by `relaxation` times their change.
        """
        planned = self.plan.groups[group]
        points = self.predicted[planned.vertices[members]]
        points[..., 3] *= shares
        corners = tuple(tuple(points[:, c].T) for c in range(points.shape[1]))
        rest = planned.rest[members]
        value, gradients, factor = planned.group.constraint.value_gradient(
            corners, rest if rest.ndim == 1 else tuple(rest.T)
        )
        if compliant:
            assert planned.compliance is not None
            softness, multiplier = planned.compliance[members] / self.step**2, self.multipliers[group][members]
            change = compliant_projection(value, gradients, factor, corners, softness, multiplier)
            self.multipliers[group][members] = multiplier + np.float32(relaxation) * factor * change
        else:
            change = projection(value, gradients, corners, planned.stiffness_ratio[members])
        return [
            np.stack(correction(corner, gradient, change)[:3], axis=1) for corner, gradient in zip(corners, gradients)
        ]

    def _residual(self, group: int) -> Residual:
        planned = self.plan.groups[group]
        rest = planned.rest.astype(np.float64)
        c = measure(
            planned.group.constraint,
            self.state.positions[planned.vertices][..., :3],
            rest if rest.ndim == 1 else tuple(rest.T),
        )
        return Residual(float(np.sqrt(np.mean(c * c))), float(np.abs(c).max()))


BACKENDS = {"reference": ReferenceSweeps}

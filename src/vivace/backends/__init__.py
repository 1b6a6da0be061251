"""Backends: the same named sweeps on different machinery. `reference` is slow and plain; `cpu` is fast.

A solver writes its algorithm as a schedule of sweeps (`predict`, `project`, `project_in_order`,
`project_compliant`, `forget_multipliers`, `collide`, `update_velocities`); a backend runs the schedule,
as a whole (`run`) or in pieces (`begin`, `advance`, `finish`). None in a schedule is no sweep: there the clock may be
looked at.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..checks import choice
from ..collision.surface import Ways
from ..coloring import Coloring
from ..contacts import Found
from ..holds import Hold
from ..kernels.region import core_count
from ..plan import Plan
from ..registry import declared
from ..state import State


@dataclass(frozen=True)
class Residual:
    """How far a group's constraints are from being met, in the constraint's unit."""

    rms: float
    largest: float


@dataclass(frozen=True)
class Touches:
    """Contacts between soft things, as they were found last."""

    contacts: int
    colors: int  # of the contacts, or of the particles where these are visited
    overflow: int  # contacts that found no color, and were averaged; visited particles: projected after the visits
    times_grown: int  # how often there were more than ever before, and room had to be made


@dataclass(frozen=True)
class Solve:
    """How far a linear system was solved, in the last substep."""

    iterations: int
    residual: float  # relative to the first


@dataclass(frozen=True)
class Outcome:
    """What a run through a schedule left behind."""

    finite: bool
    residual: dict[str, Residual]
    milliseconds: dict[str, float]
    threads: int
    touches: Touches | None = None  # None where nothing may touch
    solve: Solve | None = None  # None where no linear system is solved step by step
    ranks: int = 1


class SystemSweeps(Protocol):
    """Sweeps of Projective Dynamics, on a plan with a system."""

    coloring: Coloring  # of the particles
    aim: Any  # remember the prediction s: what inertia pulls to

    def color_by(self, coloring: Coloring) -> None: ...  # visit particles in this order from now on

    def order_by(self, colors: np.ndarray, count: int) -> None: ...  # the same, until contacts are found again

    def project(self, group: int) -> Any: ...  # local step: nearest rest shapes, as pulls on the particles

    def relax(self, color: int, omega: float = 1.0) -> Any: ...  # move each particle to where its forces balance

    def relax_apart(self) -> Any: ...  # the same for all at once, into other memory

    def blend(self, omega: float, gamma: float) -> Any: ...  # take that over, accelerated

    def remember(self) -> Any: ...  # keep the positions as those of turn 0

    def extrapolate(self, turn: int, omega: float) -> Any: ...  # go on, from those two turns ago; turn 1: from 0

    def solve(self) -> Iterable[Any]: ...  # where all forces balance at once


class VisitSweeps(Protocol):
    """Sweeps of PBD and XPBD vertex by vertex, on a plan whose particles are colored."""

    coloring: Coloring
    aim: Any

    def order_by(self, colors: np.ndarray, count: int) -> None: ...  # visit particles in the order of these colors

    def visit(self, group: int, color: int) -> Any: ...  # add up what a group asks of the particles of a color

    def settle(self, color: int, omega: float) -> Any: ...  # move them


class ApartSweeps(Protocol):
    """Sweeps over constraints that share particles (a plan's remainder), and over copies of split particles."""

    def project(self, group: int, relaxation: float = 1.0, splits_mass: bool = True) -> Any: ...  # only corrections

    def average(self, relaxation: float = 1.0) -> Any: ...  # particles take the mean of their corrections

    def merge(self) -> Any: ...  # copies meet at their mean


class ContactSweeps(Protocol):
    """Contacts between soft things, on a plan whose model lets them touch."""

    found: Found  # as they were found last, on rows

    def detect(self) -> None: ...  # find them, if need be: work for the host, which a schedule may contain as it is

    def project(self, carry_aims: bool = False) -> Sequence[Any]: ...  # push them apart, with friction


class HoldSweeps(Protocol):
    """Points that a hand holds; no sweeps while there are none."""

    def hold(self, carry_aims: bool = False) -> Sequence[Any]: ...  # draw each to its place

    def advance(self) -> Sequence[Any]: ...  # places go on by a substep


class ImplicitSweeps(Protocol):
    """The implicit step of springs by conjugate gradients, on a plan with a net."""

    wind: np.ndarray  # (4,) [m/s]

    # The matrix and the right-hand side. by_blocks: divide by each particle's own block, else by its mass.
    def assemble(self, tolerance: float, by_blocks: bool) -> Sequence[Any]: ...

    # Go as far as the last iteration has found, turn to the next direction, and find how far to go along it.
    def iterate(self, by_blocks: bool, first: bool) -> Sequence[Any]: ...

    # Go there; take the change of velocity over, and predict positions. guarded: shorten the step, if it would gain
    # energy out of nothing.
    def accelerate(self, guarded: bool) -> Sequence[Any]: ...

    def offer(self) -> Sequence[Any]: ...  # let colliders and the like push the prediction

    # Positions become the prediction, or what was made of it, and so do velocities.
    def settle(self, pushed: bool) -> Sequence[Any]: ...


class TouchSweeps(Protocol):
    """Contacts met particle by particle, on a plan whose particles are colored and whose model lets them touch."""

    @property
    def slots(self) -> int: ...  # colors that there may be

    def detect(self) -> None: ...  # find contacts, if need be; visit particles in colors that are proper for them too

    def touch(self, color: int) -> Any: ...  # move each particle of a color by its share of each of its contacts


class Sweeps(Protocol):
    """A plan's sweeps on a backend. A sweep is a token: what it is, only the backend knows."""

    plan: Plan
    state: State
    predict: Any
    update_velocities: Any
    step: Any  # [s] length of a substep

    @property
    def apart(self) -> ApartSweeps: ...

    @property
    def contacts(self) -> ContactSweeps: ...

    @property
    def holds(self) -> HoldSweeps: ...

    @property
    def touches(self) -> TouchSweeps: ...

    @property
    def system(self) -> SystemSweeps: ...

    @property
    def visits(self) -> VisitSweeps: ...

    @property
    def implicit(self) -> ImplicitSweeps: ...

    def project(self, group: int, batch: int) -> Any: ...

    def project_in_order(self, group: int) -> Any: ...

    def project_compliant(self, group: int, batch: int) -> Any: ...

    def forget_multipliers(self, group: int) -> Any: ...

    def collide(self, surface: int, carry_aims: bool = False) -> Any: ...

    def advance_colliders(self) -> Sequence[Any]: ...  # after the prediction: those that move go on by a substep

    def stop_at_colliders(self) -> Sequence[Any]: ...  # take back what has gone through one since the substep began

    # Colliders go from pose to pose and held points from place to place, in a frame of so many seconds.
    def begin_frame(self, ways: Ways, holds: Sequence[Hold], duration: float) -> None: ...

    def prepare(self, schedule: Iterable[Any]) -> Any: ...

    def run(self, prepared: Any, step: float, damping: float, gravity: tuple[float, float, float]) -> Outcome: ...

    def begin(self, step: float, damping: float, gravity: tuple[float, float, float]) -> None: ...

    def set_step(self, step: float) -> None: ...

    def advance(self, tokens: Iterable[Any]) -> None: ...

    def finish(self) -> Outcome: ...

    def take_back(self) -> None: ...


def backends() -> dict[str, Callable[[Plan, State, int], Sweeps]]:
    """Every backend by its name: a function (plan, state, threads) -> Sweeps."""
    return declared(__name__, "BACKENDS")


def most_threads(name: str) -> int:
    """How many threads a backend has cores for, in this process."""
    made = backends()[choice("backend", name, backends())]
    return made.most_threads() if hasattr(made, "most_threads") else core_count()


def load(name: str, plan: Plan, state: State, threads: int) -> Sweeps:
    """The sweeps of a plan on the backend of this name."""
    return backends()[choice("backend", name, backends())](plan, state, threads)

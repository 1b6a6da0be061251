"""Backends: the same named sweeps on different machinery. `reference` is slow and plain; `cpu` is fast.

A solver writes its algorithm as a schedule of sweeps (`predict`, `project`, `project_in_order`,
`project_compliant`, `forget_multipliers`, `collide`, `update_velocities`); a backend runs the schedule,
as a whole (`run`) or in pieces (`begin`, `advance`, `finish`). None in a schedule is no sweep: there the clock may be
looked at.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from ..checks import choice
from ..plan import Plan
from ..registry import declared
from ..state import State


@dataclass(frozen=True)
class Residual:
    """How far a group's constraints are from being met, in the constraint's unit."""

    rms: float
    largest: float


@dataclass(frozen=True)
class Outcome:
    """What a run through a schedule left behind."""

    finite: bool
    residual: dict[str, Residual]
    milliseconds: dict[str, float]
    threads: int


class Sweeps(Protocol):
    """A plan's sweeps on a backend. A sweep is a token: what it is, only the backend knows."""

    plan: Plan
    predict: Any
    update_velocities: Any

    def project(self, group: int, batch: int) -> Any: ...

    def project_in_order(self, group: int) -> Any: ...

    def project_compliant(self, group: int, batch: int) -> Any: ...

    def forget_multipliers(self, group: int) -> Any: ...

    def collide(self, surface: int) -> Any: ...

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


def load(name: str, plan: Plan, state: State, threads: int) -> Sweeps:
    """The sweeps of a plan on the backend of this name."""
    return backends()[choice("backend", name, backends())](plan, state, threads)

"""Projective Dynamics by Jacobi's iteration: every particle at once, from where all were before."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import checks
from ..backends import Sweeps
from ..model import Model
from ..plan import Plan
from .projective import local_step, projective_dynamics, projective_plan


@dataclass(frozen=True)
class PDJacobi:
    """`relaxation`: how far each particle goes of the way to where its forces balance; below 1 is under-relaxed."""

    relaxation: float = 1.0

    def __post_init__(self) -> None:
        checks.number("relaxation", self.relaxation, 0, 2, open_below=True)

    MATERIALS: ClassVar[tuple[str, ...]] = ("physical",)
    PROMISES_RESIDUAL: ClassVar[bool] = False
    KEEPS_MOMENTUM: ClassVar[bool] = False

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan:
        return projective_plan(model, "pd-jacobi", None, for_visits=True)

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]:
        system = sweeps.system
        once = [*local_step(sweeps), system.relax_apart(), system.blend(1.0, self.relaxation)]
        return projective_dynamics(sweeps, lambda k: once if k else [system.remember(), *once], iterations, substeps)


SOLVERS = {"pd-jacobi": PDJacobi}

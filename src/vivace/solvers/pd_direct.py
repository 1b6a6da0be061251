"""Projective Dynamics with an exact global step: the system is factored once (Bouaziz et al. 2014)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ..backends import Sweeps
from ..model import Model
from ..plan import Plan
from .projective import local_step, projective_dynamics, projective_plan


@dataclass(frozen=True)
class PDDirect:
    """Each iteration projects all constraints in parallel, then solves for all particles together, on one thread.

    The factor holds for one step length: a budget spent on substeps factors anew whenever it changes the length.
    """

    MATERIALS: ClassVar[tuple[str, ...]] = ("physical",)
    PROMISES_RESIDUAL: ClassVar[bool] = False

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan:
        return projective_plan(model, "pd-direct", None, for_visits=False)

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]:
        once = [*local_step(sweeps), *sweeps.system.solve()]
        return projective_dynamics(sweeps, lambda k: once, iterations, substeps)


SOLVERS = {"pd-direct": PDDirect}

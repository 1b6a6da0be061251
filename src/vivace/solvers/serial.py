"""Position Based Dynamics by plain Gauss-Seidel: one constraint after the other, in natural order, on one thread.

The reference that paper 002 compares with (Müller et al. 2007). Slower, but natural order often converges better.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from ..backends import Sweeps
from ..errors import InputError
from ..model import Model
from ..plan import Plan, make_plan
from .base import corrected, in_one_batch, position_based_dynamics


@dataclass(frozen=True)
class SerialGaussSeidel:
    """`corrected_ratios` makes stiffness ratios independent of the number of iterations (Müller et al. 2007)."""

    corrected_ratios: bool = False
    MATERIALS: ClassVar[tuple[str, ...]] = ("ratios",)

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan:
        for group in model.groups:
            if group.compliance is not None:
                raise InputError(f"solver 'serial': group {group.name!r} has compliances; use 'gauss-seidel'")

        ratio = partial(corrected, iterations=iterations) if self.corrected_ratios else None
        return make_plan(model, in_one_batch, ratio)

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]:
        groups = [sweeps.project_in_order(group) for group in range(len(sweeps.plan.groups))]
        return position_based_dynamics(sweeps, groups, iterations, substeps)


SOLVERS = {"serial": SerialGaussSeidel}

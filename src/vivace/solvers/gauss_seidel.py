"""Position Based Dynamics by parallel Gauss-Seidel over graph colors (Fratarcangeli and Pellacini 2015, paper 002).

What a material gives decides how a group is projected: `Ratios` as in PBD (Müller et al. 2007), `Compliances` as in
XPBD (Macklin et al. 2016), where each constraint keeps a multiplier over the substep and stops where it balances the
compliance, so that the stiffness, once converged, is independent of iterations and dt.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from ..backends import Sweeps
from ..coloring import Algorithm
from ..model import Model
from ..plan import Plan, make_plan
from .base import by_color, corrected, position_based_dynamics, projections


@dataclass(frozen=True)
class ColoredGaussSeidel:
    """Each group is colored by itself; the constraints of a color are projected in parallel, color after color.

    `coloring` is a name or a function (graph, generator) -> colors. `corrected_ratios` makes stiffness ratios
    independent of the number of iterations (Müller et al. 2007).
    """

    coloring: str | Algorithm = "smallest-last"
    corrected_ratios: bool = False
    MATERIALS: ClassVar[tuple[str, ...]] = ("ratios", "physical")

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan:
        ratio = partial(corrected, iterations=iterations) if self.corrected_ratios else None
        return make_plan(model, by_color(self.coloring, seed), ratio)

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]:
        batches, begin = projections(sweeps)
        return position_based_dynamics(sweeps, batches, iterations, substeps, begin)


SOLVERS = {"gauss-seidel": ColoredGaussSeidel}

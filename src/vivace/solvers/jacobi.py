"""Jacobi with averaging, wholly or for what some colors leave over (Fratarcangeli and Pellacini 2015, paper 000)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .. import checks
from ..backends import Sweeps
from ..batches import Partition
from ..coloring import Algorithm, Coloring, color
from ..coloring.phantoms import check_colors
from ..errors import InputError
from ..graph import constraint_graph
from ..model import Model
from ..plan import Plan, make_plan
from .base import MASS, PAPER, check_averaging, corrected, position_based_dynamics, projections


@dataclass(frozen=True)
class AveragedJacobi:
    """All constraints at once; each particle then goes on by the mean of what its constraints ask of it.

    relaxation: how far of that way, between 0 and 2: below 1 is under-relaxation, above 1 over-relaxation.
    averaging: "mass", where a particle in c constraints counts with a c-th of its mass in each, so that momentum is
        kept; or "paper", where it counts with all of it, which lets momentum drift.
    corrected_ratios: as in `ColoredGaussSeidel`.
    """

    relaxation: float = 1.0
    averaging: str = MASS
    corrected_ratios: bool = False
    MATERIALS: ClassVar[tuple[str, ...]] = ("ratios", "physical")
    PROMISES_RESIDUAL: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < checks.number("relaxation", self.relaxation) < 2:
            raise InputError(f"relaxation is {self.relaxation}; it must be between 0 and 2")
        checks.choice("averaging", self.averaging, (MASS, PAPER))

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan:
        check_averaging(self.averaging, model)
        ratio = partial(corrected, iterations=iterations) if self.corrected_ratios else None
        return make_plan(model, partial(self._divide, seed=seed), ratio)

    def _divide(self, vertices: np.ndarray, particle_count: int, seed: int) -> tuple[Partition, Coloring | None]:
        return Partition(np.argsort(vertices.min(axis=1), kind="stable"), np.array([0])), None

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]:
        batches, begin = projections(sweeps)
        splits = self.averaging == MASS
        left = [i for i, planned in enumerate(sweeps.plan.groups) if planned.parallel_steps > planned.batch_count]
        batches += [sweeps.apart.project(group, self.relaxation, splits) for group in left]
        batches += [sweeps.apart.average(self.relaxation)] if left else []
        return position_based_dynamics(sweeps, batches, iterations, substeps, begin)


@dataclass(frozen=True)
class HybridJacobi(AveragedJacobi):
    """The first `colors` colors of each group by Gauss-Seidel, the constraints of the others at once, averaged.

    colors: at least 1; or "half", half as many as the largest number of constraints on one particle.
    coloring: a name or a function (graph, generator) -> colors.
    relaxation, averaging, corrected_ratios: as in `AveragedJacobi`; relaxation is that of the averaged part.
    """

    colors: int | str = "half"
    coloring: str | Algorithm = "smallest-last"
    PROMISES_RESIDUAL: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_colors(self.colors, 1)

    def _divide(self, vertices: np.ndarray, particle_count: int, seed: int) -> tuple[Partition, Coloring | None]:
        graph = constraint_graph(vertices, particle_count)
        colored = color(graph, self.coloring, seed)
        most = max(graph.largest_hub // 2, 1) if isinstance(self.colors, str) else int(self.colors)
        return Partition.from_coloring(colored, vertices.min(axis=1), most), colored


SOLVERS = {"averaged-jacobi": AveragedJacobi, "hybrid-jacobi": HybridJacobi}

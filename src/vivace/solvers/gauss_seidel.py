"""Position Based Dynamics by parallel Gauss-Seidel over graph colors (Fratarcangeli and Pellacini 2015, paper 002)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import Sweeps
from ..coloring import Algorithm, Coloring, color
from ..graph import constraint_graph
from ..model import Model
from ..partition import Partition
from ..plan import Plan, make_plan
from .base import corrected, position_based_dynamics


@dataclass(frozen=True)
class ColoredGaussSeidel:
    """Each group is colored by itself; the constraints of a color are projected in parallel, color after color.

    `coloring` is a name or a function (graph, generator) -> colors. `corrected_ratios` makes stiffness ratios
    independent of the number of iterations (Müller et al. 2007).
    """

    coloring: str | Algorithm = "smallest-last"
    corrected_ratios: bool = False

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan:
        generator = np.random.default_rng(seed)

        def divide(vertices: np.ndarray, particle_count: int) -> tuple[Partition, Coloring]:
            coloring = color(constraint_graph(vertices, particle_count), self.coloring, generator)
            return Partition.from_coloring(coloring, locality=vertices.min(axis=1)), coloring

        return make_plan(model, divide, lambda k: corrected(k, iterations) if self.corrected_ratios else k)

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]:
        batches = [
            sweeps.project(group, batch)
            for group, planned in enumerate(sweeps.plan.groups)
            for batch in range(planned.batch_count)
        ]
        return position_based_dynamics(sweeps, batches, iterations, substeps)


SOLVERS = {"gauss-seidel": ColoredGaussSeidel}

"""Gauss-Seidel with any number of colors, by phantom particles (Fratarcangeli and Pellacini 2015, paper 000)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from ..backends import Sweeps
from ..checks import choice
from ..coloring import partition
from ..coloring.phantoms import check_colors
from ..model import Model
from ..plan import Plan, make_plan_with_phantoms
from .base import MASS, PAPER, check_averaging, corrected, position_based_dynamics, projections


@dataclass(frozen=True)
class Phantoms:
    """Particles in more constraints than there are colors are split; an iteration ends by bringing copies together.

    colors: of each group, at least 2; or "half", half of its clique number, which the paper advises.
    averaging: "mass", where copies share their particle's mass, so that momentum is kept; or "paper", where each
        has all of it (eq. 7), which lets momentum drift.
    insertion, cliques: as in `vivace.partition`.
    corrected_ratios: as in `ColoredGaussSeidel`.
    """

    colors: int | str = "half"
    averaging: str = MASS
    insertion: str = "split"
    cliques: str = "particles"
    corrected_ratios: bool = False
    MATERIALS: ClassVar[tuple[str, ...]] = ("ratios", "physical")

    def __post_init__(self) -> None:
        check_colors(self.colors, 2)
        choice("averaging", self.averaging, (MASS, PAPER))
        choice("insertion", self.insertion, ("split", "paper"))
        choice("cliques", self.cliques, ("particles", "bron-kerbosch"))

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan:
        check_averaging(self.averaging, model)
        made = partition(model.groups, self.colors, self.insertion, self.cliques, model.particle_count)
        ratio = partial(corrected, iterations=iterations) if self.corrected_ratios else None
        return make_plan_with_phantoms(model, made, ratio, splits_mass=self.averaging == MASS)

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]:
        batches, begin = projections(sweeps)
        merge = [sweeps.apart.merge()] if sweeps.plan.phantom_count else []
        return position_based_dynamics(sweeps, batches, iterations, substeps, begin, merge)


SOLVERS = {"phantoms": Phantoms}

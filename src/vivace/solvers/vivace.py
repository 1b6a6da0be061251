"""Vivace (Fratarcangeli, Tibaldo and Pellacini 2016, paper 001): Gauss-Seidel over vertex colors, over-relaxed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from .. import checks
from ..backends import Sweeps
from ..coloring import Algorithm, Coloring, color, renewed
from ..errors import InputError
from ..graph import Graph
from ..model import Model
from ..plan import Plan
from ..system import is_projectable
from .projective import chebyshev_omegas, local_step, particle_plan, projective_dynamics, projective_plan, rounded

FIRST = 1.45  # largest extrapolation of the first sweep, which has only the prediction to go on from
EARLY, LATER = 4, 1.2  # after so many sweeps omega is at most that: both together at full strength would not converge


@dataclass(frozen=True)
class Vivace:
    """Each particle in turn goes to where the forces on it balance; those of one color go in parallel.

    omega: how far it goes of that way, between 0 and 2; more than 1 is ordinary SOR. With extrapolation this is the
        most: a system of smaller spectral radius gets less, and sweeps after the fourth at most 1.2.
    extrapolation: the largest factor by which a whole sweep is prolonged, from 1 (none) to below 2. It follows
        Chebyshev's schedule for the system's estimated spectral radius. The last sweep is never prolonged.
    coloring: a name or a function (graph, generator) -> colors.
    fresh: color anew, in another random order, every frame.
    touch: meet contacts between soft things within the visits, in colors repaired for them; if False,
        one by one at the end of each iteration, as other solvers do.

    Materials in physical units whose constraints all have a projection are solved as Projective Dynamics. Others
    (Ratios, or Compliances with bend or volume) go vertex by vertex as PBD or XPBD: what all constraints on a particle
    ask of it moves that particle alone; there is no over-relaxation, which only made more momentum drift.
    Momentum drifts: with projections until the iterations have converged, with Ratios always (docs/theory.md).

    The printed form (q^(k-1) inside the sweep, omega 1.9) diverges. The defaults are the best of those that stayed
    bounded, on cloth and on solids, from 2 to 8 iterations and at any stiffness (docs/decisions/0009). omega = 1 and
    extrapolation = 1 is plain Gauss-Seidel.
    """

    omega: float = 1.35
    extrapolation: float = 1.55
    coloring: str | Algorithm = "brooks-vizing"
    fresh: bool = False
    touch: bool = True
    MATERIALS: ClassVar[tuple[str, ...]] = ("ratios", "physical")
    KEEPS_MOMENTUM: ClassVar[bool] = False
    PROMISES_RESIDUAL: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < checks.number("omega", self.omega) < 2:
            raise InputError(f"omega is {self.omega}; over-relaxation converges only between 0 and 2")
        if not 1 <= checks.number("extrapolation", self.extrapolation) < 2:
            raise InputError(f"extrapolation is {self.extrapolation}; it must be at least 1 and below 2")

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan:
        return self._plan(model, lambda graph: color(graph, self.coloring, seed))

    def prepare_again(self, before: Plan, model: Model, iterations: int, seed: int) -> Plan:
        """For a model whose constraints have changed: the coloring is kept, repaired or made anew, as it needs."""
        first = before.coloring
        assert first is not None
        return self._plan(model, lambda graph: renewed(first, graph, self.coloring, seed), before.order)

    def _plan(self, model: Model, colored: Callable[[Graph], Coloring], order: np.ndarray | None = None) -> Plan:
        if all(is_projectable(group) and group.compliance is not None for group in model.groups):
            return projective_plan(model, "vivace", colored, for_visits=True, order=order)
        if self.fresh:
            raise InputError("solver 'vivace': fresh orders are for Projective Dynamics; use vivace.Elastic or Springs")
        for group in model.groups:
            if group.compliance is not None and (group.compliance == 0).any():
                raise InputError(f"solver 'vivace': group {group.name!r} has compliance 0, which is rigid; use 'xpbd'")
        return particle_plan(model, colored, order)

    def reorder(self, sweeps: Sweeps, seed: int, frame: int) -> bool:
        """Before a frame: whether the order of visits has changed, so that the schedule must be made anew."""
        if self.fresh:
            assert sweeps.plan.coloring is not None
            sweeps.system.color_by(color(sweeps.plan.coloring.graph, self.coloring, seed + frame))
        return self.fresh

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]:
        if sweeps.plan.system is None:
            return self._position_based(sweeps, iterations, substeps)
        if self.extrapolation == 1:
            sweep = self._sweep(sweeps, self.omega)
            return projective_dynamics(sweeps, lambda k: sweep, iterations, substeps, **self._meeting(sweeps))
        # Of Gauss-Seidel, whose spectral radius is about the square of Jacobi's.
        radius = sweeps.plan.system.rayleigh(sweeps.plan.inverse_masses, float(sweeps.step)) ** 2
        omega = rounded(min(self.omega, 2 / (1 + (1 - radius**2) ** 0.5)))
        early, later = self._sweep(sweeps, omega), self._sweep(sweeps, min(omega, LATER))
        system, omegas, known = sweeps.system, chebyshev_omegas(radius, start=1), [1.0]

        def iterate(k: int) -> list[Any]:
            """What the sweep before this one made is prolonged now: so the last one never is."""
            while len(known) <= k:
                known.append(rounded(min(next(omegas), self.extrapolation)))
            if k == 0:
                return [system.remember(), *early]
            prolong = system.extrapolate(k, min(FIRST, self.extrapolation) if k == 1 else known[k])
            return [prolong, *(early if k < EARLY else later)]

        return projective_dynamics(sweeps, iterate, iterations, substeps, **self._meeting(sweeps))

    def _sweep(self, sweeps: Sweeps, omega: float) -> list[Any]:
        system = sweeps.system
        colors = [
            [system.relax(c, omega), *self._touch(sweeps, c)] for c in range(self._color_count(sweeps, system.coloring))
        ]
        return [*local_step(sweeps), *chain(*colors)]

    def _position_based(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]:
        visits, groups, omega = sweeps.visits, range(len(sweeps.plan.groups)), min(self.omega, 1.0)
        colors = [
            [*(visits.visit(group, c) for group in groups), visits.settle(c, omega), *self._touch(sweeps, c)]
            for c in range(self._color_count(sweeps, visits.coloring))
        ]
        # Back and forth: always in the same order, momentum would drift one way.
        there, back = list(chain(*colors)), list(chain(*reversed(colors)))
        return projective_dynamics(
            sweeps, lambda k: back if k % 2 else there, iterations, substeps, visits.aim, **self._meeting(sweeps)
        )

    def _touches(self, sweeps: Sweeps) -> bool:
        return self.touch and sweeps.plan.model.touching is not None

    def _color_count(self, sweeps: Sweeps, coloring: Coloring) -> int:
        """The colors to visit; with contacts there can be more of them than now."""
        return sweeps.touches.slots if self._touches(sweeps) else coloring.count

    def _touch(self, sweeps: Sweeps, color: int) -> list[Any]:
        """What pushes the particles of a color out of their contacts, after their visit."""
        return [sweeps.touches.touch(color)] if self._touches(sweeps) else []

    def _meeting(self, sweeps: Sweeps) -> dict[str, Any]:
        """What finds contacts and brings visits into an order proper for them, and what meets them once more."""
        if not self._touches(sweeps):
            return {}
        touches = sweeps.touches
        return {"detect": touches.detect, "touch": [touches.touch(color) for color in range(touches.slots)]}


SOLVERS = {"vivace": Vivace}

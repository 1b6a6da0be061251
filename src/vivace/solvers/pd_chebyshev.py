"""Projective Dynamics by Jacobi's iteration, accelerated by the Chebyshev semi-iterative method (Wang 2015)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import checks
from ..backends import Sweeps
from ..errors import InputError
from ..model import Model
from ..plan import Plan
from .projective import chebyshev_omegas, local_step, projective_dynamics, projective_plan


@dataclass(frozen=True)
class PDChebyshev:
    """`radius`: the spectral radius of Jacobi's iteration, below 1; estimated by power iteration unless given.

    `start`: the iteration at which the acceleration sets in; the first are plain, which is stabler (Wang 2015 has 10).
    `relaxation`: under-relaxes Jacobi's own step, for systems where it would diverge.
    """

    radius: float | None = None
    start: int = 10
    relaxation: float = 0.9

    def __post_init__(self) -> None:
        if self.radius is not None and not 0 <= checks.number("radius", self.radius) < 1:
            raise InputError(f"radius is {self.radius}; a spectral radius of 1 or more does not converge")
        checks.whole("start", self.start, 1)
        checks.number("relaxation", self.relaxation, 0, 2, open_below=True)

    MATERIALS: ClassVar[tuple[str, ...]] = ("physical",)
    PROMISES_RESIDUAL: ClassVar[bool] = False
    KEEPS_MOMENTUM: ClassVar[bool] = False

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan:
        return projective_plan(model, "pd-chebyshev", None, for_visits=True)

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]:
        system = sweeps.system
        plan, radius = sweeps.plan, self.radius
        if radius is None:
            assert plan.system is not None
            radius = plan.system.estimated_radius(plan.inverse_masses, float(sweeps.step))
        jacobi = [*local_step(sweeps), system.relax_apart()]
        omegas = chebyshev_omegas(radius, self.start)
        known: list[float] = []

        def iterate(k: int) -> list[Any]:
            while len(known) <= k:
                known.append(round(next(omegas), 3))  # a backend keeps a sweep for each that it has seen
            return [*([] if k else [system.remember()]), *jacobi, system.blend(known[k], self.relaxation)]

        return projective_dynamics(sweeps, iterate, iterations, substeps)


SOLVERS = {"pd-chebyshev": PDChebyshev}

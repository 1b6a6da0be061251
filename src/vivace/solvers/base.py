"""What a solver is: a way to put constraints into batches, and an algorithm written as a schedule of sweeps."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..backends import Sweeps
from ..model import Model
from ..plan import Plan


@runtime_checkable
class Solver(Protocol):
    """Made ready once for a model; its schedule is the algorithm's box, sweep by sweep."""

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan: ...

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]: ...


def position_based_dynamics(
    sweeps: Sweeps, projections: Iterable[Any], iterations: int, substeps: int
) -> Iterator[Any]:
    """Müller et al. 2007, algorithm 1, for each substep; colliders come last in each iteration."""
    once = [*projections, *(sweeps.collide(i) for i in range(len(sweeps.plan.model.surfaces)))]
    for _ in range(substeps):
        yield sweeps.predict
        for _ in range(iterations):
            yield from once
        yield sweeps.update_velocities


def corrected(stiffness_ratio: np.ndarray, iterations: int) -> np.ndarray:
    """The ratio that, applied `iterations` times, leaves 1 - k of an error: 1 - (1 - k)^(1 / n).

    Müller et al. 2007, section 3.3. Without it a soft constraint gets stiffer with more iterations.
    """
    return (1 - (1 - stiffness_ratio.astype(np.float64)) ** (1 / iterations)).astype(np.float32)

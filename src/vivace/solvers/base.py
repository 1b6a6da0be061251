"""What a solver is: a way to put constraints into batches, and an algorithm written as a schedule of sweeps."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..backends import Sweeps
from ..batches import Partition
from ..coloring import Algorithm, Coloring, color
from ..graph import constraint_graph
from ..model import Model
from ..plan import Divide, Plan


@runtime_checkable
class Solver(Protocol):
    """Made ready once for a model; its schedule is the algorithm's box, sweep by sweep."""

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan: ...

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]: ...


def position_based_dynamics(
    sweeps: Sweeps, projections: Iterable[Any], iterations: int, substeps: int, begin: Iterable[Any] = ()
) -> Iterator[Any]:
    """Müller et al. 2007, algorithm 1, for each substep; `begin` comes before its iterations, colliders end each."""
    once = [*projections, *(sweeps.collide(i) for i in range(len(sweeps.plan.model.surfaces)))]
    for _ in range(substeps):
        yield sweeps.predict
        yield from begin
        for _ in range(iterations):
            yield from once
            if (yield):  # None: here the clock may be looked at; the answer is whether the time is up
                break
        yield sweeps.update_velocities


def in_one_batch(vertices: np.ndarray, particle_count: int) -> tuple[Partition, None]:
    """Constraints as they come, in one batch: for solvers that do not sweep over them in parallel."""
    return Partition(np.arange(len(vertices)), np.array([0, len(vertices)])), None


def by_color(coloring: str | Algorithm, seed: int) -> Divide:
    """Constraints that share no particle, as a coloring finds them; each group is colored by itself."""
    generator = np.random.default_rng(seed)

    def divide(vertices: np.ndarray, particle_count: int) -> tuple[Partition, Coloring]:
        colored = color(constraint_graph(vertices, particle_count), coloring, generator)
        return Partition.from_coloring(colored, locality=vertices.min(axis=1)), colored

    return divide


def corrected(stiffness_ratio: np.ndarray, iterations: int) -> np.ndarray:
    """The ratio that, applied `iterations` times, leaves 1 - k of an error: 1 - (1 - k)^(1 / n).

    Müller et al. 2007, section 3.3. Without it a soft constraint gets stiffer with more iterations.
    """
    return (1 - (1 - stiffness_ratio.astype(np.float64)) ** (1 / iterations)).astype(np.float32)

"""What a solver is: a way to put constraints into batches, and an algorithm written as a schedule of sweeps."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..backends import Sweeps
from ..batches import Partition
from ..coloring import Algorithm, Coloring, color
from ..errors import InputError
from ..graph import constraint_graph
from ..model import Model
from ..plan import Divide, Plan


@runtime_checkable
class Solver(Protocol):
    """Made ready once for a model; its schedule is the algorithm's box, sweep by sweep."""

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan: ...

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]: ...


def position_based_dynamics(
    sweeps: Sweeps,
    projections: Iterable[Any],
    iterations: int,
    substeps: int,
    begin: Iterable[Any] = (),
    merge: Iterable[Any] = (),
) -> Iterator[Any]:
    """Müller et al. 2007, algorithm 1, for each substep; `begin` comes before its iterations.

    Each iteration goes through the projections, held points and contacts; `merge`, then colliders end it. Contacts may
    have several passes, each with these two.
    """
    detect, contacts = contact_sweeps(sweeps)
    surfaces = [sweeps.collide(i) for i in range(len(sweeps.plan.model.surfaces))]
    once = [*projections, *sweeps.holds.hold(), *passes(sweeps) * [*contacts, *merge, *surfaces]]
    for _ in range(substeps):
        yield sweeps.predict
        yield from [*sweeps.holds.advance(), *sweeps.advance_colliders(), *sweeps.stop_at_colliders(), *detect, *begin]
        for _ in range(iterations):
            yield from once
            if (yield):  # None: here the clock may be looked at; the answer is whether the time is up
                break
        yield from [*sweeps.stop_at_colliders(), sweeps.update_velocities]


def passes(sweeps: Sweeps) -> int:
    """How often in each iteration contacts and colliders push things apart."""
    touching = sweeps.plan.model.touching
    return touching.passes if touching else 1


def contact_sweeps(sweeps: Sweeps, carry_aims: bool = False, detect: Any = None) -> tuple[list[Any], list[Any]]:
    """What finds contacts in a substep, `detect` if given, and what projects them; nothing if nothing may touch."""
    if sweeps.plan.model.touching is None:
        return [], []
    return [detect or sweeps.contacts.detect], list(sweeps.contacts.project(carry_aims))


def projections(sweeps: Sweeps) -> tuple[list[Any], list[Any]]:
    """The batches of every group, projected as its material asks, and what a substep begins with."""
    batches, begin = [], []
    for group, planned in enumerate(sweeps.plan.groups):
        project = sweeps.project if planned.compliance is None else sweeps.project_compliant
        batches += [project(group, batch) for batch in range(planned.batch_count)]
        if planned.compliance is not None:
            begin.append(sweeps.forget_multipliers(group))
    return batches, begin


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


MASS, PAPER = "mass", "paper"  # how what pulls a particle apart is averaged


def check_averaging(averaging: str, model: Model) -> None:
    """An error if averaging would move particles by less than the multipliers of a compliant group say."""
    for group in model.groups:
        if group.compliance is not None and averaging == PAPER:
            raise InputError(
                f"averaging 'paper' takes no compliances, such as group {group.name!r} has: particles would move by "
                f"less than the multipliers say; use averaging='mass', or vivace.Ratios"
            )


def corrected(stiffness_ratio: np.ndarray, iterations: int) -> np.ndarray:
    """The ratio that, applied `iterations` times, leaves 1 - k of an error: 1 - (1 - k)^(1 / n).

    Müller et al. 2007, section 3.3. Without it a soft constraint gets stiffer with more iterations.
    """
    return (1 - (1 - stiffness_ratio.astype(np.float64)) ** (1 / iterations)).astype(np.float32)

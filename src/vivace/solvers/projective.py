"""What the solvers of Projective Dynamics share: one system, and the frame around their iterations."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from ..backends import Sweeps
from ..coloring import Coloring
from ..graph import Graph, vertex_graph
from ..model import Model
from ..plan import Plan, make_plan
from ..system import check_projectable, make_system
from .base import contact_sweeps, in_one_batch, passes


def projective_plan(
    model: Model,
    solver: str,
    color: Callable[[Graph], Coloring] | None,
    for_visits: bool,
    order: np.ndarray | None = None,
) -> Plan:
    """A plan with its system; particles are colored by `color`, or all one color where None."""
    check_projectable(model.groups, solver)
    plan = particle_plan(model, color or in_one_color, order)
    vertices = [planned.vertices for planned in plan.groups]
    return replace(plan, system=make_system(model.groups, vertices, model.particle_count, for_visits))


def particle_plan(model: Model, color: Callable[[Graph], Coloring], order: np.ndarray | None = None) -> Plan:
    """A plan whose particles are colored, instead of its constraints."""
    plan = make_plan(model, in_one_batch, order=order)
    return replace(plan, coloring=color(vertex_graph([p.vertices for p in plan.groups], model.particle_count)))


def in_one_color(graph: Graph) -> Coloring:
    """For methods that move all at once. Not a proper coloring, and not checked."""
    return Coloring(graph, np.zeros(graph.node_count, np.int32))


def projective_dynamics(
    sweeps: Sweeps,
    iterate: Callable[[int], Iterable[Any]],
    iterations: int,
    substeps: int,
    aim: Any = None,
    detect: Any = None,
    touch: Iterable[Any] = (),
) -> Iterator[Any]:
    """Bouaziz et al. 2014, algorithm 1, for each substep.

    `iterate(k)` is iteration k; held points and colliders end each.

    `detect` is what finds contacts instead, where `iterate` meets them itself; those that it leaves are projected.
    `touch` meets them once more, if they have several passes.
    """
    detects, contacts = contact_sweeps(sweeps, carry_aims=True, detect=detect)
    surfaces = [*contacts, *(sweeps.collide(i, carry_aims=True) for i in range(len(sweeps.plan.model.surfaces)))]
    ends = [*sweeps.holds.hold(carry_aims=True), *surfaces, *(passes(sweeps) - 1) * [*touch, *surfaces]]
    aim = sweeps.system.aim if aim is None else aim
    for _ in range(substeps):
        yield sweeps.predict
        yield from [*sweeps.holds.advance(), *sweeps.advance_colliders(), *sweeps.stop_at_colliders(), aim, *detects]
        for k in range(iterations):
            yield from iterate(k)
            yield from ends
            if (yield):  # None: here the clock may be looked at; the answer is whether the time is up
                break
        yield from [*sweeps.stop_at_colliders(), sweeps.update_velocities]


def local_step(sweeps: Sweeps) -> list[Any]:
    """Every constraint's nearest rest shape, for those that visits do not project themselves."""
    assert sweeps.plan.system is not None
    return [sweeps.system.project(group) for group in sweeps.plan.system.projected]


def chebyshev_omegas(radius: float, start: int) -> Iterator[float]:
    """omega of iterations 0, 1, ...: 1 before `start`, then 2 / (2 - r^2), then 4 / (4 - r^2 omega) (Wang 2015)."""
    omega = 1.0
    for k in count():
        if k == start:
            omega = 2 / (2 - radius**2)
        elif k > start:
            omega = 4 / (4 - radius**2 * omega)
        yield omega


def rounded(omega: float) -> float:
    """To two digits: a backend keeps a sweep for every omega that it has seen, and step lengths may vary."""
    return round(omega, 2)

"""Relaxing by projections alone, without gravity, colliders and velocities: what the benches of paper 000 share.

    simulation = relaxing(scene, solver)
    after = residuals(simulation, disturbed, most=100, until=0.05)

`after[k]` is the residual after k iterations. The list ends at the first that is at most `until`, or after `most`
iterations. Starts: `as_built`, `rest_shape`, `disturbed`, `flattened`; partial(disturbed, share=0.1) and the like
change them. Making a simulation takes longer than relaxing it, so one is used for several starts, and one scene for
all.

The residual is one number for a whole scene: the RMS of each group's constraints over that at the start, then the mean
over the groups. It is 1 at the start, whatever the units of the groups are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import inf

import numpy as np

from ..backends import Residual
from ..model import Model, measure
from ..plan import Plan
from ..scene import Scene
from ..simulation import Report, Simulation
from ..solvers.base import Solver

Start = Callable[[Scene], np.ndarray]
DT, NO_VELOCITY = 1.0, 1e6  # [s], damping [1/s]: exp(-1e6) is zero, so each step starts at rest


def as_built(scene: Scene) -> np.ndarray:
    """Where the scene itself starts."""
    return np.concatenate([body.positions for body in scene.bodies])


def rest_shape(scene: Scene) -> np.ndarray:
    """Where all constraints are met."""
    return np.concatenate([body.mesh.vertices for body in scene.bodies])


def disturbed(scene: Scene, share: float = 0.05, seed: int = 0) -> np.ndarray:
    """The rest shape, each coordinate moved at random; the deviation is a `share` of the mean length of an edge."""
    shape = rest_shape(scene)
    ends = np.concatenate([body.mesh.vertices[body.mesh.edges] for body in scene.bodies])
    length = float(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).mean())
    return shape + np.random.default_rng(seed).normal(0, share * length, shape.shape)


def flattened(scene: Scene, height: float = 0.05) -> np.ndarray:
    """The rest shape, all heights scaled by `height`."""
    return rest_shape(scene) * [1, height, 1]


def relaxing(
    scene: Scene, solver: str | Solver, start: Start = as_built, iterations: int = 1, threads: int | None = None
) -> Simulation:
    """A simulation whose steps are `iterations` and nothing else; gravity, colliders and contacts leave the scene.

    Pins stay. A material in ratios is meant, since what compliances do goes with dt.
    """
    scene.gravity, scene.surfaces, scene.touching = (0.0, 0.0, 0.0), [], None
    simulation = Simulation(scene, solver, iterations, dt=DT, damping=NO_VELOCITY, threads=threads)
    simulation.positions = start(scene)
    return simulation


def iterate(simulation: Simulation, iterations: int) -> Report:
    """A step of another number of iterations."""
    return simulation.step(work=((1, DT, iterations),))


def relative_residuals(simulation: Simulation) -> Iterator[float]:
    """The residual after each further step, over that of now; without end."""
    scales = group_residuals(simulation.model, simulation.positions)
    while True:
        yield combined(simulation.step().residual, scales)


def residuals(simulation: Simulation, start: Start, most: int, until: float = 0.0) -> list[float]:
    """From a start, which is 1, and after each step, until the residual is at most `until`; at most so many steps."""
    simulation.positions = start(simulation.scene)
    after = [1.0]
    for residual in islice(relative_residuals(simulation), most):
        after.append(residual)
        if residual <= until:
            break
    return after


def fastest(frames: Sequence[Callable[[], Report]], seconds: float, threads: int | None = None) -> list[float]:
    """Milliseconds of the fastest frame of each kind, which all get as much time; each `frames[i]()` does one.

    Colliders do not count. `threads`: nor does a frame on fewer, unless all were; one may fall back to a single thread
    while others hold the cores.
    """
    best, other, spent = ([start] * len(frames) for start in (inf, inf, 0.0))
    while sum(spent) < 1e3 * seconds or not all(spent):
        turn = spent.index(min(spent))
        report = frames[turn]()
        spent[turn] += report.milliseconds["total"]
        kept = best if threads in (None, report.threads) else other
        kept[turn] = min(kept[turn], without_colliders(report))
    return [one if one < inf else two for one, two in zip(best, other)]


def without_colliders(report: Report) -> float:
    """Milliseconds of a frame as the papers count them."""
    return report.milliseconds["total"] - report.milliseconds.get("collide", 0.0)


def combined(residual: Mapping[str, Residual], scales: Mapping[str, float]) -> float:
    """One number: the mean over the groups of RMS / scale."""
    return float(np.mean([own.rms / scales[name] for name, own in residual.items()]))


def group_residuals(model: Model, positions: np.ndarray) -> dict[str, float]:
    """RMS of the constraints of each group at these positions, in its unit."""
    return {
        group.name: _rms(measure(group.constraint, positions[group.vertices], _columns(group.rest)))
        for group in model.groups
    }


def rest_scales(model: Model) -> dict[str, float]:
    """RMS of the rest values of each group: RMS / scale is then a strain, even where a scene starts at rest."""
    return {group.name: _rms(group.rest) for group in model.groups}


def parallel_steps(plan: Plan) -> int:
    """Of one iteration: the batches of all groups, and the one that averages remainders or brings copies together."""
    batches = sum(planned.parallel_steps for planned in plan.groups)
    apart = any(planned.parallel_steps > planned.batch_count for planned in plan.groups)
    return batches + int(apart or plan.phantom_count > 0)


def phantom_constraints(plan: Plan) -> int:
    """One for each particle that has copies."""
    return 0 if plan.copies is None else int((plan.copies > 1).sum())


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values.astype(np.float64) ** 2)))


def _columns(rest: np.ndarray) -> np.ndarray | tuple[np.ndarray, ...]:
    return rest.astype(np.float64) if rest.ndim == 1 else tuple(rest.T.astype(np.float64))

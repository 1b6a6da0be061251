"""A scene in motion."""

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import numpy as np

from . import backends, checkpoint, checks, solvers
from .backends import Residual, Solve, Touches
from .budget import Work, check_budget, repeat, spend_on_iterations, spend_on_substeps
from .collision.motion import check_way, pose_at, surface_name
from .errors import InputError, SimulationError
from .holds import MOST_HOLDS, Hold
from .kernels.region import core_count
from .picking import Hit, hit_by_ray, hit_nearest
from .plan import Plan
from .scene import Scene
from .solvers.base import Solver
from .state import State

AIM = 0.98e-3  # [s] of each millisecond of a budget: what comes after the sweeps takes its share
MOST_THREADS, MOST_SWEEPS = 1024, 10**8
SMALLEST_SHARE = 64  # constraints of a batch for each thread


@dataclass(frozen=True)
class Report:
    """What a step did."""

    frame: int  # 1 after the first step
    iterations: int
    substeps: int
    residual: dict[str, Residual]  # RMS and largest |C| of each group at the end of the step, in its unit
    milliseconds: dict[str, float]  # of each stage, and "total"
    colors: dict[str, int]  # of each group; 1 where the order is serial
    threads: int
    work: Work  # what was done, for step(work=...): substeps, their length [s], iterations in each
    deadline_missed: bool = False  # whether the step took longer than its budget
    touches: Touches | None = None  # contacts between soft things at the end, if they may touch
    solve: Solve | None = None  # how far the linear system was solved, where there is one
    ranks: int = 1  # processes, with so many threads each

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        residual = {name: vars(residual) for name, residual in self.residual.items()}
        parts = {"touches": self.touches and vars(self.touches), "solve": self.solve and vars(self.solve)}
        return {**vars(self), "residual": residual, **parts}


@dataclass
class Control:
    """What the user does while it runs."""

    gravity: tuple[float, float, float]  # [m/s^2]
    pin_targets: dict[int, np.ndarray] = field(default_factory=dict)  # where pinned particles go in the next step [m]
    holds: list[Hold] = field(default_factory=list)  # points that are held
    wind: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [m/s], where the scene has air


class Grab:
    """A point of a surface that is held until it is released."""

    def __init__(self, control: Control, hold: Hold):
        self._control, self._hold = control, hold

    @property
    def target(self) -> tuple[float, float, float]:
        """Where the point is drawn to [m]."""
        x, y, z = self._hold.target.tolist()
        return x, y, z

    def move(self, to: Any) -> None:
        """Draw the point to a place [m]; it goes there during the next step, evenly over its substeps."""
        self._hold.target = np.array(checks.vector("to", to))

    def release(self) -> None:
        """Let go; once more does nothing."""
        self._control.holds = [hold for hold in self._control.holds if hold is not self._hold]


class Simulation:
    """Steps a scene with a solver on a backend.

    dt: seconds a frame; each step is one frame, of `substeps` equal parts with `iterations` each.
    damping [1/s]: velocities keep a share of exp(-damping * t).
    threads: by default all cores that the scene can keep busy; a step falls back to one thread while other processes
        hold the cores. The result is the same to the bit for any number.
    """

    def __init__(
        self,
        scene: Scene,
        solver: str | Solver = "gauss-seidel",
        iterations: int = 8,
        substeps: int = 1,
        dt: float = 1 / 60,
        damping: float = 0.1,
        threads: int | None = None,
        seed: int = 0,
        backend: str = "cpu",
    ):
        if not isinstance(scene, Scene):
            raise InputError(f"scene: expected a vivace.Scene, got {type(scene).__name__}")
        self.scene = scene
        self.iterations, self.substeps = (
            checks.whole("iterations", iterations, 1),
            checks.whole("substeps", substeps, 1),
        )
        self.dt, self.damping = checks.number("dt", dt, 0, open_below=True), checks.number("damping", damping, 0)
        self.threads = 1 if threads is None else checks.whole("threads", threads, 1, MOST_THREADS)
        self.seed = checks.whole("seed", seed, 0)
        self.solver = solvers.find(solver)
        self.model = scene.build()
        if self.model.air and not getattr(self.solver, "TAKES_AIR", False):
            raise InputError(f"scene.blow: solver {type(self.solver).__name__} knows no air; use solver='implicit'")
        self._first_plan = self.solver.prepare(self.model, self.iterations, self.seed)
        self.backend = backend
        if threads is None:
            self.threads = min(useful_threads(self._first_plan), backends.most_threads(backend))
        self._load(self._first_plan)
        self.control = Control(self.model.gravity, wind=self.model.air.wind if self.model.air else (0.0, 0.0, 0.0))
        self.frame = 0
        self._stepping = threading.Lock()
        # Of the last step with a budget [s]: what its end took, what a substep took, and the shortest substep.
        self._finishing, self._substep_seconds, self._substep_length = 0.0, 0.0, 0.0
        self._travelling: np.ndarray = np.zeros(0, np.int64)
        self._poses: dict[int, np.ndarray] = {}  # of the colliders that move, now
        scene.simulations[:] = [*(known for known in scene.simulations if known()), ref(self)]

    def _load(self, plan: Plan) -> None:
        """Make ready to run a plan, from where its model starts."""
        self.plan, self.state, self.colors = plan, State(plan), plan.colors
        self._views: dict[str, np.ndarray] = {}
        self._holds: list[Hold] = []  # of the last step
        self._sweeps = backends.load(self.backend, plan, self.state, self.threads)
        self.state = self._sweeps.state
        self._sweeps.set_step(self.dt / self.substeps)
        batches = plan.coloring.count if plan.coloring else sum(planned.parallel_steps for planned in plan.groups)
        if self.iterations * self.substeps * batches > MOST_SWEEPS:
            raise InputError(
                f"{self.substeps} substeps of {self.iterations} iterations over {batches} batches are too many"
            )
        self._schedule = self._prepared()

    def renew(self) -> bool:
        """Take over constraints that were added to the scene since; positions, velocities and time stay.

        Returns whether there were any; else nothing is done. A solver that colors particles (vivace) keeps its coloring
        where it still holds, repairs it where little has changed, and colors anew otherwise: what comes out depends on
        the scene as it was first and as it is now, not on what was in between.
        """
        with self._stepping:
            model = self.scene.build()
            if model.particle_count != self.model.particle_count:
                raise InputError("renew: bodies were added to the scene, which needs a new Simulation")
            if [len(group) for group in model.groups] == [len(group) for group in self.model.groups]:
                return False
            again = getattr(self.solver, "prepare_again", None)
            plan = (
                again(self._first_plan, model, self.iterations, self.seed)
                if again
                else self.solver.prepare(model, self.iterations, self.seed)
            )
            positions, velocities = self.positions, self.velocities
            self.model = model
            self._load(plan)
            self.state.set("positions", slice(None), positions)
            self.state.set("velocities", slice(None), velocities)
            return True

    def take_over(self, other: "Simulation") -> None:
        """Go on from where another simulation of the same bodies is: positions, velocities, time, gravity, grabs."""
        if other.model.particle_count != self.model.particle_count or other.dt != self.dt:
            raise InputError("take_over: the other simulation has other particles, or frames of another length")
        with self._stepping, other._stepping:
            self.state.set("positions", slice(None), other.positions)
            self.state.set("velocities", slice(None), other.velocities)
            self._views.clear()
            self.frame, self.control, self._poses = other.frame, other.control, dict(other._poses)
            self._travelling = other._travelling
            # What a step takes is known from the other, roughly.
            self._finishing, self._substep_seconds = other._finishing, other._substep_seconds
            self._substep_length = other._substep_length

    def save(self, path: str | os.PathLike) -> None:
        """Write a checkpoint: the state now, whole or not at all. The one that was there is kept as PATH.previous."""
        with self._stepping:
            checkpoint.save(path, self)

    def load(self, path: str | os.PathLike) -> None:
        """Go on from a checkpoint of the same scene, to the same bits if solver and settings are the same too."""
        with self._stepping:
            checkpoint.load(path, self)

    @property
    def time(self) -> float:
        """Simulated seconds since the start."""
        return self.frame * self.dt

    @property
    def positions(self) -> np.ndarray:
        """(n, 3) float32 [m], read-only, in the user's order; assign a whole array to change them."""
        return self._view("positions")

    @positions.setter
    def positions(self, values: Any) -> None:
        self._assign("positions", values)

    @property
    def velocities(self) -> np.ndarray:
        """(n, 3) float32 [m/s], read-only, in the user's order; assign a whole array to change them."""
        return self._view("velocities")

    @velocities.setter
    def velocities(self, values: Any) -> None:
        self._assign("velocities", values)

    @property
    def contacts(self) -> np.ndarray:
        """(m, 4) particles of each contact between soft things, as they were found last.

        A point and a triangle, two edges, or fewer and -1 behind them.
        """
        if self.model.touching is None:
            return np.zeros((0, 4), np.int64)
        return np.append(self.plan.order, -1)[np.minimum(self._sweeps.contacts.found.corners, len(self.plan.order))]

    def set_positions(self, particles: Any, positions: Any) -> None:
        """Put some particles elsewhere, at once; their velocities stay."""
        particles, positions = self._some("particles", particles, positions)
        self.state.set("positions", particles, positions)
        self._views.clear()

    def move_pins(self, particles: Any, targets: Any) -> None:
        """Let pinned particles travel to `targets` (k, 3) [m] during the next step, evenly over its substeps."""
        particles, targets = self._some("pins", particles, targets)
        free = self.model.inverse_masses[particles] > 0
        if free.any():
            raise InputError(f"particle {particles[np.argmax(free)]} is not pinned, so it cannot be moved as a pin")
        self.control.pin_targets.update(zip(particles.tolist(), targets))

    def pick(self, origin: Any, direction: Any) -> Hit | None:
        """The first point of a surface that a ray meets, from either side; None if it meets none."""
        return hit_by_ray(origin, direction, self.positions, self.model.triangles)

    def grab(self, what: Any, firmness: float = 0.5) -> Grab:
        """Hold a vertex (its number), the point of a surface nearest to a place (x, y, z), or what `pick` has found.

        It stays where it is until it is moved, and is held until it is released. firmness: how much of its distance
        it goes in each iteration; constraints pull it back in between, so it follows softly.
        """
        if isinstance(what, Hit):
            hit: Hit | None = what
            checks.indices("grab", what.particles, self.model.particle_count, what="particle")
        elif isinstance(what, str) or np.ndim(what) == 0:
            if not isinstance(what, (int, np.integer)):
                raise InputError(
                    f"grab: expected a vertex's number, a place (x, y, z) or what pick() gives, got {what!r}"
                )
            vertex = int(checks.indices("grab", [what], self.model.particle_count, what="particle")[0])
            hit = Hit(-1, (vertex, vertex, vertex), (1.0, 0.0, 0.0), self.positions[vertex].astype(np.float64))
        else:
            hit = hit_nearest(what, self.positions, self.model.triangles)
        if hit is None:
            raise InputError("grab: the scene has no surface to hold; name a vertex instead")
        if not np.array(hit.shares) @ self.model.inverse_masses[list(hit.particles)]:
            raise InputError(f"grab: particle {hit.particles[0]} is pinned, so it cannot be held; see move_pins")
        refusal = getattr(self._sweeps.holds, "refusal", None)
        if refusal:
            raise InputError(f"grab: {refusal}")
        if len(self.control.holds) == MOST_HOLDS:
            raise InputError(f"grab: {MOST_HOLDS} points are held, which is as many as there may be")
        firmness = checks.number("firmness", firmness, 0, 1, open_below=True)
        hold = Hold(hit.particles, hit.shares, hit.point.copy(), firmness, hit.point.copy())
        self.control.holds = [*self.control.holds, hold]
        return Grab(self.control, hold)

    def step(self, budget_ms: float | None = None, spend: str = "iterations", work: Work | None = None) -> Report:
        """Advance by one frame of `dt` seconds.

        budget_ms: do as many iterations as fit (or substeps, `spend="substeps"`), at least one, instead of those set.
            Substeps are at most twice as long as those of the frame before, even if the deadline is missed for it.
            Where soft things may touch, no less is done than what is set: a pile that is solved with less collapses,
            and has more contacts then, so that nothing would be gained.
        work: what the report of another step says was done, to repeat it to the bit.
        """
        if budget_ms is not None:
            check_budget(budget_ms, spend)
            self.check_budget(spend)
        if work is not None:
            self._check_work(work, budget_ms)
        with self._stepping:  # two threads of a program take turns
            return self._step(budget_ms, spend, work)

    def _step(self, budget_ms: float | None, spend: str, work: Work | None) -> Report:
        start = time.perf_counter()
        gravity = checks.vector("control.gravity", self.control.gravity)
        if self.model.air:
            self._sweeps.implicit.wind[:3] = checks.vector("control.wind", self.control.wind)
        holds = self.control.holds
        poses = self._begin_frame(holds)
        self._reorder(again=bool(holds) != bool(self._holds))
        self._holds, targets = holds, [hold.target for hold in holds]
        arrivals = self._send_pins()
        if budget_ms is None and work is None:
            work = ((self.substeps, self.dt / self.substeps, self.iterations),)
            outcome = self._sweeps.run(self._schedule, work[0][1], self.damping, gravity)
        else:
            self._sweeps.begin(self.dt / self.substeps, self.damping, gravity)
            work = self._spend(start + (budget_ms or 0) * AIM, spend) if work is None else self._repeat(work)
            finishing = time.perf_counter()
            outcome = self._sweeps.finish()
            self._finishing = time.perf_counter() - finishing
        self._views.clear()
        if not outcome.finite:
            problem = self._describe_flaw()
            self._sweeps.take_back()
            self._views.clear()
            self.control.pin_targets = {}
            raise SimulationError(problem)
        if arrivals:
            self.state.set("positions", self._travelling, np.stack(list(arrivals.values())))
        self.control.pin_targets = {}
        for hold, target in zip(holds, targets):
            hold.place = target
        self._poses = poses
        self.frame += 1
        total = (time.perf_counter() - start) * 1e3
        return Report(
            frame=self.frame,
            iterations=max(iterations for _, _, iterations in work),
            substeps=sum(substeps for substeps, _, _ in work),
            residual=outcome.residual,
            milliseconds={**outcome.milliseconds, "total": total},
            colors=self.colors,
            threads=outcome.threads,
            work=work,
            deadline_missed=budget_ms is not None and total > budget_ms,
            touches=outcome.touches,
            solve=outcome.solve,
            ranks=outcome.ranks,
        )

    def _reorder(self, again: bool) -> None:
        """Let the solver change its order of visits, if it has a way to; `again`: the schedule has to be made anew."""
        reorder = getattr(self.solver, "reorder", None)
        if reorder and reorder(self._sweeps, self.seed, self.frame):
            again = True
            self.colors = {"particles": self._sweeps.system.coloring.count}
        if again:
            self._schedule = self._prepared()

    def _prepared(self) -> Any:
        return self._sweeps.prepare(self.solver.schedule(self._sweeps, self.iterations, self.substeps))

    def check_budget(self, spend: str) -> None:
        """An error that says why, if the solver cannot keep a budget of iterations or substeps."""
        name = type(self.solver).__name__
        if spend == "iterations" and None not in list(self.solver.schedule(self._sweeps, 1, 1)):
            raise InputError(f"solver {name} takes no budget of iterations: its schedule never looks at the clock")
        if getattr(self.solver, "corrected_ratios", False):
            raise InputError(f"solver {name}: corrected_ratios need a fixed number of iterations, not a budget")

    def _check_work(self, work: Work, budget_ms: float | None) -> None:
        if budget_ms is not None:
            raise InputError("give either budget_ms or work, not both")
        try:
            pieces = [
                checks.whole("work substeps", substeps, 1) * checks.number("work step", length, 0, open_below=True)
                for substeps, length, iterations in work
                if checks.whole("work iterations", iterations, 1)
            ]
        except (TypeError, ValueError) as problem:
            raise InputError(f"work: expected (substeps, length, iterations) of each piece; {problem}") from problem
        if abs(sum(pieces) - self.dt) > 1e-6 * self.dt:
            raise InputError(f"work: its substeps last {sum(pieces):g} s, a frame of this simulation {self.dt:g} s")

    def _spend(self, deadline: float, spend: str) -> Work:
        deadline -= self._finishing
        touching = self.model.touching is not None
        if spend == "iterations":
            least = self.iterations if touching else 1
            return spend_on_iterations(self._sweeps, self.solver, self.dt, self.substeps, deadline, least)
        guess = self._substep_seconds or max(deadline - time.perf_counter(), 1e-6) / self.substeps
        longest = min(2 * self._substep_length or self.dt, self.dt / self.substeps if touching else self.dt)
        work, self._substep_seconds = spend_on_substeps(
            self._sweeps, self.solver, self.dt, self.iterations, deadline, guess, longest
        )
        self._substep_length = min(length for _, length, _ in work)
        return work

    def _repeat(self, work: Work) -> Work:
        repeat(self._sweeps, self.solver, work)
        return work

    def run(self, frames: int, budget_ms: float | None = None, spend: str = "iterations") -> Iterator[Report]:
        """Step `frames` times, giving back each step's report as it is done."""
        for _ in range(checks.whole("frames", frames, 0)):
            yield self.step(budget_ms, spend)

    def _begin_frame(self, holds: list[Hold]) -> dict[int, np.ndarray]:
        """Colliders that move go from where they are to where their motion says; gives their poses at its end."""
        ways = {}
        for number, surface in enumerate(self.model.surfaces):
            if surface.motion is not None:
                name = surface_name(number, surface.collider)
                start = self._poses.get(number)
                start = pose_at(name, surface.motion, self.time) if start is None else start
                end = pose_at(name, surface.motion, (self.frame + 1) * self.dt)
                check_way(name, start, end, self.time, self.dt)
                ways[number] = start, end
        self._sweeps.begin_frame(ways, holds, self.dt)
        return {number: end for number, (_, end) in ways.items()}

    def _send_pins(self) -> dict[int, np.ndarray]:
        """Pinned particles travel with the velocity that brings them to their target within the frame."""
        self.state.set("velocities", self._travelling, np.zeros((len(self._travelling), 3)))
        targets = self.control.pin_targets
        self._travelling = np.array(list(targets), np.int64)
        if targets:
            here = self.state.positions[self.plan.row_of[self._travelling], :3]
            self.state.set("velocities", self._travelling, (np.stack(list(targets.values())) - here) / self.dt)
        return targets

    def _describe_flaw(self) -> str:
        flawed = ~(np.isfinite(self.positions).all(axis=1) & np.isfinite(self.velocities).all(axis=1))
        # A pin beside a broken particle breaks with it (0 times infinity): name one that can move, if there is one.
        movable = flawed & (self.model.inverse_masses > 0)
        particle = int(np.argmax(movable if movable.any() else flawed))
        body, rows = next((name, rows) for name, rows in self.model.bodies if particle < rows.stop)
        holding = [repr(group.name) for group in self.model.groups if (group.vertices == particle).any()]
        named = f"group {', '.join(holding)}" if holding else "no group"
        return (
            f"frame {self.frame + 1}: particle {particle} ({body!r}, vertex {particle - rows.start}; {named}) "
            f"is not finite, "
            f"{flawed.sum()} of {len(flawed)} in all; the state of frame {self.frame} is kept"
        )

    def _view(self, name: str) -> np.ndarray:
        if name not in self._views:
            self._views[name] = self.state.get(name)
        return self._views[name]

    def _assign(self, name: str, values: Any) -> None:
        values = checks.array(name, values, 3)
        if len(values) != self.model.particle_count:
            raise InputError(f"{name}: expected {self.model.particle_count} rows, got {len(values)}")
        if name == "velocities":
            values[self.model.inverse_masses == 0] = 0  # pins go where they are told
        self.state.set(name, slice(None), values)
        self._views.clear()

    def _some(self, name: str, particles: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
        particles = checks.indices(name, checks.listed(particles), self.model.particle_count, what="particle")
        values = checks.array(f"positions of {name}", values, 3)
        if len(particles) != len(values):
            raise InputError(f"{len(particles)} {name} are named, but {len(values)} positions are given")
        return particles, values


def useful_threads(plan: Plan) -> int:
    """All cores, unless batches are so small that threads would rather wait for each other than work."""
    batches = plan.coloring.count if plan.coloring else sum(planned.parallel_steps for planned in plan.groups)
    constraints = sum(len(planned.vertices) for planned in plan.groups)
    return max(min(core_count(), constraints // (SMALLEST_SHARE * max(batches, 1))), 1)

"""How far the solvers of Projective Dynamics get in a few iterations: what figures 4 and 5 of paper 001 are made of.

Error = |q^K - q*| / |s - q*| of one step: s is the prediction, q* the converged solution of that step, q^K what K
iterations make of it. All solvers start from the same states, those of one converged trajectory.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SimulationError
from ..scene import Scene
from ..simulation import Simulation
from ..solvers.base import Solver
from ..solvers.pd_chebyshev import PDChebyshev
from ..solvers.pd_jacobi import PDJacobi
from ..solvers.vivace import Vivace

DT = 1 / 30
ITERATIONS = (2, 4, 8, 16, 32)
RATIOS = (1.0, 3.0, 10.0)
RADII = (0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 0.99, 0.999)
SOLVERS: dict[str, Solver] = {
    "vivace": Vivace(),
    "plain Gauss-Seidel": Vivace(omega=1.0, extrapolation=1.0),
    "SOR 1.5": Vivace(omega=1.5, extrapolation=1.0),
    "schedule up to 1.5": Vivace(omega=1.0, extrapolation=1.5),
    "pd-jacobi": PDJacobi(),
}
COLORS = ("#bb3333", "#888888", "#c9a227", "#3a8f5d", "#2b5fa5", "#7a3fa0")
MakeScene = Callable[[], Scene]


@dataclass(frozen=True, eq=False)
class Moment:
    """A state of the converged trajectory, the prediction from it, and where its step ends."""

    frame: int
    positions: np.ndarray
    velocities: np.ndarray
    prediction: np.ndarray
    solution: np.ndarray


def step_of(scene: Scene, solver: Solver, iterations: int) -> Simulation:
    return Simulation(scene, solver, iterations=iterations, dt=DT, damping=0.0)


def moments(make: MakeScene, frames: int, every: int, iterations: int) -> list[Moment]:
    """States along a converged trajectory, every so many frames."""
    simulation = step_of(make(), Vivace(), iterations)
    seen = []
    for frame in range(frames):
        x, v = simulation.positions, simulation.velocities
        simulation.step()
        if frame % every == 0:
            seen.append(Moment(frame, x, v, predicted(simulation, x, v), simulation.positions))
    return seen


def predicted(simulation: Simulation, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """s = x + h v + h^2 g; pins stay."""
    s = x.astype(float) + DT * (v.astype(float) + DT * np.array(simulation.model.gravity))
    pinned = simulation.model.inverse_masses == 0
    s[pinned] = x[pinned]
    return s


def errors_after(simulation: Simulation, seen: list[Moment]) -> tuple[list[float], float]:
    """The relative error of one step from each moment, and the milliseconds of the fastest."""
    errors, fastest = [], np.inf
    for moment in seen:
        simulation.positions, simulation.velocities = moment.positions, moment.velocities
        start = time.perf_counter()
        try:
            simulation.step()
        except SimulationError:
            errors.append(np.inf)
            continue
        fastest = min(fastest, (time.perf_counter() - start) * 1e3)
        errors.append(relative_error(simulation.positions, moment.prediction, moment.solution))
    return errors, fastest


def relative_error(reached: np.ndarray, prediction: np.ndarray, solution: np.ndarray) -> float:
    return float(np.linalg.norm(reached - solution.astype(float)) / np.linalg.norm(prediction - solution))


def study(
    make: Callable[[float], Scene], quick: bool, progress: Callable[[str], None], frames: int = 45
) -> Iterator[dict[str, Any]]:
    """A row for each stiffness ratio, number of iterations and solver; `make(ratio)` gives the scene."""
    for ratio in RATIOS[:1] if quick else RATIOS:
        progress(f"k h^2 / m = {ratio:g}: the converged trajectory")
        enough = 200 if quick else int(400 * ratio**0.5)

        def scene(ratio: float = ratio) -> Scene:
            return make(ratio)

        seen = moments(scene, 6 if quick else frames, 4, enough)
        reference, _ = errors_after(step_of(scene(), Vivace(), enough // 2), seen)
        for iterations in ITERATIONS[:3] if quick else ITERATIONS:
            progress(f"k h^2 / m = {ratio:g}: {iterations} iterations")
            for name, solver in SOLVERS.items():
                made, fastest = errors_after(step_of(scene(), solver, iterations), seen)
                yield _row(ratio, iterations, name, made, fastest, seen, max(reference))
            tried = {
                radius: errors_after(
                    step_of(scene(), PDChebyshev(radius=radius, start=1, relaxation=1.0), iterations), seen
                )
                for radius in (RADII[::4] if quick else RADII)
            }
            best = min(tried, key=lambda radius: np.mean(tried[radius][0]))
            row = _row(ratio, iterations, "pd-chebyshev, best radius", *tried[best], seen, max(reference))
            yield {**row, "radius": best}


def _row(
    ratio: float,
    iterations: int,
    name: str,
    made: list[float],
    fastest: float,
    seen: list[Moment],
    reference: float,
) -> dict[str, Any]:
    return {
        "k h^2/m": ratio,
        "iterations": iterations,
        "solver": name,
        "error": float(np.mean(made)),
        "ms": fastest,
        "radius": "",
        "q* within": reference,
        "frames": [moment.frame for moment in seen],
        "errors": made,
    }


def plot_study(rows: list[dict[str, Any]], figure: Any, title: str) -> None:
    """Above: error over iterations; below: error along the trajectory at eight iterations."""
    ratios = list(dict.fromkeys(row["k h^2/m"] for row in rows))
    names = list(dict.fromkeys(row["solver"] for row in rows))
    figure.set_size_inches(4.4 * len(ratios), 7.2)
    grid = figure.subplots(2, len(ratios), squeeze=False)
    for column, ratio in enumerate(ratios):
        above, below = grid[0][column], grid[1][column]
        for name, color in zip(names, COLORS):
            chosen = [row for row in rows if row["k h^2/m"] == ratio and row["solver"] == name]
            above.plot([r["iterations"] for r in chosen], [r["error"] for r in chosen], "o-", color=color, label=name)
            at = next(row for row in chosen if row["iterations"] == 8)
            below.plot(np.array(at["frames"]) * DT, at["errors"], "-", color=color)
        above.set(xscale="log", yscale="log", ylim=(1e-4, 10), xlabel="iterations", title=f"k h² / m = {ratio:g}")
        above.set_xticks(ITERATIONS, map(str, ITERATIONS), minor=False)
        above.minorticks_off()
        below.set(yscale="log", ylim=(1e-4, 10), xlabel="time of the trajectory, s", title="8 iterations")
    grid[0][0].set_ylabel("relative error, mean")
    grid[1][0].set_ylabel("relative error")
    grid[0][0].legend(fontsize=8)
    figure.suptitle(title)

"""Table 2 of paper 000, theirs beside ours: Gauss-Seidel, phantoms and averaged Jacobi at equal residual.

Three scenes, relaxed by projections alone. The start is the rest shape, each coordinate disturbed by 5 % of the mean
edge. Gauss-Seidel does the paper's iterations; `residual` is the mean over the groups of RMS over RMS at the start; the
others do as many iterations as they need to get there. `flattened` is the same from a twentieth of the height, as far
as Gauss-Seidel gets in its iterations. A search ends after 3000 iterations, and `gave up` says so.

fps is that of a frame of so many iterations without colliders, on all cores, the best of several; of long frames, 48
iterations are timed. `constraints` counts a phantom constraint for each particle that was split. The paper takes
phantoms to need no more iterations than Gauss-Seidel; `residual at equal iterations` is what they reach in those. An
iteration of averaged Jacobi is three parallel steps here: stretch, volume, averaging; the paper counts one, and 40 for
the 43 iterations of its tori, which must be a misprint.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import scenes
from ..scene import Scene
from ..simulation import Report, Simulation
from ..solvers.base import Solver
from ..solvers.gauss_seidel import ColoredGaussSeidel
from ..solvers.jacobi import AveragedJacobi
from ..solvers.phantoms import Phantoms
from .relaxation import (
    Start,
    disturbed,
    fastest,
    flattened,
    iterate,
    parallel_steps,
    phantom_constraints,
    relaxing,
    residuals,
)

NAME = "phantoms-table2"
SOLVERS: dict[str, Solver] = {
    "gauss-seidel": ColoredGaussSeidel(),
    "phantoms": Phantoms("half"),
    "averaged-jacobi": AveragedJacobi(),
}
# Iterations, constraints, kernel calls a frame, fps (Quadro K6000), speed-up over Jacobi.
PAPER = {
    "squishy-ball": {
        "gauss-seidel": (8, "702K", 880, 205, 5.9),
        "phantoms": (8, "704K", 448, 405, 11.6),
        "averaged-jacobi": (110, "702K", 110, 35, 1.0),
    },
    "omotondo": {
        "gauss-seidel": (16, "144K", 736, 280, 1.4),
        "phantoms": (16, "155K", 432, 384, 2.0),
        "averaged-jacobi": (74, "144K", 74, 195, 1.0),
    },
    "tori-400": {
        "gauss-seidel": (4, "806K", 172, 225, 8.0),
        "phantoms": (4, "822K", 148, 240, 8.6),
        "averaged-jacobi": (43, "806K", 40, 28, 1.0),
    },
}
STARTS: tuple[Start, ...] = (disturbed, flattened)
MOST, MOST_TIMED, TURNS = 3000, 48, 10
SMALL = {"squishy-ball": 0.02, "omotondo": 0.05, "tori-400": 0.03}  # scales of the quick run
COLORS = {"gauss-seidel": "#3a8f5d", "phantoms": "#bb3333", "averaged-jacobi": "#2b5fa5"}  # the paper's


@dataclass(frozen=True, eq=False)
class Relaxed:
    """A solver on a scene: what it has reached after each iteration, and as far as it had to get."""

    simulation: Simulation
    curves: dict[Start, list[float]]
    goals: dict[Start, float]

    @property
    def iterations(self) -> int:
        return len(self.curves[disturbed]) - 1

    @property
    def timed(self) -> int:
        """The iterations of a frame, or as many of them as are timed."""
        return min(self.iterations, MOST_TIMED)

    def frame(self) -> Report:
        return iterate(self.simulation, self.timed)


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    relaxed = {}
    for name in PAPER:
        progress(f"{name}: building")
        scene = scenes.find(name).make(SMALL[name] if quick else 1.0)
        relaxed[name] = _relaxed(name, scene, progress)
    best = {name: np.full(len(SOLVERS), np.inf) for name in PAPER}
    for turn in range(1 if quick else TURNS):  # a busy moment of the machine then hits a turn of each, not all of one
        for name, of_solver in relaxed.items():
            progress(f"{name}: times, turn {turn + 1}")
            times = fastest([own.frame for own in of_solver.values()], 0.3 if quick else 2.5)
            whole = [own.iterations / own.timed for own in of_solver.values()]
            best[name] = np.minimum(best[name], np.multiply(times, whole))
    return [row for name in PAPER for row in _rows(name, relaxed[name], dict(zip(SOLVERS, best[name])))]


def _relaxed(name: str, scene: Scene, progress: Callable[[str], None]) -> dict[str, Relaxed]:
    """Gauss-Seidel in the paper's iterations, and the others until they are as far."""
    relaxed: dict[str, Relaxed] = {}
    goals = dict.fromkeys(STARTS, 0.0)
    for solver, method in SOLVERS.items():
        progress(f"{name}: {solver}")
        simulation, most = relaxing(scene, method), MOST if relaxed else PAPER[name][solver][0]
        curves = {start: residuals(simulation, start, most, goals[start]) for start in STARTS}
        goals = goals if relaxed else {start: curve[-1] for start, curve in curves.items()}
        relaxed[solver] = Relaxed(simulation, curves, goals)
    return relaxed


def _rows(name: str, relaxed: dict[str, Relaxed], milliseconds: dict[str, float]) -> Iterator[dict[str, Any]]:
    exact = relaxed["gauss-seidel"].iterations
    for solver, own in relaxed.items():
        iterations, constraints, calls, fps, speedup = PAPER[name][solver]
        near, flat, plan = own.curves[disturbed], own.curves[flattened], own.simulation.plan
        yield {
            "scene": name,
            "solver": solver,
            "iterations": own.iterations,
            "iterations theirs": iterations,
            "constraints": sum(map(len, plan.model.groups)) + phantom_constraints(plan),
            "constraints theirs": constraints,
            "parallel steps": own.iterations * parallel_steps(plan),
            "kernel calls theirs": calls,
            "fps": 1e3 / milliseconds[solver],
            "fps theirs": fps,
            "speed-up": milliseconds["averaged-jacobi"] / milliseconds[solver],
            "speed-up theirs": speedup,
            "residual": near[-1],
            "residual at equal iterations": near[min(exact, own.iterations)],
            "iterations flattened": len(flat) - 1,
            "residual flattened": flat[-1],
            "gave up": ", ".join(start.__name__ for start in STARTS if own.curves[start][-1] > own.goals[start]),
            "us an iteration": 1e3 * milliseconds[solver] / own.iterations,
            "phantom particles": plan.phantom_count,
            "threads": own.simulation.threads,
        }


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    figure.set_size_inches(14, 4.8)
    grid = figure.subplots(1, 4)
    names = list(dict.fromkeys(row["scene"] for row in rows))
    panels = (
        ("iterations", "iterations theirs", "Iterations to equal residual"),
        ("parallel steps", "kernel calls theirs", "Parallel steps a frame"),
        ("fps", "fps theirs", "Frames per second, more is better"),
        ("speed-up", "speed-up theirs", "Speed-up over Jacobi, more is better"),
    )
    for axes, (ours, theirs, title) in zip(grid, panels):
        for i, (solver, color) in enumerate(COLORS.items()):
            own = [row for row in rows if row["solver"] == solver]
            for shift, key, shade in ((-0.065, ours, color), (0.065, theirs, f"{color}55")):
                places = np.arange(len(names)) + 0.29 * (i - 1) + shift
                drawn = axes.bar(places, [row[key] for row in own], 0.12, color=shade)
                labels = [
                    _short(row[key]) + "+" * (key == ours == "iterations" and bool(row["gave up"])) for row in own
                ]
                axes.bar_label(drawn, labels, fontsize=7, rotation=90, padding=2)
        axes.set_yscale("log")
        axes.set_ylim(top=4 * max(max(row[ours], row[theirs]) for row in rows))
        axes.set_xticks(range(len(names)), names, fontsize=8)
        axes.set_title(title, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    for solver, color in COLORS.items():
        grid[0].bar(0, 0, color=color, label=f"{solver}, ours")
        grid[0].bar(0, 0, color=f"{color}55", label="theirs (Quadro K6000)")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    figure.suptitle(f"Paper 000, table 2: three solvers at equal residual; ours on {rows[0]['threads']} threads")


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 10 and value != int(value) else f"{value:.0f}"

"""Figure 9 of paper 000: the residual of `stretched-cloth` over iterations and over time, by four solvers.

The cloth relaxes by projections alone. The residual is the RMS of the constraints over that at the start. Time is that
of the iterations alone, best of several turns. The paper's text says that hybrid Jacobi converges about as fast as
phantoms do; the numbers of its figure are not in it. Phantoms inserted as printed are here as well.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..scenes import stretched_cloth
from ..solvers.base import Solver
from ..solvers.gauss_seidel import ColoredGaussSeidel
from ..solvers.jacobi import AveragedJacobi, HybridJacobi
from ..solvers.phantoms import Phantoms
from .relaxation import as_built, parallel_steps, relaxing, residuals
from .timing import race

NAME = "phantoms-fig9"
SOLVERS: dict[str, Solver] = {
    "gauss-seidel": ColoredGaussSeidel(),
    "phantoms": Phantoms(),
    "hybrid-jacobi": HybridJacobi(),
    "averaged-jacobi": AveragedJacobi(),
    "phantoms, insertion as printed": Phantoms(insertion="paper"),
}
# The paper's color key.
STYLES = {
    "gauss-seidel": ("#3a8f5d", "-"),
    "phantoms": ("#bb3333", "-"),
    "hybrid-jacobi": ("#7a3fa0", "-"),
    "averaged-jacobi": ("#2b5fa5", "-"),
    "phantoms, insertion as printed": ("#bb3333", ":"),
}
ITERATIONS, AT_ONCE = 6000, 200
GOALS = (1e-1, 1e-2, 1e-3)


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    iterations = 300 if quick else ITERATIONS

    def make() -> Any:
        return stretched_cloth.scene(0.25 if quick else 1.0)

    progress("times")
    timed = {name: relaxing(make(), solver, as_built, AT_ONCE) for name, solver in SOLVERS.items()}
    best = race(*(simulation.step for simulation in timed.values()), seconds=0.2 if quick else 6.0)
    kept = np.unique(np.concatenate([np.arange(11), np.geomspace(10, iterations, 60).round()])).astype(int)
    rows = []
    for (name, simulation), seconds in zip(timed.items(), best):
        progress(name)
        after = np.array(residuals(relaxing(make(), SOLVERS[name]), as_built, iterations))
        each = 1e3 * seconds / AT_ONCE
        row: dict[str, Any] = {
            "solver": name,
            "particles": simulation.model.particle_count,
            "constraints": len(simulation.model.groups[0]),
            "phantoms": simulation.plan.phantom_count,
            "parallel steps an iteration": parallel_steps(simulation.plan),
            "us an iteration": 1e3 * each,
        }
        for goal in GOALS:
            below = np.flatnonzero(after <= goal)
            row[f"iterations to {goal:g}"] = int(below[0]) if len(below) else ""
            row[f"ms to {goal:g}"] = int(below[0]) * each if len(below) else ""
        rows.append(row | {"iterations": kept.tolist(), "residuals": after[kept].tolist()})
    return rows


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    figure.set_size_inches(10.5, 4.6)
    left, right = figure.subplots(1, 2, sharey=True)
    for row in rows:
        color, dash = STYLES[row["solver"]]
        style = {"color": color, "linestyle": dash, "linewidth": 1.8}
        iterations, milliseconds = np.array(row["iterations"]), row["us an iteration"] / 1e3
        left.plot(iterations, row["residuals"], label=row["solver"], **style)
        right.plot(
            iterations * milliseconds, row["residuals"], label=f"{1e3 * milliseconds:.1f} µs an iteration", **style
        )
    longest = max(row["iterations"][-1] for row in rows)
    quickest, slowest = (choose(row["us an iteration"] for row in rows) / 1e3 for choose in (min, max))
    left.set(xscale="log", yscale="log", xlim=(1, longest), ylim=(1e-4, 1.2), xlabel="iterations", ylabel="residual")
    right.set(xscale="log", xlim=(quickest, longest * slowest), xlabel="milliseconds")
    for axes in (left, right):
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, loc="lower left")
    first = rows[0]
    figure.suptitle(
        f"A stretched cloth of {first['particles']:,} particles and {first['constraints']:,} constraints relaxes "
        f"(paper 000, figure 9)"
    )

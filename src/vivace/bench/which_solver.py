"""Real cotton (1600 N/m, 10K vertices, held by two corners): how stiff each solver keeps it within a budget.

Frames of 1/30 s; strain of all edges over the last third of 90 frames of its swing. k h^2 / m is about 10^4, so local
relaxation over whole frames stays rubber; small steps and a direct solve do not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..diagnostics import edge_strain
from ..errors import SimulationError
from ..materials import Elastic
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from ..solvers.base import Solver
from ..solvers.pd_chebyshev import PDChebyshev
from ..solvers.pd_direct import PDDirect
from ..solvers.pd_jacobi import PDJacobi
from ..solvers.vivace import Vivace
from ..solvers.xpbd import XPBD

NAME = "which-solver"
DT, FRAMES = 1 / 30, 90
BUDGETS = (4.0, 8.0, 16.0, 33.0)
# Solver, what the budget is spent on, fixed substeps or iterations.
WAYS: dict[str, tuple[Solver, str, int]] = {
    "vivace, iterations": (Vivace(), "iterations", 1),
    "vivace, substeps": (Vivace(), "substeps", 1),
    "xpbd, iterations": (XPBD(), "iterations", 1),
    "xpbd, substeps": (XPBD(), "substeps", 1),
    "pd-jacobi, iterations": (PDJacobi(), "iterations", 1),
    "pd-chebyshev, iterations": (PDChebyshev(), "iterations", 1),
    "pd-direct, iterations": (PDDirect(), "iterations", 1),
    "pd-direct, 4 substeps": (PDDirect(), "iterations", 4),
}


def cotton(side: int = 100) -> Scene:
    """A cloth of 1.5 m, 200 g/m^2, hung by two corners."""
    scene = Scene()
    mesh = Mesh.grid(side, side, size=(1.5, 1.5))
    scene.add_cloth(mesh, density=0.2, material=Elastic(young=4e6, thickness=4e-4, bend=1e-5)).pin([0, side - 1])
    return scene


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = []
    frames = 6 if quick else FRAMES
    for name, (solver, spend, fixed) in WAYS.items():
        for budget in BUDGETS[:1] if quick else BUDGETS:
            progress(f"{name}, {budget:g} ms")
            substeps = fixed if spend == "iterations" else 1
            simulation = Simulation(cotton(30 if quick else 100), solver, 1, substeps, dt=DT, damping=0.5)
            strains, times, done, failed = [], [], [], 0
            try:
                for report in simulation.run(frames, budget, spend):
                    times.append(report.milliseconds["total"])
                    done.append(report.substeps if spend == "substeps" else report.iterations)
                    if report.frame > frames * 2 // 3:
                        strains.append(edge_strain(simulation))
            except SimulationError:
                failed = simulation.frame + 1
            strain = np.concatenate(strains) if strains else np.array([np.inf])
            rows.append(
                {
                    "solver": name,
                    "budget ms": budget,
                    "median ms": float(np.median(times)) if times else np.inf,
                    "done a frame": float(np.median(done)) if done else 0.0,
                    "mean strain %": 100 * float(strain.mean()),
                    "99th percentile %": 100 * float(np.percentile(strain, 99)),
                    "diverged in frame": failed or "",
                }
            )
    return rows


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    axes = figure.subplots()
    for name in WAYS:
        chosen = [row for row in rows if row["solver"] == name]
        axes.plot([r["budget ms"] for r in chosen], [r["99th percentile %"] for r in chosen], "o-", label=name)
    axes.axhline(3, color="#999999", linewidth=1, linestyle=":")
    axes.set(
        xscale="log",
        yscale="log",
        xticks=BUDGETS,
        xticklabels=[f"{b:g}" for b in BUDGETS],
        xlabel="budget, ms a frame of 1/30 s",
        ylabel="99 % of the edges are strained less than, %",
        title="Hanging cotton of 10K vertices, two corners held",
    )
    axes.minorticks_off()
    axes.legend(fontsize=8)

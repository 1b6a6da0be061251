"""Figures 4 and 5 of paper 002: `falling-cube` by Gauss-Seidel and by averaged Jacobi, 5 ms a frame.

Theirs fits 8 Gauss-Seidel or 24 Jacobi iterations into 5 ms on a GPU, where each color costs a kernel call. On cores a
color costs a barrier of 0.1 µs, so a Gauss-Seidel iteration costs no more. Both are here: what fits into 5 ms on
this machine, and the paper's iterations. What fits is told by the best time of a step of 8 iterations, so that busy
moments do not change the motion; what `step(budget_ms=5)` did beside whatever else was running is in the rows as well.
Residuals: RMS of strain and of relative volume error.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..diagnostics import edge_strain, tet_volumes
from ..io import Camera
from ..io.picture import Renderer
from ..scenes import falling_cube
from ..simulation import Simulation
from ..solvers.base import Solver
from ..solvers.gauss_seidel import ColoredGaussSeidel
from ..solvers.jacobi import AveragedJacobi
from .timing import race

NAME = "pbd-fig5"
BUDGET, FRAMES, FEW = 5.0, 150, 8  # [ms], frames, iterations
FITS, THEIRS = "fits into 5 ms", "as in the paper"
STILLS, LANDING = (18, 24, 30, 42, 60, 90), 21  # frames
SIZE = (480, 400)
CAMERA = Camera((2.5, 2.1, 4.4), (0.1, 0.6, 0.1))
SOLVERS: dict[str, tuple[Solver, int]] = {
    "averaged Jacobi": (AveragedJacobi(), 24),  # and the iterations that fit into the budget in the paper
    "Gauss-Seidel": (ColoredGaussSeidel(), 8),
}
LINES = {"Gauss-Seidel": "#3a8f5d", "averaged Jacobi": "#bb3333"}  # the paper's color key


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    progress(f"how many iterations fit into {BUDGET:g} ms")
    best = race(*(_simulation(name, quick, FEW).step for name in SOLVERS), seconds=0.3 if quick else 6.0)
    fitting = {name: max(int(FEW * BUDGET / (1e3 * seconds)), 1) for name, seconds in zip(SOLVERS, best)}
    rows = []
    for way in (FITS, THEIRS):
        for name, (_, theirs) in SOLVERS.items():
            progress(f"{name}, {way}")
            simulation = _simulation(name, quick, fitting[name] if way == FITS else theirs)
            fallen = _fall(simulation, 30 if quick else FRAMES, pictured=way == FITS)
            rows.append({"solver": name, "way": way, "iterations theirs in 5 ms": theirs, **fallen})
    for row in rows[: len(SOLVERS)]:
        with_budget = _simulation(row["solver"], quick).run(5 if quick else FRAMES, BUDGET)
        row["median of steps with a budget"] = float(np.median([report.iterations for report in with_budget]))
    return rows


def _simulation(name: str, quick: bool, iterations: int = 1) -> Simulation:
    scene, settings = falling_cube.scene(0.05 if quick else 1.0), falling_cube.PAPER
    return Simulation(scene, SOLVERS[name][0], iterations, dt=settings.dt, damping=settings.damping)


def _fall(simulation: Simulation, frames: int, pictured: bool) -> dict[str, Any]:
    """What happens in so many frames."""
    renderer = Renderer(simulation.model, CAMERA, SIZE) if pictured else None
    times, strain, volume, height, pictures = [], [], [], [], []
    for report in simulation.run(frames):
        times.append(report.milliseconds["total"])
        now, rest = tet_volumes(simulation)
        strain.append(100 * rms(edge_strain(simulation)))
        volume.append(100 * rms(now / rest - 1))
        height.append(float(np.ptp(simulation.positions[:, 1])))
        if renderer and report.frame in STILLS:
            pictures.append(renderer.picture(simulation.positions))
    if renderer:
        renderer.close()
    landed = slice(LANDING, None)
    return {
        "constraints": sum(len(group) for group in simulation.model.groups),
        "iterations": simulation.iterations,
        "best ms": min(times),
        "median ms": float(np.median(times)),
        "largest strain %": max(strain),
        "mean strain %": float(np.mean(strain[landed])),
        "largest volume error %": max(volume),
        "mean volume error %": float(np.mean(volume[landed])),
        "lowest height m": min(height),
        "strain %": strain,
        "volume error %": volume,
        **({"pictures": pictures} if pictured else {}),
    }


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    stills = [row for row in rows if "pictures" in row]
    columns = max(len(row["pictures"]) for row in stills)
    figure.set_size_inches(2.2 * columns + 0.6, 8.4)
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.05))
    dt = falling_cube.PAPER.dt
    for axes_row, row in zip(above.subplots(len(stills), columns, squeeze=False), stills):
        for axes, picture, frame in zip(axes_row, row["pictures"], STILLS):
            axes.imshow(picture)
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if row is stills[0]:
                axes.set_title(f"{frame * dt:.2f} s", fontsize=9)
        axes_row[0].set_ylabel(f"{row['solver']}\n{row['iterations']:.0f} iterations", fontsize=9)
    panels = below.subplots(1, 2)
    for axes, key, label in zip(panels, ("strain %", "volume error %"), ("strain", "volume error of the tets")):
        for row in rows:
            told = f"{row['solver']}, {row['iterations']} iterations, {row['best ms']:.1f} ms: {row['way']}"
            style = {"color": LINES[row["solver"]], "linestyle": "-" if row["way"] == FITS else ":", "label": told}
            axes.plot(np.arange(1, 1 + len(row[key])) * dt, row[key], **style)
        axes.set(xlabel="time, s", ylabel=f"{label}, RMS, %", ylim=(0, None))
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    below.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    figure.suptitle(
        f"A falling cube of {rows[0]['constraints']:,} constraints, {BUDGET:g} ms a frame (paper 002, figures 4 and 5)"
    )

"""Figure 6 of paper 000: the residual of three scenes in motion over computing time, by three solvers.

A ball falls, a flattened man rises, tori drop. Each solver runs the same frames with the paper's iterations: 8, 16 and
4 for Gauss-Seidel and for phantoms, 110, 74 and 43 for averaged Jacobi, in one step a frame. With that the man does not
get up again, so the same iterations are there as substeps, too. The residual is a strain, the mean over the groups of
RMS over RMS of the rest values. Time is that of so many of the fastest frames, without colliders, on all cores. `end`
is the mean of the last tenth of the frames. The paper's curves have no numbers that can be read.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import scenes
from ..io.picture import Renderer
from ..simulation import Simulation
from .phantoms_table2 import COLORS, PAPER, SMALL, SOLVERS
from .relaxation import combined, fastest, rest_scales, without_colliders

NAME = "phantoms-fig6"
FRAMES = {"squishy-ball": 75, "omotondo": 120, "tori-400": 75}
AGAIN = ("gauss-seidel", "phantoms")  # also in substeps
SUBSTEPS = {"squishy-ball": 8, "omotondo": 8, "tori-400": 4}
SIZE = (640, 420)
LOWEST = 0.01  # what is drawn, of the largest residual


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = []
    for name, frames in FRAMES.items():
        progress(f"{name}: building")
        setup = scenes.find(name)
        settings, scene = setup.chosen(paper=True), setup.make(SMALL[name] if quick else 1.0)
        scene.touching = None  # contacts are not what is compared
        own, simulations, best = [], [], []
        for solver, substeps in [*((solver, 1) for solver in SOLVERS), *((solver, SUBSTEPS[name]) for solver in AGAIN)]:
            iterations = PAPER[name][solver][0] // substeps
            simulation = Simulation(scene, SOLVERS[solver], iterations, substeps, settings.dt, settings.damping)
            scales, milliseconds, residuals = rest_scales(simulation.model), [], []
            for report in simulation.run(20 if quick else frames):
                progress(f"{name}: {solver}, {substeps} x {iterations}, frame {report.frame}")
                milliseconds.append(without_colliders(report))
                residuals.append(combined(report.residual, scales))
            row: dict[str, Any] = {
                "scene": name,
                "solver": solver,
                "substeps": substeps,
                "iterations": iterations,
                "frames": len(residuals),
                "residual, largest": max(residuals),
                "residual, end": float(np.mean(residuals[-max(len(residuals) // 10, 1) :])),
                "residuals": residuals,
            }
            if solver == "gauss-seidel" and substeps > 1:
                renderer = Renderer(simulation.model, setup.camera, SIZE)
                row["pictures"] = [renderer.picture(simulation.positions)]
                renderer.close()
            own.append(row)
            simulations.append(simulation)
            best.append(min(milliseconds))
        progress(f"{name}: times")
        again = fastest([simulation.step for simulation in simulations], 0.1 if quick else 8.0)
        rows += [{**row, "ms a frame": min(times)} for row, *times in zip(own, best, again)]
    return rows


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    names = list(dict.fromkeys(row["scene"] for row in rows))
    figure.set_size_inches(4.4 * len(names), 6.6)
    grid = figure.subplots(2, len(names), squeeze=False, height_ratios=(1, 1.25))
    for name, above, below in zip(names, *grid):
        own = [row for row in rows if row["scene"] == name]
        above.imshow(next(row["pictures"] for row in own if "pictures" in row)[0])
        counts = ", ".join(str(PAPER[name][solver][0]) for solver in SOLVERS)
        above.set(xticks=[], yticks=[], title=f"{name}: {counts} iterations, {own[0]['frames']} frames")
        above.spines[:].set_visible(False)
        lowest = LOWEST * max(row["residual, largest"] for row in own)
        for row in own:
            seen = np.array(row["residuals"]) > lowest / 2  # nothing is strained before it falls on the floor
            milliseconds = row["ms a frame"] * np.arange(1, 1 + row["frames"])
            label = row["solver"] + ", iterations as substeps" * (row["substeps"] > 1)
            dash = "--" if row["substeps"] > 1 else "-"
            below.plot(
                milliseconds[seen], np.array(row["residuals"])[seen], dash, color=COLORS[row["solver"]], label=label
            )
        below.set(xscale="log", yscale="log", ylim=(lowest, 2 * lowest / LOWEST), xlabel="milliseconds of computing")
        below.grid(color="#dddddd", linewidth=0.6)
        below.spines[["top", "right"]].set_visible(False)
    handles, labels = grid[1][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    grid[1][0].set_ylabel("residual (strain)")
    figure.suptitle("Paper 000, figure 6: residual over computing time")

"""Small steps or many iterations: strain over milliseconds for a cloth of 100 x 100 hung by two corners.

Frames of 1/30 s; strain of all edges over frames 61 to 90 of its swing: mean, 99th percentile and largest. Splitting
the frame into substeps does what iterating does not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..diagnostics import edge_strain
from ..materials import Ratios
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation

NAME = "small-steps"
DT, FRAMES, SEEN = 1 / 30, 90, 30
SPENT = ((1, 8), (1, 64), (1, 230), (8, 8), (16, 1), (32, 1), (64, 1), (128, 1), (230, 1))  # substeps, iterations


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = []
    for substeps, iterations in SPENT:
        progress(f"{substeps} substeps of {iterations} iterations")
        scene = Scene()
        cloth = scene.add_cloth(Mesh.grid(100, 100, size=(2.0, 2.0)), material=Ratios(stretch=1.0))
        cloth.pin([0, 99])
        simulation = Simulation(scene, iterations=iterations, substeps=substeps, dt=DT)
        milliseconds, strains = [], []
        for report in simulation.run(10 if quick else FRAMES):
            milliseconds.append(report.milliseconds["total"])
            if quick or report.frame > FRAMES - SEEN:
                strains.append(edge_strain(simulation))
        strain = np.concatenate(strains)
        rows.append(
            {
                "substeps": substeps,
                "iterations": iterations,
                "ms a frame": float(np.median(milliseconds)),
                "mean strain %": strain.mean() * 100,
                "99th percentile %": float(np.percentile(strain, 99)) * 100,
                "largest %": strain.max() * 100,
            }
        )
    return rows


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    axes = figure.subplots()
    for label, chosen, mark in (
        ("one step, many iterations", [r for r in rows if r["substeps"] == 1], "o--"),
        ("many substeps of one iteration", [r for r in rows if r["iterations"] == 1], "s-"),
    ):
        axes.plot([r["ms a frame"] for r in chosen], [r["mean strain %"] for r in chosen], mark, label=label)
    for row in rows:
        axes.annotate(
            f"{row['substeps']} x {row['iterations']}",
            (row["ms a frame"], row["mean strain %"]),
            textcoords="offset points",
            xytext=(5, 5),
            fontsize=8,
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="milliseconds a frame of 1/30 s",
        ylabel="mean strain of the edges, %",
        title="A hanging cloth of 10K particles: substeps against iterations",
    )
    axes.legend()

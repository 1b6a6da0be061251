"""Figure 5 of paper 000: what fewer colors cost in accuracy, on a cloth of 10K stretch constraints hung by two corners.

Phantoms against plain Gauss-Seidel for a second, from the same start, in two settings: 8 iterations a frame, with
which any cloth of this size is rubber, and 32 substeps of one. The error is the distance between the two, all particles
and frames together, over how far Gauss-Seidel's cloth went from the start. The clique number is 8: with as many colors
there are no phantoms, and the bits are the same. The paper does not say how it measures; the axis of its figure ends
at 17.5 %.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..diagnostics import edge_strain
from ..graph import constraint_graph
from ..materials import Ratios
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from ..solvers.base import Solver
from ..solvers.gauss_seidel import ColoredGaussSeidel
from ..solvers.phantoms import Phantoms
from .relaxation import phantom_constraints

NAME = "phantoms-fig5"
SIDE, FRAMES = 59, 60
SETTINGS = {"8 iterations": (8, 1), "32 substeps of one": (1, 32)}  # iterations, substeps
RAINBOW = ("#bb3333", "#e07b39", "#c9a227", "#3a8f5d", "#2b5fa5", "#7a3fa0")
SHADES = {"8 iterations": "#e07b39", "32 substeps of one": "#bb3333"}


def cloth(side: int) -> Scene:
    """1 m wide, held by two corners, with stretch constraints only."""
    scene = Scene()
    scene.add_cloth(Mesh.grid(side, side), material=Ratios(stretch=1.0)).pin([0, side - 1])
    return scene


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    side, frames = (21, 40) if quick else (SIDE, FRAMES)
    rows = []
    for setting in SETTINGS:
        progress(f"{setting}, gauss-seidel")
        simulation, exact = _animated(side, frames, setting, ColoredGaussSeidel())
        model, strain = simulation.model, edge_strain(simulation).mean()
        (group,) = model.groups
        clique = constraint_graph(group.vertices, model.particle_count).largest_hub
        went = np.linalg.norm(exact - model.positions, axis=(1, 2))
        for colors in range(2, clique + 1):
            progress(f"{setting}, {colors} colors")
            simulation, reached = _animated(side, frames, setting, Phantoms(colors))
            apart = np.linalg.norm(reached - exact, axis=(1, 2))
            rows.append(
                {
                    "a frame": setting,
                    "colors": simulation.colors[group.name],
                    "clique number": clique,
                    "constraints": len(group),
                    "phantom particles": simulation.plan.phantom_count,
                    "phantom constraints": phantom_constraints(simulation.plan),
                    "relative error %": 100 * float(np.linalg.norm(apart) / np.linalg.norm(went)),
                    "same bits": bool((reached == exact).all()),
                    "mean strain at the end %": 100 * float(edge_strain(simulation).mean()),
                    "of Gauss-Seidel %": 100 * float(strain),
                    "errors of the frames %": (100 * apart / went).tolist(),
                }
            )
    return rows


def _animated(side: int, frames: int, setting: str, solver: Solver) -> tuple[Simulation, np.ndarray]:
    """The simulation, and its positions after each frame (frames, n, 3)."""
    simulation = Simulation(cloth(side), solver, *SETTINGS[setting])
    return simulation, np.array([simulation.positions for _ in simulation.run(frames)], np.float64)


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    figure.set_size_inches(11, 4.4)
    left, right = figure.subplots(1, 2)
    first = [row for row in rows if row["a frame"] == rows[0]["a frame"]]
    beside = left.twinx()
    for shift, key, shade in ((-0.17, "phantom particles", "#c9d3dd"), (0.17, "phantom constraints", "#e4dfd3")):
        beside.bar([row["colors"] + shift for row in first], [row[key] for row in first], 0.32, color=shade, label=key)
    beside.set_ylabel("phantoms")
    for setting, shade in SHADES.items():
        own = [row for row in rows if row["a frame"] == setting]
        colors, errors = [row["colors"] for row in own], [row["relative error %"] for row in own]
        left.plot(colors, errors, "o-", color=shade, label=f"error, {setting}")
        for row in own[: None if setting == next(iter(SHADES)) else -1]:
            text = "0: the\nsame bits" if row["same bits"] else f"{row['relative error %']:.1f}"
            place = row["colors"], row["relative error %"]
            offset = (8, 26) if row["same bits"] else (0, 6)
            left.annotate(text, place, offset, textcoords="offset points", ha="center", fontsize=8, color=shade)
    left.set(xlabel="colors", ylabel="relative error, %", ylim=(0, 1.2 * max(row["relative error %"] for row in rows)))
    left.set_zorder(beside.get_zorder() + 1)
    left.patch.set_visible(False)
    handles, labels = (a + b for a, b in zip(*(axes.get_legend_handles_labels() for axes in (left, beside))))
    left.legend(handles, labels, fontsize=8)
    clique = rows[0]["clique number"]
    left.set_title(f"{rows[0]['constraints'] / 1000:.1f}K stretch constraints, clique number {clique}", fontsize=10)
    setting = list(SHADES)[-1]
    for row in rows:
        if row["a frame"] == setting and not row["same bits"]:
            shade = RAINBOW[(row["colors"] - 2) % len(RAINBOW)]
            times = np.arange(1, 1 + len(row["errors of the frames %"])) / 60
            right.plot(times, row["errors of the frames %"], color=shade, label=f"{row['colors']} colors")
    right.set(yscale="log", xlabel="time, s", ylabel="relative error, %")
    right.set_title(f"Frame by frame, {setting}", fontsize=10)
    right.legend(fontsize=8)
    figure.suptitle("Paper 000, figure 5: phantoms against Gauss-Seidel on a hanging cloth")

"""A fresh random order of visits every frame: does the error fall, as paper 001 says?

`tablecloth` by Vivace, once with one coloring for all frames, once colored anew for each. At every fourth frame the
step's error is measured against the converged solution from the same state.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..scenes import tablecloth
from ..solvers.vivace import Vivace
from .convergence import predicted, relative_error, step_of

NAME = "fresh-order"


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    scale, frames = (0.05, 6) if quick else (1.0, 60)
    rows = []
    for ratio in (1.0, 10.0):
        for iterations in (2, 4, 8):
            for fresh in (False, True):
                progress(f"k h^2 / m = {ratio:g}, {iterations} iterations, {'fresh' if fresh else 'fixed'}")
                made = []
                for seed in range(1 if quick else 3):
                    made += _errors(scale, ratio, iterations, fresh, frames, seed)
                row = {"k h^2/m": ratio, "iterations": iterations, "order": "fresh" if fresh else "fixed"}
                rows.append({**row, "error": float(np.mean(made)), "spread": float(np.std(made))})
    return rows


def _errors(scale: float, ratio: float, iterations: int, fresh: bool, frames: int, seed: int) -> list[float]:
    springs = tablecloth.springs(ratio, scale)
    simulation = step_of(tablecloth.scene(scale, springs), Vivace(fresh=fresh), iterations)
    simulation.seed = 1000 * seed
    converged = step_of(tablecloth.scene(scale, springs), Vivace(), int(300 * ratio**0.5))
    errors = []
    for frame in range(frames):
        x, v = simulation.positions, simulation.velocities
        simulation.step()
        if frame % 4 == 0:
            converged.positions, converged.velocities = x, v
            converged.step()
            errors.append(relative_error(simulation.positions, predicted(simulation, x, v), converged.positions))
    return errors


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    axes = figure.subplots()
    for (ratio, order), mark in zip(((1.0, "fixed"), (1.0, "fresh"), (10.0, "fixed"), (10.0, "fresh")), "osov"):
        chosen = [row for row in rows if row["k h^2/m"] == ratio and row["order"] == order]
        label = f"k h² / m = {ratio:g}, {order} order"
        axes.plot([r["iterations"] for r in chosen], [r["error"] for r in chosen], f"{mark}-", label=label)
    axes.set(xscale="log", yscale="log", xlabel="iterations", ylabel="relative error, mean")
    axes.set_title("One order of visits for all frames, or a fresh one for each")
    axes.legend(fontsize=8)

"""Rows of still frames, one solver a row: what figures 6 and 7 of paper 001 are made of."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import SimulationError
from ..io import Camera
from ..io.picture import Renderer
from ..scene import Scene
from ..simulation import Simulation
from ..solvers.base import Solver

DT = 1 / 30


def run_stills(
    make: Callable[[], Scene],
    solvers: dict[str, Solver],
    budget_ms: float,
    frames: tuple[int, ...],
    progress: Callable[[str], None],
    camera: Camera,
    size: tuple[int, int] = (480, 360),
    substeps: int = 1,
) -> list[dict[str, Any]]:
    """Simulate with each solver within the budget, and take pictures at some frames."""
    rows = []
    for name, solver in solvers.items():
        progress(name)
        simulation = Simulation(make(), solver, substeps=substeps, dt=DT, damping=0.5)
        renderer, pictures, iterations, failed = Renderer(simulation.model, camera, size), [], [], 0
        try:
            for report in simulation.run(max(frames), budget_ms):
                iterations.append(report.iterations)
                if report.frame in frames:
                    pictures.append(renderer.picture(simulation.positions))
        except SimulationError:
            failed = simulation.frame + 1
        finally:
            renderer.close()
        residual = next(iter(report.residual.values())).rms if iterations else np.inf
        rows.append(
            {
                "solver": name,
                "budget ms": budget_ms,
                "iterations": float(np.mean(iterations)) if iterations else 0.0,
                "residual at the end": residual,
                "diverged in frame": failed or "",
                "frames": list(frames),
                "pictures": pictures,
            }
        )
    return rows


def plot_stills(rows: list[dict[str, Any]], figure: Any, title: str) -> None:
    columns = max(len(row["frames"]) for row in rows)
    figure.set_size_inches(3.2 * columns, 2.7 * len(rows))
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes_row, row in zip(grid, rows):
        for i, axes in enumerate(axes_row):
            axes.set(xticks=[], yticks=[])
            if i < len(row["pictures"]):
                axes.imshow(row["pictures"][i])
            else:
                axes.text(0.5, 0.5, f"diverged in frame {row['diverged in frame']}", ha="center", va="center")
            axes.set_title(f"{row['frames'][i] * DT:.2f} s", fontsize=8)
        axes_row[0].set_ylabel(f"{row['solver']}\n{row['iterations']:.0f} iterations", fontsize=9)
    figure.suptitle(f"{title}, {rows[0]['budget ms']:g} ms a frame")

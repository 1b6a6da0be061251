"""Piles of soft things with a script, run in several ways: what figures 8 and 9 of paper 001 are made of."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..diagnostics import collider_depths, crossings, rms_speed
from ..io.picture import Renderer
from ..scenes import find
from ..simulation import Report, Simulation

Way = dict[str, Any]  # of a simulation, and `budget_ms`


def run_pile(
    name: str, ways: dict[str, Way], frames: tuple[int, ...], scale: float, progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Simulate a built-in scene in each way up to the last of the frames, and take pictures at each of them."""
    setup, rows = find(name), []
    for title, way in ways.items():
        progress(title)
        options = {**setup.settings.__dict__, **way}
        taken = {key: options[key] for key in ("iterations", "substeps", "dt", "damping")}
        simulation = Simulation(setup.make(scale), way.get("solver", "gauss-seidel"), **taken)
        renderer, pictures, reports = Renderer(simulation.model, setup.camera, (640, 400)), [], []
        try:
            for frame in range(1, max(frames) + 1):
                setup.before_frame(simulation)
                reports.append(simulation.step(way.get("budget_ms")))
                if frame in frames:
                    pictures.append(renderer.picture(simulation.positions, simulation.time))
        finally:
            renderer.close()
        rows.append({"way": title, **measured(simulation, reports), "frames": list(frames), "pictures": pictures})
    return rows


def measured(simulation: Simulation, reports: list[Report]) -> dict[str, Any]:
    """Milliseconds a frame, of which detection, and what came out."""
    reports = reports[1:]  # the first frame may compile
    total = np.array([report.milliseconds["total"] for report in reports])
    stages = {stage: [report.milliseconds[stage] for report in reports] for stage in reports[0].milliseconds}
    touches = [report.touches for report in reports if report.touches is not None]
    return {
        "particles": simulation.model.particle_count,
        "constraints": sum(len(group) for group in simulation.model.groups),
        "substeps": simulation.substeps,
        "iterations": float(np.mean([report.iterations for report in reports])),
        "mean ms": float(total.mean()),
        "median ms": float(np.median(total)),
        "95 % ms": float(np.percentile(total, 95)),
        **{f"{stage} ms": float(np.mean(times)) for stage, times in stages.items() if stage != "total"},
        "detect share": float(np.sum(stages["detect"]) / total.sum()),
        "median detect share": float(np.median(stages["detect"] / total)),
        "contacts": int(np.mean([touch.contacts for touch in touches])),
        "colors": max(touch.colors for touch in touches),
        "overflow": max(touch.overflow for touch in touches),
        "crossing pairs": crossings(simulation),
        "triangles": len(simulation.model.triangles),
        "deepest in colliders mm": 1e3 * float(collider_depths(simulation).max()),
        "rms speed m/s": rms_speed(simulation),
    }


def plot_piles(rows: list[dict[str, Any]], figure: Any, title: str) -> None:
    shown = [row for row in rows if row.get("pictures")]
    columns = max(len(row["frames"]) for row in shown)
    figure.set_size_inches(4.2 * columns, 3.0 * len(shown))
    grid = figure.subplots(len(shown), columns, squeeze=False)
    for axes_row, row in zip(grid, shown):
        for axes, frame, picture in zip(axes_row, row["frames"], row["pictures"]):
            axes.imshow(picture)
            axes.set(xticks=[], yticks=[])
            axes.set_title(f"frame {frame}", fontsize=8)
        axes_row[0].set_ylabel(f"{row['way']}\n{row['median ms']:.0f} ms, {row['contacts']} contacts", fontsize=9)
    figure.suptitle(title)

"""Table 1 of paper 002, theirs beside ours: three scenes, frames per second without collisions and rendering.

Ours runs the paper's iterations for 500 frames on one thread and on all. The residual (RMS of the last frame) tells
what the iterations are worth; times are the mean over all frames, as in the paper, of the best of three
turns. Their processor had 12 hardware threads.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import scenes
from ..kernels.region import core_count
from ..simulation import Simulation

NAME = "pbd-table1"
TURNS = 3
# Particles, constraints / colors, fps on one thread, twelve threads and their GPU.
PAPER = {
    "cloth-on-tube": ("10K", "s 29K/8, b 29K/18", 25, 73, 1105),
    "flat-bunny": ("16K", "s 80K/64, b 42K/20, t 50K/124", 15, 45, 326),
    "tori": ("91K", "s 493K/17, t 313K/26", 3, 5, 700),
}

SHORT = {"stretch": "s", "bend": "b", "volume": "t"}


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = []
    for name, (particles, constraints, one, twelve, gpu) in PAPER.items():
        setup = scenes.find(name)
        settings = setup.paper
        assert settings is not None
        frames = 30 if quick else settings.frames
        motion = settings.iterations, settings.substeps, settings.dt, settings.damping
        scene = setup.make(1.0)
        scene.touching = None  # without collisions
        simulations = {
            threads: Simulation(scene, "gauss-seidel", *motion, threads) for threads in sorted({1, core_count()})
        }
        fps = dict.fromkeys(simulations, 0.0)
        for turn in range(1 if quick else TURNS):
            for threads, simulation in simulations.items():
                progress(f"{name} on {threads} threads, turn {turn + 1}, {frames} frames")
                simulation.positions, simulation.velocities = simulation.model.positions, simulation.model.velocities
                milliseconds = []
                for report in simulation.run(frames):
                    milliseconds.append(report.milliseconds["total"] - report.milliseconds["collide"])
                fps[threads] = max(fps[threads], 1e3 / float(np.mean(milliseconds)))
        ours = ", ".join(
            f"{SHORT[planned.group.name]} {len(planned.group) / 1000:.0f}K/{report.colors[planned.group.name]}"
            for planned in simulation.plan.groups
        )
        rows.append(
            {
                "scene": name,
                "particles": simulation.model.particle_count,
                "particles theirs": particles,
                "constraints/colors": ours,
                "constraints/colors theirs": constraints,
                "iterations": settings.iterations,
                "fps 1 thread": fps[1],
                "theirs 1 thread": one,
                f"fps {core_count()} threads": fps[core_count()],
                "theirs 12 threads": twelve,
                "theirs GPU": gpu,
                **{f"residual {group}": residual.rms for group, residual in report.residual.items()},
            }
        )
    return rows


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    axes = figure.subplots()
    all_cores = next(key for key in reversed(rows[0]) if key.startswith("fps"))
    bars = {
        "theirs, 1 thread": "theirs 1 thread",
        "ours, 1 thread": "fps 1 thread",
        "theirs, 12 threads": "theirs 12 threads",
        f"ours, {all_cores.split()[1]} threads": all_cores,
        "theirs, GPU": "theirs GPU",
    }
    colors = ["#cccccc", "#88bbdd", "#999999", "#4477aa", "#666666"]
    for i, (label, key) in enumerate(bars.items()):
        drawn = axes.bar(
            np.arange(len(rows)) + (i - 2) * 0.16, [row[key] for row in rows], 0.15, label=label, color=colors[i]
        )
        axes.bar_label(drawn, fmt="%.0f", fontsize=7)
    axes.set(yscale="log", ylabel="frames per second", title="Paper 002, table 1: frames per second, more is better")
    axes.set_xticks(range(len(rows)), [f"{row['scene']}\n{row['iterations']} iterations" for row in rows])
    axes.set_ylim(1, 6000)
    axes.legend(fontsize=8, ncols=3, loc="upper left")

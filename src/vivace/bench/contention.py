"""A step while other processes keep every core busy: all threads against one, under the same load.

The barrier between colors spins, then gives its core away; where that happens often, steps fall back to one thread
for a while. Mean over all steps, because single ones may wait for a whole time slice.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..kernels.region import core_count
from ..materials import Ratios
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from .limit import WORKS

NAME = "contention"
BUSY = "while True: pass"


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = []
    for name, work in {"W4, 10K particles": WORKS["W4"], "cloth, 1K particles": small_cloth}.items():
        one, many = (Simulation(work(), threads=threads) for threads in (1, max(core_count(), 2)))
        for load in (0, core_count()):
            progress(f"{name}, {load} busy processes")
            times: dict[Simulation, list[float]] = {one: [], many: []}
            with busy(load):
                end = time.perf_counter() + (1 if quick else 10)
                while time.perf_counter() < end:
                    for simulation, taken in times.items():
                        taken.append(simulation.step().milliseconds["total"])
            rows.append({"work": name, "busy processes": load, **_compared(times[one], times[many], many.threads)})
    return rows


def _compared(one: list[float], many: list[float], threads: int) -> dict[str, Any]:
    return {
        "steps": len(one),
        "1 thread ms": float(np.mean(one)),
        f"{threads} threads ms": float(np.mean(many)),
        "ratio": float(np.mean(many) / np.mean(one)),
        "1 thread 99 %": float(np.percentile(one, 99)),
        f"{threads} threads 99 %": float(np.percentile(many, 99)),
    }


def small_cloth() -> Scene:
    """So little work between two barriers that waiting would outweigh it."""
    scene = Scene()
    scene.add_cloth(Mesh.grid(32, 32), material=Ratios(stretch=0.9, bend=0.3)).pin([0, 31])
    return scene


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep `count` cores busy with other processes."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    axes = figure.subplots()
    keys = [key for key in rows[0] if key.endswith(" ms")]
    for i, key in enumerate(keys):
        axes.bar_label(
            axes.bar(np.arange(len(rows)) + (i - 0.5) * 0.4, [row[key] for row in rows], 0.38, label=key[:-3]),
            fmt="%.2f",
        )
    axes.set_xticks(range(len(rows)), [f"{row['work']}\n{row['busy processes']} busy processes" for row in rows])
    axes.set(ylabel="milliseconds a step (mean)", title="Sharing the cores with other processes")
    axes.legend()

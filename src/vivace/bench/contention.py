"""A step while other processes keep every core busy: two threads against one, under the same load.

The barrier between colors spins, then gives its core away, so that waiting for a thread that is not running does not
take the time that it needs to run. Mean over all steps, because single ones may wait for a whole time slice.
"""
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..simulation import Simulation, core_count
from .limit import WORKS

NAME = "contention"
BUSY = "while True: pass"


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    threads = max(core_count(), 2)
    one, many = (Simulation(WORKS["W4"](), threads=n) for n in (1, threads))
    rows = []
    for load in (0, core_count()):
        progress(f"{load} busy processes")
        with busy(load):
            times: dict[int, list[float]] = {1: [], threads: []}
            end = time.perf_counter() + (2 if quick else 15)
            while time.perf_counter() < end:
                for simulation in (one, many):
                    times[simulation.threads].append(simulation.step().milliseconds["total"])
        rows.append({"busy processes": load, "steps": len(times[1]), "1 thread ms": float(np.mean(times[1])),
                     f"{threads} threads ms": float(np.mean(times[threads])), "ratio": float(np.mean(times[threads]) / np.mean(times[1])),
                     "1 thread 99 %": float(np.percentile(times[1], 99)), f"{threads} threads 99 %": float(np.percentile(times[threads], 99))})
    return rows


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
        axes.bar_label(axes.bar(np.arange(len(rows)) + (i - 0.5) * 0.4, [row[key] for row in rows], 0.38, label=key[:-3]), fmt="%.2f")
    axes.set_xticks(range(len(rows)), [f"{row['busy processes']} busy processes" for row in rows])
    axes.set(ylabel="milliseconds a step (mean)", title="Sharing the cores with other processes: W4, cloth of 10K particles")
    axes.legend()

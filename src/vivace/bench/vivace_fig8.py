"""Figure 8 of paper 001: `noodles`, 15 ms a frame on a GTX 970 in the paper; and its cost as heaps get more.

Rows with a number of heaps are ten noodles each, side by side, the last frames of each: cost should grow linearly.
"""

from collections.abc import Callable
from typing import Any

from ..scene import Scene
from ..scenes import noodles
from ..simulation import Simulation
from .piles import measured, plot_piles, run_pile

NAME = "vivace-fig8"
PAPER = {"way": "paper 001, GTX 970", "particles": 30_000, "constraints": 150_000, "mean ms": 15.0}
WAYS: dict[str, dict[str, Any]] = {
    "4 substeps x 4 iterations": {},
    "4 substeps x 2 iterations": {"iterations": 2},
    "vivace, 15 ms": {"solver": "vivace", "substeps": 1, "budget_ms": 15.0},
}


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = run_pile("noodles", WAYS, (2, 4) if quick else (10, 25, 60, 300), 0.03 if quick else 1.0, progress)
    for count in (1, 2) if quick else (1, 4, 20):
        progress(f"{count} heaps")
        settings = noodles.SETTINGS
        simulation = Simulation(
            heaps(count, 2 if quick else 10), iterations=2, substeps=settings.substeps, damping=settings.damping
        )
        reports = list(simulation.run(4 if quick else 90))[-30:]
        row = {"way": f"{count} heaps", **measured(simulation, reports)}
        rows.append({**row, "us a particle": 1e3 * row["median ms"] / row["particles"]})
    return [*rows, PAPER]


def heaps(count: int, of: int) -> Scene:
    """Heaps of so many noodles each, far enough from each other."""
    made = noodles.on_the_floor()
    for heap in range(count):
        for i, noodle in enumerate(noodles.in_the_air(of)):
            place = [2.5 * (heap % 5), 0, 2.5 * (heap // 5)]
            noodles.add(made, noodle.moved(place), f"noodle-{heap + 1}-{i + 1}")
    return made


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    plot_piles(rows, figure, "noodles (paper 001, figure 8)")

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
    "3 substeps x 8 iterations": {"substeps": 3, "iterations": 8},
    "4 substeps x 4 iterations": {"substeps": 4, "iterations": 4},
    "2 substeps x 8 iterations": {"substeps": 2, "iterations": 8},
    "vivace, 15 ms": {"solver": "vivace", "budget_ms": 15.0},
}


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = run_pile("noodles", WAYS, (2, 4) if quick else (10, 25, 60, 300), 0.03 if quick else 1.0, progress)
    progress("heaps side by side")
    settings, counts = noodles.SETTINGS, (1, 2) if quick else (1, 4, 20)
    taken: dict[str, Any] = {
        "iterations": settings.iterations,
        "substeps": settings.substeps,
        "damping": settings.damping,
    }
    piles = [Simulation(heaps(count, 2 if quick else 10), **taken) for count in counts]
    for pile in piles:
        for _ in pile.run(2 if quick else 60):
            pass
    turns = [[pile.step() for pile in piles] for _ in range(2 if quick else 40)]  # in turn: alike for all
    for count, pile, reports in zip(counts, piles, zip(*turns)):
        row = {"way": f"{count} heaps", **measured(pile, list(reports))}
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

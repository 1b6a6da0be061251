"""Figure 9 of paper 001: `cloth-heap`, one cloth pinched and dragged; 15 ms a frame on a GTX 970 in the paper."""

from collections.abc import Callable
from typing import Any

from .piles import plot_piles, run_pile

NAME = "vivace-fig9"
PAPER = {"way": "paper 001, GTX 970", "constraints": 324_000, "mean ms": 15.0}
WAYS: dict[str, dict[str, Any]] = {
    "as the scene says": {},
    "vivace, 15 ms": {"solver": "vivace", "budget_ms": 15.0},
}


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    frames = (2, 4) if quick else (30, 120, 200, 300)
    return [*run_pile("cloth-heap", WAYS, frames, 0.02 if quick else 1.0, progress), PAPER]


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    plot_piles(rows, figure, "cloth-heap (paper 001, figure 9)")

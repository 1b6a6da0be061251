"""Figure 7 of paper 001: still frames of `armadillo`, Vivace and Chebyshev at one budget.

15 ms, as in the paper, here over twelve substeps a frame: as many iterations over all of it leave the arm rubber.
"""

from collections.abc import Callable
from typing import Any

from ..scenes import armadillo
from ..solvers.base import Solver
from ..solvers.pd_chebyshev import PDChebyshev
from ..solvers.vivace import Vivace
from .stills import plot_stills, run_stills

NAME = "vivace-fig7"


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    mesh = armadillo.creature(0.05 if quick else 1.0)
    solvers: dict[str, Solver] = {
        "vivace": Vivace(),
        "pd-chebyshev": PDChebyshev(),
        "pd-chebyshev, start 1": PDChebyshev(start=1, relaxation=1.0),
    }
    return run_stills(
        lambda: armadillo.hanging(mesh, armadillo.PLUSH),
        solvers,
        15.0,
        (2, 4) if quick else (5, 12, 24, 60),
        progress,
        armadillo.CAMERA,
        substeps=12,
    )


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    plot_stills(rows, figure, "armadillo (paper 001, figure 7)")

"""Figure 6 of paper 001: still frames of `tablecloth`, Vivace, Chebyshev and Jacobi at one budget.

4 ms here is about thirty iterations; k h^2 / m = 100. Chebyshev with its defaults (start 10) and starting at once.
"""

from collections.abc import Callable
from typing import Any

from ..scenes import tablecloth
from ..solvers.base import Solver
from ..solvers.pd_chebyshev import PDChebyshev
from ..solvers.pd_jacobi import PDJacobi
from ..solvers.vivace import Vivace
from .stills import plot_stills, run_stills

NAME = "vivace-fig6"


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    scale = 0.05 if quick else 1.0
    solvers: dict[str, Solver] = {
        "vivace": Vivace(),
        "pd-chebyshev": PDChebyshev(),
        "pd-chebyshev, start 1": PDChebyshev(start=1, relaxation=1.0),
        "pd-jacobi": PDJacobi(),
    }
    return run_stills(
        lambda: tablecloth.scene(scale, tablecloth.springs(100.0, scale)),
        solvers,
        4.0,
        (2, 4) if quick else (5, 12, 24, 60),
        progress,
        tablecloth.CAMERA,
    )


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    plot_stills(rows, figure, "tablecloth (paper 001, figure 6)")

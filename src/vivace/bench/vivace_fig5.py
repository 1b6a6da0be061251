"""Figure 5 of paper 001: relative error on `armadillo` for Vivace, Jacobi and Chebyshev.

As vivace-fig4, but with tetrahedra; k h^2 / m is a sixth of the mean of the stiffness diagonal over m / h^2.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from ..scene import Scene
from ..scenes import armadillo
from .convergence import plot_study, study

NAME = "vivace-fig5"


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    return list(study(of_ratio(0.05 if quick else 1.0), quick, progress, frames=25))


def of_ratio(scale: float) -> Callable[[float], Scene]:
    """The scene as a function of k h^2 / m."""
    made = cache(armadillo.creature)(scale)
    return lambda ratio: armadillo.hanging(made, armadillo.of_ratio(ratio, made))


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    plot_study(rows, figure, "armadillo, h = 33 ms (paper 001, figure 5)")

"""Plots by Matplotlib."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..coloring import Coloring
from . import extra, partial_name


def save_plot(path: Path, draw: Callable[[Any], None]) -> None:
    """A Matplotlib figure that `draw(figure)` fills, as a PNG."""
    figure = extra("matplotlib.figure").Figure(figsize=(8, 4.5), layout="constrained")
    draw(figure)
    try:
        figure.savefig(partial_name(path), format="png", dpi=130)
        partial_name(path).replace(path)
    finally:
        partial_name(path).unlink(missing_ok=True)


def plot_color_sizes(figure: Any, colorings: list[tuple[str, Coloring]]) -> None:
    """How many constraints each color has: a histogram for each group and algorithm."""
    columns = min(len(colorings), 4)
    rows = -(-len(colorings) // columns)
    figure.set_size_inches(4 * columns, 3 * rows)
    for axes, (group, colored) in zip(figure.subplots(rows, columns, squeeze=False).flat, colorings):
        axes.bar(range(colored.count), colored.sizes, color="#4477aa")
        axes.set(title=f"{group}, {colored.algorithm}: {colored.count} colors", xlabel="color", ylabel="constraints")

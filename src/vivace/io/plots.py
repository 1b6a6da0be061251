"""Plots by Matplotlib."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..coloring import Coloring, PhantomPartition
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


def plot_before_after(figure: Any, made: PhantomPartition) -> None:
    """How many constraints each color has, without phantoms and with them: figures 7 and 8 of paper 000."""
    figure.set_size_inches(8, 3 * len(made.groups))
    for row, group in zip(figure.subplots(len(made.groups), 2, sharey="row", squeeze=False), made.groups):
        phantoms = f"{made.phantom_count} phantoms"
        for axes, colored, title in zip(row, (group.plain, group.coloring), ("without phantoms", phantoms)):
            axes.bar(range(colored.count), colored.sizes, color="#4477aa")
            axes.set(title=f"{group.name}, {title}: {colored.count} colors", xlabel="color")
        row[0].set_ylabel("constraints")

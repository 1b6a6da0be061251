"""Figure 2 of paper 001: adjacency matrices of a cloth and a solid, as they are and reordered by each coloring.

Rows of one color have no entries among each other, so the blocks on the diagonal become empty.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..coloring import color
from ..graph import Graph
from .vivace_fig3 import PARALLEL, graphs

NAME = "vivace-fig2"


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = []
    for kind, number, graph in _graphs():
        for name in (*PARALLEL, "smallest-last"):
            progress(f"{kind}, {name}")
            made = [color(graph, name, seed=seed) for seed in range(3 if quick else 30)]
            rows.append(
                {
                    "mesh": kind,
                    "vertices": number,
                    "algorithm": name,
                    "colors": float(np.mean([coloring.count for coloring in made])),
                    "milliseconds": float(np.median([coloring.milliseconds for coloring in made])),
                }
            )
    return rows


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    names = (*PARALLEL, "smallest-last")
    figure.set_size_inches(2.4 * (len(names) + 1), 6.4)
    for down, (kind, number, graph) in enumerate(_graphs()):
        orders = {"unordered": np.arange(number)}
        for name in names:
            orders[name] = np.argsort(color(graph, name, seed=0).colors, kind="stable")
        for across, (name, order) in enumerate(orders.items()):
            axes = figure.add_subplot(2, len(orders), 1 + down * len(orders) + across)
            axes.plot(*_entries(graph, order), ",", color="#224466", markersize=1)
            axes.set(xticks=[], yticks=[], xlim=(0, number), ylim=(number, 0), aspect="equal")
            told = next((row for row in rows if row["mesh"] == kind and row["algorithm"] == name), None)
            below = (
                f"{told['colors']:.1f} colors\n{told['milliseconds']:.2f} ms" if told else f"{kind}, {number} vertices"
            )
            axes.set_title(name, fontsize=9)
            axes.set_xlabel(below, fontsize=8)


def _graphs() -> list[tuple[str, int, Graph]]:
    """The smallest cloth and solid: larger matrices are all black."""
    made = graphs(quick=True)
    return [made[0], made[2]]


def _entries(graph: Graph, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column and row of every entry after reordering."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    offsets, neighbors = graph.adjacency
    return place[neighbors], place[np.repeat(np.arange(len(order)), np.diff(offsets))]

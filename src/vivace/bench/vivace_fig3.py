"""Figure 3 of paper 001: time and colors of the parallel colorings over size, for cloths and tetrahedral solids.

Vertex graphs: particles are nodes, joined by springs (cloth) or tets (solid). Smallest-last, which is serial, stands
beside them; Brooks-Vizing is shown with its default shrink, the smallest degree, and with others. Best of five.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..coloring import color
from ..coloring.brooks_vizing import with_shrink
from ..graph import Graph, vertex_graph
from ..mesh import Mesh

NAME = "vivace-fig3"
PARALLEL = ("brooks-vizing", "luby", "jones-plassmann", "largest-degree-first")
ALGORITHMS: dict[str, Any] = {
    **{name: name for name in (*PARALLEL, "smallest-last")},
    **{f"brooks-vizing, shrink {shrink}": with_shrink(shrink) for shrink in (1, 2, 4)},
}
SIDES, LAYERS = (32, 71, 100, 173, 316), (6, 10, 15, 21, 28)


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = []
    for kind, number, graph in graphs(quick):
        graph.adjacency  # noqa: B018  written out before the clock starts: the paper's graphs are given so
        for name, algorithm in ALGORITHMS.items():
            progress(f"{kind} of {number} vertices, {name}")
            made = [color(graph, algorithm, seed=seed) for seed in range(2 if quick else 5)]
            best = min(made, key=lambda coloring: coloring.milliseconds)
            rows.append(
                {
                    "mesh": kind,
                    "vertices": number,
                    "algorithm": name,
                    "colors": float(np.mean([coloring.count for coloring in made])),
                    "rounds": float(np.mean([coloring.rounds for coloring in made])),
                    "milliseconds": best.milliseconds,
                    "balance": best.balance,
                    "at least": graph.largest_hub,
                }
            )
    return rows


def graphs(quick: bool = False) -> list[tuple[str, int, Graph]]:
    """The meshes of the figure, as kind, number of vertices and vertex graph."""
    made = []
    for side in SIDES[:2] if quick else SIDES:
        mesh = Mesh.grid(side, side)
        made.append(("cloth", len(mesh.vertices), vertex_graph([mesh.edges], len(mesh.vertices))))
    for layers in LAYERS[:2] if quick else LAYERS:
        mesh = Mesh.ball(layers)
        made.append(("solid", len(mesh.vertices), vertex_graph([mesh.tets], len(mesh.vertices))))
    return made


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    figure.set_size_inches(10, 7)
    for across, kind in enumerate(("cloth", "solid")):
        for down, (key, label) in enumerate((("milliseconds", "milliseconds"), ("colors", "colors"))):
            axes = figure.add_subplot(2, 2, 1 + 2 * down + across)
            for name in (*PARALLEL, "smallest-last"):
                chosen = [row for row in rows if row["mesh"] == kind and row["algorithm"] == name]
                axes.plot([row["vertices"] for row in chosen], [row[key] for row in chosen], "o-", label=name)
            axes.set(xscale="log", yscale="log" if key == "milliseconds" else "linear", xlabel="vertices", ylabel=label)
            axes.set_title(f"{kind}: {label}")
    figure.axes[0].legend(fontsize=8)

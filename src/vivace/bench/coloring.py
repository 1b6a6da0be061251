"""Colors and milliseconds of every coloring algorithm as scenes grow: the cost is linear in the constraints.

`tori` at several scales, stretch and volume together. A star of constraints around one particle is the exception: all
are neighbors of all, so greedy colorings cost the square of its size, and the parallel ones, which color one of them a
round, its cube.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import scenes
from ..coloring import algorithms, color
from ..graph import Graph, constraint_graph

NAME = "coloring"
SCALES, STARS = (0.1, 0.3, 1.0), (250, 1000)


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = []
    for name in sorted(algorithms()):
        color(Graph.from_edges(2, [(0, 1)]), name)  # compile first
    for scale in SCALES[:2] if quick else SCALES:
        model = scenes.find("tori").make(scale).build()
        graphs = [constraint_graph(group.vertices, model.particle_count) for group in model.groups]
        rows += [_row(f"tori x {scale:g}", graphs, name, progress) for name in sorted(algorithms())]
    for size in STARS:
        spokes = np.stack([np.zeros(size, np.int32), np.arange(1, size + 1, dtype=np.int32)], axis=1)
        rows += [
            _row(f"star of {size}", [constraint_graph(spokes, size + 1)], name, progress)
            for name in sorted(algorithms())
        ]
    return rows


def _row(scene: str, graphs: list[Graph], name: str, progress: Callable[[str], None]) -> dict[str, Any]:
    progress(f"{scene}, {name}")
    best = np.inf
    for _ in range(3):
        colored = [color(graph, name) for graph in graphs]
        best = min(best, sum(c.milliseconds for c in colored))
    return {
        "scene": scene,
        "algorithm": name,
        "constraints": sum(graph.node_count for graph in graphs),
        "colors": " + ".join(str(c.count) for c in colored),
        "at least": " + ".join(str(graph.largest_hub) for graph in graphs),
        "milliseconds": best,
        "balance": float(np.mean([c.balance for c in colored])),
    }


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    axes = figure.subplots()
    for name in sorted({row["algorithm"] for row in rows}):
        chosen = [row for row in rows if row["algorithm"] == name and row["scene"].startswith("tori")]
        axes.plot([row["constraints"] for row in chosen], [row["milliseconds"] for row in chosen], "o-", label=name)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="constraints",
        ylabel="milliseconds",
        title="Colorings of the tori: linear cost",
    )
    axes.legend()

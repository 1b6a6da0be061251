"""Figure 8 of paper 000: a big torus of 52K tets, partitioned with fewer and fewer colors.

Beside our insertion of phantoms ("split") that of the paper as it is printed ("paper"): how many phantoms each takes,
how many colors come out, and how even the batches are. A printed step gives every tet around a particle a phantom of
its own, so particles are shattered at once: below the largest number of tets around a particle, the printed algorithm
takes nearly as many phantoms for 20 colors as for 2, and most tets end up in one batch.
"""

from collections.abc import Callable
from typing import Any

from ..coloring import PhantomPartition, partition
from ..mesh import Mesh
from .phantoms_fig7 import GRAY, View, histogram, in_thousands, painted, show

NAME = "phantoms-fig8"
COLORS = (24, 20, 16, 12, 8, 6, 4, 2)
PICTURED = (24, 12, 8, 6, 4, 2)
VIEW = View((0.0, 1.0, 1.1))
LINES = {"split": "#bb3333", "paper": "#2b5fa5"}


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    mesh = Mesh.torus(around=24, rings=3) if quick else Mesh.torus(around=80, rings=6)
    pictured = PICTURED[1:2] if quick else PICTURED
    rows: list[dict[str, Any]] = []
    for insertion in LINES:
        for target in COLORS:
            progress(f"{target} colors, insertion {insertion!r}")
            made = partition({"volume": mesh.tets}, target, insertion, keep=False)
            if not rows:
                plain = made.groups[0].plain
                rows.append(
                    {
                        "insertion": "none",
                        "constraints": len(mesh.tets),
                        "particles": len(mesh.vertices),
                        "tets around a particle": plain.graph.largest_hub,
                        "target": "",
                        "colors": plain.count,
                        "smallest": int(plain.sizes.min()),
                        "largest": int(plain.sizes.max()),
                        "largest/mean": 1 / plain.balance,
                        "phantoms": 0,
                        "phantom constraints": 0,
                        "milliseconds": "",
                        "sizes": plain.sizes.tolist(),
                        "pictures": [painted(mesh, plain.colors, VIEW)],
                    }
                )
            rows.append(_row(mesh, made, insertion, insertion == "split" and target in pictured))
    return rows


def _row(mesh: Mesh, made: PhantomPartition, insertion: str, pictured: bool) -> dict[str, Any]:
    report, group = made.report[0], made.groups[0]
    same = "target", "colors", "smallest", "largest", "largest/mean", "phantoms", "phantom constraints", "milliseconds"
    return {
        "insertion": insertion,
        "constraints": len(mesh.tets),
        "particles": len(mesh.vertices),
        "tets around a particle": group.plain.graph.largest_hub,
        **{key: report[key] for key in same},
        "sizes": report["sizes"],
        **({"pictures": [painted(mesh, group.coloring.colors, VIEW)]} if pictured else {}),
    }


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    pictured = [row for row in rows if "pictures" in row]
    figure.set_size_inches(max(2.2 * len(pictured), 10), 7.6)
    above, below = figure.subfigures(2, 1, height_ratios=(1.15, 1))
    for row, shown, axes in zip(pictured, *above.subplots(2, len(pictured), squeeze=False, height_ratios=(1, 0.8))):
        show(shown, row["pictures"][0])
        phantoms = f"{row['phantoms']:,}" if row["phantoms"] else "no"
        shown.set_title(f"{row['colors']} colors\n{phantoms} phantoms", fontsize=10)
        histogram(axes, row["sizes"])
        axes.set_xlabel(f"largest {row['largest/mean']:.2f} x mean", fontsize=9, color=GRAY)
    _lines(rows, below)
    first = rows[0]
    figure.suptitle(
        f"A torus of {first['constraints']:,} tets and {first['particles']:,} particles, in fewer and fewer colors "
        f"(paper 000, figure 8)"
    )


def _lines(rows: list[dict[str, Any]], figure: Any) -> None:
    """Phantoms, colors and the largest batch over the colors asked for; hollow where more colors came out."""
    panels = dict(zip(("phantoms", "colors", "largest"), figure.subplots(1, 3)))
    for insertion, color in LINES.items():
        chosen = [row for row in rows if row["insertion"] == insertion]
        label = {"split": "ours (split)", "paper": "algorithm 2 as printed (paper)"}[insertion]
        for key, axes in panels.items():
            axes.plot(COLORS, [row[key] for row in chosen], "o-", color=color, label=label, markersize=5)
            missed = [row for row in chosen if row["colors"] > row["target"]]
            at = [row["target"] for row in missed], [row[key] for row in missed]
            axes.plot(*at, "o", color="white", markeredgecolor=color, markersize=5)
    panels["colors"].plot(COLORS, COLORS, color=GRAY, linewidth=1, linestyle=":", label="as asked for")
    even = [rows[0]["constraints"] / target for target in COLORS]
    panels["largest"].plot(COLORS, even, color=GRAY, linewidth=1, linestyle=":", label="if all were equal")
    labels = {"phantoms": "phantoms", "colors": "colors that come out", "largest": "tets in the largest batch"}
    for key, axes in panels.items():
        axes.invert_xaxis()
        axes.set_xticks(COLORS)
        axes.set(xlabel="colors asked for", ylabel=labels[key], ylim=(0, None))
        axes.yaxis.set_major_formatter(in_thousands)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8)

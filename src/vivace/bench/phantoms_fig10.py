"""Figure 10 of paper 000: a cloth stretched to 16 times its area relaxes; does it stay where it was?

Projections alone, until the RMS strain is below 0.2 %. Spurious rigid modes: how far the center of mass went, and the
angle of the rotation that brings the rest shape closest to the cloth (Kabsch; all happens in a plane). The side of the
cloth is 1 m. Orders: constraints as they come (order "natural"), or shuffled. A corner cut off takes the symmetry away
that lets the errors of some solvers cancel.

"paper" averages corrections and copies as printed, "mass" splits masses, which keeps the center of mass. What turns
without angular momentum does so as a falling cat does, by changing its shape on the way: any solver that goes through
constraints one after the other may.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..io import extra
from ..materials import Ratios
from ..mesh import Mesh
from ..scene import Body, Scene
from ..scenes.stretched_cloth import SIZE, STRETCHED
from ..simulation import Simulation
from ..solvers.base import Solver
from ..solvers.gauss_seidel import ColoredGaussSeidel
from ..solvers.jacobi import AveragedJacobi, HybridJacobi
from ..solvers.phantoms import Phantoms
from .phantoms_fig9 import STYLES
from .relaxation import as_built, relaxing

NAME = "phantoms-fig10"
MAKERS: dict[str, Callable[..., Solver]] = {
    "phantoms": Phantoms,
    "averaged-jacobi": AveragedJacobi,
    "hybrid-jacobi": HybridJacobi,
}
SOLVERS: dict[tuple[str, str], Solver] = {
    ("gauss-seidel", ""): ColoredGaussSeidel(),
    **{
        (name, averaging): make(averaging=averaging) for name, make in MAKERS.items() for averaging in ("paper", "mass")
    },
}
SIDES = {"square": (5, 7, 10, 14, 20, 28, 40, 56), "corner cut off": (7, 10, 14, 20, 28, 40)}
WORST = ("hybrid-jacobi", "paper")
DRAWN = 20  # particles along a side of the cloth in the pictures
SHUFFLES, STRAIN, PATIENCE = 5, 0.002, 20  # orders; goal; iterations over the square of the side


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = []
    for cloth, sides in SIDES.items():
        for side in [side for side in sides if side in (7, 10)] if quick else sides:
            for (name, averaging), solver in SOLVERS.items():
                progress(f"{cloth}, {side} x {side}: {name} {averaging}".strip())
                for order in range(2 if quick else 1 + SHUFFLES):
                    scene = stretched(side, order, cut=cloth != "square")
                    simulation, iterations, strain = relaxed(scene, solver, side)
                    moved, turned = rigid_modes(scene.bodies[0], simulation.positions)
                    row: dict[str, Any] = {
                        "cloth": cloth,
                        "side": side,
                        "constraints": len(simulation.model.groups[0]),
                        "solver": name,
                        "averaging": averaging,
                        "order": f"shuffled {order}" if order else "natural",
                        "iterations": iterations,
                        "rms strain %": 100 * strain,
                        "moved m": moved,
                        "moved edges": moved / SIZE * (side - 1),
                        "turned deg": turned,
                    }
                    if cloth == "square" and side == (10 if quick else DRAWN) and not order:
                        row["lines"] = _lines(scene.bodies[0], simulation.positions)
                    rows.append(row)
    return rows


def stretched(side: int, order: int = 0, cut: bool = False) -> Scene:
    """The scene `stretched-cloth`; its constraints shuffled, unless `order` is 0, and perhaps without a corner."""
    mesh = Mesh.grid(side, side, size=(SIZE, SIZE), diagonals="same")
    if cut:
        centers = mesh.vertices[mesh.triangles].mean(axis=1)
        used, corners = np.unique(mesh.triangles[centers[:, 0] + centers[:, 2] < SIZE / 2], return_inverse=True)
        mesh = Mesh(mesh.vertices[used], corners.reshape(-1, 3))
    scene = Scene(gravity=(0, 0, 0))
    body = scene.add_cloth(mesh, material=Ratios(stretch=0.0))
    scene.add_constraints(
        body, "stretch", np.random.default_rng(order).permutation(mesh.edges) if order else mesh.edges
    )
    body.set_positions(slice(None), mesh.vertices * [STRETCHED, 1, STRETCHED])
    return scene


def relaxed(scene: Scene, solver: Solver, side: int) -> tuple[Simulation, int, float]:
    """The scene relaxed, after how many iterations, and the RMS strain that is left."""
    at_once = max(side**2 // 10, 1)
    simulation = relaxing(scene, solver, as_built, at_once, threads=1)
    length = float(simulation.model.groups[0].rest.mean())
    strain, iterations = np.inf, 0
    while strain > STRAIN and iterations < PATIENCE * side**2:
        iterations += at_once
        strain = simulation.step().residual["stretch"].rms / length
    return simulation, iterations, strain


def rigid_modes(body: Body, positions: np.ndarray) -> tuple[float, float]:
    """How far a flat body's center of mass went [m], and by what angle the body turned [degrees]."""
    now, start, rest = (points.astype(np.float64)[:, ::2] for points in (positions, body.positions, body.mesh.vertices))
    center, first, own = (np.average(points, axis=0, weights=body.masses) for points in (now, start, rest))
    (x, z), (u, v) = (now - center).T, (rest - own).T
    angle = np.arctan2(body.masses @ (u * z - v * x), body.masses @ (u * x + v * z))
    return float(np.linalg.norm(center - first)), float(np.degrees(angle))


def _lines(body: Body, positions: np.ndarray) -> list[np.ndarray]:
    """What is drawn, seen from above: edges now and at the start, outline of the rest shape; each (m, 2, 2)."""
    now, start, rest = (points[:, ::2] for points in (positions, body.positions, body.mesh.vertices))
    edges, outline = body.mesh.edges, body.mesh.boundary
    return [now[edges], start[edges], rest[outline]]


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    figure.set_size_inches(14, 7.4)
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.3))
    _pictures([row for row in rows if "lines" in row], above)
    square, cut, edges, turned = below.subplots(1, 4)
    for axes, cloth in ((square, "square"), (cut, "corner cut off")):
        for label, style, chosen in _of_each_solver(rows, cloth):
            _over_size(axes, chosen, "moved m", label, style)
        axes.set(ylim=(1e-9, 1), ylabel="center of mass moved by, m")
        axes.set_title(f"(f) translation, {cloth}", fontsize=10)
    for cloth, dash in (("square", "-"), ("corner cut off", "--")):
        chosen = [row for row in rows if (row["cloth"], row["solver"], row["averaging"]) == (cloth, *WORST)]
        _over_size(edges, chosen, "moved edges", cloth, {"color": STYLES[WORST[0]][0], "linestyle": dash})
    sizes = np.array([min(row["constraints"] for row in rows), max(row["constraints"] for row in rows)])
    edges.plot(sizes, 0.03 * sizes**0.5, color="#999999", linewidth=1, linestyle=":", label="as the side grows")
    edges.set(ylabel="center of mass moved by, edge lengths")
    edges.set_title(f"(f) translation, {', '.join(WORST)}", fontsize=10)
    edges.legend(fontsize=8)
    for label, style, chosen in _of_each_solver(rows, "square"):
        _over_size(turned, chosen, "turned deg", label, style)
    turned.set(ylim=(1e-7, 20), ylabel="turned by, degrees")
    turned.set_title("(f) rotation, square", fontsize=10)
    for axes in (square, cut, edges, turned):
        axes.set(xscale="log", yscale="log", xlabel="constraints")
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = square.get_legend_handles_labels()
    below.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9, frameon=False)
    figure.suptitle("A cloth stretched to 16 times its area relaxes by projections alone (paper 000, figure 10)")


def _pictures(drawn: list[dict[str, Any]], figure: Any) -> None:
    LineCollection = extra("matplotlib.collections").LineCollection
    shown = [row for row in drawn if row["averaging"] != "mass" or row["solver"] == "hybrid-jacobi"]
    start, *panels = figure.subplots(1, 1 + len(shown))
    start.add_collection(LineCollection(shown[0]["lines"][1], colors="#999999", linewidths=0.4))
    start.set(xlim=(-2.2, 2.2), ylim=(2.2, -2.2))
    start.set_title("(a) stretched", fontsize=9)
    for letter, axes, row in zip(("b", "c", "d", "e", "e'"), panels, shown):
        now, _, rest = row["lines"]
        axes.add_collection(LineCollection(now, colors=STYLES[row["solver"]][0], linewidths=0.5))
        averaging = f", {row['averaging']}" if row["averaging"] else ""
        axes.set(xlim=(-0.62, 0.62), ylim=(0.62, -0.62))
        axes.set_title(f"({letter}) {row['solver']}{averaging}", fontsize=9)
        axes.set_xlabel(f"moved {100 * row['moved m']:.1f} cm, turned {abs(row['turned deg']):.1f}°", fontsize=9)
    for axes in (start, *panels):
        axes.add_collection(LineCollection(shown[0]["lines"][2], colors="black", linewidths=1, linestyles="--"))
        axes.set(aspect="equal", xticks=[], yticks=[])
        axes.spines[:].set_visible(False)


def _of_each_solver(
    rows: list[dict[str, Any]], cloth: str
) -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    for name, averaging in SOLVERS:
        chosen = [row for row in rows if (row["cloth"], row["solver"], row["averaging"]) == (cloth, name, averaging)]
        style = {"color": STYLES[name][0], "linestyle": ":" if averaging == "mass" else "-"}
        yield f"{name}, {averaging}" if averaging else name, style, chosen


def _over_size(axes: Any, rows: list[dict[str, Any]], key: str, label: str, style: dict[str, Any]) -> None:
    """A dot for each order, a line through their medians."""
    sizes = sorted({row["constraints"] for row in rows})
    values = [[abs(row[key]) for row in rows if row["constraints"] == size] for size in sizes]
    axes.plot(sizes, [np.median(of_size) for of_size in values], label=label, **style)
    for size, of_size in zip(sizes, values):
        axes.plot([size] * len(of_size), of_size, ".", color=style["color"], markersize=3, alpha=0.6)

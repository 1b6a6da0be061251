"""Figure 7 of paper 000: the tets of `squishy-ball` and `omotondo` in partitions, without phantoms and with them.

Each surface triangle has the color of its tet's partition, and so has the bar of that partition in the histogram. With
phantoms there are half as many colors as the largest number of tets around one particle, which is what the paper
advises. The paper's text has no numbers for this figure; those of whole scenes are in `phantoms-table2`.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import scenes
from ..coloring import partition
from ..io import extra
from ..io.picture import check_gl
from ..mesh import TET_FACES, Mesh

NAME = "phantoms-fig7"
SCENES = ("squishy-ball", "omotondo")
SIZE = (600, 600)
GRAY = "#555555"


class View(NamedTuple):
    """From where a body is seen."""

    towards_eye: tuple[float, float, float]
    aside: tuple[float, float] = (0.0, 0.0)  # what is in the middle, to the right and up, over the body's radius
    closer: float = 1.0


VIEWS = {
    "squishy-ball": (View((0.45, 0.3, 1.0)), View((0.45, 0.3, 1.0), (0.75, 0.25), 10.0)),
    "omotondo": (View((0.45, 0.25, 1.0)),),
}


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    rows = []
    for name in SCENES:
        progress(f"{name}: the body")
        mesh = scenes.find(name).make(0.02 if quick else 1.0).bodies[0].mesh
        progress(f"{name}: partitions of {len(mesh.tets)} tets")
        made = partition({"volume": mesh.tets})
        group = made.groups[0]
        for method, coloring in (("smallest-last", group.plain), ("phantoms", group.coloring)):
            progress(f"{name}: picture, {method}")
            phantoms = method == "phantoms"
            rows.append(
                {
                    "scene": name,
                    "method": method,
                    "constraints": len(mesh.tets),
                    "colors": coloring.count,
                    "smallest": int(coloring.sizes.min()),
                    "largest": int(coloring.sizes.max()),
                    "largest/mean": 1 / coloring.balance,
                    "phantoms": made.phantom_count if phantoms else 0,
                    "phantom constraints": len(made.phantom_constraints) if phantoms else 0,
                    "particles": len(mesh.vertices),
                    "sizes": coloring.sizes.tolist(),
                    "pictures": [painted(mesh, coloring.colors, view) for view in VIEWS[name][: 1 if quick else None]],
                }
            )
    return rows


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    names = list(dict.fromkeys(row["scene"] for row in rows))
    figure.set_size_inches(13.5, 3.9 * len(names))
    grid = figure.subplots(len(names), 4, squeeze=False, width_ratios=(1, 0.95, 1, 0.95))
    for down, name in enumerate(names):
        pair = [row for row in rows if row["scene"] == name]
        highest = 1.08 * max(row["largest"] for row in pair)
        for row, shown, axes in zip(pair, grid[down, ::2], grid[down, 1::2]):
            show(shown, row["pictures"][0])
            for closer in row["pictures"][1:]:
                inset = shown.inset_axes((0.66, -0.06, 0.4, 0.4))
                show(inset, closer)
                inset.spines[:].set(visible=True, color=GRAY)
            histogram(axes, row["sizes"])
            axes.set(ylim=(0, highest), xlabel="partition", ylabel="tets")
            told = f", {row['phantoms']:,} phantoms" if row["phantoms"] else ""
            shown.set_title(f"{row['method']}: {row['colors']} colors{told}", fontsize=10)
            axes.set_title(f"largest {row['largest/mean']:.2f} x the mean", fontsize=10, color=GRAY)
        tets, particles = pair[0]["constraints"], pair[0]["particles"]
        grid[down, 0].set_ylabel(f"{name}\n{tets:,} tets, {particles:,} particles", fontsize=10)
    figure.suptitle("Partitions of tetrahedral constraints (paper 000, figure 7)")


def show(axes: Any, picture: np.ndarray) -> None:
    """A picture without a frame around it."""
    axes.imshow(picture)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def histogram(axes: Any, sizes: list[int]) -> None:
    """A bar for each color, in that color; the mean as a line."""
    axes.bar(range(len(sizes)), sizes, 0.9, color=palette(len(sizes)))
    axes.axhline(np.mean(sizes), color=GRAY, linewidth=1, linestyle=":")
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.set_major_formatter(in_thousands)
    axes.xaxis.get_major_locator().set_params(integer=True)


def in_thousands(value: float, _: Any = None) -> str:
    """A number for an axis, such as 20K."""
    return f"{value / 1000:g}K" if value >= 1000 else f"{value:g}"


def palette(count: int) -> np.ndarray:
    """So many colors, (count, 3) in 0..1."""
    strong = extra("matplotlib").colormaps["turbo"](np.linspace(0.08, 0.92, max(count, 2))[:count])[:, :3]
    return 0.8 * strong + 0.2


def painted(mesh: Mesh, colors: np.ndarray, view: View) -> np.ndarray:
    """A picture of a solid on white; each surface triangle in the color of its tet."""
    check_gl()
    if not os.environ.get("DISPLAY"):
        os.environ.setdefault("VTK_DEFAULT_OPENGL_WINDOW", "vtkEGLRenderWindow")
    pyvista = extra("pyvista")
    surface = pyvista.PolyData.from_regular_faces(mesh.vertices, mesh.triangles)
    surface.cell_data["color"] = (255 * palette(int(colors.max()) + 1)[colors[_owners(mesh)]]).astype(np.uint8)
    plotter = pyvista.Plotter(off_screen=True, window_size=list(SIZE), lighting="none")
    plotter.set_background("white")
    plotter.add_mesh(surface, scalars="color", rgb=True, ambient=0.5, diffuse=0.6)
    middle = (mesh.vertices.min(axis=0) + mesh.vertices.max(axis=0)) / 2
    reach = float(np.linalg.norm(mesh.vertices - middle, axis=1).max())
    forward = -np.array(view.towards_eye) / np.linalg.norm(view.towards_eye)
    right = np.cross(forward, (0, 1, 0)) / np.linalg.norm(np.cross(forward, (0, 1, 0)))
    target = middle + reach * (view.aside[0] * right + view.aside[1] * np.cross(right, forward))
    plotter.camera_position = [tuple(target - 4 * reach * forward), tuple(target), (0, 1, 0)]
    plotter.camera.zoom(view.closer)
    for direction, strength in (((0.45, 1.0, 0.35), 0.6), ((0.9, 0.3, 0.8), 0.4), ((-0.8, 0.3, 0.7), 0.3)):
        plotter.add_light(pyvista.Light(position=direction, focal_point=(0, 0, 0), intensity=strength))
    plotter.enable_ssao(radius=0.05 * reach, bias=0.002 * reach, kernel_size=32, blur=True)
    plotter.enable_anti_aliasing("ssaa")
    picture = plotter.screenshot(None, return_img=True)
    plotter.close()
    return picture if view.closer > 1 else _cropped(picture)


def _owners(mesh: Mesh) -> np.ndarray:
    """The tet behind each surface triangle."""
    count = len(mesh.vertices)

    def keys(triangles: np.ndarray) -> np.ndarray:
        a, b, c = np.sort(triangles, axis=1).astype(np.int64).T
        return (a * count + b) * count + c

    faces = keys(mesh.tets[:, TET_FACES].reshape(-1, 3))
    order = np.argsort(faces)
    return order[np.searchsorted(faces, keys(mesh.triangles), sorter=order)] // len(TET_FACES)


def _cropped(picture: np.ndarray, margin: int = 6) -> np.ndarray:
    """Without the white around it."""
    drawn = np.any(picture < 250, axis=2)
    rows, columns = np.flatnonzero(drawn.any(axis=1)), np.flatnonzero(drawn.any(axis=0))
    return picture[
        max(rows[0] - margin, 0) : rows[-1] + margin,
        max(columns[0] - margin, 0) : columns[-1] + margin,
    ]

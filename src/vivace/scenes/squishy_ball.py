"""A ball of 250K tets with 760 soft tentacles drops on the floor (paper 000, fig. 6; a made-up ball stands in)."""

from collections.abc import Iterator

import numpy as np
from scipy.spatial import Delaunay, cKDTree

from ..collision.plane import Plane
from ..diagnostics import tet_volumes
from ..io import Camera
from ..materials import Ratios
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement
from .shapes import right_side_out

NAME = "squishy-ball"
# Well damped: nothing keeps a tentacle that whips about from passing through the core.
SETTINGS = Settings(iterations=1, substeps=12, frames=140, damping=5.0)
PAPER = Settings(iterations=8, damping=5.0)
CAMERA = Camera((3.3, 2.5, 5.8), (0.0, 1.25, 0.0))
HEIGHT, RADIUS, LENGTH = 1.6, 0.8, 0.5  # of the middle above the floor, of the core, of a tentacle [m]
SKIN, TENTACLES, LAYERS = 9300, 760, 19  # particles on the core's surface, tentacles, hexagons of each; at scale 1
COARSER, COARSEST = 1.5, 3.0  # edges of the core: from one shell to the next one inside, and at most
# A tentacle grows on a triangle of the skin and its three neighbors, whose six corners go over into a hexagon's.
PATCH = np.array([[0, 1, 2], [0, 1, 3], [1, 2, 4], [0, 2, 5]])
ANGLES = np.deg2rad([0, 120, 240, 60, 180, 300])


def scene(scale: float = 1.0) -> Scene:
    made = Scene()
    made.add_solid(
        ball(scale).moved((0, HEIGHT, 0)), density=300, material=Ratios(stretch=0.75, volume=0.5), name="ball"
    )
    made.add_collider(Plane(), friction=0.5)
    return made


def ball(scale: float = 1.0) -> Mesh:
    """Around the origin; thin tentacles on a core that is coarse inside give 1.8 edges a tet, as the paper's ball has.

    Not `shapes.fill`: a lattice fine enough for the tentacles would put most of the tets into the core.
    """
    core, tets, edge = _core(max(round(SKIN * scale ** (2 / 3)), 50))
    patches = _patches(Mesh(core, tets=tets), max(round(TENTACLES * scale ** (2 / 3)), 1))
    hexagons = _hexagons(core[patches], max(round(LAYERS * scale ** (1 / 3)), 2), edge)
    rows = len(core) + np.arange(hexagons[..., 0].size).reshape(hexagons.shape[:3])
    columns = np.concatenate([patches[:, None], rows], axis=1)
    (a, b, c), (d, e, f) = (np.moveaxis(level[..., PATCH], -1, 0) for level in (columns[:, :-1], columns[:, 1:]))
    prisms = np.stack([np.stack(tet, -1) for tet in ((a, b, c, f), (a, b, e, f), (a, d, e, f))]).reshape(-1, 4)
    points = np.concatenate([core, hexagons.reshape(-1, 3)])
    return Mesh(points, tets=right_side_out(points, np.concatenate([tets, prisms])))


def _core(skin: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Points and tets of a ball of shells, the coarser the deeper, and the length of the edges on its surface [m]."""
    edge = outer = RADIUS * (4 * np.pi / (skin * 0.75**0.5)) ** 0.5
    radius, shells = RADIUS, [RADIUS * _directions(skin)]
    while radius > edge:
        inner = min(edge * COARSER, outer * COARSEST)
        radius -= 0.8 * (edge * inner) ** 0.5
        edge = inner
        shells.append(radius * _directions(max(round(4 * np.pi * radius**2 / (edge**2 * 0.75**0.5)), 1)))
    points = np.concatenate(shells)
    # A few points around it, since Delaunay is very slow if all the outermost ones lie on a sphere.
    tets = Delaunay(np.concatenate([points, 3 * RADIUS * _directions(12)])).simplices
    return points, right_side_out(points, tets[(tets < len(points)).all(axis=1)]), outer


def _directions(count: int) -> np.ndarray:
    """Unit vectors, evenly spread on a Fibonacci spiral."""
    turns = np.arange(count) + 0.5
    height, angle = 1 - 2 * turns / count, np.pi * (1 + 5**0.5) * turns
    return np.stack([np.cos(angle), height, np.sin(angle)], 1) * np.sqrt(1 - height[:, None] ** 2) ** [1, 0, 1]


def _patches(core: Mesh, count: int) -> np.ndarray:
    """The six vertices that each tentacle grows on, as PATCH numbers them; no two tentacles share any."""
    centers = core.vertices[core.triangles].mean(axis=1)
    _, chosen = cKDTree(centers).query(RADIUS * _directions(count))
    across = {}
    for a, b, c in core.triangles.tolist():
        across[b, a], across[c, b], across[a, c] = c, a, b
    patches: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for a, b, c in core.triangles[chosen].tolist():
        patch = (a, b, c, across[a, b], across[b, c], across[c, a])
        if taken.isdisjoint(patch):
            taken.update(patch)
            patches.append(patch)
    return np.array(patches)


def _hexagons(patches: np.ndarray, layers: int, edge: float) -> np.ndarray:
    """The particles (n, layers, 6, 3) of tentacles on patches (n, 6, 3), from the root to the tip."""
    middle = patches.mean(axis=1)
    out = middle / np.linalg.norm(middle, axis=1, keepdims=True)
    right = np.cross(out, out[:, [1, 2, 0]])
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    up = np.cross(out, right)
    corners = np.einsum("nij,nj->ni", patches, right) + 1j * np.einsum("nij,nj->ni", patches, up)
    turned = np.angle((corners * np.exp(-1j * ANGLES)).sum(axis=1))[:, None] + ANGLES  # as close to the patch as can be
    ring = np.cos(turned)[..., None] * right[:, None] + np.sin(turned)[..., None] * up[:, None]
    share = np.arange(1, layers + 1)[:, None] / layers
    radius = 0.95 * edge * (1 - 0.4 * share) * np.where(share < 1, 1, 0.5)  # thinner outwards, and a round tip
    axis = middle[:, None] + LENGTH * share * out[:, None]
    return axis[:, :, None] + radius[..., None] * ring[:, None]


def check(simulation: Simulation) -> Iterator[Statement]:
    x, rest = simulation.positions, simulation.scene.bodies[0].mesh.vertices - [0, HEIGHT, 0]
    yield "no particle is below the floor", bool((x[:, 1] > -1e-4).all())
    distance = np.linalg.norm(rest, axis=1)
    core, tips = x[distance < 1.0001 * RADIUS], x[distance > RADIUS + 0.98 * LENGTH]
    middle = float(core[:, 1].mean())
    yield f"its weight has bent the tentacles below it ({middle:.2f} m)", middle < RADIUS + 0.5 * LENGTH
    height = float(np.ptp(core[:, 1])) / (2 * RADIUS)
    yield f"the core is as high as it was within 10 % ({height:.1%})", abs(height - 1) < 0.1
    inside = float((np.linalg.norm(tips - core.mean(axis=0), axis=1) < RADIUS).mean())
    yield f"hardly a tentacle's tip is in the core ({inside:.1%})", inside < 0.05
    volumes, rest_volumes = tet_volumes(simulation)
    error = abs(volumes.sum() / rest_volumes.sum() - 1)
    yield f"the volume is kept within 2 % ({error:.2%})", bool(error < 0.02)
    inverted = float((volumes <= 0).mean())
    yield f"hardly a tetrahedron is inside out ({inverted:.2%})", inverted < 0.005
    speed = float(np.sqrt((simulation.velocities**2).sum(axis=1).mean()))
    yield f"it has come to rest (RMS speed {speed:.3f} m/s)", speed < 0.1

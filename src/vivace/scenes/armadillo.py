"""A creature of 10K vertices and 55K tets hangs by one hand (paper 001, fig. 5 and 7; a made-up creature stands in)."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import Delaunay

from ..errors import InputError
from ..io import Camera
from ..materials import Elastic, Material
from ..mesh import TET_EDGES, Mesh
from ..scene import Scene
from ..simulation import Simulation
from ..system import make_system
from . import Settings, Statement

NAME = "armadillo"
SETTINGS = Settings(iterations=1, substeps=20, dt=1 / 30, frames=120, damping=0.5)
PAPER = Settings(iterations=8, dt=1 / 30, frames=120, damping=0.5)
CAMERA = Camera((1.0, 0.55, 2.9), (0.15, 0.25, 0.0))
DENSITY = 120.0
PLUSH = Elastic(young=1e5, poisson=0.0)
Distance = Callable[[np.ndarray], np.ndarray]


def scene(scale: float = 1.0, material: Material = PLUSH) -> Scene:
    mesh = creature(scale)
    if not len(hand(mesh)):
        raise InputError(f"armadillo: at scale {scale} its arms are thinner than the lattice; use 0.05 or more")
    return hanging(mesh, material)


def hanging(mesh: Mesh, material: Material) -> Scene:
    made = Scene()
    made.add_solid(mesh, density=DENSITY, material=material, name="creature").pin(hand(mesh))
    return made


def of_ratio(ratio: float, mesh: Mesh, dt: float = 1 / 30) -> Elastic:
    """A material whose stiffness diagonal is, on average, 6 * `ratio` times m / dt^2: as springs of that ratio."""
    model = hanging(mesh, Elastic(young=1.0, poisson=0.0)).build()
    diagonal = make_system(model.groups, [group.vertices for group in model.groups], model.particle_count).diagonal
    free = model.inverse_masses > 0
    return Elastic(young=6 * ratio / float((diagonal[free] * model.inverse_masses[free]).mean() * dt**2), poisson=0.0)


def check(simulation: Simulation) -> Iterator[Statement]:
    x, body = simulation.positions, simulation.scene.bodies[0]
    volumes = Mesh(x, tets=body.mesh.tets).volumes
    error = abs(volumes.sum() / body.mesh.volumes.sum() - 1)
    yield f"the volume is kept within 10 % ({error:.2%})", bool(error < 0.1)
    inverted = float((volumes <= 0).mean())
    yield f"hardly a tetrahedron is inside out ({inverted:.2%})", inverted < 0.001
    yield "it hangs below its hand", bool(x.mean(axis=0)[1] < x[body.pinned, 1].min())
    yield "its hand stays where it is", bool((x[body.pinned] == body.mesh.vertices[body.pinned]).all())


class Part(NamedTuple):
    """A rod with round ends, melted into the parts before it; all in meters."""

    start: tuple[float, float, float]
    end: tuple[float, float, float]
    start_radius: float
    end_radius: float
    melt: float = 0.04  # the width of the groove between it and the others
    twice: bool = False  # on the left as well
    flat: float = 1.0  # so many times thinner along z
    bands: float = 0.0  # the height of ridges around it


PARTS = (
    Part((0, 0.33, 0.02), (0, 0.53, 0.01), 0.195, 0.15),  # belly and chest
    Part((0, 0.36, -0.09), (0, 0.54, -0.07), 0.225, 0.175, melt=0.02, flat=1.35, bands=0.008),  # shell
    Part((0, 0.715, 0.05), (0, 0.725, 0.06), 0.13, 0.13, melt=0.05),  # head
    Part((0, 0.705, 0.13), (0, 0.67, 0.275), 0.083, 0.045, melt=0.05),  # snout
    Part((0.07, 0.81, 0.03), (0.13, 0.905, 0.0), 0.045, 0.06, melt=0.03, flat=1.4, twice=True),  # ears
    Part((0.06, 0.765, 0.15), (0.062, 0.77, 0.16), 0.036, 0.036, melt=0.015, twice=True),  # eyes
    Part((0.11, 0.25, 0.02), (0.155, 0.1, 0.03), 0.11, 0.09, melt=0.05, twice=True),  # legs
    Part((0.16, 0.065, 0.05), (0.18, 0.06, 0.15), 0.075, 0.06, melt=0.08, twice=True),  # feet
    Part((0.12, 0.54, 0.02), (0.27, 0.64, 0.03), 0.08, 0.066),  # raised arm
    Part((0.27, 0.64, 0.03), (0.32, 0.85, 0.05), 0.066, 0.062),
    Part((0.32, 0.9, 0.05), (0.32, 0.92, 0.05), 0.08, 0.08, melt=0.03),  # its hand and thumb
    Part((0.3, 0.88, 0.07), (0.245, 0.93, 0.1), 0.045, 0.035, melt=0.03),
    Part((-0.12, 0.54, 0.02), (-0.3, 0.46, 0.04), 0.08, 0.066),  # lowered arm
    Part((-0.3, 0.46, 0.04), (-0.34, 0.4, 0.15), 0.066, 0.062),
    Part((-0.345, 0.39, 0.19), (-0.345, 0.39, 0.21), 0.08, 0.08, melt=0.03),  # its hand and thumb
    Part((-0.31, 0.42, 0.2), (-0.275, 0.475, 0.225), 0.045, 0.035, melt=0.03),
    Part((0, 0.22, -0.15), (0, 0.1, -0.31), 0.115, 0.075, melt=0.06),  # tail
    Part((0, 0.1, -0.31), (0, 0.12, -0.43), 0.075, 0.042),
)
LOW, HIGH = (-0.46, -0.05, -0.55), (0.45, 1.05, 0.4)  # a box around them
HAND, HAND_RADIUS = (0.32, 0.91, 0.05), 0.1


def creature(scale: float = 1.0) -> Mesh:
    """About 1 m high; the number of vertices goes with the scale."""
    # The surface takes its share of the vertices, hence not scale ** (-1 / 3).
    for spacing in 0.02932 * scale**-0.35 * np.array([1, 0.996, 1.004, 0.992, 1.008]):
        mesh = fill(distance, LOW, HIGH, spacing)
        if mesh.volumes.min() > 0.15 * mesh.volumes.mean():  # or else the lattice lies badly in a groove
            break
    return mesh


def hand(mesh: Mesh) -> np.ndarray:
    """The vertices of the raised hand."""
    return np.flatnonzero(np.linalg.norm(mesh.vertices - HAND, axis=1) < HAND_RADIUS)


def distance(points: np.ndarray) -> np.ndarray:
    """About the distance to the creature's skin [m], negative inside."""
    result = np.full(len(points), np.inf)
    for part, side in [(one, side) for one in PARTS for side in (1, -1)[: 1 + one.twice]]:
        start = np.multiply(part.start, (side, 1, 1))
        way = np.multiply(part.end, (side, 1, 1)) - start
        along = np.clip((points - start) @ way / (way @ way), 0, 1)
        radius = part.start_radius + along * (part.end_radius - part.start_radius)
        radius -= part.bands * np.cos(2 * np.pi * (points[:, 1] - 0.3 * points[:, 2]) / 0.1)
        other = np.linalg.norm((points - start - along[:, None] * way) * (1, 1, part.flat), axis=1) - radius
        overlap = np.maximum(part.melt - np.abs(result - other), 0)
        result = np.minimum(result, other) - overlap**2 / (4 * part.melt)
    return result


def fill(distance: Distance, low: Sequence[float], high: Sequence[float], spacing: float) -> Mesh:
    """Tets of a body-centered cubic lattice, the outermost vertices drawn onto the surface, where `distance` is zero.

    As in isosurface stuffing (Labelle and Shewchuk 2007), but no tet is cut: of every edge through the surface, the end
    nearer to it goes there, and `_relaxed` makes the tets good. `low` and `high` are a box around the body [m].
    """
    axes = (np.arange(a - spacing, b + 2 * spacing, spacing) for a, b in zip(low, high))
    corners = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    points = np.concatenate([corners, corners + spacing / 2])
    height = distance(points) - 0.1 * spacing  # a little swollen, or thin limbs are lost
    points, height = points[height < 1.5 * spacing], height[height < 1.5 * spacing]
    tets = Delaunay(points).simplices  # a lattice of this kind has no other tets
    edges = tets[:, TET_EDGES].reshape(-1, 2)
    through = edges[(height[edges] < 0).sum(axis=1) == 1]
    surface = np.zeros(len(points), bool)
    surface[np.take_along_axis(through, np.abs(height[through]).argmin(axis=1)[:, None], 1)] = True
    inside = (height < 0) & ~surface
    # Only the largest piece: what is thinner than the lattice may be cut off.
    joined = edges[inside[edges].all(axis=1)]
    _, piece = connected_components(coo_matrix((np.ones(len(joined)), joined.T), (len(points), len(points))))
    inside &= piece == np.bincount(piece[inside]).argmax()
    points, tets, surface = _used(points, tets[inside[tets].any(axis=1)], surface)
    tets = np.where((_volumes(points, tets) < 0)[:, None], tets[:, [0, 1, 3, 2]], tets)
    for _ in range(3):
        points[surface] = _drawn(distance, points[surface])
    points, tets, surface = _used(points, _without_caps(points, tets, surface), surface)
    return Mesh(_relaxed(points, tets, surface, distance), tets=tets)


def _used(points: np.ndarray, tets: np.ndarray, surface: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, place = np.unique(tets, return_inverse=True)
    return points[rows], place.reshape(tets.shape), surface[rows]


def _drawn(distance: Distance, points: np.ndarray) -> np.ndarray:
    """The points, one Newton step closer to the surface."""
    step = 1e-5
    height = distance(points)
    slope = np.stack([distance(points + axis) - height for axis in step * np.eye(3)], axis=1) / step
    return points - slope * (height / np.maximum((slope**2).sum(axis=1), 0.1))[:, None]


def _volumes(points: np.ndarray, tets: np.ndarray) -> np.ndarray:
    p = points[tets]
    return np.einsum("ij,ij->i", np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]), p[:, 3] - p[:, 0]) / 6


def _without_caps(points: np.ndarray, tets: np.ndarray, surface: np.ndarray) -> np.ndarray:
    """Surface vertices of four tets only are merged with a neighbor, which leaves two tets and a more even surface."""
    caps = surface & (np.bincount(tets.ravel()) == 4)
    pairs = np.concatenate([tets[:, [i, j]] for i in range(4) for j in range(4) if i != j])
    pairs = pairs[caps[pairs[:, 0]] & surface[pairs[:, 1]] & ~caps[pairs[:, 1]]]
    pairs, counts = np.unique(pairs, axis=0, return_counts=True)
    target = np.arange(len(points))
    target[pairs[counts == 2, 0]] = pairs[counts == 2, 1]
    usual = _volumes(points, tets).mean()
    while True:
        merged = target[tets]
        in_order = np.sort(merged, axis=1)
        left = (in_order[:, 1:] != in_order[:, :-1]).all(axis=1)
        bad = left & (merged != tets).any(axis=1) & (_volumes(points, merged) < 0.05 * usual)
        if not bad.any():
            return merged[left]
        target[tets[bad]] = tets[bad]


def _relaxed(points: np.ndarray, tets: np.ndarray, surface: np.ndarray, distance: Distance) -> np.ndarray:
    """Every vertex moved to where its tets are closest to regular, the worst counting most; the surface stays in place.

    Damped Newton steps down the sum of quality**-4, vertex by vertex; quality is (volume / edges**3), 1 if regular.
    """
    add = lambda values: np.bincount(tets.ravel(), values.ravel(), len(points))[:, None]  # noqa: E731
    for _ in range(20):
        p = points[tets]
        arms = p - p.mean(axis=1, keepdims=True)
        size = 4 * (arms**2).sum(axis=(1, 2))  # the sum of the six squared edges
        a, b, c = np.moveaxis(p[:, 1:] - p[:, :1], 1, 0)
        # How the volume grows with each corner.
        growth = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=1) / 6
        volume = (growth[:, 0] * a).sum(axis=1)
        growth = np.concatenate([-growth.sum(axis=1, keepdims=True), growth], axis=1)
        regular = size**1.5 / (72 * 3**0.5)
        quality = np.maximum(volume / regular, 0.1)
        growth /= (quality * regular)[:, None, None]
        weight = (quality**-4 / size)[:, None, None]
        force = weight * (size[:, None, None] / 12 * growth - arms)
        stiffness = weight[..., 0] * (1 + size[:, None] / 12 * (growth**2).sum(axis=2))
        points = points + 0.6 * np.hstack([add(force[..., axis]) for axis in range(3)]) / add(stiffness)
        points[surface] = _drawn(distance, points[surface])
    return points

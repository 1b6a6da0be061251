"""What scenes make their solids of: rods melted together, a lattice of tets that fills them, tets made regular."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import Delaunay

from ..mesh import TET_EDGES, Mesh

Distance = Callable[[np.ndarray], np.ndarray]


def turn(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rotation about an axis by an angle (Rodrigues)."""
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


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


def melted(parts: Sequence[Part]) -> Distance:
    """About the distance to the skin of what the parts make together [m], negative inside."""

    def distance(points: np.ndarray) -> np.ndarray:
        result = np.full(len(points), np.inf)
        for part, side in [(one, side) for one in parts for side in (1, -1)[: 1 + one.twice]]:
            start = np.multiply(part.start, (side, 1, 1))
            way = np.multiply(part.end, (side, 1, 1)) - start
            along = np.clip((points - start) @ way / (way @ way), 0, 1)
            radius = part.start_radius + along * (part.end_radius - part.start_radius)
            radius -= part.bands * np.cos(2 * np.pi * (points[:, 1] - 0.3 * points[:, 2]) / 0.1)
            other = np.linalg.norm((points - start - along[:, None] * way) * (1, 1, part.flat), axis=1) - radius
            overlap = np.maximum(part.melt - np.abs(result - other), 0)
            result = np.minimum(result, other) - overlap**2 / (4 * part.melt)
        return result

    return distance


def fill_evenly(distance: Distance, low: Sequence[float], high: Sequence[float], spacing: float) -> Mesh:
    """`fill` with this spacing, or with one close to it if the lattice lies badly in a groove."""
    best = fill(distance, low, high, spacing)
    for factor in (0.996, 1.004, 0.992, 1.008):
        if _evenness(best) > 0.15:
            break
        best = max(best, fill(distance, low, high, spacing * factor), key=_evenness)
    return best


def _evenness(mesh: Mesh) -> float:
    return float(mesh.volumes.min() / mesh.volumes.mean())


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
    tets = right_side_out(points, tets)
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


def right_side_out(points: np.ndarray, tets: np.ndarray) -> np.ndarray:
    """The same tets, each with positive volume."""
    return np.where((_volumes(points, tets) < 0)[:, None], tets[:, [0, 1, 3, 2]], tets)


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

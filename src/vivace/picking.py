"""Which point of a surface a ray meets first, or is nearest to a point."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import checks
from .errors import InputError


@dataclass(frozen=True, eq=False)
class Hit:
    """A point of a triangle."""

    triangle: int
    particles: tuple[int, int, int]
    shares: tuple[float, float, float]  # of each, at the time
    point: np.ndarray  # (3,) [m]


def hit_by_ray(origin: Any, direction: Any, positions: np.ndarray, triangles: np.ndarray) -> Hit | None:
    """The first triangle, from either side, that a ray meets; None if it meets none."""
    origin, direction = np.array(checks.vector("origin", origin)), np.array(checks.vector("direction", direction))
    if not direction.any():
        raise InputError("direction: a ray of length 0 goes nowhere")
    triangle, f, g = _first_on_ray(origin, direction / np.linalg.norm(direction), positions, triangles)
    return _hit(triangle, f, g, positions, triangles)


def hit_nearest(point: Any, positions: np.ndarray, triangles: np.ndarray) -> Hit | None:
    """The point of all triangles that is nearest to a point; None if there is no triangle."""
    triangle, f, g = _nearest(np.array(checks.vector("point", point)), positions, triangles)
    return _hit(triangle, f, g, positions, triangles)


def _hit(triangle: int, f: float, g: float, positions: np.ndarray, triangles: np.ndarray) -> Hit | None:
    if triangle < 0:
        return None
    a, b, c = (int(particle) for particle in triangles[triangle])
    shares = float(1 - f - g), float(f), float(g)
    return Hit(int(triangle), (a, b, c), shares, np.array(shares) @ positions[[a, b, c]].astype(np.float64))


def _first_on_ray(
    origin: np.ndarray, direction: np.ndarray, positions: np.ndarray, triangles: np.ndarray
) -> tuple[int, float, float]:
    """Möller and Trumbore 1997: the triangle, and its point's shares of the second and third corner."""
    a, u, v = _sides(positions, triangles)
    across = np.cross(direction, v)
    with np.errstate(all="ignore"):  # triangles along the ray, or without area
        inverse = 1 / np.einsum("ij,ij->i", u, across)
        way = origin - a
        f, other = inverse * np.einsum("ij,ij->i", way, across), np.cross(way, u)
        g, distance = inverse * (other @ direction), inverse * np.einsum("ij,ij->i", v, other)
        met = (f >= 0) & (g >= 0) & (f + g <= 1) & (distance >= 0)
    if not met.any():
        return -1, 0.0, 0.0
    first = int(np.argmin(np.where(met, distance, np.inf)))
    return first, f[first], g[first]


def _nearest(point: np.ndarray, positions: np.ndarray, triangles: np.ndarray) -> tuple[int, float, float]:
    if not len(triangles):
        return -1, 0.0, 0.0
    a, u, v = _sides(positions, triangles)
    way, zero = point - a, np.zeros(len(triangles))
    uu, uv, vv = (np.einsum("ij,ij->i", *pair) for pair in ((u, u), (u, v), (v, v)))
    pu, pv = np.einsum("ij,ij->i", way, u), np.einsum("ij,ij->i", way, v)
    with np.errstate(all="ignore"):
        area = uu * vv - uv * uv
        f, g = (vv * pu - uv * pv) / area, (uu * pv - uv * pu) / area
        inside = (f >= 0) & (g >= 0) & (f + g <= 1)
        on_u, on_v = np.clip(np.nan_to_num(pu / uu), 0, 1), np.clip(np.nan_to_num(pv / vv), 0, 1)
        opposite = np.clip(np.nan_to_num((pv - uv - pu + uu) / (uu - 2 * uv + vv)), 0, 1)
    ways = [(np.where(inside, f, 0), np.where(inside, g, 0)), (on_u, zero), (zero, on_v), (1 - opposite, opposite)]
    gaps = [np.linalg.norm(way - f[:, None] * u - g[:, None] * v, axis=1) for f, g in ways]
    kind, first = np.unravel_index(np.argmin(gaps), (len(ways), len(triangles)))
    return int(first), ways[kind][0][first], ways[kind][1][first]


def _sides(positions: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A corner of each triangle, and the ways to the other two."""
    a, b, c = positions.astype(np.float64)[triangles.T]
    return a, b - a, c - a

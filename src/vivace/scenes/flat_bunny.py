"""A solid of the bunny's size, pressed flat, springs back (paper 002, scene s1; a made-up rabbit stands in)."""

from collections.abc import Iterator

import numpy as np
from scipy.spatial import Delaunay

from ..collision.plane import Plane
from ..diagnostics import tet_volumes
from ..io import Camera
from ..materials import Ratios
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement

NAME = "flat-bunny"
# Strongly damped: what springs back from a twentieth of its height would leave the ground otherwise.
SETTINGS = Settings(iterations=2, substeps=8, frames=120, damping=40.0)
PAPER = Settings(iterations=4, frames=500, damping=40.0)
CAMERA = Camera((1.9, 1.5, 2.6), (0.0, 0.62, 0.0))
FLATTENED = 0.05
# Bumps on a ball: direction, height relative to the radius, sharpness. Two ears, head, tail, two feet.
BUMPS = (
    ((0.33, 1.0, -0.05), 1.0, 22.0),
    ((-0.33, 1.0, -0.05), 1.0, 22.0),
    ((0.0, 0.45, 0.8), 0.35, 5.0),
    ((0.0, 0.0, -1.0), 0.25, 25.0),
    ((0.6, -0.7, 0.5), 0.2, 10.0),
    ((-0.6, -0.7, 0.5), 0.2, 10.0),
)
SIZE = np.array([0.5, 0.5, 0.55])


def scene(scale: float = 1.0) -> Scene:
    mesh = rabbit(scale)
    made = Scene()
    body = made.add_solid(mesh, density=200, material=Ratios(stretch=0.3, volume=0.5, bend=0.05), name="rabbit")
    body.set_positions(slice(None), mesh.vertices * [1, FLATTENED, 1] + [0, 0.01, 0])
    made.add_collider(Plane(), friction=0.5)
    return made


def rabbit(scale: float = 1.0) -> Mesh:
    """A dense skin around a coarse core, as the paper's mesh is: 16K particles, 80K edges, 50K tets, 42K hinges.

    Skin and core are balls of subdivided icosahedra, filled in by Delaunay, then pulled into shape along the rays from
    the middle, which keeps tets right side out unless a bump is narrower than they are: then it is made lower.
    """
    core = Mesh.ball(max(round(9 * scale**0.5), 2), radius=0.86 if scale > 0.3 else 0.8).vertices
    core = core + np.random.default_rng(3).normal(0, 0.04 / max(round(9 * scale**0.5), 2), core.shape)
    ball = np.concatenate([_sphere(max(round(37 * scale**0.5), 6)), core])
    tets = Delaunay(ball).simplices
    tets = np.where((_volumes(ball, tets) < 0)[:, None], tets[:, [0, 1, 3, 2]], tets)
    tets = tets[_volumes(ball, tets) > 1e-12]
    strengths = 0.8 ** np.arange(20)
    shape = next(shape for shape in (_shaped(ball, s) for s in [*strengths, 0.0]) if (_volumes(shape, tets) > 0).all())
    return Mesh(shape - [0, shape[:, 1].min(), 0], tets=tets)


def _sphere(frequency: int) -> np.ndarray:
    """The vertices of an icosahedron whose edges are cut into `frequency` parts, on the unit sphere."""
    ball = Mesh.ball(1)
    corners = ball.vertices.astype(float)
    parts = np.array([(i, j, frequency - i - j) for i in range(frequency + 1) for j in range(frequency + 1 - i)])
    points = np.concatenate([parts @ corners[face] for face in ball.triangles])
    return np.unique(np.round(points / np.linalg.norm(points, axis=1, keepdims=True), 6), axis=0)


def _shaped(ball: np.ndarray, strength: float) -> np.ndarray:
    radius = np.linalg.norm(ball, axis=1)
    direction = ball / np.where(radius > 0, radius, 1)[:, None]
    height = sum(
        amount * np.exp(-sharpness * (1 - direction @ (np.array(way) / np.linalg.norm(way))))
        for way, amount, sharpness in BUMPS
    )
    return ball * (1 + strength * height * radius**2)[:, None] * SIZE


def _volumes(points: np.ndarray, tets: np.ndarray) -> np.ndarray:
    p = points[tets]
    return np.einsum("ij,ij->i", np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]), p[:, 3] - p[:, 0]) / 6


def check(simulation: Simulation) -> Iterator[Statement]:
    x = simulation.positions
    volumes, rest = tet_volumes(simulation)
    error = abs(volumes.sum() / rest.sum() - 1)
    yield f"the volume is back within 3 % ({error:.2%})", bool(error < 0.03)
    shape = simulation.scene.bodies[0].mesh.vertices
    height = np.ptp(x[:, 1]) / np.ptp(shape[:, 1])
    yield f"it stands as high as it was within 8 % ({height:.1%})", bool(abs(height - 1) < 0.08)
    yield "no particle is below the floor", bool((x[:, 1] > -1e-4).all())
    inverted = float((volumes <= 0).mean())
    yield f"hardly a tetrahedron is inside out ({inverted:.2%})", inverted < 0.002

"""A hundred soft tori of 87K particles in all drop on the floor (paper 002, scene s2); they do not touch each other."""

from collections.abc import Iterator

import numpy as np

from ..collision.plane import Plane
from ..diagnostics import tet_volumes
from ..io import Camera
from ..materials import Ratios
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement

NAME = "tori"
SETTINGS = Settings(iterations=2, substeps=4, frames=240, damping=0.2)
PAPER = Settings(iterations=8, frames=500)
CAMERA = Camera((10.5, 9.0, 10.5), (0.8, 0.0, 0.8))
RADIUS, TUBE, SPACING = 0.36, 0.14, 1.6


def scene(scale: float = 1.0) -> Scene:
    """`scale` changes the number of tori."""
    count = max(round(100 * scale), 1)
    side = int(np.ceil(count**0.5))
    ring = Mesh.torus(RADIUS, TUBE, around=46, rings=2)
    random = np.random.default_rng(7)
    made = Scene()
    for i in range(count):
        axis, angle = random.normal(size=3), random.uniform(0.1, 0.9)
        place = np.array(
            [(i % side - (side - 1) / 2) * SPACING, random.uniform(0.6, 1.6), (i // side - (side - 1) / 2) * SPACING]
        )
        made.add_solid(
            Mesh(ring.vertices @ _turn(axis, angle).T + place, tets=ring.tets),
            density=300,
            material=Ratios(stretch=0.6, volume=0.8),
            name=f"torus-{i + 1}",
        )
    made.add_collider(Plane(), friction=0.5)
    return made


def _turn(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rotation about an axis by an angle (Rodrigues)."""
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def check(simulation: Simulation) -> Iterator[Statement]:
    x = simulation.positions
    yield "no particle is below the floor", bool((x[:, 1] > -1e-4).all())
    heights = np.array([np.ptp(x[rows, 1]) for _, rows in simulation.model.bodies])
    yield "every torus has come to lie flat", bool((heights < 2.6 * TUBE).all())
    volumes, rest = tet_volumes(simulation)
    error = abs(volumes.sum() / rest.sum() - 1)
    yield f"the volume is kept within 2 % ({error:.2%})", bool(error < 0.02)
    yield "no tetrahedron is inside out", bool((volumes > 0).all())

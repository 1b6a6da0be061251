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
from .shapes import turn

NAME = "tori"
SETTINGS = Settings(iterations=2, substeps=4, frames=240, damping=0.2)
PAPER = Settings(iterations=8, frames=500)
CAMERA = Camera((10.5, 9.0, 10.5), (0.8, 0.0, 0.8))
RADIUS, TUBE, SPACING = 0.36, 0.14, 1.6


def scene(scale: float = 1.0) -> Scene:
    """`scale` changes the number of tori."""
    return dropping(max(round(100 * scale), 1), Mesh.torus(RADIUS, TUBE, around=46, rings=2), SPACING)


def dropping(count: int, ring: Mesh, spacing: float, heights: tuple[float, float] = (0.6, 1.6)) -> Scene:
    """So many of the rings, each turned another way, in rows above the floor; they do not touch each other."""
    side = int(np.ceil(count**0.5))
    random = np.random.default_rng(7)
    made = Scene()
    for i in range(count):
        axis, angle = random.normal(size=3), random.uniform(0.1, 0.9)
        place = np.array(
            [(i % side - (side - 1) / 2) * spacing, random.uniform(*heights), (i // side - (side - 1) / 2) * spacing]
        )
        made.add_solid(
            Mesh(ring.vertices @ turn(axis, angle).T + place, tets=ring.tets),
            density=300,
            material=Ratios(stretch=0.6, volume=0.8),
            name=f"torus-{i + 1}",
        )
    made.add_collider(Plane(), friction=0.5)
    return made


def check(simulation: Simulation, tube: float = TUBE) -> Iterator[Statement]:
    x = simulation.positions
    yield "no particle is below the floor", bool((x[:, 1] > -1e-4).all())
    heights = np.array([np.ptp(x[rows, 1]) for _, rows in simulation.model.bodies])
    yield "every torus has come to lie flat", bool((heights < 2.6 * tube).all())
    volumes, rest = tet_volumes(simulation)
    error = abs(volumes.sum() / rest.sum() - 1)
    yield f"the volume is kept within 2 % ({error:.2%})", bool(error < 0.02)
    yield "no tetrahedron is inside out", bool((volumes > 0).all())

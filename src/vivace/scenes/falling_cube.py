"""A soft cube of 25K constraints falls and comes to rest on a face (paper 002, fig. 4 and 5)."""

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

NAME = "falling-cube"
SETTINGS = Settings(iterations=1, substeps=8, frames=300, damping=1.0)
PAPER = Settings(iterations=8)  # what the paper fits into 5 ms
CAMERA = Camera((2.1, 1.9, 3.7), (0.0, 0.72, 0.0))
SIDE, HEIGHT = 1.0, 0.6
TILT = np.array([0.7, 0.0, 1.0]), 0.5  # axis, angle [rad]


def scene(scale: float = 1.0) -> Scene:
    cells = max(round(12 * scale ** (1 / 3)), 1)
    cube = Mesh.box((cells, cells, cells), (SIDE, SIDE, SIDE))
    turned = cube.vertices @ turn(*TILT).T
    made = Scene()
    made.add_solid(
        Mesh(turned + [0, HEIGHT - turned[:, 1].min(), 0], tets=cube.tets),
        density=200,
        material=Ratios(stretch=0.15, volume=0.3),
        name="cube",
    )
    made.add_collider(Plane(), friction=0.5)
    return made


def check(simulation: Simulation) -> Iterator[Statement]:
    x = simulation.positions
    yield "no particle is below the floor", bool((x[:, 1] > -1e-4).all())
    height = float(np.ptp(x[:, 1])) / SIDE
    yield f"it rests on a face, as high as it was within 5 % ({height:.1%})", abs(height - 1) < 0.05
    volumes, rest = tet_volumes(simulation)
    error = abs(volumes.sum() / rest.sum() - 1)
    yield f"the volume is kept within 1 % ({error:.2%})", bool(error < 0.01)
    yield "no tetrahedron is inside out", bool((volumes > 0).all())
    speed = float(np.sqrt((simulation.velocities**2).sum(axis=1).mean()))
    yield f"it has come to rest (RMS speed {speed:.3f} m/s)", speed < 0.05

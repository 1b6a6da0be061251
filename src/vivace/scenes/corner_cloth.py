"""A cloth of 10K particles, held at a corner, swings down: for the solver implicit (paper 004, fig. 9)."""

from collections.abc import Iterator

import numpy as np

from ..io import Camera
from ..materials import MassSpring
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement

NAME = "corner-cloth"
SETTINGS = Settings(iterations=40, substeps=8, dt=1 / 25, frames=100, damping=0.5)
PAPER = Settings(iterations=5, dt=1 / 25, frames=100, damping=0.5)
CAMERA = Camera((2.5, 1.6, 1.8), (-0.35, 0.9, -0.35), ground=0.1)
SIZE, HEIGHT, DENSITY = 1.0, 1.7, 0.2
FABRIC = MassSpring(structural=200.0, shear=100.0, bend=1.0, damping=0.01)


def scene(scale: float = 1.0) -> Scene:
    side = max(round(100 * scale**0.5), 6)
    made = Scene()
    mesh = Mesh.grid(side, side, size=(SIZE, SIZE)).moved((0, HEIGHT, 0))
    made.add_cloth(mesh, density=DENSITY, material=FABRIC, name="cloth").pin(0)
    return made


def check(simulation: Simulation) -> Iterator[Statement]:
    x, body = simulation.positions, simulation.scene.bodies[0]
    held = body.mesh.vertices[0]
    reach = np.linalg.norm(x - held, axis=1).max()
    longest = SIZE * 2**0.5
    yield "it stays where it is held", bool((x[0] == held).all())
    yield f"no part is farther from there than 1.25 times its diagonal ({reach:.2f} m)", bool(reach < 1.25 * longest)
    yield "it hangs below", bool(x[:, 1].mean() < HEIGHT - 0.3)

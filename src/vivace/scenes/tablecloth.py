"""A tablecloth of 10K vertices, held at four points, falls (paper 001, fig. 4 and 6)."""

from collections.abc import Iterator

import numpy as np

from ..diagnostics import edge_strain
from ..io import Camera
from ..materials import Elastic, Material, Springs
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement

NAME = "tablecloth"
SETTINGS = Settings(iterations=1, substeps=80, dt=1 / 30, frames=120, damping=0.5, spend="substeps")
PAPER = Settings(iterations=8, dt=1 / 30, frames=120, damping=0.5)
CAMERA = Camera((1.7, 1.25, 2.1), (0.0, 0.55, 0.0))
SIZE, HEIGHT, DENSITY = 1.5, 0.9, 0.2
COTTON = Elastic(young=4e6, thickness=4e-4, bend=1e-5)  # 1600 N/m


def scene(scale: float = 1.0, material: Material = COTTON) -> Scene:
    side = max(round(100 * scale**0.5), 6)
    mesh = Mesh.grid(side, side, size=(SIZE, SIZE)).moved((0, HEIGHT, 0))
    made = Scene()
    cloth = made.add_cloth(mesh, density=DENSITY, material=material, name="tablecloth")
    held = [round(share * (side - 1)) + i for share in (0.25, 0.75) for i in (-1, 0, 1)]
    cloth.pin([side * row + column for row in held for column in held])  # the thumbs of four hands
    return made


def springs(ratio: float, scale: float = 1.0, dt: float = 1 / 30) -> Springs:
    """Springs with stiffness * dt^2 / mass = `ratio`, the measure of how hard a step is for local relaxation."""
    side = max(round(100 * scale**0.5), 6)
    spacing = SIZE / (side - 1)
    stretch = ratio * DENSITY * spacing**2 / dt**2
    return Springs(stretch, bend=1e-3 * stretch * spacing**2)


def check(simulation: Simulation) -> Iterator[Statement]:
    x, body = simulation.positions, simulation.scene.bodies[0]
    strain = np.sort(edge_strain(simulation))
    yield (
        f"99 % of the edges are stretched by less than 6 % ({strain[int(0.99 * len(strain))]:.2%})",
        bool(strain[int(0.99 * len(strain))] < 0.06),
    )
    yield "its middle sags between the points that hold it", bool(x[len(x) // 2, 1] < HEIGHT - 0.02)
    yield "its corners hang down", bool(x[0, 1] < HEIGHT - 0.2)
    yield "it stays where it is held", bool((x[body.pinned] == body.mesh.vertices[body.pinned]).all())

"""A cloth of 10K particles falls on a tube (paper 002, scene s0)."""

from collections.abc import Iterator

import numpy as np

from ..collision.cylinder import Cylinder
from ..collision.plane import Plane
from ..diagnostics import edge_strain
from ..io import Camera
from ..materials import Ratios
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement

NAME = "cloth-on-tube"
# Small steps: eight iterations cannot carry the weight of the hanging half over fifty edges; cotton becomes rubber.
SETTINGS = Settings(iterations=1, substeps=16, frames=300, damping=1.0)
PAPER = Settings(iterations=8, frames=500)
CAMERA = Camera((2.5, 1.9, 2.6), (0.0, 0.58, 0.0))
SIZE, HEIGHT, RADIUS, MARGIN = 2.0, 0.9, 0.3, 0.008


def scene(scale: float = 1.0) -> Scene:
    side = max(round(100 * scale**0.5), 4)
    mesh = Mesh.grid(side, side, size=(SIZE, SIZE))
    turn = np.deg2rad(25)
    turned = mesh.vertices @ np.array(
        [[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]]
    ) + [0.1, HEIGHT + RADIUS + 0.15, 0]
    made = Scene()
    made.add_cloth(Mesh(turned, mesh.triangles), density=0.2, material=Ratios(stretch=1.0, bend=0.02), name="cloth")
    made.add_collider(Cylinder(RADIUS, center=(0, HEIGHT, 0), axis=(0, 0, 1), length=2.4), friction=0.5, margin=MARGIN)
    made.add_collider(Plane(), friction=0.6, margin=MARGIN)
    return made


def check(simulation: Simulation) -> Iterator[Statement]:
    x = simulation.positions
    radial = np.hypot(x[:, 0], x[:, 1] - HEIGHT)
    over = np.abs(x[:, 2]) < 1.2
    yield "no particle is inside the tube", bool((radial[over] > RADIUS).all())
    yield "no particle is below the floor", bool((x[:, 1] > 0).all())
    yield "the cloth lies on the tube", bool((radial[over] < RADIUS + 2 * MARGIN).sum() > 0.1 * len(x))
    yield "its sides hang down", bool(x[:, 1].min() < HEIGHT - 0.2)
    strain = float(np.sqrt(np.mean(edge_strain(simulation) ** 2)))
    yield f"edges are stretched by less than 2 % (RMS {strain:.2%})", strain < 0.02
    speed = float(np.sqrt((simulation.velocities**2).sum(axis=1).mean()))
    yield f"it has come to rest (RMS speed {speed:.3f} m/s)", speed < 0.2

"""Ten sheets of cloth fall on a ball and stay ten layers."""

from collections.abc import Iterator

import numpy as np

from ..collision.plane import Plane
from ..collision.sphere import Sphere
from ..diagnostics import collider_depths, crossings, edge_strain, rms_speed
from ..io import Camera
from ..materials import Elastic
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement
from .shapes import turn

NAME = "sheets"
SETTINGS = Settings(iterations=6, substeps=6, frames=300, damping=1.0)
CAMERA = Camera((1.2, 0.95, 1.45), (0.0, 0.17, 0.0))
SHEETS, SIDE, SIZE = 10, 28, 1.1
THICKNESS, ABOVE = 0.4, 0.02  # of a sheet, in edges of its triangles; of the lowest one above the ball [m]
RADIUS, FRICTION = 0.2, 0.8
COTTON = Elastic(young=1e6, thickness=4e-4, bend=2e-5)


def scene(scale: float = 1.0) -> Scene:
    side = max(round(SIDE * scale**0.5), 5)
    sheet, thickness = Mesh.grid(side, side, size=(SIZE, SIZE)), THICKNESS * SIZE / (side - 1)
    made = Scene()
    for i in range(SHEETS):
        place = 0, 2 * RADIUS + ABOVE + thickness * (0.5 + 1.5 * i), 0
        lifted = sheet.vertices @ turn(np.array([0, 1, 0]), 0.7 * i).T + place
        made.add_cloth(Mesh(lifted, sheet.triangles), density=0.2, material=COTTON, name=f"sheet-{i + 1}")
    made.add_collider(Sphere(RADIUS, center=(0, RADIUS, 0)), friction=FRICTION, margin=thickness / 2)
    made.add_collider(Plane(), friction=FRICTION, margin=thickness / 2)
    made.self_collision(thickness, friction=FRICTION, passes=2)
    return made


def check(simulation: Simulation) -> Iterator[Statement]:
    x, touching = simulation.positions, simulation.model.touching
    assert touching is not None
    count = crossings(simulation)
    yield f"no two triangles cross ({count} pairs do)", count == 0
    depth = float(collider_depths(simulation).max())
    yield f"nothing is in the ball or the floor ({1e3 * depth:.2f} mm)", depth < 0.1 * touching.thickness
    heights = [x[rows, 1][np.hypot(x[rows, 0], x[rows, 2]) < 0.3 * SIZE].max() for _, rows in simulation.model.bodies]
    yield "they lie on the ball in the order they came", bool((np.diff(heights) > 0.5 * touching.thickness).all())
    strain = float(np.sqrt(np.mean(edge_strain(simulation) ** 2)))
    yield f"edges are off by less than 2 % (RMS {strain:.2%})", strain < 0.02
    speed = rms_speed(simulation)
    yield f"they have come to rest (RMS speed {speed:.3f} m/s)", speed < 0.05

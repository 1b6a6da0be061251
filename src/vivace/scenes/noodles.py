"""Sixty soft ribbons of 30K particles in all fall on the floor and pile up (paper 001, fig. 8)."""

from collections.abc import Iterator

import numpy as np

from ..collision.plane import Plane
from ..diagnostics import collider_depths, crossings, edge_strain, rms_speed
from ..io import Camera
from ..materials import Elastic
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement
from .shapes import turn

NAME = "noodles"
SETTINGS = Settings(iterations=8, substeps=3, frames=300, damping=1.0)
PAPER = Settings(iterations=8, dt=1 / 30, damping=1.0)
CAMERA = Camera((1.1, 1.15, 1.5), (0.0, -0.05, 0.0))
NOODLES, LENGTH, WIDTH, CELLS = 60, 0.9, 0.06, (71, 6)
IN_LAYER, SPACING, LAYER, ABOVE = 8, 0.16, 0.045, 0.05  # [m]
WAVE, GOLDEN = 0.015, 2.4  # height of the waves [m], turn from layer to layer
THICKNESS = 0.005  # [m]
DOUGH = Elastic(young=4e5, thickness=3e-3, bend=6e-4)
DENSITY = 1.0  # [kg/m^2]


def scene(scale: float = 1.0) -> Scene:
    """`scale` changes the number of noodles."""
    made = on_the_floor()
    for i, noodle in enumerate(in_the_air(max(round(NOODLES * scale), 1))):
        add(made, noodle, f"noodle-{i + 1}")
    return made


def on_the_floor() -> Scene:
    """A floor, on which what is added may touch."""
    made = Scene()
    made.add_collider(Plane(), friction=0.5, margin=THICKNESS / 2)
    made.self_collision(THICKNESS, friction=0.3)
    return made


def add(made: Scene, noodle: Mesh, name: str) -> None:
    made.add_cloth(noodle, density=DENSITY, material=DOUGH, name=name)


def in_the_air(count: int) -> Iterator[Mesh]:
    """Noodles side by side in layers above the floor, each layer turned another way, each noodle wavy another way."""
    random, in_layer = np.random.default_rng(3), max(round(IN_LAYER * (count / NOODLES) ** 0.5), 1)
    flat = Mesh.grid(CELLS[0] + 1, CELLS[1] + 1, size=(LENGTH, WIDTH))
    for number in range(count):
        layer, place = divmod(number, in_layer)
        waves = WAVE * np.sin(2 * np.pi * (random.uniform(1, 2) * flat.vertices[:, 0] / LENGTH + random.uniform()))
        aside = random.uniform(-0.15, 0.15), ABOVE + LAYER * layer, (place - (in_layer - 1) / 2) * SPACING
        points = flat.vertices + waves[:, None] * [0, 1, 0] + aside
        yield Mesh(points @ turn(np.array([0, 1, 0]), GOLDEN * layer).T, flat.triangles)


def check(simulation: Simulation) -> Iterator[Statement]:
    count, triangles = crossings(simulation), len(simulation.model.triangles)
    yield f"hardly a triangle crosses another ({count} pairs of {triangles})", count <= 0.001 * triangles
    depth = float(collider_depths(simulation).max())
    yield f"nothing is in the floor ({1e3 * depth:.2f} mm)", depth < 0.1 * THICKNESS
    highest = float(simulation.positions[:, 1].max())
    yield f"they lie on each other ({1e3 * highest:.0f} mm high)", 2.5 * THICKNESS < highest < ABOVE
    strain = float(np.sqrt(np.mean(edge_strain(simulation) ** 2)))
    yield f"edges are off by less than 3 % (RMS {strain:.2%})", strain < 0.03
    speed = rms_speed(simulation)
    yield f"they have come to rest (RMS speed {speed:.3f} m/s)", speed < 0.02

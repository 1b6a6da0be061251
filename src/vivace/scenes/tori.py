"""A hundred soft tori of 87K particles in all drop on the floor and on each other (paper 002, scene s2)."""

from collections.abc import Iterator

import numpy as np

from ..collision.plane import Plane
from ..diagnostics import collider_depths, crossings, rms_speed, tet_volumes
from ..io import Camera
from ..materials import Ratios
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement
from .shapes import turn

NAME = "tori"
SETTINGS = Settings(iterations=3, substeps=8, frames=300, damping=1.0)
PAPER = Settings(iterations=8, frames=500)
CAMERA = Camera((6.0, 4.9, 7.4), (0.3, 0.5, 0.3))
RADIUS, TUBE, THICKNESS, LAYERS = 0.36, 0.14, 0.022, 4


def scene(scale: float = 1.0) -> Scene:
    """`scale` changes the number of tori."""
    return dropping(max(round(100 * scale), 1), Mesh.torus(RADIUS, TUBE, around=46, rings=2), RADIUS + TUBE, THICKNESS)


def dropping(count: int, ring: Mesh, radius: float, thickness: float) -> Scene:
    """So many of the rings of an outer `radius` [m], each turned another way, in four layers above the floor."""
    side = int(np.ceil((count / LAYERS) ** 0.5))
    random = np.random.default_rng(7)
    made = Scene()
    for i in range(count):
        layer, row, column = i // side**2, i // side % side, i % side
        middle = (side - 1) / 2 - 0.5 * (layer % 2)  # every other layer falls into the gaps of the one below
        place = np.array([column - middle, 0.26 + 0.48 * layer, row - middle]) * 2.1 * radius
        turned = ring.vertices @ turn(random.normal(size=3), random.uniform(0.05, 0.25)).T
        made.add_solid(
            Mesh(turned + place, tets=ring.tets),
            density=300,
            material=Ratios(stretch=0.6, volume=0.8),
            name=f"torus-{i + 1}",
        )
    made.add_collider(Plane(), friction=0.5, margin=thickness / 2)
    made.self_collision(thickness, friction=0.4)
    return made


def check(simulation: Simulation) -> Iterator[Statement]:
    x = simulation.positions
    depth = float(collider_depths(simulation, with_margins=False).max())
    yield f"no particle is below the floor ({1e3 * depth:.2f} mm)", depth < 1e-4
    count, triangles = crossings(simulation), len(simulation.model.triangles)
    yield f"hardly a triangle crosses another ({count} pairs of {triangles})", count <= 0.001 * triangles
    bottoms = np.array([x[rows, 1].min() for _, rows in simulation.model.bodies])
    above = float((bottoms > 4 * simulation.model.surfaces[0].margin).mean())
    yield f"some lie on others, without touching the floor ({above:.0%})", above > 0.1
    volumes, rest = tet_volumes(simulation)
    error = abs(volumes.sum() / rest.sum() - 1)
    yield f"the volume is kept within 2 % ({error:.2%})", bool(error < 0.02)
    yield "no tetrahedron is inside out", bool((volumes > 0).all())
    speed = rms_speed(simulation)
    yield f"they have come to rest (RMS speed {speed:.3f} m/s)", speed < 0.1

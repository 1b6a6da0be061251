"""Four hundred small soft tori drop on the floor and on each other (paper 000, fig. 6)."""

from collections.abc import Iterator

from ..io import Camera
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement, tori

NAME = "tori-400"
SETTINGS = Settings(iterations=3, substeps=8, frames=200, damping=1.0)
PAPER = Settings(iterations=4, frames=500)
CAMERA = Camera((6.0, 4.9, 7.4), (0.25, 0.1, 0.25))
RADIUS, TUBE, THICKNESS = 0.22, 0.06, 0.014


def scene(scale: float = 1.0) -> Scene:
    """`scale` changes the number of tori."""
    ring = Mesh.torus(RADIUS, TUBE, around=41, rings=1)
    return tori.dropping(max(round(400 * scale), 1), ring, RADIUS + TUBE, THICKNESS)


def check(simulation: Simulation) -> Iterator[Statement]:
    yield from tori.check(simulation)

"""Four hundred small soft tori drop on the floor (paper 000, fig. 6); they do not touch each other."""

from collections.abc import Iterator

from ..io import Camera
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement, tori

NAME = "tori-400"
SETTINGS = Settings(iterations=1, substeps=8, frames=100, damping=0.2)
PAPER = Settings(iterations=4, frames=500)
CAMERA = Camera((8.9, 8.2, 8.9), (0.7, 0.0, 0.7))
RADIUS, TUBE, SPACING = 0.22, 0.06, 0.85


def scene(scale: float = 1.0) -> Scene:
    """`scale` changes the number of tori."""
    ring = Mesh.torus(RADIUS, TUBE, around=41, rings=1)
    return tori.dropping(max(round(400 * scale), 1), ring, SPACING, heights=(0.35, 0.95))


def check(simulation: Simulation) -> Iterator[Statement]:
    yield from tori.check(simulation, TUBE)

"""A creature of 10K vertices and 55K tets hangs by one hand (paper 001, fig. 5 and 7; a made-up creature stands in)."""

from collections.abc import Iterator

import numpy as np

from ..errors import InputError
from ..io import Camera
from ..materials import Elastic, Material
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from ..system import make_system
from . import Settings, Statement
from .shapes import Part, fill_evenly, melted

NAME = "armadillo"
SETTINGS = Settings(iterations=1, substeps=20, dt=1 / 30, frames=120, damping=0.5)
PAPER = Settings(iterations=8, dt=1 / 30, frames=120, damping=0.5)
CAMERA = Camera((1.0, 0.55, 2.9), (0.15, 0.25, 0.0))
DENSITY = 120.0
PLUSH = Elastic(young=1e5, poisson=0.0)


def scene(scale: float = 1.0, material: Material = PLUSH) -> Scene:
    mesh = creature(scale)
    if not len(hand(mesh)):
        raise InputError(f"armadillo: at scale {scale} its arms are thinner than the lattice; use 0.05 or more")
    return hanging(mesh, material)


def hanging(mesh: Mesh, material: Material) -> Scene:
    made = Scene()
    made.add_solid(mesh, density=DENSITY, material=material, name="creature").pin(hand(mesh))
    return made


def of_ratio(ratio: float, mesh: Mesh, dt: float = 1 / 30) -> Elastic:
    """A material whose stiffness diagonal is, on average, 6 * `ratio` times m / dt^2: as springs of that ratio."""
    model = hanging(mesh, Elastic(young=1.0, poisson=0.0)).build()
    diagonal = make_system(model.groups, [group.vertices for group in model.groups], model.particle_count).diagonal
    free = model.inverse_masses > 0
    return Elastic(young=6 * ratio / float((diagonal[free] * model.inverse_masses[free]).mean() * dt**2), poisson=0.0)


def check(simulation: Simulation) -> Iterator[Statement]:
    x, body = simulation.positions, simulation.scene.bodies[0]
    volumes = Mesh(x, tets=body.mesh.tets).volumes
    error = abs(volumes.sum() / body.mesh.volumes.sum() - 1)
    yield f"the volume is kept within 10 % ({error:.2%})", bool(error < 0.1)
    inverted = float((volumes <= 0).mean())
    yield f"hardly a tetrahedron is inside out ({inverted:.2%})", inverted < 0.001
    yield "it hangs below its hand", bool(x.mean(axis=0)[1] < x[body.pinned, 1].min())
    yield "its hand stays where it is", bool((x[body.pinned] == body.mesh.vertices[body.pinned]).all())


PARTS = (
    Part((0, 0.33, 0.02), (0, 0.53, 0.01), 0.195, 0.15),  # belly and chest
    Part((0, 0.36, -0.09), (0, 0.54, -0.07), 0.225, 0.175, melt=0.02, flat=1.35, bands=0.008),  # shell
    Part((0, 0.715, 0.05), (0, 0.725, 0.06), 0.13, 0.13, melt=0.05),  # head
    Part((0, 0.705, 0.13), (0, 0.67, 0.275), 0.083, 0.045, melt=0.05),  # snout
    Part((0.07, 0.81, 0.03), (0.13, 0.905, 0.0), 0.045, 0.06, melt=0.03, flat=1.4, twice=True),  # ears
    Part((0.06, 0.765, 0.15), (0.062, 0.77, 0.16), 0.036, 0.036, melt=0.015, twice=True),  # eyes
    Part((0.11, 0.25, 0.02), (0.155, 0.1, 0.03), 0.11, 0.09, melt=0.05, twice=True),  # legs
    Part((0.16, 0.065, 0.05), (0.18, 0.06, 0.15), 0.075, 0.06, melt=0.08, twice=True),  # feet
    Part((0.12, 0.54, 0.02), (0.27, 0.64, 0.03), 0.08, 0.066),  # raised arm
    Part((0.27, 0.64, 0.03), (0.32, 0.85, 0.05), 0.066, 0.062),
    Part((0.32, 0.9, 0.05), (0.32, 0.92, 0.05), 0.08, 0.08, melt=0.03),  # its hand and thumb
    Part((0.3, 0.88, 0.07), (0.245, 0.93, 0.1), 0.045, 0.035, melt=0.03),
    Part((-0.12, 0.54, 0.02), (-0.3, 0.46, 0.04), 0.08, 0.066),  # lowered arm
    Part((-0.3, 0.46, 0.04), (-0.34, 0.4, 0.15), 0.066, 0.062),
    Part((-0.345, 0.39, 0.19), (-0.345, 0.39, 0.21), 0.08, 0.08, melt=0.03),  # its hand and thumb
    Part((-0.31, 0.42, 0.2), (-0.275, 0.475, 0.225), 0.045, 0.035, melt=0.03),
    Part((0, 0.22, -0.15), (0, 0.1, -0.31), 0.115, 0.075, melt=0.06),  # tail
    Part((0, 0.1, -0.31), (0, 0.12, -0.43), 0.075, 0.042),
)
LOW, HIGH = (-0.46, -0.05, -0.55), (0.45, 1.05, 0.4)  # a box around them
HAND, HAND_RADIUS = (0.32, 0.91, 0.05), 0.1


def creature(scale: float = 1.0) -> Mesh:
    """About 1 m high; the number of vertices goes with the scale."""
    # The surface takes its share of the vertices, hence not scale ** (-1 / 3).
    return fill_evenly(melted(PARTS), LOW, HIGH, 0.02932 * scale**-0.35)


def hand(mesh: Mesh) -> np.ndarray:
    """The vertices of the raised hand."""
    return np.flatnonzero(np.linalg.norm(mesh.vertices - HAND, axis=1) < HAND_RADIUS)

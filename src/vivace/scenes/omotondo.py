"""A round figure of 65K tets, pressed flat, comes back to its shape (paper 000, fig. 6; a made-up one stands in)."""

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
from .shapes import Part, fill_evenly, melted

NAME = "omotondo"
# Strongly damped: what springs back from a tenth of its height would leave the ground otherwise.
SETTINGS = Settings(iterations=2, substeps=8, frames=90, damping=40.0)
PAPER = Settings(iterations=16, frames=500, damping=40.0)
CAMERA = Camera((0.85, 0.95, 2.2), (0.0, 0.5, 0.0))
FLATTENED = 0.1
PARTS = (
    Part((0, 0.33, 0), (0, 0.4, 0), 0.31, 0.31),  # belly
    Part((0, 0.77, 0.02), (0, 0.79, 0.02), 0.2, 0.2, melt=0.07),  # head
    Part((0, 0.75, 0.19), (0, 0.75, 0.23), 0.075, 0.06, melt=0.06),  # snout
    Part((0.16, 0.93, 0.0), (0.18, 0.95, 0.0), 0.075, 0.075, melt=0.06, twice=True),  # ears
    Part((0.25, 0.49, 0.02), (0.42, 0.47, 0.1), 0.095, 0.09, melt=0.15, twice=True),  # arms
    Part((0.17, 0.12, -0.08), (0.2, 0.12, 0.15), 0.12, 0.12, melt=0.08, twice=True),  # legs
)
LOW, HIGH = (-0.55, -0.05, -0.4), (0.55, 1.1, 0.4)  # a box around them


def scene(scale: float = 1.0) -> Scene:
    mesh = figure(scale)
    made = Scene()
    body = made.add_solid(mesh, density=200, material=Ratios(stretch=0.5, volume=0.5), name="omotondo")
    body.set_positions(slice(None), mesh.vertices * [1, FLATTENED, 1] + [0, 0.01, 0])
    made.add_collider(Plane(), friction=0.5)
    return made


def figure(scale: float = 1.0) -> Mesh:
    """About 1 m high, standing on the floor; the number of vertices goes with the scale."""
    # The surface takes its share of the vertices, hence not scale ** (-1 / 3).
    mesh = fill_evenly(melted(PARTS), LOW, HIGH, 0.03414 * scale**-0.35)
    return mesh.moved((0, -mesh.vertices[:, 1].min(), 0))


def check(simulation: Simulation) -> Iterator[Statement]:
    x = simulation.positions
    volumes, rest = tet_volumes(simulation)
    error = abs(volumes.sum() / rest.sum() - 1)
    yield f"the volume is back within 2 % ({error:.2%})", bool(error < 0.02)
    shape = simulation.scene.bodies[0].mesh.vertices
    height = np.ptp(x[:, 1]) / np.ptp(shape[:, 1])
    yield f"it stands as high as it was within 5 % ({height:.1%})", bool(abs(height - 1) < 0.05)
    yield "no particle is below the floor", bool((x[:, 1] > -1e-4).all())
    yield "no tetrahedron is inside out", bool((volumes > 0).all())
    speed = float(np.sqrt((simulation.velocities**2).sum(axis=1).mean()))
    yield f"it has come to rest (RMS speed {speed:.3f} m/s)", speed < 0.05

"""A cloth of 20 x 20 particles, stretched to 16 times its area, relaxes by projections alone (paper 000, fig. 10)."""

from collections.abc import Iterator

import numpy as np

from ..diagnostics import edge_strain
from ..io import Camera
from ..materials import Ratios
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement

NAME = "stretched-cloth"
# The damping leaves no velocity: each frame starts at rest, and only the projections move the cloth.
SETTINGS = Settings(iterations=8, frames=120, damping=1e6)
PAPER = Settings(iterations=8, frames=120, damping=1e6)
CAMERA = Camera((1.7, 6.4, 5.0), (0.0, 0.7, 0.2))
SIZE, HEIGHT, STRETCHED = 1.0, 1.0, 4


def scene(scale: float = 1.0) -> Scene:
    side = max(round(20 * scale**0.5), 2)
    mesh = Mesh.grid(side, side, size=(SIZE, SIZE), diagonals="same").moved((0, HEIGHT, 0))
    made = Scene(gravity=(0, 0, 0))
    cloth = made.add_cloth(mesh, material=Ratios(stretch=1.0), name="cloth")
    cloth.set_positions(slice(None), mesh.vertices * [STRETCHED, 1, STRETCHED])
    return made


def check(simulation: Simulation) -> Iterator[Statement]:
    body = simulation.scene.bodies[0]
    strain = float(edge_strain(simulation).max())
    yield f"every edge is as long as it was within 1 % ({strain:.3%})", strain < 0.01
    area = _area(simulation.positions, body.mesh.triangles) / _area(body.mesh.vertices, body.mesh.triangles)
    yield f"it is spread out over its rest area within 1 % ({area:.2%})", abs(area - 1) < 0.01
    moved = np.average(simulation.positions.astype(np.float64) - body.positions, axis=0, weights=body.masses)
    drift = float(np.abs(moved).max())
    yield f"its center of mass stays within 1e-5 m ({drift:.1e} m)", drift < 1e-5


def _area(positions: np.ndarray, triangles: np.ndarray) -> float:
    """Seen from above; what is folded over counts against it [m^2]."""
    p = positions[triangles].astype(np.float64)
    return float(np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])[:, 1].sum() / 2)

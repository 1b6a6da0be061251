"""Nine cloths of 324K constraints in all fall on an armchair; one is pinched and dragged (paper 001, fig. 9)."""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from ..collision.box import Box
from ..collision.capsule import Capsule
from ..collision.plane import Plane
from ..diagnostics import collider_depths, crossings, edge_strain, rms_speed
from ..io import Camera
from ..materials import Elastic
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from . import Settings, Statement
from .shapes import turn

NAME = "cloth-heap"
# Three passes over the contacts in each iteration let nine layers hang over a corner without being pressed through each
# other. Damped as air damps cloth, so that it falls at 3.3 m/s at most.
SETTINGS = Settings(iterations=3, substeps=8, frames=300, damping=3.0)
PAPER = Settings(iterations=8, dt=1 / 30, damping=1.0)
CAMERA = Camera((2.1, 1.8, 2.8), (0.1, 0.38, 0.2))
CLOTHS, SIDE, SIZE = 9, 78, 1.5
THICKNESS, ABOVE = 0.45, 0.02  # of a cloth, in edges of its triangles; of the lowest one above the armchair [m]
TOP = 0.8  # of the armchair [m]
COTTON = Elastic(young=1e6, thickness=4e-4, bend=1e-5)
# Where the hand goes that holds the last cloth: times [s], and ways from where it was [m].
TIMES = np.array([0.0, 0.8, 1.2, 1.9, 2.6])
WAY = np.array([[0, 0, 0], [0, -0.3, 0.1], [0, -0.3, 0.1], [0.3, -0.15, 0.25], [0.45, -0.35, 0.5]])


def scene(scale: float = 1.0) -> Scene:
    side = max(round(SIDE * scale**0.5), 8)
    sheet, random = Mesh.grid(side, side, size=(SIZE, SIZE)), np.random.default_rng(5)
    thickness = THICKNESS * SIZE / (side - 1)
    made = Scene()
    for i in range(CLOTHS):
        turned = sheet.vertices @ turn(np.array([0, 1, 0]), 0.4 * (CLOTHS - 1 - i)).T
        place = random.uniform(-0.25, 0.25), TOP + ABOVE + 2 * thickness * i, random.uniform(-0.2, 0.1)
        made.add_cloth(Mesh(turned + place, sheet.triangles), density=0.2, material=COTTON, name=f"cloth-{i + 1}")
    made.bodies[-1].pin(_pinched(side))
    made.add_collider(armchair(), friction=0.9, margin=thickness / 2)
    made.add_collider(Plane(), friction=0.5, margin=thickness / 2)
    made.self_collision(thickness, friction=0.9, passes=3)
    return made


def armchair() -> Any:
    """Seat, back, and two arms with round tops; it stands on the floor and looks along z."""
    parts: list[Any] = [
        Box((0.62, 0.42, 0.66), center=(0, 0.21, 0)).rounded(0.05),
        Box((0.86, TOP, 0.18), center=(0, TOP / 2, -0.36)).rounded(0.08),
    ]
    for x in (-0.37, 0.37):
        parts.append(Box((0.13, 0.56, 0.66), center=(x, 0.28, 0)).rounded(0.05))
        parts.append(Capsule((x, 0.55, -0.27), (x, 0.55, 0.27), 0.085))
    return reduce(or_, parts)


def _pinched(side: int) -> np.ndarray:
    """A few vertices near the middle of an edge."""
    rows, columns = np.meshgrid(side - 2 - np.arange(3), side // 2 + np.arange(-1, 2))
    return (side * rows + columns).ravel()


def script(simulation: Simulation) -> None:
    """The hand goes on by a frame."""
    cloth = simulation.scene.bodies[-1]
    vertices = np.flatnonzero(cloth.pinned)
    simulation.move_pins(vertices + cloth.first, cloth.mesh.vertices[vertices] + way(simulation.time + simulation.dt))


def way(time: float) -> np.ndarray:
    """Of the hand since the start [m]; it stops at every place it goes to."""
    last = int(np.clip(np.searchsorted(TIMES, time), 1, len(TIMES) - 1))
    share = np.clip((time - TIMES[last - 1]) / (TIMES[last] - TIMES[last - 1]), 0, 1)
    return WAY[last - 1] + share**2 * (3 - 2 * share) * (WAY[last] - WAY[last - 1])


def check(simulation: Simulation) -> Iterator[Statement]:
    x, last, touching = simulation.positions, simulation.scene.bodies[-1], simulation.model.touching
    assert touching is not None
    count, triangles = crossings(simulation), len(simulation.model.triangles)
    yield f"hardly a triangle crosses another ({count} pairs of {triangles})", count <= 0.002 * triangles
    depth = float(collider_depths(simulation).max())
    yield f"nothing is in the armchair or the floor ({1e3 * depth:.2f} mm)", depth < 0.1 * touching.thickness
    held = x[last.rows][last.pinned] - last.mesh.vertices[last.pinned]
    yield "the last cloth is where the hand has dragged it", bool(np.abs(held - WAY[-1]).max() < 1e-5)
    height = float(x[: last.first, 1].mean())
    yield f"the others lie on the armchair (on average {height:.2f} m high)", height > 0.35
    strain = float(np.sqrt(np.mean(edge_strain(simulation) ** 2)))
    yield f"edges are off by less than 3 % (RMS {strain:.2%})", strain < 0.03
    speed = rms_speed(simulation)
    yield f"they have come to rest (RMS speed {speed:.3f} m/s)", speed < 0.2

"""Measures of a simulation's state, for scene checks, benchmarks and users."""

from dataclasses import dataclass

import numpy as np

from .collision.motion import pose_at, surface_name
from .contacts.crossing import crossing_pairs
from .model import ConstraintGroup, Surface, measure
from .simulation import Simulation


def edge_strain(simulation: Simulation) -> np.ndarray:
    """|length / rest - 1| of every stretch constraint."""
    group = _group(simulation, "stretch")
    return np.abs(measure(group.constraint, simulation.positions[group.vertices]) / group.rest - 1)


def tet_volumes(simulation: Simulation) -> tuple[np.ndarray, np.ndarray]:
    """Signed volume of every tet with a volume constraint, and its rest volume [m^3]."""
    group = _group(simulation, "volume")
    return measure(group.constraint, simulation.positions[group.vertices]), group.rest.astype(np.float64)


def rms_speed(simulation: Simulation) -> float:
    """Root of the mean squared speed of all particles [m/s]."""
    return float(np.sqrt((simulation.velocities.astype(np.float64) ** 2).sum(axis=1).mean()))


def kinetic_energy(simulation: Simulation) -> float:
    """Of all particles that are not pinned [J]."""
    free = simulation.model.inverse_masses > 0
    squared = (simulation.velocities[free].astype(np.float64) ** 2).sum(axis=1)
    return float((squared / simulation.model.inverse_masses[free]).sum() / 2)


def crossings(simulation: Simulation) -> int:
    """Pairs of triangles that cross each other: where soft things have gone through each other or themselves."""
    return crossing_pairs(simulation.positions, simulation.model.triangles)


@dataclass(frozen=True)
class Interpenetration:
    """What is where something else is."""

    crossing_pairs: int  # of triangles
    triangles: int
    particles_inside: int  # of colliders, their margins left aside
    deepest: float  # of them [m]


def interpenetration(simulation: Simulation) -> Interpenetration:
    """Count what has gone through or into something; less than positions are rounded by does not count."""
    depths = collider_depths(simulation, with_margins=False)
    inside = depths > 1e-6 * max(float(np.abs(simulation.positions).max(initial=0)), 1e-3)
    triangles = len(simulation.model.triangles)
    deepest = float(depths[inside].max(initial=0))
    return Interpenetration(crossings(simulation), triangles, int(inside.sum()), deepest)


def collider_depths(simulation: Simulation, with_margins: bool = True) -> np.ndarray:
    """How deep each particle is in the collider it is deepest in [m], (n,); 0 outside of all.

    With margins, what is nearer to a collider than its margin counts as inside.
    """
    depths = np.zeros(simulation.model.particle_count)
    for number, surface in enumerate(simulation.model.surfaces):
        distance = _distance(simulation, surface, surface_name(number, surface.collider))
        np.maximum(depths, surface.margin * with_margins - distance, out=depths)
    return depths


def _distance(simulation: Simulation, surface: Surface, name: str) -> np.ndarray:
    points = simulation.positions.astype(np.float64)
    if surface.motion is not None:
        pose = pose_at(name, surface.motion, simulation.time)
        points = (points - pose[:, 3]) @ pose[:, :3]
    with np.errstate(all="ignore"):
        distance, _ = surface.collider.distance_normal(tuple(points.T), surface.collider.parameters())
    return np.asarray(distance)


def _group(simulation: Simulation, name: str) -> ConstraintGroup:
    return next(group for group in simulation.model.groups if group.name == name)

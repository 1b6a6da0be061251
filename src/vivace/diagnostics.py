"""Measures of a simulation's state, for scene checks, benchmarks and users."""

import numpy as np

from .model import ConstraintGroup, measure
from .simulation import Simulation


def edge_strain(simulation: Simulation) -> np.ndarray:
    """|length / rest - 1| of every stretch constraint."""
    group = _group(simulation, "stretch")
    return np.abs(measure(group.constraint, simulation.positions[group.vertices]) / group.rest - 1)


def tet_volumes(simulation: Simulation) -> tuple[np.ndarray, np.ndarray]:
    """Signed volume of every tet with a volume constraint, and its rest volume [m^3]."""
    group = _group(simulation, "volume")
    return measure(group.constraint, simulation.positions[group.vertices]), group.rest.astype(np.float64)


def _group(simulation: Simulation, name: str) -> ConstraintGroup:
    return next(group for group in simulation.model.groups if group.name == name)

"""Contacts between soft things: what comes close within a substep, and in which colors it is projected."""

import numpy as np

from ..plan import Plan
from .detect import Detector, Found, Surfaces
from .fit import COLORS, Batches, find_batches, first_fit
from .visits import TouchLists, VertexColors, colors_with, crowding, meetings, slots_for, touch_lists

__all__ = [
    "COLORS",
    "Batches",
    "Detector",
    "Found",
    "Surfaces",
    "TouchLists",
    "VertexColors",
    "colors_with",
    "crowding",
    "find_batches",
    "first_fit",
    "meetings",
    "slots_for",
    "surfaces_of",
    "touch_lists",
]


def surfaces_of(plan: Plan) -> Surfaces:
    """What may touch in a plan, in its rows; a spare row behind them stands for corners that are not there."""
    model, rows = plan.model, len(plan.order) + 1
    triangles = plan.row_of[model.triangles].astype(np.int32)
    edges = np.unique(np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
    by_particles = model.touching is not None and model.touching.by_particles
    points = plan.row_of if by_particles else np.unique(triangles)
    bodies, rest = np.full(rows, -1, np.int32), np.zeros((rows, 3), np.float32)
    for number, (_, particles) in enumerate(model.bodies):
        bodies[plan.row_of[particles]] = number
    rest[plan.row_of] = model.rest
    return Surfaces(points.astype(np.int32)[:, None], edges.astype(np.int32), triangles, bodies, rest)

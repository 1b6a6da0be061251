"""Contacts between soft things: what comes close within a substep, and in which colors it is projected."""

import numpy as np

from ..plan import Plan
from .detect import Detector, Found, Surfaces, make_surfaces
from .fit import COLORS, Batches, find_batches, first_fit
from .outlook import Outlook
from .visits import Meetings, TouchLists, VertexColors, colors_with, crowding, meetings, slots_for, touch_lists, turned

__all__ = [
    "COLORS",
    "Batches",
    "Detector",
    "Found",
    "Meetings",
    "Outlook",
    "Surfaces",
    "TouchLists",
    "VertexColors",
    "colors_with",
    "crowding",
    "find_batches",
    "first_fit",
    "make_surfaces",
    "meetings",
    "slots_for",
    "surfaces_of",
    "touch_lists",
    "turned",
]


def surfaces_of(plan: Plan) -> Surfaces:
    """What may touch in a plan, in its rows; a spare row behind them stands for corners that are not there."""
    model, rows = plan.model, len(plan.order) + 1
    triangles, touching = plan.row_of[model.triangles], model.touching
    assert touching is not None
    points = plan.row_of if touching.by_particles else np.unique(triangles)
    bodies, rest = np.full(rows, -1, np.int32), np.zeros((rows, 3), np.float32)
    for number, (_, particles) in enumerate(model.bodies):
        bodies[plan.row_of[particles]] = number
    rest[plan.row_of] = model.rest
    return make_surfaces(points, triangles, bodies, rest, touching.thickness)

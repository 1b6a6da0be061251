"""Contacts between soft things in NumPy; they are found as on the fast backend."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..contacts import COLORS, Detector, Found, Outlook, first_fit, surfaces_of
from ..kernels.contact import contact_move
from ..kernels.region import threads_set

if TYPE_CHECKING:
    from .reference import ReferenceSweeps

Sweep = Callable[[], None]


class ReferenceContacts:
    def __init__(self, sweeps: ReferenceSweeps):
        self.sweeps = sweeps
        touching = sweeps.plan.model.touching
        assert touching is not None
        surfaces = surfaces_of(sweeps.plan)
        self.detector = Detector(surfaces, touching.thickness, touching.by_particles)
        self.outlook = Outlook(surfaces.points, touching.thickness)
        self.friction = np.float32(touching.friction)
        self.found = Found(np.zeros((0, 4), np.int32), np.zeros((0, 8), np.float32))
        self.colors = np.zeros(0, np.int32)

    def detect(self) -> None:
        found = self.find()
        if found is not None:
            self.take(found)

    def find(self) -> Found | None:
        """New contacts; None if those that were found last hold."""
        rows = self.sweeps.state.positions, self.sweeps.predicted
        with threads_set(1):
            ahead = self.outlook.ahead(*rows, float(self.sweeps.step))
        if not ahead.contacts:
            return None
        self.found = self.detector.find_for(ahead, *rows)
        return self.found

    def take(self, found: Found) -> None:
        """Let the sweeps go over these contacts."""
        self.found = found
        self.colors = first_fit(self.found.corners, self.sweeps.predicted[:, 3] > 0)

    def project(self, carry_aims: bool = False) -> list[Sweep]:
        return [partial(self._project, color, carry_aims) for color in range(COLORS + 1)]

    def _project(self, color: int, carry_aims: bool) -> None:
        members = self.colors == color
        corners, data = self.found.corners[members], self.found.data[members]
        counts = np.bincount(corners.ravel(), minlength=len(self.sweeps.predicted)).astype(np.float32)
        points, starts = self.sweeps.predicted[corners], self.sweeps.state.positions[corners]
        if color == COLORS:
            points[..., 3] *= counts[corners]
        move = contact_move(
            tuple(tuple(points[:, i].T) for i in range(4)),
            tuple(tuple(starts[:, i].T) for i in range(4)),
            tuple(data.T),
            self.friction,
        )
        moves = (points[..., 3] * data[:, :4])[..., None] * np.stack(move, axis=1)[:, None, :]
        if color == COLORS:
            moves /= counts[corners][..., None]
        for rows in [self.sweeps.predicted, *(self.sweeps.carried if carry_aims else [])]:
            np.add.at(rows[:, :3], corners, moves)

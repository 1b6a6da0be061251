"""Contacts met particle by particle in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..contacts import Found, colors_with, crowding, meetings, slots_for, turned
from ..kernels.region import threads_set
from ..kernels.touch import touch_push

if TYPE_CHECKING:
    from .reference import ReferenceSweeps

Sweep = Callable[[], None]


class ReferenceTouches:
    """See `TouchSweeps`. Tokens are functions without arguments."""

    def __init__(self, sweeps: ReferenceSweeps):
        self.sweeps = sweeps
        self.visits = sweeps.visits if sweeps.plan.system is None else sweeps.system
        self._slots = slots_for(self.visits.coloring)
        self.found = sweeps.contacts.found
        self.data = self.found.data  # with directions as they are in this substep
        self.crowd = np.ones(len(sweeps.predicted), np.float32)
        self.pushes = self.changes = np.zeros((0, 3), np.float32)  # of each contact
        self.taken = np.zeros((0, 4, 3), np.float32)  # of its push, by each corner
        self.turns: list[np.ndarray] = []  # the first contacts of all particles, then the second ones, ...

    @property
    def slots(self) -> int:
        return max(self._slots, self.visits.coloring.count)

    def detect(self) -> None:
        found = self.sweeps.contacts.find()
        if found is not None:
            self._take(found)
        found, count = self.found, len(self.found)
        self.pushes, self.changes, self.taken = (np.zeros((count, *n), np.float32) for n in ((3,), (3,), (4, 3)))
        with threads_set(1):
            self.data = turned(found.corners, found.data, self.sweeps.state.positions)
        self.crowd = crowding(found.corners, self.data, self.sweeps.predicted)

    def _take(self, found: Found) -> None:
        contacts, movable = self.sweeps.contacts, self.sweeps.predicted[:, 3] > 0
        self.found = found
        met = meetings(found.corners, movable)
        colored = colors_with(self.visits.coloring, found.corners, movable, met, self.slots)
        met = meetings(found.corners, movable, colored.left)
        nth = np.arange(len(met.entries)) - np.repeat(met.offsets[:-1], np.diff(met.offsets))
        self.turns = [met.entries[nth == turn] for turn in range(nth.max(initial=-1) + 1)]
        self.visits.order_by(colored.colors, self.slots)
        contacts.take(Found(found.corners[colored.left], found.data[colored.left]))

    def touch(self, color: int) -> Sweep:
        return partial(self._touch, color)

    def _touch(self, color: int) -> None:
        rows, friction = [self.sweeps.predicted, *self.sweeps.carried], self.sweeps.contacts.friction
        for entries in self.turns:
            chosen = entries[self.visits.colors[self.found.corners.ravel()[entries]] == color]
            which, corner = np.divmod(chosen, 4)
            corners, data, own = self.found.corners[which], self.data[which], self.found.corners.ravel()[chosen]
            share, inverse_mass = data[np.arange(len(which)), corner], self.sweeps.predicted[own, 3]
            parts = self.sweeps.predicted[corners, 3] * data[:, :4] ** 2
            weight, split = parts.sum(axis=1), (self.crowd[corners] * parts).sum(axis=1)
            start = np.einsum("ij,ijk->ik", data[:, :4], self.sweeps.state.positions[corners, :3])
            point = np.einsum("ij,ijk->ik", data[:, :4], self.sweeps.predicted[corners, :3]) + self.changes[which]
            numbers = *data.T, *start.T, np.where(split > 0, 1 / np.maximum(split, 1e-30), 0)
            push = np.stack(touch_push(tuple(point.T), tuple(self.pushes[which].T), numbers, friction), axis=1)
            move = push - self.taken[which, corner]
            self.changes[which] += weight[:, None] * (push - self.pushes[which])
            self.changes[which] -= (inverse_mass * share**2)[:, None] * move
            self.pushes[which] = self.taken[which, corner] = push
            for moved in rows:
                moved[own, :3] += (inverse_mass * share)[:, None] * move

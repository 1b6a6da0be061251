"""Contacts met particle by particle on the fast backend, in colors that are proper for them."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..contacts import Found, Meetings, TouchLists, colors_with, meetings, slots_for, touch_lists
from ..kernels.region import threads_set
from ..kernels.touch import touch_kernel

if TYPE_CHECKING:
    from .cpu import CpuSweeps

NOTHING = np.zeros(1, np.int32)


class CpuTouches:
    """See `TouchSweeps`. A sweep for each color, whose items change with what is found."""

    def __init__(self, sweeps: CpuSweeps):
        self.sweeps, self.contacts = sweeps, sweeps.contacts
        self.visits = sweeps.visits if sweeps.plan.system is None else sweeps.system
        self._slots = slots_for(self.visits.coloring)
        self.lists: TouchLists | None = None
        self.touch = cache(self._touch)
        self._tokens: dict[int, int] = {}  # of each color

    @property
    def slots(self) -> int:
        return max(self._slots, self.visits.coloring.count)

    def detect(self) -> None:
        """Find the contacts of this substep, unless those that were found last hold; let each particle meet its own."""
        start = time.perf_counter()
        found = self.contacts.find()
        looked = time.perf_counter()
        with threads_set(self.sweeps.team.size()):
            if found is not None:
                self.lists = touch_lists(found, *self._color(found), self.slots, self.lists)
                self._let_sweep(self.lists)
            assert self.lists is not None
            self.lists.begin(self.sweeps.state.positions, self.sweeps.predicted)
        end = time.perf_counter()
        self.contacts.recoloring += (end - looked) * 1e3
        self.contacts.milliseconds += (end - start) * 1e3

    def _color(self, found: Found) -> tuple[Meetings, np.ndarray]:
        """Let visits go in an order that is proper for these contacts: those of each particle, and the colors."""
        contacts, movable = self.contacts, self.contacts.movable
        met = meetings(found.corners, movable)
        colored = colors_with(self.visits.coloring, found.corners, movable, met, self.slots)
        if os.environ.get("VIVACE_DEBUG"):
            colored.validate(self.visits.coloring, found.corners, movable)
        if colored.overflow:
            met = meetings(found.corners, movable, colored.left)
        self.visits.order_by(colored.colors, self.slots)
        if colored.overflow or contacts.taken:
            contacts.take(Found(found.corners[colored.left], found.data[colored.left]))
        contacts.count, contacts.colors, contacts.overflow = len(found), colored.count, colored.overflow
        return met, colored.colors

    def _let_sweep(self, lists: TouchLists) -> None:
        carried, colors = self.sweeps.carried, np.array(list(self._tokens), np.int64)
        most = len(lists.first_block) - 1  # there may have been more, before `fresh` colors
        self.sweeps.replace_all(
            list(self._tokens.values()),
            touch_kernel(len(carried)),
            lists.first_block[np.minimum(colors, most)],
            lists.first_block[np.minimum(colors + 1, most)],
            self.sweeps.predicted,
            lists.particles,
            lists.bounds,
            lists.corners,
            lists.contacts,
            lists.rows,
            lists.own,
            lists.taken,
            self.contacts.friction,
            *carried,
        )

    def _touch(self, color: int) -> int:
        kernel = touch_kernel(len(self.sweeps.carried))
        self._tokens[color] = self.sweeps.sweep("contacts", kernel, 0, 0, NOTHING)
        return self._tokens[color]

"""Contacts between soft things on the fast backend: found as often as things move, projected color by color."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..contacts import COLORS, Batches, Detector, Found, Outlook, find_batches, surfaces_of
from ..kernels.apart import average_kernel
from ..kernels.contact import contact_apart_kernel, contact_kernel
from ..kernels.lanes import WIDTH
from ..kernels.region import threads_set
from ..kernels.rows import in_blocks
from ..remainder import sorted_corners
from ..state import aligned

if TYPE_CHECKING:
    from .cpu import CpuSweeps

NOTHING = np.zeros(WIDTH, np.int32)


class CpuContacts:
    """A sweep for each color, whose items change with what is found; `detect` is work for the host."""

    def __init__(self, sweeps: CpuSweeps):
        self.sweeps = sweeps
        touching = sweeps.plan.model.touching
        assert touching is not None
        surfaces = surfaces_of(sweeps.plan)
        self.detector = Detector(surfaces, touching.thickness, touching.by_particles)
        self.outlook = Outlook(surfaces.points, touching.thickness)
        self.friction = np.array([touching.friction], np.float32)
        self._relaxation = np.ones(1, np.float32)
        self.movable = sweeps.state.positions[:, 3] > 0
        self.project = cache(self._project)
        self._tokens: list[tuple[int, ...]] = []  # of the colors, then the overflow's two
        self._carried: list[list[np.ndarray]] = []
        self.count = self.overflow = self.colors = self.taken = 0
        self.milliseconds = self.recoloring = 0.0  # the second is part of the first
        self.found = Found(np.zeros((0, 4), np.int32), np.zeros((0, 8), np.float32))

    def detect(self) -> None:
        """Find the contacts of this substep, unless those that were found last hold; let the sweeps go over them."""
        start = time.perf_counter()
        found = self.find()
        if found is None:
            self.milliseconds += (time.perf_counter() - start) * 1e3
            return
        looked = time.perf_counter()
        batches = self.take(found)
        self.count, self.overflow, self.colors = len(found), batches.overflow, batches.colors
        end = time.perf_counter()
        self.milliseconds += (end - start) * 1e3
        self.recoloring += (end - looked) * 1e3

    def find(self) -> Found | None:
        """New contacts; None if those that were found last hold."""
        rows, threads = (self.sweeps.state.positions, self.sweeps.predicted), self.sweeps.team.size()
        with threads_set(threads):
            ahead = self.outlook.ahead(*rows, self.sweeps.step)
        if not ahead.contacts:
            return None
        self.found = self.detector.find_for(ahead, *rows, threads)
        return self.found

    def take(self, found: Found) -> Batches:
        """Let the sweeps go over these contacts."""
        with threads_set(self.sweeps.team.size()):
            batches = find_batches(found, self.movable)
        if os.environ.get("VIVACE_DEBUG"):
            batches.validate(self.movable)
        self.taken = len(found)
        arguments = self.sweeps.predicted, self.sweeps.state.positions, batches.corners, batches.data, self.friction
        apart, together, touched = self._overflow(batches)
        for tokens, carried in zip(self._tokens, self._carried):
            first, last = batches.first_block[:COLORS], batches.first_block[1 : COLORS + 1]
            kernel = contact_kernel(len(carried))
            self.sweeps.replace_all(tokens[:COLORS], kernel, first, last, *arguments, *carried)
            self.sweeps.replace(tokens[COLORS], contact_apart_kernel(), 0, -(-batches.overflow // WIDTH), *apart)
            self.sweeps.replace(tokens[COLORS + 1], average_kernel(len(carried)), 0, touched, *together, *carried)
        return batches

    def _overflow(self, batches: Batches) -> tuple[tuple, tuple, int]:
        """What the overflow's two sweeps read, and how many rows it touches."""
        if not batches.overflow:
            return (), (), 0
        first = int(batches.first_block[COLORS])
        corners = batches.corners[WIDTH * first :]
        left = sorted_corners([corners[: batches.overflow]])
        filled = np.minimum(np.arange(len(corners)), batches.overflow - 1)
        shares, places = in_blocks(left.counts[0][filled]), np.ascontiguousarray(left.places[0][filled])
        corrections = aligned((int(left.begins[-1]), 4))
        rows = self.sweeps.predicted, self.sweeps.state.positions
        apart = *rows, corners, batches.data[first:], self.friction, shares, places, corrections
        together = self.sweeps.predicted, left.rows, left.begins, corrections, self._relaxation
        return apart, together, len(left.rows)

    def _project(self, carry_aims: bool = False) -> tuple[int, ...]:
        """A sweep for each color, one for the overflow, and one that averages it."""
        carried = self.sweeps.carried if carry_aims else []
        tokens = tuple(
            self.sweeps.sweep("contacts", contact_kernel(len(carried)), 0, 0, NOTHING) for _ in range(COLORS + 2)
        )
        self._tokens.append(tokens)
        self._carried.append(carried)
        return tokens

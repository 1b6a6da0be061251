"""The same in NumPy, obviously right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..remainder import find_remainder

if TYPE_CHECKING:
    from .reference import ReferenceSweeps

Sweep = Callable[[], None]


class ReferenceApart:
    def __init__(self, sweeps: ReferenceSweeps):
        self.sweeps = sweeps
        self.remainder = find_remainder(sweeps.plan.groups)
        self.corrections = np.zeros((int(self.remainder.begins[-1]), 3), np.float32)

    def project(self, group: int, relaxation: float = 1.0, splits_mass: bool = True) -> Sweep:
        return partial(self._project, group, relaxation, splits_mass)

    def _project(self, group: int, relaxation: float, splits_mass: bool) -> None:
        planned = self.sweeps.plan.groups[group]
        members = np.arange(len(planned.vertices))[planned.partition.remainder]
        shares = self.remainder.counts[group] if splits_mass else 1.0
        moves = self.sweeps.moves(group, members, planned.compliance is not None, shares, relaxation)
        for corner, move in enumerate(moves):
            self.corrections[self.remainder.places[group][:, corner]] = move

    def average(self, relaxation: float = 1.0) -> Sweep:
        def take_means() -> None:
            begins = self.remainder.begins
            sums = np.add.reduceat(self.corrections, begins[:-1], axis=0)
            self.sweeps.predicted[self.remainder.rows, :3] += np.float32(relaxation) * sums / np.diff(begins)[:, None]

        return take_means

    def merge(self) -> Sweep:
        plan = self.sweeps.plan

        def meet() -> None:
            assert plan.copies is not None
            for row, copies in zip(plan.row_of, plan.copies):
                if copies > 1 and self.sweeps.predicted[row, 3] > 0:
                    rows = self.sweeps.predicted[row : row + copies, :3]
                    rows[:] = rows[0] + (rows - rows[0]).sum(axis=0) / copies

        return meet

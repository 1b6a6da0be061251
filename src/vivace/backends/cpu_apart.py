"""Sweeps of the fast backend over constraints that share particles, and over copies of split particles."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..kernels.apart import average_kernel, merge_kernel, project_apart_kernel, project_compliant_apart_kernel
from ..kernels.lanes import WIDTH
from ..kernels.rows import in_blocks
from ..remainder import find_remainder
from ..state import aligned

if TYPE_CHECKING:
    from .cpu import CpuSweeps


class CpuApart:
    """The remainder's corrections wait in memory of their own until they are averaged."""

    def __init__(self, sweeps: CpuSweeps):
        self.sweeps = sweeps
        self.remainder = find_remainder(sweeps.plan.groups)
        self.corrections = aligned((int(self.remainder.begins[-1]), 4))
        self._relaxation = cache(lambda relaxation: np.array([relaxation], np.float32))
        self.project, self.average, self.merge = cache(self._project), cache(self._average), cache(self._merge)

    def _project(self, group: int, relaxation: float = 1.0, splits_mass: bool = True) -> int:
        planned, blocked = self.sweeps.plan.groups[group], self.sweeps.blocked_groups[group]
        begin = planned.partition.remainder.start
        first = WIDTH * int(blocked.first_block[planned.batch_count])  # in the filled order
        own = blocked.order[first:] - begin
        counts = self.remainder.counts[group][own]
        shares = in_blocks(counts if splits_mass else np.ones_like(counts))
        places = np.ascontiguousarray(self.remainder.places[group][own])
        rest = blocked.rest[first // WIDTH :]
        arguments: list[np.ndarray | int] = [self.sweeps.predicted, blocked.vertices[first:], rest]
        if planned.compliance is None:
            kernel = project_apart_kernel(planned.group.constraint)
            arguments += [blocked.ratios[first * blocked.ratio_step :], blocked.ratio_step]
            arguments += [shares, places, self.corrections]
        else:
            kernel = project_compliant_apart_kernel(planned.group.constraint)
            arguments += [blocked.compliances[first * blocked.compliance_step :], blocked.compliance_step]
            arguments += [shares, places, self.corrections, blocked.multipliers[first:]]
            arguments += [self.sweeps.motion, self._relaxation(relaxation)]
        return self.sweeps.sweep(planned.group.name, kernel, 0, len(own) // WIDTH, *arguments)

    def _average(self, relaxation: float = 1.0) -> int:
        rows, begins = self.remainder.rows, self.remainder.begins
        arguments = self.sweeps.predicted, rows, begins, self.corrections, self._relaxation(relaxation)
        return self.sweeps.sweep("average", average_kernel(), 0, len(rows), *arguments)

    def _merge(self) -> int:
        plan = self.sweeps.plan
        assert plan.copies is not None
        split = np.flatnonzero(plan.copies > 1)
        split = split[np.argsort(plan.row_of[split])]
        rows, copies = plan.row_of[split].astype(np.int32), plan.copies[split].astype(np.int32)
        return self.sweeps.sweep("merge", merge_kernel(), 0, len(rows), self.sweeps.predicted, rows, copies)

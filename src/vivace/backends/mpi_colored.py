"""Colored constraints on a rank: its copies are renewed before the colors that need them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..colored_parts import ColoredPart
from ..kernels.lanes import WIDTH
from ..state import State
from .mpi_renewal import renewal
from .mpi_sweeps import RankSweeps


class ColoredSweeps(RankSweeps):
    """The sweeps of a part whose constraints are colored."""

    def __init__(self, comm: Any, part: ColoredPart, state: State, threads: int):
        super().__init__(comm, part.plan, state, threads)
        self.renewals = {batch: renewal(self, exchange, self.predicted) for batch, exchange in part.renewals}
        self.project, self.project_compliant = self._renewing(self.project), self._renewing(self.project_compliant)
        for blocked, counts in zip(self.blocked_groups, part.counted):
            for batch, count in enumerate(counts):
                first, end = blocked.first_block[batch : batch + 2]
                blocked.real_lanes[first:end] = np.clip(count - WIDTH * np.arange(end - first), 0, WIDTH)
        self._measure = [*renewal(self, part.last, state.positions), *self._measure]

    def _renewing(self, project: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
        """A sweep over a batch, after the renewal that comes before it."""

        def renewed(group: int, batch: int) -> list[Any]:
            return [*self.renewals.get((group, batch), []), project(group, batch)]

        return renewed

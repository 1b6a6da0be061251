"""Colored constraints on a rank: its copies are renewed before the colors that need them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..colored_parts import ColoredPart, Exchange
from ..kernels.compile import compiled
from ..kernels.lanes import WIDTH
from ..state import State
from .cpu import CpuSweeps
from .mpi_talk import ROWS


class Renewal:
    """Brings copies of rows up to date. Messages are small and many, so what can be made ready before, is."""

    def __init__(self, comm: Any, exchange: Exchange):
        self.comm = comm
        self.taken, self.given = (
            [(q, rows.astype(np.int64), np.empty((len(rows), 4), np.float32)) for q, rows in pairs]
            for pairs in (exchange.takes, exchange.gives)
        )

    def tokens(self, table: np.ndarray) -> list[Callable[[], None]]:
        """What a schedule has to contain so that this table is renewed: nothing where nobody has copies."""
        return [partial(self.renew, table)] if self.taken or self.given else []

    def renew(self, table: np.ndarray) -> None:
        requests = [self.comm.Irecv(buffer, q, ROWS) for q, _, buffer in self.taken]
        for q, rows, buffer in self.given:
            np.take(table, rows, axis=0, out=buffer, mode="clip")  # which needs no second buffer
            requests.append(self.comm.Isend(buffer, q, ROWS))
        for request in requests:
            request.Wait()
        for _, rows, buffer in self.taken:
            _scatter(table, rows, buffer)


@compiled
def _scatter(table: np.ndarray, rows: np.ndarray, buffer: np.ndarray) -> None:
    """table[rows] = buffer, but four times as fast: else this would take longer than the message."""
    for i in range(len(rows)):
        for k in range(4):
            table[rows[i], k] = buffer[i, k]


class ColoredSweeps(CpuSweeps):
    """The sweeps of a part whose constraints are colored."""

    def __init__(self, comm: Any, part: ColoredPart, state: State, threads: int):
        super().__init__(part.plan, state, threads)
        self.renewals = {batch: Renewal(comm, exchange) for batch, exchange in part.renewals}
        self.project, self.project_compliant = self._renewing(self.project), self._renewing(self.project_compliant)
        for blocked, counts in zip(self.blocked_groups, part.counted):
            for batch, count in enumerate(counts):
                first, end = blocked.first_block[batch : batch + 2]
                blocked.real_lanes[first:end] = np.clip(count - WIDTH * np.arange(end - first), 0, WIDTH)
        self._measure = [*Renewal(comm, part.last).tokens(state.positions), *self._measure]

    def _renewing(self, project: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
        """A sweep over a batch, after the renewal that comes before it."""

        def renewed(group: int, batch: int) -> list[Any]:
            renewal = self.renewals.get((group, batch))
            return [*(renewal.tokens(self.predicted) if renewal else []), project(group, batch)]

        return renewed

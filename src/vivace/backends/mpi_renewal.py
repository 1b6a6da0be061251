"""How a rank brings its copies of others' rows up to date."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..kernels.compile import compiled
from ..parts import Exchange
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
            scatter(table, rows, buffer)


@compiled
def scatter(table: np.ndarray, rows: np.ndarray, buffer: np.ndarray) -> None:
    """table[rows] = buffer, but four times as fast: else this would take longer than the message."""
    for i in range(len(rows)):
        for k in range(4):
            table[rows[i], k] = buffer[i, k]


@compiled
def gathered(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The first three numbers of some rows; of row -1, zeros."""
    found = np.zeros((len(rows), 3), table.dtype)
    for i in range(len(rows)):
        if rows[i] >= 0:
            for k in range(3):
                found[i, k] = table[rows[i], k]
    return found

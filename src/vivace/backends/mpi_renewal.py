"""How a rank brings its copies of others' rows up to date."""

import numpy as np

from ..kernels.compile import compiled
from ..parts import Exchange
from .mpi_sweeps import RankSweeps


def renewal(sweeps: RankSweeps, exchange: Exchange, table: np.ndarray) -> list[int]:
    """What a schedule has to contain so that the copies of this table are renewed: nothing where nobody has any."""
    channel = sweeps.channel(table, exchange.gives, exchange.takes)
    return [*channel.start, *channel.finish]


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

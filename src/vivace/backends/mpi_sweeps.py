"""Sweeps of a part on its rank, and what it sends and receives in between, which are sweeps too."""

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ..checks import extra
from ..errors import SimulationError
from ..kernels import region
from ..kernels.talk import finish_kernel, gather_kernel, start_kernel
from ..plan import Plan
from ..state import State
from . import Outcome
from .cpu import CpuSweeps
from .mpi_talk import ROWS

TALK = "talk"  # the stage: sending, waiting for others, and what comes with it


@cache
def mpi_function(name: str) -> int:
    """The address of a function of the MPI that mpi4py uses."""
    library = extra("mpi4py.MPI", "mpi").__file__
    try:
        return ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value or 0
    except (AttributeError, OSError) as problem:
        raise SimulationError(f"{name} is not to be found in the MPI that mpi4py uses: {problem}") from problem


class Channel:
    """Rows of one table that go to other ranks and come from them, by messages that are made ready once.

    gives: (rank, rows); takes: the same, or (rank, slice), which are received where they belong. `start` and `finish`
    are sweeps, none where there is nobody to talk to.
    """

    def __init__(
        self,
        sweeps: "RankSweeps",
        table: np.ndarray,
        gives: Sequence[tuple[int, np.ndarray]],
        takes: Sequence[tuple[int, np.ndarray | slice]],
    ):
        self.requests: list[Any] = []
        self.handles = np.zeros(0, np.uint64)
        self.statuses: list[Any] = []  # of the requests, when they have been waited for
        self.start: list[int] = []
        self.finish: list[int] = []
        if not gives and not takes:
            return
        mpi, words = extra("mpi4py.MPI", "mpi"), table[:1].nbytes // 8
        given, taken = [rows for _, rows in gives], [rows for _, rows in takes if not isinstance(rows, slice)]
        sent, received = (np.empty((sum(map(len, lists)), 4), table.dtype) for lists in (given, taken))
        places = iter(np.split(received, np.cumsum([len(rows) for rows in taken])))
        for rank, rows in takes:
            here = table[rows] if isinstance(rows, slice) else next(places)
            self.requests.append(sweeps.comm.Recv_init(here, rank, ROWS))
        for (rank, _), rows_sent in zip(gives, np.split(sent, np.cumsum([len(rows) for rows in given]))):
            self.requests.append(sweeps.comm.Send_init(rows_sent, rank, ROWS))
        size = mpi._sizeof(mpi.Request)
        handles = [mpi._handleof(request) % (1 << 8 * size) for request in self.requests]
        self.handles = np.array(handles, f"u{size}")
        statuses = np.zeros((len(handles), mpi._sizeof(mpi.Status)), np.uint8)
        self.statuses = list(statuses)
        listed = [np.concatenate([np.zeros(0, np.int32), *lists]).astype(np.int32) for lists in (given, taken)]
        start = listed[0], len(sent), sent, mpi_function("MPI_Startall"), self.handles, len(handles)
        waited = mpi_function("MPI_Waitall"), self.handles, len(handles), statuses
        finish = listed[1], len(received), received, *waited
        self.start = [sweeps.talk(start_kernel(), table, words, *start)]
        self.finish = [sweeps.talk(finish_kernel(), table, words, *finish)]
        _open.add(self)

    def close(self) -> None:
        """Free what was made ready: by its handles as they are now, which MPI may have changed."""
        mpi = extra("mpi4py.MPI", "mpi")
        for handle in self.handles:
            mpi.Request.fromhandle(int(handle)).Free()
        self.handles, self.requests = self.handles[:0], []
        _open.discard(self)


_open: set[Channel] = set()


def close_channels() -> None:
    """What is still open when all is over: some MPIs complain of it."""
    for channel in list(_open):
        channel.close()


class RankSweeps(CpuSweeps):
    """The sweeps of a part. Other threads of the process go on meanwhile: one of them gives signs of life."""

    keeps_lock = False

    def __init__(self, comm: Any, plan: Plan, state: State, threads: int):
        self.comm, self.failure = comm, np.zeros(1, np.int32)
        self.channels: list[Channel] = []
        super().__init__(plan, state, threads)

    def channel(self, *arguments: Any) -> Channel:
        self.channels.append(Channel(self, *arguments))
        return self.channels[-1]

    def gather(self, partial: np.ndarray, elsewhere: np.ndarray) -> list[int]:
        """Bring sums of blocks together, given a line of them for each kind, and which blocks are elsewhere."""
        if self.comm.size == 1:
            return []
        mpi = extra("mpi4py.MPI", "mpi")
        handles = [mpi._handleof(thing) for thing in (mpi.DOUBLE, mpi.SUM, self.comm)]
        sums = *partial.shape, elsewhere.astype(np.int32), len(elsewhere)
        return [self.talk(gather_kernel(), partial, *sums, mpi_function("MPI_Allreduce"), int(mpi.IN_PLACE), *handles)]

    def talk(self, kernel: Any, *arguments: Any) -> int:
        return self.sweep(TALK, kernel, 0, 1, self.failure, *arguments, least=region.ONE_THREAD)

    def close(self) -> None:
        for channel in self.channels:
            channel.close()
        super().close()

    def _sweep_through(self, schedule: np.ndarray) -> None:
        super()._sweep_through(schedule)
        if self.failure[0]:
            code, self.failure[0] = int(self.failure[0]), 0
            raise extra("mpi4py.MPI", "mpi").Exception(self._cause(code))

    def _cause(self, code: int) -> int:
        """What went wrong with a message, where MPI only says that it was one of several."""
        mpi = extra("mpi4py.MPI", "mpi")
        if mpi.Get_error_class(code) != mpi.ERR_IN_STATUS:
            return code
        for found in (found for channel in self.channels for found in channel.statuses):
            status = mpi.Status()
            ctypes.memmove(mpi._addressof(status), found.ctypes.data, len(found))
            if status.Get_error() not in (mpi.SUCCESS, mpi.ERR_PENDING):
                return status.Get_error()
        return code

    def _outcome(self) -> Outcome:
        outcome = super()._outcome()
        return replace(outcome, milliseconds={TALK: 0.0, **outcome.milliseconds})


def busy_milliseconds(outcome: Outcome) -> float:
    """What a rank had to do, without waiting for others."""
    return sum(milliseconds for stage, milliseconds in outcome.milliseconds.items() if stage != TALK)

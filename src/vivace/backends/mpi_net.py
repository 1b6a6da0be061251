"""The implicit step of a net of springs on a rank, and what it tells the others in between."""

from collections.abc import Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from ..checks import extra
from ..kernels.conjugate import NEXT
from ..net_parts import NetPart, Swap
from ..state import State
from .cpu_implicit import SEARCHED, CpuImplicit
from .mpi_sweeps import RankSweeps
from .mpi_talk import DATA


class Messenger:
    """Sends rows of a table to other ranks, and gets theirs, while other work goes on."""

    def __init__(self, comm: Any, swap: Swap):
        self.comm, self.swap = comm, swap
        self.buffers = [np.empty((len(rows), 4)) for _, rows in swap.receivers]
        self.requests: list[Any] = []

    def start(self, table: np.ndarray) -> None:
        self.requests = [self.comm.Irecv(table[first:last], q, DATA) for q, first, last in self.swap.senders]
        for (q, rows), buffer in zip(self.swap.receivers, self.buffers):
            np.take(table, rows, axis=0, out=buffer, mode="clip")  # which needs no second buffer
            self.requests.append(self.comm.Isend(buffer, q, DATA))

    def wait(self) -> None:
        for request in self.requests:
            request.Wait()
        self.requests = []


class PartImplicit(CpuImplicit):
    """The implicit step of a part: copies are renewed, and partial sums of all ranks come together."""

    sweeps: "NetSweeps"

    def __init__(self, sweeps: "NetSweeps"):
        super().__init__(sweeps)
        comm, part = sweeps.comm, sweeps.part
        self.copies, self.payments = Messenger(comm, part.copied), [Messenger(comm, part.due) for _ in self.sums]
        lent = np.concatenate([np.zeros(0, np.int64), *(rows for _, rows in part.copied.receivers)])
        self.lenders = np.unique(np.searchsorted(self.net.starts, lent, side="right") - 1).astype(np.int32)
        self._lead = cache(partial(self.lead, blocks=self.lenders))
        self.elsewhere = np.setdiff1d(np.arange(self.net.total), self.net.ids)
        self.in_place = extra("mpi4py.MPI", "mpi").IN_PLACE

    def pay(self) -> Sequence[Any]:
        return [self._pay_sums]

    def iterate(self, by_blocks: bool, first: bool) -> Sequence[Any]:
        """Copies come and dues go while blocks are multiplied that need neither."""
        interior, blocks = self.sweeps.part.interior, len(self.net.ids)
        search = self.search(by_blocks, first)
        return [
            self._lead(search),  # blocks with rows that others have copies of
            self._send_directions,
            self.follow(search, 0, interior // 2),  # one half hides the way of copies, the other that of dues
            self.copies.wait,
            self.follow(search, interior, blocks),
            self._pay_product,
            self.follow(search, interior // 2, interior),
            self.payments[0].wait,
            self.measure_rest(by_blocks),
            *self.reduce(NEXT, SEARCHED),
        ]

    def accelerate(self, guarded: bool) -> Sequence[Any]:
        """Copies get the velocities of their rows, and fly on from there."""
        if not guarded:
            own, behind = super().accelerate(guarded)
            return [own, self._send_velocities, self.copies.wait, behind]
        self.has_measured = True
        interior, blocks = self.sweeps.part.interior, len(self.net.ids)
        return [
            self._lead(self.flight),
            self._send_velocities,
            self.follow(self.flight, 0, interior),
            self.copies.wait,
            self._predict_behind,
            self.follow(self.flight, interior, blocks),
            *self.balance(),
        ]

    def reduce(self, what: int, sums: int) -> Sequence[Any]:
        return [partial(self._gather, self.partial[:sums]), *super().reduce(what, sums)]

    def _send_directions(self) -> None:
        self.copies.start(self.direction)

    def _send_velocities(self) -> None:
        self.copies.start(self.sweeps.state.fine_velocities)

    def _pay_product(self) -> None:
        self.payments[0].start(self.product)

    def _pay_sums(self) -> None:
        for messenger, rows in zip(self.payments, self.sums):
            messenger.start(rows)
        for messenger in self.payments:
            messenger.wait()

    def _gather(self, sums: np.ndarray) -> None:
        """Each block has one rank; the others add zeros, which is exact."""
        sums[:, self.elsewhere] = 0
        self.sweeps.comm.Allreduce(self.in_place, sums)


class NetSweeps(RankSweeps):
    """The sweeps of a part of a net."""

    def __init__(self, comm: Any, part: NetPart, state: State, threads: int):
        self.comm, self.part = comm, part
        super().__init__(part.plan, state, threads)

    @cached_property
    def implicit(self) -> CpuImplicit:
        return PartImplicit(self)

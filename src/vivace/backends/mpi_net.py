"""The implicit step of a net of springs on a rank, and what it tells the others in between."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..kernels.implicit import LENGTH
from ..net_parts import NetPart
from ..state import State
from .cpu import CpuSweeps
from .cpu_implicit import CpuImplicit
from .mpi_talk import DATA


class Halo:
    """Brings copies of rows up to date, while other work goes on."""

    def __init__(self, comm: Any, part: NetPart):
        self.comm, self.part = comm, part
        self.buffers = [np.empty((len(rows), 4)) for _, rows in part.receivers]
        self.requests: list[Any] = []

    def start(self, rows: np.ndarray) -> None:
        self.requests = [self.comm.Irecv(rows[first:last], q, DATA) for q, first, last in self.part.senders]
        for (q, own), buffer in zip(self.part.receivers, self.buffers):
            np.take(rows, own, axis=0, out=buffer)
            self.requests.append(self.comm.Isend(buffer, q, DATA))

    def wait(self) -> None:
        for request in self.requests:
            request.Wait()
        self.requests = []


class PartImplicit(CpuImplicit):
    """The implicit step of a part: copies are renewed, and partial sums of all ranks come together."""

    sweeps: "NetSweeps"

    def multiply(self) -> Sequence[Any]:
        interior, all_blocks = self.sweeps.part.interior, len(self.net.ids)
        return [
            self._send_directions,
            self.multiplication(0, interior),
            self.sweeps.halo.wait,
            self.multiplication(interior, all_blocks),
            *self.reduce(LENGTH),
        ]

    def accelerate(self) -> Sequence[Any]:
        return [self._exchange_changes, *super().accelerate()]

    def reduce(self, what: int, sums: int = 1) -> Sequence[Any]:
        return [self._gather_one if sums == 1 else self._gather_all, *super().reduce(what, sums)]

    def _send_directions(self) -> None:
        self.sweeps.halo.start(self.direction)

    def _exchange_changes(self) -> None:
        self.sweeps.halo.start(self.change)
        self.sweeps.halo.wait()

    def _gather_one(self) -> None:
        self._gather(self.partial[0])

    def _gather_all(self) -> None:
        self._gather(self.partial)

    def _gather(self, partial: np.ndarray) -> None:
        """Each block has one rank; the others add zeros, which is exact."""
        sums = np.zeros_like(partial)
        sums[..., self.net.ids] = partial[..., self.net.ids]
        self.sweeps.comm.Allreduce(sums, partial)


class NetSweeps(CpuSweeps):
    """The sweeps of a part of a net."""

    def __init__(self, comm: Any, part: NetPart, state: State, threads: int):
        self.comm, self.part, self.halo = comm, part, Halo(comm, part)
        super().__init__(part.plan, state, threads)

    @cached_property
    def implicit(self) -> CpuImplicit:
        return PartImplicit(self)

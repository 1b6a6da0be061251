"""The implicit step of a net of springs on a rank, and what it tells the others in between."""

from collections.abc import Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from ..kernels.conjugate import NEXT
from ..net_parts import NetPart
from ..state import State
from .cpu_implicit import SEARCHED, CpuImplicit
from .mpi_sweeps import RankSweeps


class PartImplicit(CpuImplicit):
    """The implicit step of a part: copies are renewed, and partial sums of all ranks come together."""

    sweeps: "NetSweeps"

    def __init__(self, sweeps: "NetSweeps"):
        super().__init__(sweeps)
        part = sweeps.part
        copied, due = (
            (swap.receivers, [(rank, slice(first, last)) for rank, first, last in swap.senders])
            for swap in (part.copied, part.due)
        )
        self.directions = sweeps.channel(self.direction, *copied)
        self.velocities = sweeps.channel(sweeps.state.fine_velocities, *copied)
        self.payments = [sweeps.channel(rows, *due) for rows in self.sums]
        lent = np.concatenate([np.zeros(0, np.int64), *(rows for _, rows in part.copied.receivers)])
        self.lenders = np.unique(np.searchsorted(self.net.starts, lent, side="right") - 1).astype(np.int32)
        self._lead = cache(partial(self.lead, blocks=self.lenders))
        self.elsewhere = np.setdiff1d(np.arange(self.net.total), self.net.ids)
        self._gather = cache(lambda sums: sweeps.gather(self.partial[:sums], self.elsewhere))

    def pay(self) -> Sequence[Any]:
        ways = self.payments
        return [*(sweep for way in ways for sweep in way.start), *(sweep for way in ways for sweep in way.finish)]

    def iterate(self, by_blocks: bool, first: bool) -> Sequence[Any]:
        """Copies come and dues go while blocks are multiplied that need neither."""
        interior, blocks = self.sweeps.part.interior, len(self.net.ids)
        search = self.search(by_blocks, first)
        return [
            self._lead(search),  # blocks with rows that others have copies of
            *self.directions.start,
            self.follow(search, 0, interior // 2),  # one half hides the way of copies, the other that of dues
            *self.directions.finish,
            self.follow(search, interior, blocks),
            *self.payments[0].start,  # of the product
            self.follow(search, interior // 2, interior),
            *self.payments[0].finish,
            self.measure_rest(by_blocks),
            *self.reduce(NEXT, SEARCHED),
        ]

    def accelerate(self, guarded: bool) -> Sequence[Any]:
        """Copies get the velocities of their rows, and fly on from there."""
        if not guarded:
            own, behind = super().accelerate(guarded)
            return [own, *self.velocities.start, *self.velocities.finish, behind]
        self.has_measured = True
        interior, blocks = self.sweeps.part.interior, len(self.net.ids)
        return [
            self._lead(self.flight),
            *self.velocities.start,
            self.follow(self.flight, 0, interior),
            *self.velocities.finish,
            self._predict_behind,
            self.follow(self.flight, interior, blocks),
            *self.balance(),
        ]

    def reduce(self, what: int, sums: int) -> Sequence[Any]:
        return [*self._gather(sums), *super().reduce(what, sums)]


class NetSweeps(RankSweeps):
    """The sweeps of a part of a net."""

    def __init__(self, comm: Any, part: NetPart, state: State, threads: int):
        self.part = part
        super().__init__(comm, part.plan, state, threads)

    @cached_property
    def implicit(self) -> CpuImplicit:
        return PartImplicit(self)

"""A rank: the sweeps of its part, what it tells the others in between, and the commands that it follows."""

import os
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..collision.surface import Ways
from ..kernels.implicit import LENGTH
from ..parts import Part
from ..state import State, write_piece
from . import Outcome
from .cpu import CpuSweeps
from .cpu_implicit import CpuImplicit
from .mpi_talk import COMMAND, DATA, receive, send

PATIENCE, LONGEST_NAP = 2e-3, 5e-4  # [s] a rank that waits for work keeps its core busy so long, then naps
Token = tuple[str, tuple]  # the name of a sweep, and its arguments


class Halo:
    """Brings copies of rows up to date, while other work goes on."""

    def __init__(self, comm: Any, part: Part):
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

    sweeps: "PartSweeps"

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


class PartSweeps(CpuSweeps):
    """The sweeps of a part."""

    def __init__(self, comm: Any, part: Part, state: State, threads: int):
        self.comm, self.part, self.halo = comm, part, Halo(comm, part)
        super().__init__(part.plan, state, threads)

    @cached_property
    def implicit(self) -> CpuImplicit:
        return PartImplicit(self)


class Rank:
    """What every rank does when the first one says so; methods are the commands."""

    def __init__(self, comm: Any):
        self.comm = comm
        self.schedules: dict[int, Any] = {}

    def take_part(self, part: Part, positions: np.ndarray, velocities: np.ndarray, threads: int) -> None:
        """Begin with a part, where its rows and copies are as given."""
        self.part, self.state = part, State(part.plan)
        count = len(part.plan.order)
        self.state.fine_positions[:count, :3], self.state.fine_velocities[:count, :3] = positions, velocities
        self.state.positions[:count, :3], self.state.velocities[:count, :3] = positions, velocities
        self.sweeps = PartSweeps(self.comm, part, self.state, threads)
        self.sweeps.implicit.net.forget()
        self.schedules = {}

    def prepare(self, number: int, tokens: list[Token]) -> None:
        self.schedules[number] = self.sweeps.prepare(self._own(tokens))

    def _own(self, tokens: Iterable[Token]) -> list[Any]:
        """The sweeps of this rank for the names of a schedule."""
        found: list[Any] = []
        for name, arguments in tokens:
            target: Any = self.sweeps
            for attribute in name.split("."):
                target = getattr(target, attribute)
            made = target(*arguments)
            found += made if isinstance(made, (list, tuple)) else [made]
        return found

    def begin_frame(self, ways: Ways, duration: float, wind: np.ndarray) -> None:
        self.sweeps.begin_frame(ways, [], duration)
        self.sweeps.implicit.wind[:] = wind

    def change(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        """Write some rows of the whole plan, in ascending order: those that are here."""
        here = np.concatenate([self.part.rows, self.part.copies])
        places = np.minimum(np.searchsorted(rows, here), len(rows) - 1)
        there = np.flatnonzero(rows[places] == here)
        for table in (name, State.FINE[name]):
            getattr(self.state, table)[there, :3] = values[places[there]]

    def run(self, number: int, *motion: Any) -> Outcome:
        return self.sweeps.run(self.schedules[number], *motion)

    def begin(self, *motion: Any) -> None:
        self.sweeps.begin(*motion)

    def set_step(self, step: float) -> None:
        self.sweeps.set_step(step)

    def advance(self, tokens: list[Token]) -> None:
        self.sweeps.advance(self._own(tokens))

    def finish(self) -> Outcome:
        return self.sweeps.finish()

    def take_back(self) -> None:
        self.sweeps.take_back()

    def give(self, name: str) -> np.ndarray:
        """Its own rows of an array of the state."""
        return getattr(self.state, name)[: len(self.part.rows)]

    def write(self, path: str, table: int, first: int, bounds: np.ndarray) -> None:
        """Write the records of its blocks into a file."""
        with open(path, "r+b") as file:
            net = self.part.plan.net
            assert net is not None
            for block, start in zip(net.ids, net.starts):
                rows = np.arange(start, start + bounds[block + 1] - bounds[block])
                records = np.empty(len(rows), self.state.record)
                records["particle"] = self.part.particles[rows]
                for name, fine in State.FINE.items():
                    records[name] = getattr(self.state, fine)[rows, :3]
                write_piece(file, records, int(block), int(bounds[block]), table, first)
            file.flush()
            os.fsync(file.fileno())

    def follow(self) -> None:
        """Do what the first rank says, until it says that this is the end."""
        while True:
            self._await()
            name, arguments = receive(self.comm, 0, COMMAND)
            if name == "stop":
                return
            send(self.comm, self.answer(name, arguments), 0)

    def answer(self, name: str, arguments: tuple) -> Any:
        """What a command gives back; a file that cannot be written is told, all else ends the job."""
        try:
            return getattr(self, name)(*arguments)
        except OSError as problem:
            return problem
        except Exception as problem:
            print(f"vivace: rank {self.comm.rank}: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
            if self.comm.size == 1:
                raise
            self.comm.Abort(1)

    def _await(self) -> None:
        since, nap = time.perf_counter(), 2e-5
        while not self.comm.Iprobe(source=0, tag=COMMAND):
            if time.perf_counter() - since > PATIENCE:
                time.sleep(nap)
                nap = min(2 * nap, LONGEST_NAP)

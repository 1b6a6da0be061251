"""A rank: the state of its part, and the commands that it follows."""

import os
import sys
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..collision.surface import Ways
from ..colored_parts import ColoredPart
from ..net_parts import NetPart
from ..particle_parts import ParticlePart
from ..parts import Part
from ..state import State, write_piece
from . import Outcome
from .mpi_colored import ColoredSweeps
from .mpi_net import NetSweeps
from .mpi_particles import ParticleSweeps
from .mpi_talk import COMMAND, receive, send

PATIENCE, LONGEST_NAP = 2e-3, 5e-4  # [s] a rank that waits for work keeps its core busy so long, then naps
Token = tuple[str, tuple]  # the name of a sweep, and its arguments


class Rank:
    """What every rank does when the first one says so; methods are the commands."""

    def __init__(self, comm: Any):
        self.comm = comm
        self.sweeps: Any = None
        self.schedules: dict[int, Any] = {}

    def take_part(self, part: Part, positions: np.ndarray, velocities: np.ndarray, threads: int) -> None:
        """Begin with a part, where its rows and copies are as given."""
        self.leave_part()
        self.part, self.state = part, State(part.plan, (positions, velocities))
        if isinstance(part, NetPart):
            self.sweeps = NetSweeps(self.comm, part, self.state, threads)
        elif isinstance(part, ColoredPart):
            self.sweeps = ColoredSweeps(self.comm, part, self.state, threads)
        elif isinstance(part, ParticlePart):
            self.sweeps = ParticleSweeps(self.comm, part, self.state, threads)

    def leave_part(self) -> None:
        """Give memory free for the next one."""
        self.schedules = {}
        if self.sweeps is not None:
            self.sweeps.close()
            del self.part, self.state
            self.sweeps = None

    def prepare(self, number: int, tokens: list[Token]) -> None:
        self.schedules[number] = self.sweeps.prepare(self._own(tokens))

    def _own(self, tokens: Iterable[Token]) -> list[Any]:
        """The sweeps of this rank for the names of a schedule."""
        found: list[Any] = []
        for name, arguments in tokens:
            target: Any = self.sweeps
            for attribute in name.split("."):
                target = getattr(target, attribute)
            made = target(*arguments) if callable(target) else target
            found += made if isinstance(made, (list, tuple)) else [made]
        return found

    def _begin_frame(self, ways: Ways, duration: float, wind: np.ndarray) -> None:
        self.sweeps.begin_frame(ways, [], duration)
        if self.part.plan.net is not None:
            self.sweeps.implicit.wind[:] = wind

    def change(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        """Write some rows of the whole plan, in ascending order: those that are here."""
        here = np.concatenate([self.part.rows, self.part.copies])
        places = np.minimum(np.searchsorted(rows, here), len(rows) - 1)
        there = np.flatnonzero(rows[places] == here)
        for table in (getattr(self.state, name), self.state.finest(name)):
            table[there, :3] = values[places[there]]

    def run(self, frame: tuple[Ways, float, np.ndarray], number: int, *motion: Any) -> Outcome:
        self._begin_frame(*frame)
        return self.sweeps.run(self.schedules[number], *motion)

    def begin(self, frame: tuple[Ways, float, np.ndarray], *motion: Any) -> None:
        self._begin_frame(*frame)
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
            for block, rows in self.part.blocks:
                particles = self.part.particles[rows]
                records = np.empty(len(particles), self.state.record)
                records["particle"] = particles
                for name in State.FINE:
                    records[name] = self.state.finest(name)[rows, :3]
                write_piece(file, records, block, int(bounds[block]), table, first)
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

"""Several processes, each with a part of the particles, by MPI. The first has the simulation; the others follow it.

A schedule is a list of names here. Each rank finds its own sweeps for them, and what it has to tell the others in
between. All numbers come out as they would on one rank: what is summed up is summed block by block, in one order.
"""

import atexit
import copyreg
import hashlib
import importlib
import os
import pickle
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakSet

import numpy as np

from ..checks import extra
from ..cluster.watchdog import VARIABLE, Pulse, Watch, address_towards
from ..collision.surface import Ways
from ..errors import InputError
from ..holds import Hold
from ..kernels.implicit import LENGTH
from ..kernels.region import core_count
from ..parts import Part, assign, part_of, renamed
from ..plan import Plan
from ..state import State, write_piece
from . import Outcome, Residual
from .cpu import CpuSweeps
from .cpu_implicit import CpuImplicit

COMMAND, DATA, GO = 1, 2, 3  # tags
PATIENCE, LONGEST_NAP = 2e-3, 5e-4  # [s] a rank that waits for work keeps its core busy so long, then naps
# Ranks may differ by so much over so many frames; then blocks move, if the busiest one gets so much less to do.
UNEVEN, WINDOW, GAIN = 1.25, 20, 0.9
ENDINGS = signal.SIGINT, signal.SIGTERM
Token = tuple[str, tuple]


@cache
def join() -> Any:
    """All ranks of this job, or this process alone; on the first rank it returns, the others follow that one.

    They end with it: what comes after this in a program is the first rank's.
    """
    comm = extra("mpi4py.MPI", "mpi").COMM_WORLD
    if comm.size == 1 and VARIABLE not in os.environ:
        return comm
    pulse = _start_pulse(comm)
    hosts = _check_versions(comm, pulse)
    if comm.rank:
        for ending in ENDINGS:
            signal.signal(ending, signal.SIG_IGN)  # the first rank is told too, and ends them
        Rank(comm).follow()
        pulse.end()
        sys.exit(0)

    def stop() -> None:
        for rank in range(1, comm.size):
            _send(comm, ("stop", ()), rank, COMMAND)
        pulse.end()

    atexit.register(stop)
    if threading.current_thread() is threading.main_thread():
        for ending in ENDINGS:
            signal.signal(ending, _interrupt)
    _here.append(hosts.count(hosts[0]))
    if _here[0] > core_count():
        warnings.warn(f"{_here[0]} ranks share {core_count()} cores: ranks that wait keep them busy", stacklevel=2)
    return comm


_here: list[int] = []  # how many ranks are on this host
_asked: list[int] = []  # signals that want an end


def _interrupt(which: int, _: Any) -> None:
    """Whoever wants to interrupt waits until the next frame: no rank may miss what the others do together."""
    _asked.append(which)
    if len(_asked) > 1:
        raise KeyboardInterrupt


def _start_pulse(comm: Any) -> Pulse:
    """A sign of life for whoever watches: the command that has started this job, or else the first rank."""
    place = os.environ.get(VARIABLE)
    if comm.rank == 0 and place is None:
        others = [host for host in comm.gather(socket.gethostname()) if host != socket.gethostname()]
        place = Watch(comm.size, address_towards(others[0]) if others else "127.0.0.1").place
    elif place is None:
        comm.gather(socket.gethostname())
    return Pulse(comm.bcast(place), comm.rank)


def _check_versions(comm: Any, pulse: Pulse) -> list[str]:
    """All ranks must run the same program, or they would not agree on what they send; gives their hosts."""
    own = f"vivace {version('vivace')} ({_sources()}), Numba {version('numba')}, NumPy {version('numpy')}"
    found = comm.allgather((socket.gethostname(), own))
    for rank, (host, other) in enumerate(found):
        if other != found[0][1]:
            pulse.end()
            if comm.rank == 0:
                raise InputError(f"rank {rank} on {host} has {other}, rank 0 has {own}; all must be the same")
            sys.exit(2)
    return [host for host, _ in found]


def _sources() -> str:
    """A number for the sources of this package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


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
            name, arguments = _receive(self.comm, 0, COMMAND)
            if name == "stop":
                return
            _send(self.comm, self.answer(name, arguments), 0)

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


def _send(comm: Any, thing: Any, rank: int, tag: int = DATA) -> None:
    """Arrays go as they lie in memory, without a copy."""
    buffers: list[Any] = []
    text = pickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
    raws = [buffer.raw() for buffer in buffers]
    comm.send((text, [raw.nbytes for raw in raws]), rank, tag)
    for raw in raws:
        comm.Send(raw, rank, tag)


def _receive(comm: Any, rank: int, tag: int = DATA) -> Any:
    text, sizes = comm.recv(source=rank, tag=tag)
    buffers = [np.empty(size, np.uint8) for size in sizes]
    for buffer in buffers:
        comm.Recv(buffer, rank, tag)
    return pickle.loads(text, buffers=buffers)


copyreg.pickle(ModuleType, lambda module: (importlib.import_module, (module.__name__,)))  # a constraint is a module


class Names:
    """Sweeps by their names: what a schedule is made of before each rank finds its own."""

    wind: np.ndarray

    def __init__(self, prefix: str, *sequences: str):
        self.prefix, self.sequences = prefix, sequences

    def __getattr__(self, name: str) -> Callable[..., list[Token]]:
        if name not in self.sequences:
            raise AttributeError(name)
        return lambda *arguments: [(f"{self.prefix}{name}", arguments)]


class NoHolds:
    def hold(self, carry_aims: bool = False) -> tuple:
        return ()

    def advance(self) -> tuple:
        return ()


class MpiState(State):
    """The state of all particles on the first rank: fetched from the others when somebody looks."""

    def __init__(self, plan: Plan):
        self._tables: dict[str, np.ndarray] = {}
        self._old: set[str] = set()
        self._changed: dict[str, list[np.ndarray]] = {}
        self._sweeps: MpiSweeps | None = None
        super().__init__(plan)
        self._changed = {}

    def _table(name: str) -> Any:  # type: ignore[misc]
        def get(self: "MpiState") -> np.ndarray:
            if name in self._old and self._sweeps is not None:
                self._fetch(name)
            return self._tables[name]

        def put(self: "MpiState", rows: np.ndarray) -> None:
            self._tables[name] = rows

        return property(get, put)

    positions, velocities = _table("positions"), _table("velocities")
    fine_positions, fine_velocities = _table("fine_positions"), _table("fine_velocities")

    def has_moved(self) -> None:
        """What is here is no longer what the ranks have."""
        self._old = set(self._tables)

    def _fetch(self, name: str) -> None:
        assert self._sweeps is not None
        self.flush()
        self._old.discard(name)
        table = self._tables[name]
        for blocks, found in zip(self._sweeps.blocks, self._sweeps.tell("give", name)):
            for here, there, count in blocks:
                table[there : there + count] = found[here : here + count]

    def fetch_all(self) -> None:
        """Have all here that the ranks have."""
        for name in sorted(self._old):
            self._fetch(name)

    def set(self, name: str, particles: slice | np.ndarray, values: np.ndarray) -> None:
        rows = self.plan.row_of[particles]
        if len(rows):
            for table in (name, self.FINE[name]):
                self._tables[table][rows, :3] = values
            self._changed.setdefault(name, []).append(rows)

    def flush(self) -> None:
        """Tell the ranks what was written here."""
        if self._changed and self._sweeps is not None:
            changed, self._changed = self._changed, {}
            for name, lists in changed.items():
                rows = np.unique(np.concatenate(lists))
                self._sweeps.tell("change", name, rows, self._tables[self.FINE[name]][rows, :3])

    def write_records(self, path: Path, table: int, first: int) -> None:
        assert self._sweeps is not None
        self.flush()
        for answer in self._sweeps.tell("write", str(path.resolve()), table, first, self.pieces):
            if isinstance(answer, OSError):
                raise answer


class MpiSweeps:
    """See `Sweeps`. Tokens are names; each rank runs its own sweeps for them."""

    predict = update_velocities = None
    migrations = 0

    def __init__(self, plan: Plan, state: State, threads: int):
        self.comm = join()
        if plan.net is None:
            raise InputError("several ranks run the solver 'implicit' only, so far; use backend='cpu' for this one")
        if plan.model.touching is not None:
            raise InputError("self_collision is for one process, so far: contacts do not reach over to other ranks")
        self.plan, self.threads, self.step = plan, threads, 1.0
        self.implicit = Names("implicit.", "assemble", "multiply", "descend", "accelerate", "balance", "settle")
        self.implicit.wind = np.zeros(4, np.float32)
        self.holds, self.rank, self._schedules = NoHolds(), Rank(self.comm), 0
        self.state = MpiState(plan)
        for other in list(_current):
            other.retire()
        sizes = np.diff(plan.net.starts).astype(float)
        self._prepared: dict[int, list[Token]] = {}
        self._give_parts(assign(plan.net, sizes, self.comm.size))
        self.state._sweeps = self
        self._busy, self._frames = np.zeros(self.comm.size), 0
        _current.add(self)

    def retire(self) -> None:
        """The ranks get other parts: what is theirs is fetched before."""
        self.state.fetch_all()
        self.state._sweeps = None
        _current.discard(self)

    def _mind_balance(self) -> None:
        """Give blocks to other ranks when some have had much more to do than others for a while.

        What a block costs is its share of what its rank was busy. The bits do not depend on who does what.
        """
        net = self.plan.net
        assert net is not None
        if self._frames < WINDOW or self.comm.size == 1:
            return
        busy, self._busy, self._frames = self._busy, np.zeros(self.comm.size), 0
        if busy.max() < UNEVEN * busy.mean():
            return
        sizes = np.diff(net.starts).astype(float)
        costs = sizes * (busy / np.maximum(np.bincount(self.owners, sizes, self.comm.size), 1))[self.owners]
        owners = renamed(assign(net, costs, self.comm.size), self.owners, self.comm.size)
        if np.bincount(owners, costs, self.comm.size).max() < GAIN * busy.max():
            self.migrate(owners)
            self.migrations += 1

    @staticmethod
    def most_threads() -> int:
        """The cores of this host are shared by the ranks on it."""
        join()
        return max(core_count() // (_here or [1])[0], 1)

    def _give_parts(self, owners: np.ndarray) -> None:
        """Every rank gets its part, with the state as it is here."""
        self.owners = owners
        self.blocks: list[list[tuple[int, int, int]]] = []  # of each rank: first row there, first row here, rows
        self._sizes: dict[str, list[int]] = {}
        tables = self.state.fine_positions, self.state.fine_velocities
        for rank in reversed(range(self.comm.size)):
            part = part_of(self.plan, owners, rank)
            own = part.plan.net
            assert own is not None and self.plan.net is not None
            starts, bounds = self.plan.net.starts[own.ids], self.state.pieces
            counts = bounds[own.ids + 1] - bounds[own.ids]
            self.blocks.insert(0, list(zip(own.starts.tolist(), starts.tolist(), counts.tolist())))
            for planned in part.plan.groups:
                self._sizes.setdefault(planned.group.name, []).insert(0, len(planned.vertices))
            rows = np.concatenate([part.rows, part.copies])
            positions, velocities = (np.where(rows[:, None] < 0, 0, table[rows, :3]) for table in tables)
            arguments = (part, positions, velocities, self.threads)
            if rank:
                _send(self.comm, ("take_part", arguments), rank, COMMAND)
            else:
                self.rank.take_part(*arguments)
        for rank in range(1, self.comm.size):
            _receive(self.comm, rank)

    def tell(self, name: str, *arguments: Any) -> list[Any]:
        """Let all ranks do something; gives what each of them answers."""
        for rank in range(1, self.comm.size):
            _send(self.comm, (name, arguments), rank, COMMAND)
        own = self.rank.answer(name, arguments)
        return [own, *(_receive(self.comm, rank) for rank in range(1, self.comm.size))]

    def collide(self, surface: int, carry_aims: bool = False) -> Token:
        return "collide", (surface,)

    def advance_colliders(self) -> list[Token]:
        return [("advance_colliders", ())]

    def stop_at_colliders(self) -> list[Token]:
        return [("stop_at_colliders", ())]

    def begin_frame(self, ways: Ways, holds: Sequence[Hold], duration: float) -> None:
        if _asked:
            raise KeyboardInterrupt
        self._mind_balance()
        if holds:
            raise InputError("points cannot be held on several ranks, so far")
        self.tell("begin_frame", ways, duration, self.implicit.wind)

    def prepare(self, schedule: Iterable[Token | None]) -> int:
        self._schedules += 1
        tokens = [token for token in schedule if token is not None]
        self._prepared = {self._schedules: tokens}
        self.tell("prepare", self._schedules, tokens)
        return self._schedules

    def run(self, prepared: int, step: float, damping: float, gravity: tuple[float, float, float]) -> Outcome:
        self.state.flush()
        return self._joined(self.tell("run", prepared, step, damping, gravity))

    def begin(self, step: float, damping: float, gravity: tuple[float, float, float]) -> None:
        self.state.flush()
        self.tell("begin", step, damping, gravity)

    def set_step(self, step: float) -> None:
        self.step = step
        self.tell("set_step", step)

    def advance(self, tokens: Iterable[Token | None]) -> None:
        self.tell("advance", [token for token in tokens if token is not None])

    def finish(self) -> Outcome:
        return self._joined(self.tell("finish"))

    def take_back(self) -> None:
        self.tell("take_back")
        self.state.has_moved()

    def _joined(self, outcomes: list[Outcome]) -> Outcome:
        """What all ranks found, as one; times are those of the first."""
        self.state.has_moved()
        self._busy += [sum(outcome.milliseconds.values()) for outcome in outcomes]
        self._frames += 1
        residual = {}
        for planned in self.plan.groups:
            found = [outcome.residual.get(planned.group.name, Residual(0.0, 0.0)) for outcome in outcomes]
            squares = sum(one.rms**2 * size for one, size in zip(found, self._sizes[planned.group.name]))
            largest = max(one.largest for one in found)
            residual[planned.group.name] = Residual(float(np.sqrt(squares / len(planned.vertices))), largest)
        finite, first = all(outcome.finite for outcome in outcomes), outcomes[0]
        return Outcome(finite, residual, first.milliseconds, first.threads, solve=first.solve)

    def migrate(self, owners: np.ndarray) -> None:
        """Give blocks to other ranks, in the middle of a run."""
        if (owners != self.owners).any():
            self.state.fetch_all()
            self._give_parts(owners)
            for number, tokens in self._prepared.items():
                self.tell("prepare", number, tokens)
            self.state.has_moved()


_current: WeakSet[MpiSweeps] = WeakSet()  # whose parts the ranks have

BACKENDS = {"mpi": MpiSweeps}

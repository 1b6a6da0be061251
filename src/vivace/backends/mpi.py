"""Several processes, each with a part of the particles, by MPI. The first has the simulation; the others follow it.

A schedule is a list of names here. Each rank finds its own sweeps for them, and what it has to tell the others in
between. All numbers come out as they would on one rank: what is summed up is summed block by block, in one order.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakSet, finalize

import numpy as np

from ..collision.surface import Ways
from ..colored_parts import ColoredCut
from ..coloring import Coloring
from ..errors import InputError
from ..holds import Hold
from ..net_parts import NetCut
from ..particle_parts import ParticleCut
from ..parts import Blocks, Cut, assign, renamed
from ..plan import Plan
from ..state import State
from . import Outcome, Residual
from .mpi_join import check_that_threads_may_talk, join, most_threads, obey_interrupts, warn_of_crowding
from .mpi_rank import Rank, Token
from .mpi_renewal import gathered, scatter
from .mpi_sweeps import busy_milliseconds
from .mpi_talk import COMMAND, receive, send

# Ranks may differ by so much over so many frames; then blocks move, if the busiest one gets so much less to do.
UNEVEN, WINDOW, GAIN = 1.25, 20, 0.9


class Names:
    """Sweeps by their names: what a schedule is made of before each rank finds its own."""

    def __init__(self, prefix: str, *names: str):
        self.prefix, self.names = prefix, names

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self.names:
            raise AttributeError(name)
        return lambda *arguments: self.named(name, arguments)

    def named(self, name: str, arguments: tuple) -> Any:
        return f"{self.prefix}{name}", arguments


class ImplicitNames(Names):
    """Those that are sequences of sweeps."""

    def __init__(self) -> None:
        steps = "assemble", "iterate", "accelerate", "offer", "settle"
        super().__init__("implicit.", *steps)
        self.wind = np.zeros(4, np.float32)

    def named(self, name: str, arguments: tuple) -> list[Token]:
        return [super().named(name, arguments)]


class ParticleNames(Names):
    """Those over the particles of a color."""

    def __init__(self, plan: Plan, prefix: str, *names: str):
        super().__init__(prefix, *names)
        self.coloring, self.aim = plan.coloring, (f"{prefix}aim", ())

    def color_by(self, coloring: Coloring) -> None:
        raise InputError("fresh orders (vivace with fresh=True) are for one process, so far: parts keep their colors")


class NoHolds:
    refusal = "points cannot be held on several ranks, so far"

    def hold(self, carry_aims: bool = False) -> tuple:
        return ()

    def advance(self) -> tuple:
        return ()


class MpiState(State):
    """The state of all particles on the first rank: fetched from the others when somebody looks."""

    def __init__(self, plan: Plan, blocks: Blocks):
        self._tables: dict[str, np.ndarray] = {}
        self._old: set[str] = set()
        self._changed: dict[str, list[np.ndarray]] = {}
        self._sweeps: MpiSweeps | None = None
        super().__init__(plan)
        self._changed, self.pieces = {}, np.append(blocks.starts[:-1], len(plan.row_of))

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
        self._old = {name for name, table in self._tables.items() if len(table)}

    def _fetch(self, name: str) -> None:
        assert self._sweeps is not None
        self.flush()
        self._old.discard(name)
        table = self._tables[name]
        for places, found in zip(self._sweeps.places, self._sweeps.tell("give", name)):
            for there, here in places:
                if isinstance(here, slice):
                    table[here] = found[there]
                else:
                    scatter(table, here, found[there])

    def fetch_all(self) -> None:
        """Have all here that the ranks have."""
        for name in sorted(self._old):
            self._fetch(name)

    def fetch_finest(self) -> None:
        """Have all digits here; what has fewer can be fetched later, from whoever has it then."""
        for name in State.FINE:
            self.finest(name)

    def set(self, name: str, particles: slice | np.ndarray, values: np.ndarray) -> None:
        rows = self.plan.row_of[particles]
        if len(rows):
            self._tables[name][rows, :3] = values
            if self.plan.net is not None:
                self._tables[self.FINE[name]][rows, :3] = self._tables[name][rows, :3]
            self._changed.setdefault(name, []).append(rows)

    def put_records(self, records: np.ndarray) -> None:
        self._old = set()  # all is written anew, so nothing has to be fetched before
        super().put_records(records)

    def flush(self) -> None:
        """Tell the ranks what was written here."""
        if self._changed and self._sweeps is not None:
            changed, self._changed = self._changed, {}
            for name, lists in changed.items():
                rows = np.unique(np.concatenate(lists))
                table = self._tables[name if self.plan.net is None else self.FINE[name]]  # as it is here, not there
                self._sweeps.tell("change", name, rows, table[rows, :3])

    def write_records(self, path: Path, table: int, first: int) -> None:
        if self._sweeps is None:
            super().write_records(path, table, first)
            return
        self.flush()
        for answer in self._sweeps.tell("write", str(path.resolve()), table, first, self.pieces):
            if isinstance(answer, OSError):
                raise answer


def cut_of(plan: Plan) -> Cut:
    if plan.net is not None:
        return NetCut(plan)
    return ColoredCut(plan) if plan.coloring is None else ParticleCut(plan)


def check_for_ranks(plan: Plan) -> None:
    """An error that names what several ranks cannot do."""
    if plan.model.touching is not None:
        raise InputError("self_collision is for one process, so far: contacts do not reach over to other ranks")
    reason = None
    # One color for particles that share constraints.
    if plan.coloring is not None and plan.coloring.count < plan.coloring.graph.largest_hub:
        reason = "move all particles at once (pd-jacobi, pd-chebyshev, pd-direct)"
    elif plan.copies is not None:
        reason = "split particles (phantoms)"
    elif any(planned.parallel_steps > planned.batch_count for planned in plan.groups):
        reason = "average constraints that share particles (averaged-jacobi, hybrid-jacobi)"
    if reason:
        raise InputError(
            f"solvers that {reason} are for one process, so far; "
            "several ranks run implicit, gauss-seidel, xpbd and vivace"
        )


class MpiSweeps:
    """See `Sweeps`. Tokens are names; each rank runs its own sweeps for them."""

    predict, update_velocities = ("predict", ()), ("update_velocities", ())
    migrations = 0
    most_threads = staticmethod(most_threads)

    def __init__(self, plan: Plan, state: State, threads: int):
        self.comm = join()
        if threads > 1:
            warn_of_crowding(threads)
            if self.comm.size > 1:
                check_that_threads_may_talk()
        check_for_ranks(plan)
        self.cut = cut_of(plan)
        if self.cut.blocks.total < self.comm.size:
            counts = f"blocks of particles: {self.cut.blocks.total}, ranks: {self.comm.size}"
            warnings.warn(f"{counts}; those without a block have nothing to do", stacklevel=2)
        self.plan, self.threads, self.step = plan, threads, 1.0
        self._totals = plan.sizes
        self.implicit = ImplicitNames()
        self.system = ParticleNames(plan, "system.", "project", "relax", "remember", "extrapolate")
        self.visits = ParticleNames(plan, "visits.", "visit", "settle")
        self.holds, self.rank, self._schedules = NoHolds(), Rank(self.comm), 0
        self.state = MpiState(plan, self.cut.blocks)
        finalize(self, self.rank.leave_part).atexit = False  # what was made ready for messages has to be freed
        for other in list(_current) if self.comm.size > 1 else []:
            other.retire()
        self._prepared: dict[int, list[Token]] = {}
        self._give_parts(assign(self.cut.blocks, self.cut.blocks.costs, self.comm.size))
        self.state._sweeps = self
        self._busy, self._frames = np.zeros(self.comm.size), 0
        self._frame: tuple[Ways, float, np.ndarray] = {}, 1.0, self.implicit.wind
        _current.add(self)

    def retire(self) -> None:
        """The ranks get other parts: what is theirs is fetched before."""
        self.state.fetch_all()
        self.state._sweeps = None
        self.rank.leave_part()
        _current.discard(self)

    def _mind_balance(self) -> None:
        """Give blocks to other ranks when some have had much more to do than others for a while.

        What a block costs is its share of what its rank was busy. The bits do not depend on who does what.
        """
        if self._frames < WINDOW or self.comm.size == 1:
            return
        busy, self._busy, self._frames = self._busy, np.zeros(self.comm.size), 0
        if busy.max() < UNEVEN * busy.mean():
            return
        shares = self.cut.blocks.costs
        costs = shares * (busy / np.maximum(np.bincount(self.owners, shares, self.comm.size), 1))[self.owners]
        owners = renamed(assign(self.cut.blocks, costs, self.comm.size), self.owners, self.comm.size)
        if np.bincount(owners, costs, self.comm.size).max() < GAIN * busy.max():
            self.migrate(owners)
            self.migrations += 1

    def _give_parts(self, owners: np.ndarray) -> None:
        """Every rank gets its part, with the state as it is here."""
        self.owners = owners
        self.places: list[list[tuple[Any, Any]]] = []  # of the rows of each rank: there, and here
        self._sizes: dict[str, list[int]] = {}
        tables, part_of = [self.state.finest(name) for name in State.FINE], self.cut.among(owners, self.comm.size)
        for rank in reversed(range(self.comm.size)):
            part = part_of(rank)
            self.places.insert(0, part.places)
            for name, size in part.plan.sizes.items():
                self._sizes.setdefault(name, []).insert(0, size)
            rows = np.concatenate([part.rows, part.copies])
            arguments = (part, *(gathered(table, rows) for table in tables), self.threads)
            if rank:
                send(self.comm, ("take_part", arguments), rank, COMMAND)
            else:
                self.rank.take_part(*arguments)
        for rank in range(1, self.comm.size):
            receive(self.comm, rank)

    def tell(self, name: str, *arguments: Any) -> list[Any]:
        """Let all ranks do something; gives what each of them answers."""
        for rank in range(1, self.comm.size):
            send(self.comm, (name, arguments), rank, COMMAND)
        own = self.rank.answer(name, arguments)
        return [own, *(receive(self.comm, rank) for rank in range(1, self.comm.size))]

    def project(self, group: int, batch: int) -> Token:
        return "project", (group, batch)

    def project_compliant(self, group: int, batch: int) -> Token:
        return "project_compliant", (group, batch)

    def forget_multipliers(self, group: int) -> Token:
        return "forget_multipliers", (group,)

    def project_in_order(self, group: int) -> Token:
        raise InputError("constraints one after the other (solver 'serial') are for one process; use 'gauss-seidel'")

    def collide(self, surface: int, carry_aims: bool = False) -> Token:
        return "collide", (surface, carry_aims)

    def advance_colliders(self) -> list[Token]:
        return [("advance_colliders", ())]

    def stop_at_colliders(self) -> list[Token]:
        return [("stop_at_colliders", ())]

    def begin_frame(self, ways: Ways, holds: Sequence[Hold], duration: float) -> None:
        obey_interrupts()
        if self not in _current:
            raise InputError("the ranks have gone over to a simulation that was made later; this one can only be read")
        if holds:  # as in a checkpoint of one process
            raise InputError(NoHolds.refusal)
        self._mind_balance()
        self._frame = ways, duration, self.implicit.wind  # told with the run that follows: one message less

    def _listed(self, schedule: Iterable[Token | None]) -> list[Token]:
        """What ranks are told of a schedule. Copies are renewed for batches in turn, so no other order will do."""
        tokens = [token for token in schedule if token is not None]
        turn = [(g, batch) for g, planned in enumerate(self.plan.groups) for batch in range(planned.batch_count)]
        batches = [arguments for name, arguments in tokens if name in ("project", "project_compliant")]
        if batches != turn * (len(batches) // max(len(turn), 1)):
            raise InputError("the solver's schedule does not project all batches in turn, as several ranks have to")
        visits = [arguments for name, arguments in tokens if name == "visits.visit"]
        if any(group and before[1] != color for (group, color), before in zip(visits, [(0, -1), *visits])):
            raise InputError("the solver's schedule does not begin each color with the first group, as ranks have to")
        return tokens

    def prepare(self, schedule: Iterable[Token | None]) -> int:
        self._schedules += 1
        tokens = self._listed(schedule)
        self._prepared = {self._schedules: tokens}
        self.tell("prepare", self._schedules, tokens)
        return self._schedules

    def run(self, prepared: int, step: float, damping: float, gravity: tuple[float, float, float]) -> Outcome:
        self.state.flush()
        return self._joined(self.tell("run", self._frame, prepared, step, damping, gravity))

    def begin(self, step: float, damping: float, gravity: tuple[float, float, float]) -> None:
        self.state.flush()
        self.tell("begin", self._frame, step, damping, gravity)

    def set_step(self, step: float) -> None:
        self.step = step
        self.tell("set_step", step)

    def advance(self, tokens: Iterable[Token | None]) -> None:
        self.tell("advance", self._listed(tokens))

    def finish(self) -> Outcome:
        return self._joined(self.tell("finish"))

    def take_back(self) -> None:
        self.tell("take_back")
        self.state.has_moved()

    def _joined(self, outcomes: list[Outcome]) -> Outcome:
        """What all ranks found, as one; times are those of the first."""
        self.state.has_moved()
        self._busy += [busy_milliseconds(outcome) for outcome in outcomes]
        self._frames += 1
        residual = {}
        for name, total in self._totals.items():
            found = [outcome.residual[name] for outcome in outcomes]
            squares = sum(one.rms**2 * size for one, size in zip(found, self._sizes[name]))
            largest = max(one.largest for one in found)
            residual[name] = Residual(float(np.sqrt(squares / max(total, 1))), largest)
        finite, first = all(outcome.finite for outcome in outcomes), outcomes[0]
        return replace(first, finite=finite, residual=residual, ranks=self.comm.size)

    def migrate(self, owners: np.ndarray) -> None:
        """Give blocks to other ranks, in the middle of a run."""
        if (owners != self.owners).any():
            self.state.fetch_finest()
            self.tell("leave_part")
            self._give_parts(owners)
            for number, tokens in self._prepared.items():
                self.tell("prepare", number, tokens)
            self.state.has_moved()


_current: WeakSet[MpiSweeps] = WeakSet()  # whose parts the ranks have

BACKENDS = {"mpi": MpiSweeps}

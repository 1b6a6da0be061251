"""The fast backend: eight constraints at a time, all threads in one parallel region a step."""

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np

from ..collision.surface import Ways
from ..constraints import stretch
from ..errors import InputError
from ..holds import Hold
from ..kernels import region
from ..kernels.integrate import copy_kernel, motion_parameters, predict_kernel, update_kernel
from ..kernels.lanes import WIDTH
from ..kernels.measure import chunks, finite_kernel, net_residual_kernel, residual_kernel
from ..kernels.project import forget_kernel, project_compliant_kernel, project_in_order_kernel, project_kernel
from ..kernels.rows import in_blocks
from ..plan import Plan, PlannedGroup
from ..springs import Net
from ..state import State, aligned
from . import Outcome, Residual, Touches
from .cpu_apart import CpuApart
from .cpu_colliders import CpuColliders
from .cpu_contacts import CpuContacts
from .cpu_holds import CpuHolds
from .cpu_implicit import CpuImplicit
from .cpu_system import CpuSystem
from .cpu_touches import CpuTouches
from .cpu_visits import CpuVisits

Token = int | Callable[[], None] | None  # a sweep's number, work for the host, or a look at the clock
Piece = np.ndarray | Callable[[], None]


class BlockedGroup:
    """A group's columns as the kernels read them.

    A batch is filled up to whole blocks by repeating its last constraint: those lanes compute and store the same
    numbers once more. So every constraint goes through the same instructions in the same company for any number of
    threads, and the bits cannot depend on it. The remainder, if there is one, comes last.
    """

    def __init__(self, planned: PlannedGroup):
        ends = planned.partition.offsets
        if planned.parallel_steps > planned.batch_count:
            ends = np.append(ends, len(planned.vertices))
        bounds = list(zip(ends[:-1], ends[1:]))
        filled = [
            np.append(np.arange(a, b, dtype=np.int32), np.full(-(b - a) % WIDTH, b - 1, np.int32)) for a, b in bounds
        ]
        order = np.concatenate(filled)
        self.order = order
        self.first_block = np.cumsum([0] + [len(batch) // WIDTH for batch in filled])
        self.vertices = np.take(planned.vertices, order, axis=0).astype(np.int32, copy=False)
        self.rest = in_blocks(planned.rest[order].astype(np.float32))
        self.ratios, self.ratio_step = _blocks_or_one(planned.stiffness_ratio, order)
        if planned.compliance is not None:
            self.compliances, self.compliance_step = _blocks_or_one(planned.compliance, order)
            self.multipliers = np.zeros(len(order), np.float32)
        self.real_lanes = np.full(self.first_block[-1], WIDTH, np.float32)
        for (a, b), end in zip(bounds, self.first_block[1:]):
            if a < b:  # in a part of a plan, a batch may be empty
                self.real_lanes[end - 1] = (b - a - 1) % WIDTH + 1

    @property
    def blocks(self) -> int:
        return int(self.first_block[-1])


def _blocks_or_one(column: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, int]:
    """A column in the order of the blocks and 1, or a single block and 0 if all its values are equal."""
    uniform = bool((column == column[:1]).all())
    chosen = column[:1].repeat(WIDTH) if uniform else column[order]
    return np.ascontiguousarray(chosen, np.float32), 0 if uniform else 1


class Team:
    """How many threads take the next step: all, or one while other processes hold the cores.

    Where threads have to give their core away at many barriers, waiting costs more than working alone. The bits are
    the same for any number of threads, so the choice is free. All are tried again after a while, then ever more seldom.
    """

    SHORTEST, LONGEST = 0.25, 2.0  # [s] between trials
    BEARABLE = 0.05  # share of the barriers
    LONG_WAIT = 1e-4  # [s] about what one costs at least; where sweeps take longer than that, it is no loss

    def __init__(self, most: int):
        self.most, self._pause, self._alone_until = most, self.SHORTEST, 0.0

    def size(self) -> int:
        return 1 if time.perf_counter() < self._alone_until else self.most

    def tell(self, threads: int, long_waits: int, barriers: int, seconds: float = 0.0) -> None:
        """What the last step met with."""
        if long_waits > max(4, self.BEARABLE * barriers) and long_waits * self.LONG_WAIT > 0.5 * seconds:
            self._alone_until = time.perf_counter() + self._pause
            self._pause = min(2 * self._pause, self.LONGEST)
        elif threads == self.most:
            self._pause = self.SHORTEST


class CpuSweeps:
    """Each sweep is a row of the table that the parallel region runs through; its number is its token."""

    keeps_lock = True  # other threads of the process wait until a run is over

    def __init__(self, plan: Plan, state: State, threads: int):
        self.plan, self.state, self.team = plan, state, Team(threads)
        self.predicted = aligned(state.positions.shape)
        self.predicted[:] = state.positions
        self._kept = aligned(state.positions.shape), aligned(state.positions.shape)
        self.motion = aligned((16,))
        self.step, self._forces = 1.0, (0.0, (0.0, 0.0, 0.0))
        self._rows: list[tuple] = []
        self._table = np.zeros(0, region.SWEEP)
        self._alive: list[tuple] = []  # what the rows of the table point to
        self._stages: list[str] = []
        self.blocked_groups = self._blocked_groups()
        pairs = len(state.positions) // 2
        # Threads have the same rows in one sweep as in another: what another core has written comes slowly.
        together = 1 if plan.net is None else plan.net.rows_of_a_block // 2
        flight = self.predicted, state.positions, state.velocities, self.motion
        self.predict = self.sweep("integrate", predict_kernel(), 0, pairs, *flight)
        self.update_velocities = self.sweep("integrate", update_kernel(), 0, pairs, *flight)
        self._keep = [
            self.sweep("integrate", copy_kernel(), 0, pairs, copy, rows, grain=together)
            for copy, rows in zip(self._kept, (state.positions, state.velocities))
        ]
        self._sizes = plan.sizes
        self._flaws = np.zeros((2, chunks(pairs)), np.float32)
        self._measure: list[Any] = [
            self.sweep("measure", finite_kernel(), 0, chunks(pairs), rows, flaws, pairs, least=1)
            for rows, flaws in zip((state.positions, state.velocities), self._flaws)
        ]
        self.results = self._measure_groups() if plan.net is None else self._measure_net(plan.net)
        # However often a solver asks, one row of the table for each.
        self.project: Callable[..., Any] = cache(self._project)
        self.project_compliant: Callable[..., Any] = cache(self._project_compliant)
        self.project_in_order = cache(self._project_in_order)
        self.forget_multipliers = cache(self._forget_multipliers)

    def _blocked_groups(self) -> list[BlockedGroup]:
        """What is projected batch by batch, and measured; springs of a net are not."""
        return [BlockedGroup(planned) for planned in self.plan.groups] if self.plan.net is None else []

    def _measure_groups(self) -> list[np.ndarray]:
        """Measure what is left of constraints; gives where the sums and the largest of each group will be."""
        found = [np.zeros((chunks(group.blocks), 2)) for group in self.blocked_groups]
        for planned, group, results in zip(self.plan.groups, self.blocked_groups, found):
            columns = self.state.positions, group.vertices, group.rest, group.real_lanes
            kernel = residual_kernel(planned.group.constraint)
            arguments = *columns, results, group.blocks
            self._measure.append(self.sweep("measure", kernel, 0, len(results), *arguments, least=1))
        return found

    def _measure_net(self, net: Net) -> list[np.ndarray]:
        results = np.zeros((len(net.ids), 2))
        columns = self.state.positions, net.eights, net.bounds, net.neighbors, net.kinds, net.rests, results
        self._measure_springs = self.sweep("measure", net_residual_kernel(stretch), 0, len(results), *columns, least=1)
        return [results]

    def _measures(self) -> list[Any]:
        """What every run ends with. Springs may have been measured along with their energy."""
        springs = self.plan.net is not None and not self.implicit.has_measured
        return [*self._measure, self._measure_springs] if springs else self._measure

    @cached_property
    def apart(self) -> CpuApart:
        return CpuApart(self)

    @cached_property
    def system(self) -> CpuSystem:
        return CpuSystem(self)

    @cached_property
    def visits(self) -> CpuVisits:
        return CpuVisits(self)

    @cached_property
    def implicit(self) -> CpuImplicit:
        return CpuImplicit(self)

    @cached_property
    def contacts(self) -> CpuContacts:
        return CpuContacts(self)

    @cached_property
    def touches(self) -> CpuTouches:
        return CpuTouches(self)

    @cached_property
    def colliders(self) -> CpuColliders:
        return CpuColliders(self)

    @cached_property
    def holds(self) -> CpuHolds:
        return CpuHolds(self)

    @property
    def carried(self) -> list[np.ndarray]:
        """What goes along with a particle that a collider pushes."""
        return [self.system.aims, *self.system.earlier] if self.plan.system is not None else [self.visits.aims]

    def _project(self, group: int, batch: int) -> int:
        planned, blocked = self.plan.groups[group], self.blocked_groups[group]
        return self.sweep(
            planned.group.name,
            project_kernel(planned.group.constraint),
            *blocked.first_block[batch : batch + 2],
            self.predicted,
            blocked.vertices,
            blocked.rest,
            blocked.ratios,
            blocked.ratio_step,
        )

    def _project_compliant(self, group: int, batch: int) -> int:
        planned, blocked = self.plan.groups[group], self.blocked_groups[group]
        return self.sweep(
            planned.group.name,
            project_compliant_kernel(planned.group.constraint),
            *blocked.first_block[batch : batch + 2],
            self.predicted,
            blocked.vertices,
            blocked.rest,
            blocked.compliances,
            blocked.compliance_step,
            blocked.multipliers,
            self.motion,
        )

    def _forget_multipliers(self, group: int) -> int:
        blocked = self.blocked_groups[group]
        return self.sweep("integrate", forget_kernel(), 0, blocked.blocks, blocked.multipliers)

    def _project_in_order(self, group: int) -> int:
        planned = self.plan.groups[group]
        columns = (np.ascontiguousarray(column, np.float32) for column in (planned.rest, planned.stiffness_ratio))
        return self.sweep(
            planned.group.name,
            project_in_order_kernel(planned.group.constraint),
            0,
            1,
            self.predicted,
            planned.vertices,
            *columns,
            len(planned.vertices),
        )

    def collide(self, surface: int, carry_aims: bool = False) -> int:
        return self.colliders.collide(surface, carry_aims)

    def advance_colliders(self) -> tuple[int, ...]:
        return self.colliders.advance()

    def stop_at_colliders(self) -> tuple[int, ...]:
        return self.colliders.stop()

    def begin_frame(self, ways: Ways, holds: Sequence[Hold], duration: float) -> None:
        self.colliders.surfaces.send(ways, duration)
        self.holds.points.begin(holds, self.plan, duration)
        if self.plan.model.touching is not None:
            self.contacts.outlook.begin(duration)

    def prepare(self, schedule: Iterable[Token]) -> list[Piece]:
        """The schedule with what every run begins and ends with: keep the state, measure what became of it."""
        return list(self._pieces([*self._keep, *schedule, *self._measures()]))

    def run(self, prepared: list[Piece], step: float, damping: float, gravity: tuple[float, float, float]) -> Outcome:
        self._start(step, damping, gravity)
        self._do(prepared)
        return self._outcome()

    def begin(self, step: float, damping: float, gravity: tuple[float, float, float]) -> None:
        """Start a run that goes in pieces."""
        self._start(step, damping, gravity)
        self.advance(self._keep)

    def set_step(self, step: float) -> None:
        self.step = step
        self.motion[:] = motion_parameters(step, *self._forces)
        self.colliders.surfaces.set_step(step)
        self.holds.points.set_step(step)
        if self.plan.system is not None:
            self.system.set_step(step)

    def advance(self, tokens: Iterable[Token]) -> None:
        self._do(self._pieces(tokens))

    def finish(self) -> Outcome:
        self.advance(self._measures())
        return self._outcome()

    def _pieces(self, tokens: Iterable[Token]) -> Iterator[Piece]:
        """Sweeps that the region runs through at once, and work for the host in between."""
        known: list[int] = []
        for token in tokens:
            if callable(token):
                yield np.array(known, np.int64)
                yield token
                known = []
            elif isinstance(token, int) and 0 <= token < len(self._rows):
                known.append(token)
            elif token is not None:
                raise InputError(f"the solver's schedule has {token!r}, which is not a sweep")
        yield np.array(known, np.int64)

    def _do(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if callable(piece):
                piece()
            else:
                self._sweep_through(piece)

    def _start(self, step: float, damping: float, gravity: tuple[float, float, float]) -> None:
        self._forces = damping, gravity
        self.set_step(step)
        self._ticks = np.zeros(len(self._stages), np.int64)
        self._seconds, self._threads, self._waits, self._barriers = 0.0, 1, 0, 0
        if self.plan.net is not None:
            self.implicit.counts[:] = 0  # a step that was interrupted may have left some
        if self.plan.model.touching is not None:
            self.contacts.milliseconds = self.contacts.recoloring = 0.0

    def _sweep_through(self, schedule: np.ndarray) -> None:
        if len(self._table) < len(self._rows):
            self._table = np.array(self._rows, region.SWEEP)
        if self.plan.model.touching is not None:  # most colors are empty, which would cost a barrier each
            schedule = schedule[self._table["first"][schedule] < self._table["last"][schedule]]
        start = time.perf_counter()
        threads = self.team.size()
        ticks, long_waits = region.run(self._table, schedule, len(self._stages), threads, self.keeps_lock)
        self._waits += long_waits
        self._barriers += len(schedule)
        self._ticks += ticks
        self._threads = max(self._threads, min(threads, region.most_threads()))
        self._seconds += time.perf_counter() - start

    def _outcome(self) -> Outcome:
        self.team.tell(self._threads, self._waits, self._barriers, self._seconds)
        # Elsewhere the unit of the clock is not known, but its sum is.
        unit = 1e-6 if platform.system() != "Windows" else self._seconds * 1e3 / max(self._ticks.sum(), 1)
        residual = {
            name: Residual(float(np.sqrt(results[:, 0].sum() / max(size, 1))), float(results[:, 1].max(initial=0)))
            for (name, size), results in zip(self._sizes.items(), self.results)
        }
        milliseconds = {stage: float(t * unit) for stage, t in zip(self._stages, self._ticks)}
        solve = self.implicit.solve if self.plan.net is not None else None
        if self.plan.model.touching is None:
            return Outcome(not self._flaws.any(), residual, milliseconds, self._threads, solve=solve)
        found = self.contacts
        milliseconds["detect"], milliseconds["recolor"] = found.milliseconds, found.recoloring
        counts = Touches(found.count, found.colors, found.overflow, found.detector.times_grown)
        return Outcome(not self._flaws.any(), residual, milliseconds, self._threads, counts, solve)

    def run_bare(self, schedule: np.ndarray) -> None:
        """Only the sweeps of a schedule, with the motion of the last run: what benchmarks compare."""
        region.run(self._table, schedule, len(self._stages), self.team.most)

    def take_back(self) -> None:
        """Return to the state before the last run."""
        self.state.put_back(*self._kept)

    def close(self) -> None:
        """Let go of all arrays now, since what refers to each other waits until somebody looks for such circles."""
        for one in [one for one in vars(self).values() if getattr(one, "sweeps", None) is self]:
            vars(one).clear()
        vars(self).clear()

    def sweep(
        self, stage: str, kernel, first: int, last: int, *arguments, least: int | None = None, grain: int = 1
    ) -> int:
        """A new row of the table: a kernel, its items, and the arrays and whole numbers that it reads.

        least: so many items are worth a portion of their own, which another thread may take.
        grain: so many items belong to the same thread, before others help.
        """
        least = region.LEAST_PORTION if least is None else least
        if stage not in self._stages:
            self._stages.append(stage)
        self._alive.append(arguments)
        self._rows.append(_row(self._stages.index(stage), least, grain, kernel, first, last, arguments))
        return len(self._rows) - 1

    def replace(self, token: int, kernel, first: int, last: int, *arguments) -> None:
        """Give a sweep other items or arrays."""
        self._alive[token] = arguments
        stage, least, grain = self._rows[token][3:6]
        self._rows[token] = _row(stage, least, grain, kernel, first, last, arguments)
        if token < len(self._table):
            self._table[token] = self._rows[token]

    def replace_all(self, tokens: Sequence[int], kernel, firsts: np.ndarray, lasts: np.ndarray, *arguments) -> None:
        """The same for sweeps that differ in their items only: arrays are looked up once."""
        addresses = _row(0, 0, 1, kernel, 0, 0, arguments)[-1]
        for token, first, last in zip(tokens, firsts, lasts):
            self._alive[token] = arguments
            self._rows[token] = kernel.address, first, last, *self._rows[token][3:6], addresses
        if tokens and max(tokens) < len(self._table):
            changed, chosen = self._table, list(tokens)
            changed["kernel"][chosen], changed["addresses"][chosen] = kernel.address, addresses
            changed["first"][chosen], changed["last"][chosen] = firsts, lasts


def _row(stage: int, least: int, grain: int, kernel, first: int, last: int, arguments: tuple) -> tuple:
    addresses = region.addresses_of(arguments)
    return kernel.address, first, last, stage, least, grain, addresses + [0] * (region.ARGUMENTS - len(addresses))


BACKENDS = {"cpu": CpuSweeps}

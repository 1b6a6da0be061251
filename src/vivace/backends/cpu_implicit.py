"""The implicit step of a net of springs on the fast backend."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.conjugate import (
    BALANCE,
    FALL,
    NEXT,
    descend_kernel,
    measure_kernel,
    multiply_kernel,
    start_kernel,
    sum_kernel,
)
from ..kernels.early import follow_kernel, forget_kernel, in_turn_kernel, once_kernel, pair_kernel, rest_kernel
from ..kernels.flight import (
    accelerate_kernel,
    arrive_kernel,
    energy_kernel,
    offer_kernel,
    settle_kernel,
    shorten_kernel,
)
from ..kernels.implicit import (
    AXES,
    COEFFICIENTS,
    COUNT,
    DONE,
    FIRST,
    INVERSE_VALUES,
    LEAST,
    MEASURE,
    NUMBERS,
    TOLERANCE,
    assemble_kernel,
    firm_kernel,
    weigh_kernel,
)
from ..kernels.lanes import WIDTH
from ..kernels.region import addresses_of
from ..state import aligned
from . import Solve
from .guard import shorten_until_balanced
from .turns import Turns, turns_of

if TYPE_CHECKING:
    from .cpu import CpuSweeps

SUMS, SEARCHED = 5, 4  # partial sums of each block, at most, and of an iteration
COUNTS = 3  # of each block: what has been done to it, and what has been begun and ended before that
Call = tuple[int, np.ndarray]  # what a kernel needs to call another: its address, and its list of addresses


@dataclass(frozen=True, eq=False)
class Chain:
    """What is done block by block: the second kernel on a block, when the first has seen it and those next to it."""

    stage: str
    idle: np.ndarray  # not 0 where nothing is to be done
    first: Call
    second: Call


class CpuImplicit:
    """See `ImplicitSweeps`. Tokens are rows of the table of the backend's other sweeps."""

    def __init__(self, sweeps: "CpuSweeps"):
        net, rows = sweeps.plan.net, sweeps.predicted.shape
        assert net is not None
        self.sweeps, self.net = sweeps, net
        self.eights = net.eights
        self.springs = net.bounds, net.neighbors, net.kinds, net.strengths, net.rests
        self.ends = net.dues.outside, net.dues.targets, net.dues.starts, net.dues.reach
        self.claims = net.dues.claims, net.dues.claim_starts
        self.coefficients = aligned((len(net.neighbors), COEFFICIENTS, WIDTH), np.float64)
        self.firmness = aligned((len(net.strengths), WIDTH), np.float64)
        # Behind the rows: dues, of the product always, of the others while the matrix is assembled; later they have
        # copies there.
        both = max(rows[0], net.rows + net.dues.count), 4
        self.product, self.direction, self.change = (aligned(both, np.float64) for _ in range(3))
        self.sums = self.product, self.direction, self.change  # while the matrix is assembled
        self.residual = aligned((net.rows // WIDTH, AXES, WIDTH), np.float64)
        self.partial, self.numbers = np.zeros((SUMS, net.total)), np.zeros(NUMBERS)
        self.debtors, self.creditors = net.dues.debtors(), net.dues.creditors()
        self.counts = np.zeros((COUNTS, len(net.ids) + 1), np.int64)  # those of blocks elsewhere stay 0
        self.early = np.zeros(len(net.ids), np.int32)  # which blocks need not wait until all others are done
        self.wind, self.drag = aligned((4,)), aligned((rows[0],))
        self.drag[: net.rows] = net.drag
        self.has_measured = False  # what is left of springs, along with their energy
        self._alive: list[tuple] = []
        state, eights = sweeps.state, rows[0] // WIDTH
        fine = state.fine_velocities, state.fine_positions
        shown = state.positions, state.velocities
        ahead = self.direction, sweeps.motion  # nobody needs the last direction then
        self._share, whole = np.ones(1), np.ones(1)
        self._shorten = self._row("integrate", shorten_kernel(), eights, *fine, self._share, *ahead)
        # Behind the rows of blocks there are copies, and what fills up the last eight.
        behind = net.rows // WIDTH, eights
        self._predict_behind = sweeps.sweep("integrate", shorten_kernel(), *behind, *fine, whole, *ahead)
        self._arrive = self._row("integrate", arrive_kernel(), eights, *fine, self.direction, *shown)
        self._offer = self._row("integrate", offer_kernel(), eights, self.direction, sweeps.predicted)
        self._settle = self._row("integrate", settle_kernel(), eights, *fine, sweeps.predicted, *shown, sweeps.motion)
        accelerate = accelerate_kernel(), *fine, self.change, *ahead, self.numbers, self.eights
        self._accelerate = self._blocks("integrate", *accelerate)
        weighed = self.direction, state.fine_velocities, sweeps.motion, self.eights, net.ids
        sums = net.total, self.partial, self.drag, self.wind, sweeps.results[0]
        energy = energy_kernel(), *weighed, *self.springs, *sums
        self._energy = self._blocks("energy", *energy)
        self.flight = Chain("energy", np.zeros(1), self._call(*accelerate), self._call(*energy))
        self._land = self._blocks("energy", forget_kernel(), self.counts, *self.counts.shape)
        springs = net.strengths, sweeps.motion, self.firmness
        self._firm = sweeps.sweep("assemble", firm_kernel(), 0, len(net.strengths), *springs)
        self._sum, self.inverses = cache(self._make_sum), cache(self._make_inverses)
        self._assemble, self._measure = cache(self._make_assemble), cache(self._make_measure)
        self.search, self.measure_rest = cache(self._make_search), cache(self._make_measure_rest)
        self.turns, self.follow = cache(self._make_turns), cache(self._make_follow)

    def assemble(self, tolerance: float, by_blocks: bool) -> Sequence[Any]:
        self.numbers[TOLERANCE] = max(tolerance, LEAST)
        assemble, weigh_rest = self._assemble(by_blocks)
        return [self._firm, assemble, *self.pay(), weigh_rest, *self.reduce(FALL, SUMS)]

    def pay(self) -> Sequence[Any]:
        """Bring dues of the sums to where they are claimed: here they are there."""
        return []

    def iterate(self, by_blocks: bool, first: bool) -> Sequence[Any]:
        every = self.follow(self.search(by_blocks, first), 0, len(self.net.ids))
        return [every, self.measure_rest(by_blocks), *self.reduce(NEXT, SEARCHED)]

    def accelerate(self, guarded: bool) -> Sequence[Any]:
        self.has_measured = guarded
        if not guarded:
            return [self._accelerate, self._predict_behind]
        return [self._predict_behind, self.follow(self.flight, 0, len(self.net.ids)), *self.balance()]

    def balance(self) -> Sequence[Any]:
        """Shorten the step, if it would gain energy out of nothing."""
        return [self._land, *self.reduce(BALANCE, 2), self._mind_energy]

    def _mind_energy(self) -> None:
        shorten_until_balanced(self.numbers, self._share, lambda: self.sweeps.advance(self._shorter()))

    def _shorter(self) -> Sequence[Any]:
        return [self._shorten, self._energy, *self.reduce(BALANCE, 2)]

    def offer(self) -> Sequence[Any]:
        return [self._offer]

    def settle(self, pushed: bool) -> Sequence[Any]:
        self.has_measured = self.has_measured and not pushed
        return [self._settle if pushed else self._arrive]

    def reduce(self, what: int, sums: int) -> Sequence[Any]:
        return [self._sum(what)]

    @property
    def solve(self) -> Solve:
        first = self.numbers[FIRST]
        return Solve(int(self.numbers[COUNT]), float(np.sqrt(self.numbers[MEASURE] / first)) if first > 0 else 0.0)

    def _row(self, stage: str, kernel: Any, last: int, *arguments: Any) -> int:
        return self.sweeps.sweep(stage, kernel, 0, last, *arguments, grain=self.net.rows_of_a_block // WIDTH)

    def _blocks(self, stage: str, kernel: Any, *arguments: Any) -> int:
        return self.sweeps.sweep(stage, kernel, 0, len(self.net.ids), *arguments, least=1)

    def _call(self, kernel: Any, *arguments: Any) -> Call:
        listed = np.array(addresses_of(arguments))
        self._alive.append((arguments, listed))
        return kernel.address, listed

    def _pair(self, one: Call, other: Call) -> tuple:
        return pair_kernel(), *one, *other, *self.debtors, self.counts, self.early

    def _rest(self, stage: str, other: Call) -> int:
        return self._blocks(stage, rest_kernel(), self.counts, *self.counts.shape, self.early, *other)

    def _make_follow(self, chain: Chain, first: int, last: int) -> int:
        turns = self.turns(first, last)
        arrays = chain.idle, turns.needed, turns.bounds, *self._once(chain), *chain.second, turns.order
        return self.sweeps.sweep(chain.stage, follow_kernel(), 0, len(turns.order), *arrays, least=1)

    def _make_turns(self, first: int, last: int) -> Turns:
        return turns_of(self.creditors, self.debtors, first, last, self.sweeps.team.most)

    def lead(self, chain: Chain, blocks: np.ndarray) -> int:
        """A sweep of the first kernel on some blocks alone, which are then done with it."""
        arrays = chain.idle, blocks, *self._once(chain)
        return self.sweeps.sweep(chain.stage, once_kernel(), 0, len(blocks), *arrays, least=1)

    def _once(self, chain: Chain) -> tuple:
        return *chain.first, self.counts[1], self.counts[2]

    def _make_sum(self, what: int) -> int:
        return self._row("solve", sum_kernel(what), 1, self.partial, self.net.total, self.numbers)

    def _make_inverses(self, by_blocks: bool) -> np.ndarray:
        """Of each particle's own block of the matrix, or of its mass."""
        eights = self.net.rows // WIDTH
        return aligned((eights, INVERSE_VALUES, WIDTH)) if by_blocks else aligned((eights, WIDTH), np.float64)

    def _make_assemble(self, by_blocks: bool) -> tuple[int, int]:
        """Two sweeps: one assembles the matrix and weighs what it can, the other weighs the rest."""
        state, net, inverses = self.sweeps.state, self.net, self.inverses(by_blocks)
        rows = state.fine_positions, state.fine_velocities, self.sweeps.motion, self.eights, net.ids
        springs = *self.springs, *self.ends, self.coefficients, *self.sums, net.total, self.partial, self.firmness
        masses = *self.claims, *self.sums, self.residual, inverses, net.total, self.partial, self.drag, self.wind
        assemble = self._call(assemble_kernel(), *rows, *springs)
        weigh = self._call(weigh_kernel(by_blocks), *rows, *masses)
        both, order = self._call(*self._pair(assemble, weigh)), self.turns(0, len(net.ids)).order
        return self._blocks("assemble", in_turn_kernel(), *both, order), self._rest("assemble", weigh)

    def _make_search(self, by_blocks: bool, first: bool) -> Chain:
        """The step of the last iteration, or from the fall; then a product of the matrix, measured if it can be."""
        vectors = self.residual, self.product, self.direction, self.change
        arrays = self.eights, self.net.ids, self.partial, self.numbers, self.inverses(by_blocks), self.sweeps.motion
        step = self._call(start_kernel(by_blocks) if first else descend_kernel(by_blocks), *vectors, *arrays)
        rows, springs = (self.direction, self.product, self.eights, self.net.ids), (self.net.bounds, self.net.neighbors)
        sums = self.coefficients, self.net.total, self.partial
        multiply = self._call(multiply_kernel(), *rows, *springs, *self.ends, *sums, self.net.kinds, self.firmness)
        product = self._call(*self._pair(multiply, self._measure(by_blocks)))
        return Chain("solve", self.numbers[DONE:], step, product)

    def _make_measure(self, by_blocks: bool) -> Call:
        rows = self.residual, self.product, self.eights, self.net.ids
        sums = self.inverses(by_blocks), self.net.total, self.partial, self.numbers
        return self._call(measure_kernel(by_blocks), *rows, *self.claims, *sums)

    def _make_measure_rest(self, by_blocks: bool) -> int:
        return self._rest("solve", self._measure(by_blocks))

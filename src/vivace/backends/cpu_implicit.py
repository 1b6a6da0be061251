"""The implicit step of a net of springs on the fast backend."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

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
    BALANCE,
    BEGIN,
    COEFFICIENTS,
    COUNT,
    FALL,
    FIRST,
    INVERSE_VALUES,
    LEAST,
    LENGTH,
    MEASURE,
    NEXT,
    NUMBERS,
    TOLERANCE,
    assemble_and_weigh_kernel,
    assemble_kernel,
    descend_kernel,
    multiply_kernel,
    start_kernel,
    sum_kernel,
    turn_kernel,
    weigh_kernel,
    weigh_rest_kernel,
)
from ..kernels.lanes import WIDTH
from ..kernels.region import addresses_of
from ..state import aligned
from . import Solve
from .guard import shorten_until_balanced

if TYPE_CHECKING:
    from .cpu import CpuSweeps

SUMS = 5  # partial sums of each block, at most


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
        # Behind the rows: dues, of the product always, of the others while the matrix is assembled; later they have
        # copies there.
        both = max(rows[0], net.rows + net.dues.count), 4
        self.product, self.direction, self.change = (aligned(both, np.float64) for _ in range(3))
        self.sums = self.product, self.direction, self.change  # while the matrix is assembled
        self.residual = aligned((net.rows // WIDTH, AXES, WIDTH), np.float64)
        self.partial, self.numbers = np.zeros((SUMS, net.total)), np.zeros(NUMBERS)
        self.weighed = np.zeros(len(net.ids), np.int32)  # which blocks need not be after all are assembled
        self.wind, self.drag = aligned((4,)), aligned((rows[0],))
        self.drag[: net.rows] = net.drag
        state, eights = sweeps.state, rows[0] // WIDTH
        fine = state.fine_velocities, state.fine_positions
        shown = state.positions, state.velocities
        ahead = self.direction, sweeps.motion  # nobody needs the last direction then
        self._share = np.ones(1)
        self._accelerate = self._row("integrate", accelerate_kernel(), eights, *fine, self.change, *ahead, self.numbers)
        self._shorten = self._row("integrate", shorten_kernel(), eights, *fine, self._share, *ahead)
        self._arrive = self._row("integrate", arrive_kernel(), eights, *fine, self.direction, *shown)
        self._offer = self._row("integrate", offer_kernel(), eights, self.direction, sweeps.predicted)
        self._settle = self._row("integrate", settle_kernel(), eights, *fine, sweeps.predicted, *shown, sweeps.motion)
        self._sum, self.inverses = cache(self._make_sum), cache(self._make_inverses)
        self._assemble, self._energy = cache(self._make_assemble), cache(self._make_energy)
        self._start, self._descend = cache(self._make_start), cache(self._make_descend)
        self._turn = cache(self._make_turn)
        self.multiplication = cache(self._make_multiply)

    def assemble(self, tolerance: float, by_blocks: bool) -> Sequence[Any]:
        self.numbers[TOLERANCE] = max(tolerance, LEAST)
        assemble, weigh_rest = self._assemble(by_blocks)
        begin = [assemble, *self.pay(), weigh_rest, *self.reduce(FALL, SUMS)]
        return [*begin, self._start(by_blocks), *self.reduce(BEGIN)]

    def pay(self) -> Sequence[Any]:
        """Bring dues of the sums to where they are claimed: here they are there."""
        return []

    def multiply(self) -> Sequence[Any]:
        return [self.multiplication(0, len(self.net.ids)), *self.reduce(LENGTH)]

    def descend(self, by_blocks: bool) -> Sequence[Any]:
        return [self._descend(by_blocks), *self.reduce(NEXT)]

    def turn(self, by_blocks: bool) -> Sequence[Any]:
        return [self._turn(by_blocks)]

    def accelerate(self) -> Sequence[Any]:
        return [self._accelerate]

    def balance(self) -> Sequence[Any]:
        return [*self._measure_energy(), self._mind_energy]

    def _measure_energy(self) -> Sequence[Any]:
        return [self._energy(), *self.reduce(BALANCE, 2)]

    def _mind_energy(self) -> None:
        shorten_until_balanced(self.numbers, self._share, lambda: self.sweeps.advance(self._shorter()))

    def _shorter(self) -> Sequence[Any]:
        return [self._shorten, *self._measure_energy()]

    def offer(self) -> Sequence[Any]:
        return [self._offer]

    def settle(self, pushed: bool) -> Sequence[Any]:
        return [self._settle if pushed else self._arrive]

    def reduce(self, what: int, sums: int = 1) -> Sequence[Any]:
        return [self._sum(what)]

    @property
    def solve(self) -> Solve:
        first = self.numbers[FIRST]
        return Solve(int(self.numbers[COUNT]), float(np.sqrt(self.numbers[MEASURE] / first)) if first > 0 else 0.0)

    def _row(self, stage: str, kernel: Any, last: int, *arguments: Any) -> int:
        return self.sweeps.sweep(stage, kernel, 0, last, *arguments)

    def _blocks(self, stage: str, kernel: Any, *arguments: Any) -> int:
        return self.sweeps.sweep(stage, kernel, 0, len(self.net.ids), *arguments, least=1)

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
        springs = *self.springs, *self.ends, self.coefficients, *self.sums, net.total, self.partial
        masses = *self.claims, *self.sums, self.residual, inverses, net.total, self.partial, self.drag, self.wind
        assemble = assemble_kernel().address, np.array(addresses_of((*rows, *springs)))
        weigh = weigh_kernel(by_blocks).address, np.array(addresses_of((*rows, *masses)))
        counts = np.zeros(len(net.ids) + 1, np.int64)  # that of blocks elsewhere stays 0
        both = *assemble, *weigh, *net.dues.debtors(), counts, self.weighed
        return (
            self._blocks("assemble", assemble_and_weigh_kernel(), *both),
            self._blocks("assemble", weigh_rest_kernel(), *weigh, self.weighed),
        )

    def _make_energy(self) -> int:
        net = self.net
        ends = self.direction, self.sweeps.state.fine_velocities, self.sweeps.motion, self.eights, net.ids
        arrays = *self.springs, net.total, self.partial, self.drag, self.wind
        return self._blocks("energy", energy_kernel(), *ends, *arrays)

    def _make_start(self, by_blocks: bool) -> int:
        vectors = self.residual, self.product, self.direction
        arrays = self.eights, self.net.ids, self.partial, self.numbers, self.inverses(by_blocks)
        return self._blocks("solve", start_kernel(by_blocks), *vectors, *arrays)

    def _make_multiply(self, first: int, last: int) -> int:
        vectors, springs = (self.direction, self.product), (self.net.bounds, self.net.neighbors)
        arrays = self.eights, self.net.ids, *springs, *self.ends, self.coefficients, self.partial, self.numbers
        return self.sweeps.sweep("solve", multiply_kernel(), first, last, *vectors, *arrays, least=1)

    def _make_descend(self, by_blocks: bool) -> int:
        arrays = self.eights, self.net.ids, self.partial, self.numbers, self.inverses(by_blocks), *self.claims
        return self._blocks("solve", descend_kernel(by_blocks), self.residual, self.product, *arrays)

    def _make_turn(self, by_blocks: bool) -> int:
        arrays = self.residual, self.eights, self.numbers, self.inverses(by_blocks), self.sweeps.motion
        return self._blocks("solve", turn_kernel(by_blocks), self.direction, self.change, *arrays)

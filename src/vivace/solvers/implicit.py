"""Implicit Euler on a net of springs, solved by conjugate gradients (Baraff and Witkin 1998; Zara et al. 2002)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from .. import checks
from ..backends import Sweeps
from ..decomposition import DECOMPOSITIONS, decomposed
from ..model import Model
from ..plan import Plan, make_plan
from ..springs import check_springs, in_one_batch, make_net
from .base import contact_sweeps, passes

# How often colliders push in a substep: where two meet, one may push into the other. And contacts between soft things,
# times their passes.
COLLIDER_ROUNDS, CONTACT_ROUNDS = 2, 4


@dataclass(frozen=True)
class ImplicitEuler:
    """Iterations are those of conjugate gradients; paper 004 has 5.

    tolerance: end them when the residual has fallen to this share of the first; 0 does all until nothing is left
        (1e-20).
    preconditioner: "block-jacobi" divides the residual by each particle's own 3x3 block of the matrix; "mass" by its
        mass alone, as the paper's method does where all masses are equal. That takes many more iterations: with too
        few, cloth sinks as if in honey.
    guarded: shorten a step that would gain energy out of nothing, until it does not. That happens where steps are long
        and springs stiff; then all that is free slows down for a moment.
    blocks: the particles are split into at most so many; by default about 128, of 512 to 2048 particles each, or more
        where that would be more than 1024 blocks. Sums go block by block, so another number of them rounds otherwise.
    decomposition: what makes the blocks. "halves" halves the particles across their longest side, again and again;
        "metis" has METIS split the graph of springs (extra `mpi`), for smaller borders on many ranks. Either gives the
        same blocks, and so the same bits, on any number of ranks.
    """

    tolerance: float = 0.0
    preconditioner: str = "block-jacobi"
    guarded: bool = True
    blocks: int | None = None
    decomposition: str = "halves"

    MATERIALS: ClassVar[tuple[str, ...]] = ("springs",)
    PROMISES_RESIDUAL: ClassVar[bool] = False
    KEEPS_MOMENTUM: ClassVar[bool] = False
    BEARS_BLOCKS: ClassVar[bool] = False
    TAKES_AIR: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.number("tolerance", self.tolerance, 0)
        checks.choice("preconditioner", self.preconditioner, ("mass", "block-jacobi"))
        if self.blocks is not None:
            checks.whole("blocks", self.blocks, 1)
        checks.choice("decomposition", self.decomposition, DECOMPOSITIONS)

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan:
        check_springs(model, "implicit")
        order, starts = decomposed(model, self.blocks, self.decomposition)
        plan = make_plan(model, in_one_batch, order=order)
        return replace(plan, net=make_net(model, order, plan.row_of, starts))

    def schedule(self, sweeps: Sweeps, iterations: int, substeps: int) -> Iterator[Any]:
        """(M - h df/dv - h^2 df/dx) dv = h (f + h df/dx v), then x += h v (paper 004, eq. 1 and implementation 4).

        Colliders, contacts and held points then act on the positions, as after an iteration of the other solvers.
        """
        implicit, by_blocks = sweeps.implicit, self.preconditioner == "block-jacobi"
        detect, contacts = contact_sweeps(sweeps)
        surfaces = [sweeps.collide(i) for i in range(len(sweeps.plan.model.surfaces))]
        rounds = CONTACT_ROUNDS * passes(sweeps) if contacts else COLLIDER_ROUNDS
        for _ in range(substeps):
            yield from implicit.assemble(self.tolerance, by_blocks)
            for iteration in range(iterations):
                yield from implicit.iterate(by_blocks, iteration == 0)
                if (yield):  # None: here the clock may be looked at; the answer is whether the time is up
                    break
            yield from implicit.accelerate(self.guarded)
            pushes = [*sweeps.holds.hold(), *contacts, *surfaces]
            if pushes:
                yield from [*implicit.offer(), *sweeps.holds.advance(), *sweeps.advance_colliders()]
                yield from [*sweeps.stop_at_colliders(), *detect, *rounds * pushes, *sweeps.stop_at_colliders()]
            yield from implicit.settle(bool(pushes))


SOLVERS = {"implicit": ImplicitEuler}

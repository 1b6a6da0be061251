"""PBD and XPBD vertex by vertex in NumPy."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..kernels.visit import asked, pushed, settled
from ..plan import strengths

if TYPE_CHECKING:
    from .reference import ReferenceSweeps

Sweep = Callable[[], None]


class ReferenceVisits:
    """See `VisitSweeps`. Tokens are functions without arguments."""

    def __init__(self, sweeps: "ReferenceSweeps"):
        assert sweeps.plan.coloring is not None
        self.sweeps, self.coloring = sweeps, sweeps.plan.coloring
        self.colors = self.coloring.colors
        self.aims = sweeps.predicted.copy()
        self.moves, self.forces = np.zeros_like(self.aims), np.zeros_like(self.aims)
        self.compliant = any(planned.compliance is not None for planned in sweeps.plan.groups)

    def aim(self) -> None:
        self.aims[:] = self.sweeps.predicted

    def visit(self, group: int, color: int) -> Sweep:
        return partial(self._visit, group, color)

    def order_by(self, colors: np.ndarray, count: int) -> None:
        self.colors = colors

    def _visit(self, group: int, color: int) -> None:
        chosen = np.flatnonzero(self.colors == color)
        planned, x = self.sweeps.plan.groups[group], self.sweeps.predicted
        which, corner = np.nonzero(np.isin(planned.vertices, chosen))
        particles = planned.vertices[which, corner]
        corners = tuple(tuple(x[planned.vertices[which, c]].T) for c in range(planned.vertices.shape[1]))
        rest = planned.rest[which]
        value, gradients, factor = planned.group.constraint.value_gradient(
            corners, rest if rest.ndim == 1 else tuple(rest.T)
        )
        strength, place = strengths(planned)[which], corner.astype(np.float32)
        if planned.compliance is None:
            parts, sums = asked(value, gradients, corners, place, x[particles, 3], strength), self.moves
        else:
            parts, sums = pushed(value, gradients, factor, place, strength), self.forces
        total = np.zeros_like(sums)
        np.add.at(total, particles, np.stack(np.broadcast_arrays(*parts), axis=1))
        if planned.compliance is None:
            total[:, :3] /= np.maximum(total[:, 3:], 1)
        sums += total

    def settle(self, color: int, omega: float) -> Sweep:
        def move() -> None:
            chosen = np.flatnonzero(self.colors == color)
            rows = [tuple(a[chosen].T) for a in (self.sweeps.predicted, self.aims, self.moves, self.forces)]
            made = settled(*rows, self.sweeps.step**2, np.float32(omega), np.float32(self.compliant))
            self.sweeps.predicted[chosen] = np.stack(made, axis=1)
            self.moves[chosen] = self.forces[chosen] = 0

        return move

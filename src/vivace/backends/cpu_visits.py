"""PBD and XPBD vertex by vertex on the fast backend."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.integrate import copy_kernel
from ..kernels.lanes import WIDTH
from ..kernels.visit import settle_kernel, visit_kernel
from ..layout import Incident, blocks_of
from ..plan import strengths
from ..state import aligned

if TYPE_CHECKING:
    from .cpu import CpuSweeps


class CpuVisits:
    """See `VisitSweeps`. Tokens are rows of the table of the backend's other sweeps."""

    def __init__(self, sweeps: "CpuSweeps"):
        assert sweeps.plan.coloring is not None
        self.sweeps, self.coloring = sweeps, sweeps.plan.coloring
        self.aims = aligned(sweeps.predicted.shape)
        self.moves = self.forces = aligned((0, 4))
        self._colors: np.ndarray | None = None
        self._incident = cache(self._make_incident)
        self._laid_out: dict[int, tuple[np.ndarray, ...]] = {}  # the columns of each group, in the present order
        self._tokens: dict[tuple, dict[int, int]] = {}  # for each kind of sweep the token of each color
        self.order_by(self.coloring.colors, self.coloring.count)
        pairs = len(sweeps.predicted) // 2
        self.aim = sweeps.sweep("integrate", copy_kernel(), 0, pairs, self.aims, sweeps.predicted)
        self.compliant = any(planned.compliance is not None for planned in sweeps.plan.groups)
        self.visit: Callable[..., Any] = cache(self._visit)
        self.settle = cache(self._settle)

    def order_by(self, colors: np.ndarray, count: int) -> None:
        """Visit particles in the order of these colors, until told otherwise; some of the `count` may be empty."""
        if colors is self._colors:
            return
        self._colors = colors
        self.first_block, self.particles = blocks_of(colors, count)
        if self.particles.size > len(self.moves):
            rows = self.particles.size + WIDTH * count  # more colors may leave more blocks partly filled
            self.moves, self.forces = aligned((rows, 4)), aligned((rows, 4))
        self._laid_out.clear()
        for kind, tokens in self._tokens.items():
            ranges = np.array([self._range(color) for color in tokens])
            kernel, *arguments = self._visiting(*kind) if len(kind) == 1 else self._settling(*kind[1:])
            self.sweeps.replace_all(list(tokens.values()), kernel, *ranges.T, *arguments)

    def _range(self, color: int) -> tuple[int, int]:
        """Of the blocks of a color; a schedule may have more colors than there are."""
        first_block = self.first_block
        return (first_block[color], first_block[color + 1]) if color + 1 < len(first_block) else (0, 0)

    def _columns(self, group: int) -> tuple[np.ndarray, ...]:
        """What visits to a group's constraints read, for the present order."""
        if group not in self._laid_out:
            made = self._incident(group).lay_out(self.particles)
            self._laid_out[group] = made.bounds, made.members, made.corners, made.rest, made.strengths
        return self._laid_out[group]

    def _make_incident(self, group: int) -> Incident:
        planned = self.sweeps.plan.groups[group]
        count = self.sweeps.plan.model.particle_count
        return Incident(planned.vertices, planned.rest, strengths(planned), count)

    def _visit(self, group: int, color: int) -> int:
        kernel, *arguments = self._visiting(group)
        name = self.sweeps.plan.groups[group].group.name
        token = self.sweeps.sweep(name, kernel, *self._range(color), *arguments)
        self._tokens.setdefault((group,), {})[color] = token
        return token

    def _visiting(self, group: int) -> tuple:
        planned = self.sweeps.plan.groups[group]
        compliant = planned.compliance is not None
        sums = self.forces if compliant else self.moves
        kernel = visit_kernel(planned.group.constraint, compliant)
        return kernel, self.sweeps.predicted, self.particles, *self._columns(group), sums

    def _settle(self, color: int, omega: float) -> int:
        kernel, *arguments = self._settling(omega)
        token = self.sweeps.sweep("relax", kernel, *self._range(color), *arguments)
        self._tokens.setdefault(("settle", omega), {})[color] = token
        return token

    def _settling(self, omega: float) -> tuple:
        options = np.array([omega, self.compliant], np.float32)
        rows = self.sweeps.predicted, self.aims, self.particles
        return settle_kernel(), *rows, self.moves, self.forces, self.sweeps.motion, options

"""Projective Dynamics on the fast backend: sweeps over particles of one color, and the local step before them."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..coloring import Coloring
from ..factor import factored
from ..kernels.direct import solve_kernel
from ..kernels.integrate import copy_kernel
from ..kernels.lanes import WIDTH
from ..kernels.relax import IMBALANCE, RELAX, blend_kernel, extrapolate_kernel, pull_kernel, relax_kernel
from ..kernels.rows import in_blocks
from ..layout import Layout, lay_out
from ..state import aligned

if TYPE_CHECKING:
    from .cpu import CpuSweeps


class CpuSystem:
    """See `SystemSweeps`. Tokens are rows of the table of the backend's other sweeps."""

    def __init__(self, sweeps: "CpuSweeps"):
        assert sweeps.plan.system is not None and sweeps.plan.coloring is not None
        self.sweeps, self.system = sweeps, sweeps.plan.system
        shape = sweeps.predicted.shape
        self.aims, self.new, self.earlier = aligned(shape), aligned(shape), (aligned(shape), aligned(shape))
        self.pulls = aligned((self.system.pull_count, 4))
        self.layout: Layout | None = None
        self.coloring = sweeps.plan.coloring
        self._colors: np.ndarray | None = None
        self._visits: dict[float, dict[int, int]] = {}  # for each omega the token of each color
        self._pairs = shape[0] // 2
        self._factor_step = 0.0
        self.aim = self._copy(self.aims, sweeps.predicted)
        self.project: Callable[..., Any] = cache(self._project)
        self.relax: Callable[..., Any] = cache(self._relax)
        self.relax_apart = cache(self._relax_apart)
        self.remember, self._extrapolate_at = cache(self._remember), cache(self._extrapolation)
        self.blend, self.solve = cache(self._blend), cache(self._solve)
        self.color_by(self.coloring)

    def color_by(self, coloring: Coloring) -> None:
        """Visit particles in the order of this coloring from now on."""
        self.coloring = coloring
        self.order_by(coloring.colors, coloring.count)

    def order_by(self, colors: np.ndarray, count: int) -> None:
        """Visit particles in the order of these colors, until told otherwise; some of the `count` may be empty."""
        if colors is self._colors:
            return
        self._colors = colors
        self.layout = lay_out(self.system, colors, count, self.layout)
        for omega, tokens in self._visits.items():
            kernel, _, _, *arguments = self._visit(0, omega)
            ranges = np.array([self._range(color) for color in tokens])
            self.sweeps.replace_all(list(tokens.values()), kernel, *ranges.T, *arguments)

    def _copy(self, target: np.ndarray, source: np.ndarray) -> int:
        return self.sweeps.sweep("integrate", copy_kernel(), 0, self._pairs, target, source)

    def _project(self, group: int) -> int:
        planned = self.sweeps.plan.groups[group]
        size, arity = planned.vertices.shape
        order = np.append(np.arange(size), np.full(-size % WIDTH, size - 1))
        first = self.system.first_pulls[group]
        assert planned.compliance is not None
        return self.sweeps.sweep(
            planned.group.name,
            pull_kernel(planned.group.constraint, self.system.pulls_by_difference(arity)),
            0,
            len(order) // WIDTH,
            self.sweeps.predicted,
            np.ascontiguousarray(planned.vertices[order], np.int32),
            in_blocks(planned.rest[order].astype(np.float32)),
            np.ascontiguousarray(1 / planned.compliance[order], np.float32),
            self.pulls[first : first + len(order) * arity],
        )

    def _relax(self, color: int, omega: float = 1.0) -> int:
        token = self.sweeps.sweep("relax", *self._visit(color, omega))
        self._visits.setdefault(omega, {})[color] = token
        return token

    def _range(self, color: int) -> tuple[int, int]:
        """Of the blocks of a color; a schedule may have more colors than there are."""
        assert self.layout is not None
        first_block = self.layout.first_block
        return (first_block[color], first_block[color + 1]) if color + 1 < len(first_block) else (0, 0)

    def _visit(self, color: int, omega: float) -> tuple:
        return self._over(*self._range(color), self.sweeps.predicted, omega, RELAX)

    def _relax_apart(self) -> int:
        assert self.layout is not None
        return self.sweeps.sweep("relax", *self._over(0, self.layout.first_block[-1], self.new, 1.0, RELAX))

    def _over(self, first: int, last: int, target: np.ndarray, omega: float, what: int) -> tuple:
        """A relaxing sweep over some blocks."""
        layout, folded = self.layout, self.system.folded
        assert layout is not None
        constraint = None if folded is None else self.sweeps.plan.groups[folded].group.constraint
        alike = self.system.one_stiffness
        return (
            relax_kernel(constraint),
            first,
            last,
            self.sweeps.predicted,
            target,
            self.aims,
            layout.particles,
            layout.bounds,
            layout.neighbors,
            layout.weights,
            layout.stiffness if alike is None else np.full(WIDTH, alike, np.float32),
            layout.rest,
            layout.pulls,
            self.pulls,
            layout.diagonal,
            self.sweeps.motion,
            np.array([omega], np.float32),
            what,
            self.system.weighted_springs,
            alike is None,
        )

    def _remember(self) -> int:
        return self._copy(self.earlier[0], self.sweeps.predicted)

    def extrapolate(self, turn: int, omega: float) -> int:
        return self._extrapolate_at(turn if turn < 2 else 2 + turn % 2, omega)

    def _extrapolation(self, turn: int, omega: float) -> int:
        """Turn 1 goes on from turn 0, later ones from two turns before, in whose place they are kept."""
        return self.sweeps.sweep(
            "relax",
            extrapolate_kernel(),
            0,
            self._pairs,
            self.sweeps.predicted,
            self.earlier[0 if turn == 1 else turn % 2],
            self.earlier[turn % 2],
            np.array([omega], np.float32),
        )

    def _blend(self, omega: float, gamma: float) -> int:
        return self.sweeps.sweep(
            "relax",
            blend_kernel(),
            0,
            self._pairs,
            self.sweeps.predicted,
            self.new,
            self.earlier[0],
            np.array([omega, gamma], np.float32),
        )

    def _solve(self) -> tuple[int, int]:
        """Two sweeps: what is out of balance, and the solve that brings it to zero."""
        assert self.layout is not None
        self._factor_step = self.sweeps.step
        made = factored(self.system, self.sweeps.plan.inverse_masses, self._factor_step)
        self._factor = made
        balance = self.sweeps.sweep("relax", *self._over(0, self.layout.first_block[-1], self.new, 1.0, IMBALANCE))
        solve = self.sweeps.sweep(
            "solve",
            solve_kernel(),
            0,
            1,
            self.sweeps.predicted,
            self.new,
            aligned((max(len(made.particles), 1), 4)),
            made.particles,
            made.starts,
            made.rows,
            made.entries,
            made.inverse_diagonal,
            len(made.particles),
        )
        return balance, solve

    def set_step(self, step: float) -> None:
        """A factor holds for one step length: factor anew when it changes."""
        if self._factor_step and step != self._factor_step:
            self._factor_step = step
            made = factored(self.system, self.sweeps.plan.inverse_masses, step)
            self._factor.entries[:], self._factor.inverse_diagonal[:] = made.entries, made.inverse_diagonal

"""Projective Dynamics in NumPy: what the fast backend's particle sweeps are checked against."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import diags_array
from scipy.sparse.linalg import spsolve

from ..coloring import Coloring
from ..kernels.relax import out_of_balance, relaxed

if TYPE_CHECKING:
    from .reference import ReferenceSweeps

Sweep = Callable[[], None]


class ReferenceSystem:
    """See `SystemSweeps`. Tokens are functions without arguments."""

    def __init__(self, sweeps: "ReferenceSweeps"):
        assert sweeps.plan.system is not None and sweeps.plan.coloring is not None
        self.sweeps, self.system, self.coloring = sweeps, sweeps.plan.system, sweeps.plan.coloring
        self.colors = self.coloring.colors
        self.aims, self.new = sweeps.predicted.copy(), sweeps.predicted.copy()
        self.earlier = [sweeps.predicted.copy(), sweeps.predicted.copy()]
        self.pulls = np.zeros((self.system.pull_count, 3), np.float32)

    def color_by(self, coloring: Coloring) -> None:
        self.coloring, self.colors = coloring, coloring.colors

    def order_by(self, colors: np.ndarray, count: int) -> None:
        self.colors = colors

    def aim(self) -> None:
        self.aims[:] = self.sweeps.predicted

    def project(self, group: int) -> Sweep:
        planned = self.sweeps.plan.groups[group]
        constraint, arity = planned.group.constraint, planned.vertices.shape[1]
        rest = planned.rest if planned.rest.ndim == 1 else tuple(planned.rest.T)
        assert planned.compliance is not None
        stiffness, first = 1 / planned.compliance, self.system.first_pulls[group]

        def pull() -> None:
            corners = self.sweeps.predicted[planned.vertices][..., :3]
            a = constraint.coefficients(rest)
            projected = tuple(tuple(sum(c * corners[:, i].T for i, c in enumerate(row))) for row in a)
            wanted = constraint.nearest(projected, rest)
            if self.system.pulls_by_difference(arity):
                wanted = tuple(tuple(np.array(p) - np.array(row)) for p, row in zip(wanted, projected))
            for corner in range(arity):
                pulls = stiffness * sum(row[corner] * np.array(p) for row, p in zip(a, wanted))
                block, lane = np.divmod(np.arange(len(planned.vertices)), 8)
                self.pulls[first + (block * arity + corner) * 8 + lane] = pulls.T

        return pull

    def relax(self, color: int, omega: float = 1.0) -> Sweep:
        return partial(self._relax, color, np.float32(omega))

    def _relax(self, color: int, omega: np.float32) -> None:
        chosen = np.flatnonzero(self.colors == color)
        self.sweeps.predicted[chosen] = self._visited(chosen, omega)

    def relax_apart(self) -> Sweep:
        def all_at_once() -> None:
            everyone = np.arange(self.sweeps.plan.model.particle_count)
            self.new[everyone] = self._visited(everyone, np.float32(1))

        return all_at_once

    def remember(self) -> Sweep:
        def copy() -> None:
            self.earlier[0][:] = self.sweeps.predicted

        return copy

    def extrapolate(self, turn: int, omega: float) -> Sweep:
        def go_on() -> None:
            before = self.earlier[0 if turn == 1 else turn % 2]
            self.sweeps.predicted[:] = np.float32(omega) * (self.sweeps.predicted - before) + before
            self.earlier[turn % 2][:] = self.sweeps.predicted

        return go_on

    def blend(self, omega: float, gamma: float) -> Sweep:
        def chebyshev() -> None:
            here, before = self.sweeps.predicted.copy(), self.earlier[0]
            step = np.float32(gamma) * (self.new - here) + here - before
            self.sweeps.predicted[:] = np.float32(omega) * step + before
            before[:] = here

        return chebyshev

    def solve(self) -> tuple[Sweep]:
        def exactly() -> None:
            free = np.flatnonzero(self.sweeps.plan.inverse_masses > 0)
            if len(free):
                here, aim = (tuple(rows[free].T) for rows in (self.sweeps.predicted, self.aims))
                balance = out_of_balance(here, aim, self._forces(free), self.sweeps.step**2)
                inertia = 1 / (self.sweeps.plan.inverse_masses[free].astype(float) * float(self.sweeps.step) ** 2)
                matrix = (self.system.matrix[free][:, free] + diags_array(inertia)).tocsc()
                self.sweeps.predicted[free, :3] += spsolve(matrix, np.array(balance[:3]).T).reshape(-1, 3)

        return (exactly,)

    def set_step(self, step: float) -> None:
        pass

    def _visited(self, chosen: np.ndarray, omega: np.float32) -> np.ndarray:
        here, aim = (tuple(rows[chosen].T) for rows in (self.sweeps.predicted, self.aims))
        diagonal = self.system.diagonal[chosen]
        return np.stack(relaxed(here, aim, self._forces(chosen), diagonal, self.sweeps.step**2, omega), axis=1)

    def _forces(self, chosen: np.ndarray) -> tuple[np.ndarray, ...]:
        """Pulls - L q at some particles."""
        system, x = self.system, self.sweeps.predicted[:, :3]
        force = np.zeros((len(chosen), 3), np.float32)
        lengths = np.diff(system.offsets)[chosen]
        entries = np.concatenate([np.arange(*system.offsets[i : i + 2]) for i in chosen] or [np.zeros(0, int)])
        here = np.repeat(np.arange(len(chosen)), lengths)
        edge = x[chosen[here]] - x[system.neighbors[entries]]
        each = -system.weights[entries, None] * edge
        if system.folded is not None:
            nearest = self.sweeps.plan.groups[system.folded].group.constraint.nearest
            wanted = np.stack(nearest((tuple(edge.T),), system.rest[entries])[0], axis=1)
            each += system.stiffness[entries, None] * (wanted - edge)
        np.add.at(force, here, each)
        lengths = np.diff(system.pull_offsets)[chosen]
        entries = np.concatenate([np.arange(*system.pull_offsets[i : i + 2]) for i in chosen] or [np.zeros(0, int)])
        np.add.at(force, np.repeat(np.arange(len(chosen)), lengths), self.pulls[system.pull_rows[entries]])
        return tuple(force.T)

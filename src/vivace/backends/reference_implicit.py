"""The implicit step of springs in NumPy: what the fast backend's is checked against."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..kernels.implicit import (
    AFTER,
    ENERGY,
    LEAST,
    MOTION,
    NUMBERS,
    WORK,
    inverse_block,
    spring_alpha,
    spring_firmness,
    spring_scale,
    spring_shape,
    times_spring,
)
from ..kernels.lanes import WIDTH
from ..kernels.vec3 import scale
from . import Solve
from .guard import shorten_until_balanced

if TYPE_CHECKING:
    from .reference import ReferenceSweeps

Sweep = Callable[[], None]


class ReferenceImplicit:
    """See `ImplicitSweeps`. Tokens are functions without arguments; double precision between the states."""

    def __init__(self, sweeps: "ReferenceSweeps"):
        assert sweeps.plan.net is not None
        self.sweeps, self.tolerance, self.by_blocks = sweeps, 0.0, False
        rows, net = len(sweeps.plan.order), sweeps.plan.net
        own = np.repeat(np.arange(net.rows).reshape(-1, WIDTH), np.diff(net.bounds), axis=0)
        real = own != net.neighbors
        self.one, self.other = own[real], net.neighbors[real]
        kinds, rests = net.kinds.T
        strengths = net.strengths.astype(np.float64)[kinds].swapaxes(1, 2)[real]
        self.stiffness, self.damping = strengths.T
        self.rest = net.rests.astype(np.float64)[rests][real]
        self.drag, self.wind = net.drag[:rows].astype(np.float64), np.zeros(4, np.float32)
        self.change, self.rows = np.zeros((rows, 3)), rows
        self.count, self.first, self.measure, self.done = 0, 0.0, 0.0, False
        self.numbers, self.share = np.zeros(NUMBERS), np.ones(1)

    def assemble(self, tolerance: float, by_blocks: bool) -> list[Sweep]:
        self.tolerance, self.by_blocks = max(tolerance, LEAST), by_blocks
        return [self._assemble]

    def iterate(self, by_blocks: bool, first: bool) -> list[Sweep]:
        return [self._multiply, self._descend] if first else [self._turn, self._multiply, self._descend]

    def accelerate(self, guarded: bool) -> list[Sweep]:
        return [self._accelerate, self._mind_energy] if guarded else [self._accelerate]

    def offer(self) -> list[Sweep]:
        return []

    def settle(self, pushed: bool) -> list[Sweep]:
        return [self._settle]

    @property
    def solve(self) -> Solve:
        return Solve(self.count, float(np.sqrt(self.measure / self.first)) if self.first > 0 else 0.0)

    def _assemble(self) -> None:
        sweeps, h = self.sweeps, float(self.sweeps.step)
        x, v = sweeps.state.fine_positions[: self.rows], sweeps.state.fine_velocities[: self.rows]
        self.free = x[:, 3] > 0
        v[self.free] *= float(sweeps.keep)
        mass = np.zeros(self.rows)
        mass[self.free] = 1 / x[self.free, 3]
        self.mass, self.held = mass, mass + h * self.drag
        self.numbers[ENERGY] = self._energy(x, v)
        self.numbers[MOTION] = float(mass @ (v[:, :3] ** 2).sum(axis=1)) / 2
        edge, slip = (tuple((rows[self.other] - rows[self.one])[:, :3].T) for rows in (x, v))
        inverse, stretch, tense = spring_shape(edge, self.rest)
        self.w = scale(spring_scale(inverse, tense, self.stiffness, self.damping, h), edge)
        self.alpha = spring_alpha(spring_firmness(self.stiffness, self.damping, h), self.w)
        pulls = h * np.stack(edge, axis=1) * (self.stiffness * stretch * inverse)[:, None]
        pulls += np.stack(times_spring(self.alpha, self.w, slip), axis=1)
        r = mass[:, None] * sweeps.impulse[:3] + h * self.drag[:, None] * (self.wind[:3] - v[:, :3])
        np.add.at(r, self.one, pulls)
        np.add.at(r, self.other, -pulls)
        self.r = np.where(self.free[:, None], r, 0)
        self.inverse = self._inverse()
        self.first = float((self.r * self._preconditioned()).sum())
        self.p = np.where(self.free[:, None], sweeps.impulse[:3].astype(np.float64), 0)
        self._multiply()
        held_back = float((self.p * self.y).sum())
        fall = float((self.r * self.p).sum()) / held_back if held_back > 0 else 0.0
        self.change[:] = fall * self.p
        self.r = self.r - fall * self.y
        self.p = self._preconditioned()
        self.measure = float((self.r * self.p).sum())
        self.count, self.done = 0, self.measure <= self.tolerance**2 * self.first

    def _inverse(self) -> np.ndarray:
        """Of each particle's block, or of its mass; 0 where it is pinned."""
        if not self.by_blocks:
            return np.where(self.free, 1 / np.where(self.free, self.held, 1), 0)[:, None, None] * np.eye(3)
        diagonal, sums = self.held.copy(), np.zeros((6, self.rows))
        products = [self.w[i] * self.w[j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
        for end in (self.one, self.other):
            np.add.at(diagonal, end, self.alpha)
            for total, product in zip(sums, products):
                np.add.at(total, end, product)
        xx, yy, zz, xy, xz, yz = inverse_block(diagonal, tuple(sums))
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]).transpose(2, 0, 1) * self.free[:, None, None]

    def _preconditioned(self) -> np.ndarray:
        return np.einsum("nij,nj->ni", self.inverse, self.r)

    def _multiply(self) -> None:
        u = self.p[self.one] - self.p[self.other]
        pulls = np.stack(times_spring(self.alpha, self.w, tuple(u.T)), axis=1)
        y = self.held[:, None] * self.p
        np.add.at(y, self.one, pulls)
        np.add.at(y, self.other, -pulls)
        self.y = np.where(self.free[:, None], y, 0)

    def _descend(self) -> None:
        along = float((self.p * self.y).sum())
        if self.done or along <= 0:
            self.done, self.length = True, 0.0
            return
        self.length = self.measure / along
        self.r = self.r - self.length * self.y
        self.z = self._preconditioned()
        measure = float((self.r * self.z).sum())
        self.beta = measure / self.measure
        self.measure, self.count = measure, self.count + 1
        self.done = measure <= self.tolerance**2 * self.first

    def _turn(self) -> None:
        if self.length != 0:
            self.change += self.length * self.p
            self.p = self.z + self.beta * self.p

    def _mind_energy(self) -> None:
        self._weigh()
        shorten_until_balanced(self.numbers, self.share, self._shorten)

    def _shorten(self) -> None:
        self.sweeps.state.fine_velocities[: self.rows][self.free] *= self.share[0]
        self.sweeps.predicted[:] = self._flown()
        self._weigh()

    def _energy(self, x: np.ndarray, v: np.ndarray) -> float:
        """Of motion and springs."""
        stretch = np.linalg.norm((x[self.other] - x[self.one])[:, :3], axis=1) - self.rest
        return float(self.mass @ (v[:, :3] ** 2).sum(axis=1) + self.stiffness @ stretch**2) / 2

    def _weigh(self) -> None:
        x, v = self._flown()[: self.rows], self.sweeps.state.fine_velocities[: self.rows]
        edge = tuple((x[self.other] - x[self.one])[:, :3].T)
        inverse, stretch, _ = spring_shape(edge, self.rest)
        pulls = np.stack(edge, axis=1) * (self.stiffness * stretch * inverse)[:, None]
        force = np.zeros((self.rows, 3))
        np.add.at(force, self.one, pulls)
        np.add.at(force, self.other, -pulls)
        h, free = float(self.sweeps.step), self.free
        work = -h * (force * v[:, :3])[~free].sum() + self.mass @ (v[:, :3] @ self.sweeps.impulse[:3])
        work += h * (self.drag[:, None] * (self.wind[:3] - v[:, :3]) * v[:, :3])[free].sum()
        self.numbers[AFTER], self.numbers[WORK] = self._energy(x, v), work

    def _accelerate(self) -> None:
        self.sweeps.state.fine_velocities[: self.rows, :3] += self.change + self.length * self.p
        self.sweeps.predicted[:] = self._flown()

    def _flown(self) -> np.ndarray:
        state = self.sweeps.state
        return state.fine_positions + float(self.sweeps.step) * state.fine_velocities

    def _settle(self) -> None:
        state, there = self.sweeps.state, self.sweeps.predicted
        aim = self._flown()
        push = (there - aim.astype(np.float32)).astype(np.float64)
        state.fine_positions[:] = np.where(push != 0, there, aim)
        state.fine_velocities[:] += push / float(self.sweeps.step)
        state.positions[:], state.velocities[:] = there, state.fine_velocities

"""Held points in NumPy: what the fast backend's are checked against."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..holds import HeldPoints
from ..kernels.hold import hold_push

if TYPE_CHECKING:
    from .reference import ReferenceSweeps

Sweep = Callable[[], None]


class ReferenceHolds:
    """Tokens are functions without arguments; there are none while nothing is held."""

    def __init__(self, sweeps: "ReferenceSweeps"):
        self.sweeps, self.points = sweeps, HeldPoints()

    def hold(self, carry_aims: bool = False) -> list[Sweep]:
        def push() -> None:
            predicted = self.sweeps.predicted
            for rows, numbers in self._held():
                move = np.array(hold_push(*predicted[rows], numbers[:3], numbers[3:6], numbers[9]), np.float32)
                for row, share in zip(rows, numbers[:3]):
                    step = share * predicted[row, 3] * move
                    for moved in (predicted, *(self.sweeps.carried if carry_aims else ())):
                        moved[row, :3] += step

        return [push] if self.points.count[0] else []

    def advance(self) -> list[Sweep]:
        def go_on() -> None:
            for _, numbers in self._held():
                numbers[3:6] += self.points.share[0] * numbers[6:9]

        return [go_on] if self.points.count[0] else []

    def _held(self) -> zip:
        count = int(self.points.count[0])
        return zip(self.points.corners[:count], self.points.numbers[:count])

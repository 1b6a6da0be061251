"""Held points on the fast backend."""

from functools import cache
from typing import TYPE_CHECKING

from ..holds import HeldPoints
from ..kernels.hold import advance_hold_kernel, hold_kernel

if TYPE_CHECKING:
    from .cpu import CpuSweeps


class CpuHolds:
    """Tokens are rows of the table of the backend's other sweeps; there are none while nothing is held."""

    def __init__(self, sweeps: "CpuSweeps"):
        self.sweeps, self.points = sweeps, HeldPoints()
        self._hold, self._advance = cache(self._make_hold), cache(self._make_advance)

    def hold(self, carry_aims: bool = False) -> tuple[int, ...]:
        return (self._hold(carry_aims),) if self.points.count[0] else ()

    def advance(self) -> tuple[int, ...]:
        return (self._advance(),) if self.points.count[0] else ()

    def _make_hold(self, carry_aims: bool) -> int:
        points, carried = self.points, self.sweeps.carried if carry_aims else []
        arrays = self.sweeps.predicted, points.corners, points.numbers, points.count
        return self.sweeps.sweep("hold", hold_kernel(len(carried)), 0, 1, *arrays, *carried)

    def _make_advance(self) -> int:
        points = self.points
        return self.sweeps.sweep("hold", advance_hold_kernel(), 0, 1, points.numbers, points.count, points.share)

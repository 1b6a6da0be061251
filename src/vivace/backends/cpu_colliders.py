"""Colliders on the fast backend: they move on, stop what would go through them, and push out what is inside."""

from functools import cache
from typing import TYPE_CHECKING

from ..collision.surface import SurfaceNumbers, Surfaces
from ..kernels.collide import collide_kernel, stop_kernel
from ..kernels.lanes import WIDTH
from ..kernels.pose import advance_kernel
from ..state import aligned

if TYPE_CHECKING:
    from .cpu import CpuSweeps


class CpuColliders:
    """Tokens are rows of the table of the backend's other sweeps."""

    def __init__(self, sweeps: "CpuSweeps"):
        self.sweeps = sweeps
        self.surfaces = Surfaces(sweeps.plan.model.surfaces)
        self._clearances = [aligned(sweeps.predicted.shape) for _ in self.surfaces]
        self.collide, self.advance, self.stop = cache(self._collide), cache(self._advance), cache(self._stop)

    def _collide(self, surface: int, carry_aims: bool = False) -> int:
        numbers, carried = self.surfaces[surface], self.sweeps.carried if carry_aims else []
        kernel = collide_kernel(
            numbers.distance_normal, len(numbers.parameters), len(carried), numbers.moves, bool(numbers.tables)
        )
        return self.sweeps.sweep("collide", kernel, *self._items(numbers), self._clearances[surface], *carried)

    def _stop(self) -> tuple[int, ...]:
        tokens = []
        for numbers in self.surfaces:
            if numbers.can_be_passed:
                kernel = stop_kernel(
                    numbers.distance_normal, len(numbers.parameters), numbers.moves, bool(numbers.tables)
                )
                tokens.append(self.sweeps.sweep("collide", kernel, *self._items(numbers)))
        return tuple(tokens)

    def _advance(self) -> tuple[int, ...]:
        return tuple(
            self.sweeps.sweep(
                "collide", advance_kernel(), 0, 1, numbers.path, numbers.share, numbers.parameters, numbers.motion
            )
            for numbers in self.surfaces
            if numbers.moves
        )

    def _items(self, numbers: SurfaceNumbers) -> tuple:
        """All particles, and the addresses that the kernels share."""
        rows = self.sweeps.predicted, self.sweeps.state.positions
        return 0, len(rows[0]) // WIDTH, *rows, numbers.parameters, numbers.touch, numbers.motion, *numbers.two_tables

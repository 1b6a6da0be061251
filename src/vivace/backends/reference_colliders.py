"""Colliders in NumPy: what the fast backend's are checked against."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..collision.surface import SurfaceNumbers, Surfaces
from ..kernels.collide import pushed_out, stop_by
from ..kernels.pose import advance_pose, riding

if TYPE_CHECKING:
    from .reference import ReferenceSweeps

Sweep = Callable[[], None]


class ReferenceColliders:
    """Tokens are functions without arguments."""

    def __init__(self, sweeps: "ReferenceSweeps"):
        self.sweeps = sweeps
        self.surfaces = Surfaces(sweeps.plan.model.surfaces)

    def collide(self, surface: int, carry_aims: bool = False) -> Sweep:
        def push() -> None:
            before, numbers = self.sweeps.predicted.copy(), self.surfaces[surface]
            point = tuple(self.sweeps.predicted.T)
            distance, normal = numbers.distance_normal(point, _parameters(numbers))
            pushed = pushed_out(point, self._start(numbers), distance, normal, *numbers.touch[:2])
            self.sweeps.predicted[:] = np.stack(pushed, axis=1)
            for rows in self.sweeps.carried if carry_aims else ():
                rows += self.sweeps.predicted - before

        return push

    def stop(self) -> list[Sweep]:
        return [partial(self._stop, numbers) for numbers in self.surfaces if numbers.can_be_passed]

    def _stop(self, numbers: SurfaceNumbers) -> None:
        stopped = stop_by(numbers.distance_normal)
        point, start = tuple(self.sweeps.predicted.T), self._start(numbers)
        _, end = stopped(point, start, _parameters(numbers), *numbers.touch)
        self.sweeps.predicted[:] = np.stack(end, axis=1)

    def advance(self) -> list[Sweep]:
        return [partial(self._advance, numbers) for numbers in self.surfaces if numbers.moves]

    def _advance(self, numbers: SurfaceNumbers) -> None:
        advance_pose(numbers.path, numbers.share[0], numbers.parameters, numbers.motion)

    def _start(self, numbers: SurfaceNumbers) -> tuple[np.ndarray, ...]:
        """Where the step began, or where the collider would have carried that."""
        start = tuple(self.sweeps.state.positions.T)
        return riding(start, tuple(numbers.motion)) if numbers.moves else start


def _parameters(numbers: SurfaceNumbers) -> Any:
    alone = tuple(numbers.parameters)
    return (alone, *numbers.tables) if numbers.tables else alone

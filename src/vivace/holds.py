"""Points of surfaces that are held while a simulation runs: what a hand does to soft bodies."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .kernels.hold import CORNERS, NUMBERS
from .plan import Plan

MOST_HOLDS = 64


@dataclass
class Hold:
    """A point of a surface, and where it is drawn to."""

    particles: tuple[int, int, int]
    shares: tuple[float, float, float]
    target: np.ndarray  # (3,) [m], at the end of the next frame
    firmness: float  # part of its distance that it goes in each iteration
    place: np.ndarray  # (3,) [m], where it is held now


class HeldPoints:
    """The numbers that backends read."""

    def __init__(self) -> None:
        self.corners = np.zeros((MOST_HOLDS, CORNERS), np.int32)
        self.numbers = np.zeros((MOST_HOLDS, NUMBERS), np.float32)
        self.count, self.share = np.zeros(1, np.int32), np.zeros(1, np.float32)
        self._duration = 1.0

    def begin(self, holds: Iterable[Hold], plan: Plan, duration: float) -> None:
        """Let these points be held in a frame of so many seconds."""
        self.count[0], self._duration = 0, duration
        for number, hold in enumerate(holds):
            self.count[0] += 1
            self.corners[number] = plan.row_of[list(hold.particles)]
            self.numbers[number] = [*hold.shares, *hold.place, *(hold.target - hold.place), hold.firmness]

    def set_step(self, step: float) -> None:
        """The length of a substep [s]."""
        self.share[0] = step / self._duration

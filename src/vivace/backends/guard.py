"""Steps that would gain energy out of nothing are shortened."""

from collections.abc import Callable
from math import sqrt

import numpy as np

from ..kernels.implicit import AFTER, ENERGY, MOTION, WORK

ROUNDING = 1e-9
MARGIN, TRIALS = 0.99, 5


def shorten_until_balanced(numbers: np.ndarray, share: np.ndarray, again: Callable[[], None]) -> None:
    """Leave only so much of the velocities that a step gains no energy; without motion there is no gain.

    `numbers` tell what was gained with all of them; `again()` multiplies velocities by `share` and tells anew. A linear
    model of springs does not see how they are stretched by what goes across them: with long steps and stiff springs
    that may be much.
    """
    if not gains(numbers):
        return
    share[0] = balanced_share(numbers)
    again()
    for trial in range(TRIALS):
        if not gains(numbers):
            return
        share[0] = 0.5 if trial < TRIALS - 1 else 0.0
        again()


def balanced_share(numbers: np.ndarray) -> float:
    """The share s with which nothing is gained, if energy after the step goes with s^2 and work with s.

    Mostly energy goes with more than s^2, so this is on the safe side.
    """
    springs = numbers[ENERGY] - numbers[MOTION]
    grown, work = numbers[AFTER] - springs, numbers[WORK]
    if not grown > 0:
        return 0.0
    share = (work + sqrt(max(work * work + 4 * grown * numbers[MOTION], 0.0))) / (2 * grown)
    return MARGIN * min(max(share, 0.0), 1.0)


def gains(numbers: np.ndarray) -> bool:
    """Whether a step ends with more energy than it began with and was given, by more than rounding."""
    size = numbers[AFTER] + abs(numbers[WORK]) + numbers[ENERGY]
    return bool(numbers[AFTER] - numbers[WORK] - numbers[ENERGY] > ROUNDING * size)

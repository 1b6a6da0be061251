"""Steps that would gain energy out of nothing are shortened."""

from collections.abc import Callable

import numpy as np

from ..kernels.implicit import AFTER, ENERGY, MOTION, WORK

ROUNDING = 1e-9
MARGIN, LEAST, TRIALS, HALVINGS = 0.95, 0.25, 16, 20


def shorten_until_balanced(numbers: np.ndarray, share: np.ndarray, again: Callable[[], None]) -> None:
    """Leave only so much of the velocities that a step gains no energy; without motion there is no gain.

    `numbers` tell what was gained with all of them; `again()` multiplies velocities by `share` and tells anew. A linear
    model of springs does not see how they are stretched by what goes across them: with long steps and stiff springs
    that may be much.
    """
    for _ in range(TRIALS):
        if not gains(numbers):
            return
        share[0] = balanced_share(numbers)
        again()
    if gains(numbers):
        share[0] = 0.0
        again()


def balanced_share(numbers: np.ndarray) -> float:
    """About the share s with which nothing is gained: energy grows with s^4 where springs are crossed, work with s.

    Hardly less than a quarter, since where springs begin to relax, neither is true of small shares. By halving alone,
    which has the same digits on all ranks.
    """
    work, motion = float(numbers[WORK]), float(numbers[MOTION])
    grown, least, most = float(numbers[AFTER]) - float(numbers[ENERGY]) + motion, LEAST, 1.0
    for _ in range(HALVINGS):
        share = (least + most) / 2
        gained = grown * (share * share) * (share * share) - work * share - motion
        least, most = (share, most) if gained < 0 else (least, share)
    return MARGIN * least


def gains(numbers: np.ndarray) -> bool:
    """Whether a step ends with more energy than it began with and was given, by more than rounding."""
    size = numbers[AFTER] + abs(numbers[WORK]) + numbers[ENERGY]
    return bool(numbers[AFTER] - numbers[WORK] - numbers[ENERGY] > ROUNDING * size)

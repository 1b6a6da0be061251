"""Steps that would gain energy out of nothing are shortened."""

from collections.abc import Callable

import numpy as np

from ..kernels.implicit import EXCESS, SIZE

ROUNDING = 1e-9
SHARES = 0.97, 0.8, 0.5, 0.2, 0.05, 0.0  # mostly a little less than all will do


def shorten_until_balanced(numbers: np.ndarray, share: np.ndarray, again: Callable[[], None]) -> None:
    """Leave only so much of the velocities that a step gains no energy; without motion there is no gain.

    `numbers` tell what was gained with all of them; `again()` multiplies velocities by `share` and tells anew. A linear
    model of springs does not see how they are stretched by what goes across them: with long steps and stiff springs that
    may be much.
    """
    now = 1.0
    for wanted in SHARES:
        if not gains(numbers):
            return
        share[0], now = wanted / now, wanted
        again()


def gains(numbers: np.ndarray) -> bool:
    """Whether a step ends with more energy than it began with and was given, by more than rounding."""
    return bool(numbers[EXCESS] > ROUNDING * numbers[SIZE])

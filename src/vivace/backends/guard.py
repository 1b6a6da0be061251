"""Steps that would gain energy out of nothing are shortened."""

from collections.abc import Callable

import numpy as np

from ..kernels.implicit import EXCESS, SIZE

ROUNDING, LITTLE, TRIALS = 1e-9, 0.97, 6


def shorten_until_balanced(numbers: np.ndarray, share: np.ndarray, again: Callable[[], None]) -> None:
    """Keep as large a share of the velocities as a few trials find, with which a step gains no energy.

    Without motion there is no gain, so there is such a share; mostly a little less than all will do. `numbers` tell
    what was gained with all of them; `again()` multiplies velocities by `share` and tells anew. A linear model of
    springs does not see how they are stretched by what goes across them: with long steps and stiff springs that may be
    much.
    """
    if not gains(numbers):
        return
    good, bad, now = 0.0, 1.0, 1.0
    for wanted in (LITTLE, *(None for _ in range(TRIALS))):
        wanted = (good + bad) / 2 if wanted is None else wanted
        share[0], now = wanted / now, wanted
        again()
        if gains(numbers):
            bad = now
        else:
            good = now
            if now == LITTLE:
                return
    if gains(numbers):
        share[0] = max(good, bad / 2) / now
        again()


def gains(numbers: np.ndarray) -> bool:
    """Whether a step ends with more energy than it began with and was given, by more than rounding."""
    return bool(numbers[EXCESS] > ROUNDING * numbers[SIZE])

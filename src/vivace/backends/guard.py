"""Steps that would gain energy out of nothing are shortened."""

from collections.abc import Callable

import numpy as np

from ..kernels.implicit import EXCESS, SIZE

ROUNDING, TRIALS = 1e-9, 7


def shorten_until_balanced(numbers: np.ndarray, share: np.ndarray, again: Callable[[], None]) -> None:
    """Keep the largest share of the velocities, of some that are tried, with which a step gains no energy.

    Without motion there is no gain, so there is such a share. `numbers` tell what was gained with all of them;
    `again()` multiplies velocities by `share` and tells anew. A linear model of springs does not see how they are
    stretched by what goes across them: with long steps and stiff springs that may be much.
    """
    good, bad, now = 0.0, 1.0, 1.0
    for trial in range(TRIALS):
        balanced = not numbers[EXCESS] > ROUNDING * numbers[SIZE]
        if balanced and now == 1.0:
            return
        good, bad = (now, bad) if balanced else (good, now)
        if trial == TRIALS - 1:
            break
        wanted = 0.97 if now == 1.0 else (good + bad) / 2
        share[0], now = wanted / now, wanted
        again()
    if not balanced:
        share[0] = max(good, bad / 2) / now
        again()

"""Taking times: in turns, best of several, so that a busy moment hits all alike."""

import time
from collections.abc import Callable

import numpy as np


def race(*functions: Callable[[], object], seconds: float = 1.0) -> list[float]:
    """Best time of one call of each [s], taken in turns."""
    best = [np.inf] * len(functions)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - start)
    return best

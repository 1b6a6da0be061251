"""As much work as fits into a time budget, found out while it is done.

Work goes in pieces: after each, the time that one iteration (or substep) took tells how many more fit, and half of them
are the next piece. So the last one that starts is one that should still fit, and the overshoot is at most that one, as
long as none becomes more than twice as slow within a piece.
"""

import time
from collections.abc import Iterator
from math import ceil, inf
from typing import Any

from . import checks
from .backends import Sweeps
from .solvers.base import Solver

MANY = 1_000_000
# Substeps, their length [s], iterations in each: done in this order, the same bits come out again.
Work = tuple[tuple[int, float, int], ...]


def check_budget(budget_ms: float, spend: str) -> None:
    """An error that names what is wrong with a budget."""
    checks.number("budget_ms", budget_ms, 0, open_below=True)
    checks.choice("spend", spend, ("iterations", "substeps"))


def spend_on_iterations(
    sweeps: Sweeps, solver: Solver, dt: float, substeps: int, deadline: float, least: int = 1
) -> Work:
    """A fixed number of substeps, each with as many iterations as fit into its share of the time, at least `least`."""
    work = []
    for substep in range(substeps):
        until = time.perf_counter() + (deadline - time.perf_counter()) / (substeps - substep)
        schedule = solver.schedule(sweeps, MANY, 1)
        done, piece = 0, least
        while piece:
            start = time.perf_counter()
            sweeps.advance([token for _ in range(piece) for token in _until_clock(schedule)])
            now = time.perf_counter()
            done += piece
            piece = min(_half_of(int((until - now) * piece / (now - start))), MANY - 1 - done)
        sweeps.advance(_rest(schedule))
        work.append((1, dt / substeps, done))
    return tuple(work)


def spend_on_substeps(
    sweeps: Sweeps, solver: Solver, dt: float, iterations: int, deadline: float, guess: float, longest: float = inf
) -> tuple[Work, float]:
    """As many substeps as fit, with a fixed number of iterations each; `guess` [s] is what one may take.

    A step must know its length before it starts. So the time left of the frame is always split into as many substeps
    as seem to fit, and the rest anew when they turn out slower or faster. Also gives what one took, for the next frame.
    None is longer than `longest` [s], even if the deadline is missed for it: what quivers in small steps is carried far
    in a long one, and cloth was seen to explode when their number fell from 30 to 4 at once.
    """
    work, left = [], dt
    while left > 0:
        fitting = max(int((deadline - time.perf_counter()) / guess), ceil(left / longest - 1e-6), 1)
        piece = fitting if fitting < 3 else fitting // 2
        length = left / fitting
        sweeps.set_step(length)
        start = time.perf_counter()
        sweeps.advance(list(solver.schedule(sweeps, iterations, piece)))
        guess = (time.perf_counter() - start) / piece
        left = 0.0 if piece == fitting else left - piece * length
        work.append((piece, length, iterations))
    return tuple(work), guess


def repeat(sweeps: Sweeps, solver: Solver, work: Work) -> None:
    """The same work again."""
    for substeps, length, iterations in work:
        sweeps.set_step(length)
        sweeps.advance(list(solver.schedule(sweeps, iterations, substeps)))


def _half_of(fitting: int) -> int:
    """Half of what fits, but one if one does; none if the time is up."""
    return max(fitting // 2, min(fitting, 1), 0)


def _until_clock(schedule: Iterator[Any]) -> list[Any]:
    """The sweeps until the schedule lets the clock be looked at."""
    tokens = []
    for token in schedule:
        if token is None:
            break
        tokens.append(token)
    return tokens


def _rest(schedule: Any) -> list[Any]:
    """What is left to do when iterations end here."""
    return [schedule.send(True), *schedule]

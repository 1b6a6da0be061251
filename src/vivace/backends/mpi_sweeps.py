"""Sweeps of a part on its rank, with the time that it spends talking to others in between."""

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from . import Outcome
from .cpu import CpuSweeps

TALK = "talk"  # the stage: sending, waiting for others, and what comes with it


class RankSweeps(CpuSweeps):
    """What is between sweeps counts as talk, less the sweeps that it runs itself."""

    def _start(self, *motion: Any) -> None:
        super()._start(*motion)
        self._talking = 0.0

    def _do(self, pieces: Iterable[Any]) -> None:
        for piece in pieces:
            if not callable(piece):
                self._sweep_through(piece)
                continue
            since, busy, before = time.perf_counter(), self._seconds, self._talking
            piece()  # which may sweep too
            self._talking = before + time.perf_counter() - since - (self._seconds - busy)

    def _outcome(self) -> Outcome:
        outcome = super()._outcome()
        return replace(outcome, milliseconds={**outcome.milliseconds, TALK: 1e3 * self._talking})


def busy_milliseconds(outcome: Outcome) -> float:
    """What a rank had to do, without waiting for others."""
    return sum(milliseconds for stage, milliseconds in outcome.milliseconds.items() if stage != TALK)

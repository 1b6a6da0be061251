"""Frames on their way from the process that simulates to the one that sends them: memory that both see."""

import os
import tempfile
from pathlib import Path

import numpy as np

SLOTS = 3  # one is written, one is newest, one may still be read
NONE = -1


class SharedFrames:
    """Slots, each with a number, positions and paint. The number tells a reader whether all is of one frame."""

    def __init__(self, path: Path, particles: int, new: bool = False):
        self.path = path
        memory = np.memmap(path, np.uint8, "r+", shape=(SLOTS, _slot_bytes(particles)))
        self._numbers = memory[:, :8].view(np.int64)[:, 0]
        self._positions = memory[:, 8 : 8 + 12 * particles].view(np.float32).reshape(SLOTS, particles, 3)
        self._paint = memory[:, 8 + 12 * particles : 8 + 13 * particles]
        if new:
            self._numbers[:] = NONE

    @classmethod
    def make(cls, particles: int) -> "SharedFrames":
        """In a new file, in memory where the system offers that."""
        memory = "/dev/shm"
        handle, name = tempfile.mkstemp(prefix="vivace-", dir=memory if os.access(memory, os.W_OK) else None)
        try:
            os.truncate(handle, SLOTS * _slot_bytes(particles))
        finally:
            os.close(handle)
        return cls(Path(name), particles, new=True)

    def write(self, number: int, positions: np.ndarray, paint: np.ndarray | None) -> None:
        slot = number % SLOTS
        self._numbers[slot] = NONE
        self._positions[slot] = positions
        if paint is not None:
            self._paint[slot] = paint
        self._numbers[slot] = number

    def read(self, number: int) -> tuple[np.ndarray, np.ndarray] | None:
        """A copy of positions and paint; None if they have been written over."""
        slot = number % SLOTS
        if self._numbers[slot] != number:
            return None
        copies = self._positions[slot].copy(), self._paint[slot].copy()
        return copies if self._numbers[slot] == number else None


def _slot_bytes(particles: int) -> int:
    """A number, three floats and a byte a particle, up to a whole cache line."""
    return -(-(8 + 13 * particles) // 64) * 64

"""The state of a simulation in the layout of the backends: rows of four floats, filled up to whole blocks."""

from typing import ClassVar

import numpy as np

from .kernels.lanes import WIDTH
from .plan import Plan


def aligned(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """Zeros that begin on a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


class State:
    """positions: x, y, z, inverse mass; velocities: x, y, z, 0. Rows beyond the last particle are pinned.

    Where the plan has a net of springs, both are kept in double precision as well, under the names in `FINE`.
    """

    FINE: ClassVar = {"positions": "fine_positions", "velocities": "fine_velocities"}

    def __init__(self, plan: Plan):
        self.plan = plan
        rows = (len(plan.order) // WIDTH + 1) * WIDTH  # at least one is spare
        self.positions, self.velocities = aligned((rows, 4)), aligned((rows, 4))
        self.positions[: len(plan.order), 3] = plan.inverse_masses
        fine = rows if plan.net is not None else 0
        self.fine_positions, self.fine_velocities = aligned((fine, 4), np.float64), aligned((fine, 4), np.float64)
        self.set("positions", slice(None), plan.model.positions)
        self.set("velocities", slice(None), plan.model.velocities)

    def get(self, name: str) -> np.ndarray:
        """Positions or velocities in the user's order, a read-only copy (n, 3)."""
        values = getattr(self, name)[self.plan.row_of, :3]
        values.flags.writeable = False
        return values

    def set(self, name: str, particles: slice | np.ndarray, values: np.ndarray) -> None:
        """Write positions or velocities of some particles, given in the user's order; their phantoms follow."""
        rows, table = self.plan.row_of[particles], getattr(self, name)
        table[rows, :3] = values
        if self.plan.net is not None:
            getattr(self, self.FINE[name])[rows] = table[rows]
        if self.plan.copies is not None:
            copies = self.plan.copies[particles]
            for phantom in range(1, copies.max(initial=1)):
                split = rows[copies > phantom]
                table[split + phantom, :3] = table[split, :3]

    def put_back(self, positions: np.ndarray, velocities: np.ndarray) -> None:
        """Return to rows that were kept."""
        self.positions[:], self.velocities[:] = positions, velocities
        if self.plan.net is not None:
            self.fine_positions[:], self.fine_velocities[:] = positions, velocities

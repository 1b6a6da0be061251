"""The state of a simulation in the layout of the backends: rows of four floats, filled up to whole blocks."""

import os
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, ClassVar
from zlib import crc32

import numpy as np

from .kernels.lanes import WIDTH
from .plan import Plan

PIECE = 65536  # records that are saved at once


def aligned(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """Zeros that begin on a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def write_piece(file: BinaryIO, records: np.ndarray, piece: int, start: int, table: int, first: int) -> None:
    """Write the records of one piece, which begins with record `start`, and its checksum."""
    data = records.tobytes()
    file.seek(table + 4 * piece)
    file.write(np.array(crc32(data), "<u4").tobytes())
    file.seek(first + int(start) * records.itemsize)
    file.write(data)


class State:
    """positions: x, y, z, inverse mass; velocities: x, y, z, 0. Rows beyond the last particle are pinned.

    Where the plan has a net of springs, both are kept in double precision as well, under the names in `FINE`.
    """

    FINE: ClassVar = {"positions": "fine_positions", "velocities": "fine_velocities"}

    def __init__(self, plan: Plan, rows_as: tuple[np.ndarray, np.ndarray] | None = None):
        """As the model begins, or with the positions and velocities of its rows as given."""
        self.plan = plan
        rows = (len(plan.order) // WIDTH + 1) * WIDTH  # at least one is spare
        self.positions, self.velocities = aligned((rows, 4)), aligned((rows, 4))
        self.positions[: len(plan.order), 3] = plan.inverse_masses
        fine = rows if plan.net is not None else 0
        self.fine_positions, self.fine_velocities = aligned((fine, 4), np.float64), aligned((fine, 4), np.float64)
        if plan.net is not None:
            self.fine_positions[:, 3] = self.positions[:, 3]
        if rows_as is None:
            self.set("positions", slice(None), plan.model.positions)
            self.set("velocities", slice(None), plan.model.velocities)
            return
        for name, values in zip(self.FINE, rows_as):
            for table in (self.finest(name), getattr(self, name)):
                table[: len(values), :3] = values

    def finest(self, name: str) -> np.ndarray:
        """Positions or velocities with all the digits that there are."""
        return getattr(self, name if self.plan.net is None else self.FINE[name])

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

    @property
    def record(self) -> np.dtype:
        """What is saved of a particle."""
        number = "<f4" if self.plan.net is None else "<f8"
        return np.dtype([("particle", "<i4"), ("positions", number, (3,)), ("velocities", number, (3,))])

    @cached_property
    def pieces(self) -> np.ndarray:
        """Bounds of the pieces that records are saved in: blocks of the net, where there is one."""
        count = len(self.plan.row_of)
        bounds = np.arange(0, count, PIECE) if self.plan.net is None else self.plan.net.starts[:-1]
        return np.append(bounds, count)

    def records(self, first: int, last: int) -> np.ndarray:
        """Some records, in the order of the rows; where particles are split, in the user's."""
        particles = (self.plan.order if self.plan.copies is None else np.arange(len(self.plan.row_of)))[first:last]
        rows, found = self.plan.row_of[particles], np.empty(len(particles), self.record)
        found["particle"] = particles
        for name in self.FINE:
            found[name] = self.finest(name)[rows, :3]
        return found

    def put_records(self, records: np.ndarray) -> None:
        """Take over the records of all particles, in any order."""
        for name, fine in self.FINE.items():
            self.set(name, records["particle"], records[name])
            if self.plan.net is not None:
                getattr(self, fine)[self.plan.row_of[records["particle"]], :3] = records[name]

    def write_records(self, path: Path, table: int, first: int) -> None:
        """Write all records into a file, from byte `first` on, and their checksums from byte `table` on."""
        with open(path, "r+b") as file:
            for piece in range(len(self.pieces) - 1):
                write_piece(
                    file, self.records(*self.pieces[piece : piece + 2]), piece, self.pieces[piece], table, first
                )
            file.flush()
            os.fsync(file.fileno())

    def put_back(self, positions: np.ndarray, velocities: np.ndarray) -> None:
        """Return to rows that were kept."""
        self.positions[:], self.velocities[:] = positions, velocities
        if self.plan.net is not None:
            self.fine_positions[:], self.fine_velocities[:] = positions, velocities

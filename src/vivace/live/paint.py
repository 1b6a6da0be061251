"""What particles can be painted with: their color in the partition, strain, what is left over, contacts."""

import numpy as np

from ..model import measure
from ..simulation import Simulation

PAINTS = ("none", "partition", "stretch", "residual", "contacts")
LARGEST_STRAIN = 0.1  # painted like the end of the scale
LARGEST_RESIDUAL = 3.0  # the same, in root mean squares of the constraint's group
PAUSE = 6  # frames; painting takes longer than a look at it is worth each time


class Painter:
    """Paints a simulation's particles with numbers from 0 to 255."""

    def __init__(self, simulation: Simulation):
        self._simulation, self._last = simulation, ("", -PAUSE)
        self._painted: np.ndarray | None = None
        model = simulation.model
        sides = model.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        self._edges = np.unique(np.sort(sides, axis=1), axis=0)
        self._lengths = np.linalg.norm(np.diff(model.rest[self._edges], axis=1)[:, 0], axis=1)

    def paint(self, kind: str) -> np.ndarray | None:
        """(n,) uint8, at most some frames old; None for "none"."""
        last_kind, last_frame = self._last
        if kind != last_kind or not 0 <= self._simulation.frame - last_frame < PAUSE:
            makers = {"partition": self._partition, "stretch": self._stretch}
            makers |= {"residual": self._residual, "contacts": self._contacts}
            self._painted = makers[kind]() if kind in makers else None
            self._last = kind, self._simulation.frame
        return self._painted

    def _partition(self) -> np.ndarray:
        """The color of each particle or, where constraints are colored, of one of its constraints, modulo 256."""
        plan = self._simulation.plan
        if plan.coloring:
            return (plan.coloring.colors % 256).astype(np.uint8)[plan.row_of]
        colors, planned = np.zeros(len(plan.order), np.uint8), plan.groups[0]
        ends = np.append(planned.partition.offsets, len(planned.vertices))
        batches = np.repeat(np.arange(len(ends) - 1), np.diff(ends)) % 256
        mixed = np.random.default_rng(0).permutation(len(batches))  # or the last batch would hide the others
        colors[planned.vertices[mixed]] = batches[mixed, None]
        return colors[plan.row_of]

    def _stretch(self) -> np.ndarray:
        """The largest strain of a particle's edges."""
        positions = self._simulation.positions
        lengths = np.linalg.norm(np.diff(positions[self._edges], axis=1)[:, 0], axis=1)
        strain = np.abs(lengths / self._lengths - 1)
        return self._largest([(self._edges, strain / LARGEST_STRAIN)])

    def _residual(self) -> np.ndarray:
        """The largest violation of a particle's constraints, each in root mean squares of its group."""
        positions, shares = self._simulation.positions, []
        for group in self._simulation.model.groups:
            rest = group.rest if group.rest.ndim == 1 else tuple(group.rest.T)
            left = np.abs(measure(group.constraint, positions[group.vertices], rest))
            scale = LARGEST_RESIDUAL * float(np.sqrt(np.mean(left**2)))
            shares.append((group.vertices, left / scale if scale > 0 else left))
        return self._largest(shares)

    def _contacts(self) -> np.ndarray:
        """All or nothing: whether a particle is part of a contact."""
        touched = np.zeros(self._simulation.model.particle_count + 1, np.uint8)
        touched[self._simulation.contacts] = 255
        return touched[:-1]

    def _largest(self, shares: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Of 255, the largest share of each particle."""
        most = np.zeros(self._simulation.model.particle_count)
        for vertices, share in shares:
            for corner in vertices.T:
                np.maximum.at(most, corner, share)
        return (255 * np.clip(np.nan_to_num(most), 0, 1)).astype(np.uint8)

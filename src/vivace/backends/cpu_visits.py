"""PBD and XPBD vertex by vertex on the fast backend."""

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..kernels.integrate import copy_kernel
from ..kernels.rows import in_blocks
from ..kernels.visit import settle_kernel, visit_kernel
from ..layout import blocks_of, incidence
from ..plan import strengths
from ..state import aligned

if TYPE_CHECKING:
    from .cpu import CpuSweeps


class CpuVisits:
    """See `VisitSweeps`. Tokens are rows of the table of the backend's other sweeps."""

    def __init__(self, sweeps: "CpuSweeps"):
        assert sweeps.plan.coloring is not None
        self.sweeps, self.coloring = sweeps, sweeps.plan.coloring
        self.first_block, self.particles = blocks_of(self.coloring.colors, self.coloring.count)
        self.aims = aligned(sweeps.predicted.shape)
        self.moves, self.forces = aligned((self.particles.size, 4)), aligned((self.particles.size, 4))
        pairs = len(sweeps.predicted) // 2
        self.aim = sweeps.sweep("integrate", copy_kernel(), 0, pairs, self.aims, sweeps.predicted)
        self.compliant = any(planned.compliance is not None for planned in sweeps.plan.groups)
        self.visit, self.settle, self._columns = cache(self._visit), cache(self._settle), cache(self._make_columns)

    def _make_columns(self, group: int) -> tuple[np.ndarray, ...]:
        planned = self.sweeps.plan.groups[group]
        made = incidence(self.particles, planned.vertices, self.sweeps.plan.model.particle_count)
        which = made.constraints.ravel()
        strength = np.where(made.corners.ravel() < 0, 0, strengths(planned)[which]).astype(np.float32)
        members = np.ascontiguousarray(planned.vertices[which], np.int32)
        return made.bounds, members, made.corners, in_blocks(planned.rest[which].astype(np.float32)), strength

    def _visit(self, group: int, color: int) -> int:
        planned, first = self.sweeps.plan.groups[group], self.first_block
        bounds, members, corners, rest, strength = self._columns(group)
        compliant = planned.compliance is not None
        return self.sweeps.sweep(
            planned.group.name,
            visit_kernel(planned.group.constraint, compliant),
            first[color],
            first[color + 1],
            self.sweeps.predicted,
            self.particles,
            bounds,
            members,
            corners,
            rest,
            strength,
            self.forces if compliant else self.moves,
        )

    def _settle(self, color: int, omega: float) -> int:
        return self.sweeps.sweep(
            "relax",
            settle_kernel(),
            self.first_block[color],
            self.first_block[color + 1],
            self.sweeps.predicted,
            self.aims,
            self.particles,
            self.moves,
            self.forces,
            self.sweeps.motion,
            np.array([omega, self.compliant], np.float32),
        )

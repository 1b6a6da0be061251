"""Colored particles on a rank: what its own look at is renewed before each color."""

from functools import cached_property
from typing import Any

from ..particle_parts import ParticlePart
from ..state import State
from .cpu import BlockedGroup
from .cpu_system import CpuSystem
from .cpu_visits import CpuVisits
from .mpi_renewal import renewal
from .mpi_sweeps import RankSweeps


class ParticleSweeps(RankSweeps):
    """The sweeps of a part whose particles are colored."""

    def __init__(self, comm: Any, part: ParticlePart, state: State, threads: int):
        self.part = part
        super().__init__(comm, part.plan, state, threads)
        self.before = [renewal(self, exchange, self.predicted) for exchange in part.before]
        self.all_copies = renewal(self, part.all_copies, self.predicted)
        self._measure = [*renewal(self, part.all_copies, state.positions), *self._measure]

    def _blocked_groups(self) -> list[BlockedGroup]:
        return [BlockedGroup(planned) for planned in self.part.measured]

    @cached_property
    def system(self) -> CpuSystem:
        return PartSystem(self)

    @cached_property
    def visits(self) -> CpuVisits:
        return PartVisits(self)


class PartSystem(CpuSystem):
    """Projective Dynamics on a part."""

    def __init__(self, sweeps: ParticleSweeps):
        super().__init__(sweeps)
        project, relax = self.project, self.relax
        first = min(self.system.projected, default=None)
        self.project = lambda group: [*(sweeps.all_copies if group == first else []), project(group)]
        self.relax = lambda color, omega=1.0: [*sweeps.before[color], relax(color, omega)]


class PartVisits(CpuVisits):
    """PBD and XPBD vertex by vertex on a part."""

    def __init__(self, sweeps: ParticleSweeps):
        super().__init__(sweeps)
        visit = self.visit
        self.visit = lambda group, color: [*(sweeps.before[color] if group == 0 else []), visit(group, color)]

"""Plans: a model made ready for sweeping, with its particles reordered and its constraints in batches."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .batches import Partition
from .coloring import Coloring, PhantomPartition
from .model import ConstraintGroup, Model
from .springs import Net
from .system import System


@dataclass(frozen=True, eq=False)
class PlannedGroup:
    """A group's constraints in the order of its partition, on rows instead of particles."""

    group: ConstraintGroup
    partition: Partition
    coloring: Coloring | None  # None where the order is the natural one
    vertices: np.ndarray  # (m, arity) int32, rows
    rest: np.ndarray
    stiffness_ratio: np.ndarray
    compliance: np.ndarray | None = None

    @property
    def batch_count(self) -> int:
        return self.partition.batch_count

    @property
    def parallel_steps(self) -> int:
        """The batches, and the remainder if there is one."""
        remainder = self.partition.remainder
        return self.batch_count + (remainder.start < remainder.stop)


def strengths(planned: PlannedGroup) -> np.ndarray:
    """Stiffness ratios, or stiffnesses where there are compliances."""
    return planned.stiffness_ratio if planned.compliance is None else 1 / planned.compliance


@dataclass(frozen=True, eq=False)
class Plan:
    """Row i of a backend's arrays is the user's particle `order[i]`; particle j is in row `row_of[j]`.

    Where particles were split, the phantoms of particle j are in the rows after its own: `copies[j]` rows in all.
    """

    model: Model
    order: np.ndarray  # (rows,) int64
    row_of: np.ndarray  # (n,) int64
    groups: tuple[PlannedGroup, ...]
    coloring: Coloring | None = None  # of the rows, for solvers that go particle by particle
    system: System | None = None  # for Projective Dynamics
    net: Net | None = None  # for the implicit step of springs
    copies: np.ndarray | None = None  # (n,) int32
    splits_mass: bool = True  # whether copies share their particle's mass, or have all of it each

    @property
    def colors(self) -> dict[str, int]:
        """The number of colors of the particles, or of each group; 1 where the order is serial, or all are apart."""
        if self.coloring:
            return {"particles": self.coloring.count}
        return {planned.group.name: planned.parallel_steps for planned in self.groups}

    @property
    def sizes(self) -> dict[str, int]:
        """How many constraints each group has."""
        if self.net is not None:
            return self.net.sizes
        return {planned.group.name: len(planned.vertices) for planned in self.groups}

    @property
    def phantom_count(self) -> int:
        return len(self.order) - len(self.row_of)

    @property
    def inverse_masses(self) -> np.ndarray:
        """Of each row [1/kg]."""
        weights = self.model.inverse_masses
        return (weights if self.copies is None or not self.splits_mass else weights * self.copies)[self.order]


Divide = Callable[[np.ndarray, int], tuple[Partition, Coloring | None]]
Ratio = Callable[[np.ndarray], np.ndarray] | None


def make_plan(
    model: Model,
    divide: Divide,
    ratio: Ratio = None,
    order: np.ndarray | None = None,
) -> Plan:
    """Reorder particles, then let `divide(vertices, particle_count)` put each group's constraints into batches.

    `order` is that of an earlier plan, to keep it.
    """
    order = near_in_memory(model) if order is None else order
    row_of = np.empty_like(order)
    row_of[order] = np.arange(len(order))
    groups = []
    for group in model.groups:
        vertices = row_of[group.vertices].astype(np.int32)
        groups.append(planned_group(group, vertices, *divide(vertices, model.particle_count), ratio))
    return Plan(model, order, row_of, tuple(groups))


def planned_group(
    group: ConstraintGroup, vertices: np.ndarray, partition: Partition, coloring: Coloring | None, ratio: Ratio = None
) -> PlannedGroup:
    """A group on the rows `vertices`, put in the order of a partition."""
    kept: Any = partition.order
    if (kept == np.arange(len(kept))).all():
        kept = slice(None)  # as they are, without a copy
    return PlannedGroup(
        group,
        partition,
        coloring,
        np.ascontiguousarray(vertices[kept]),
        group.rest[kept],
        ratio(group.stiffness_ratio[kept]) if ratio else group.stiffness_ratio[kept],
        None if group.compliance is None else group.compliance[kept],
    )


def make_plan_with_phantoms(model: Model, made: PhantomPartition, ratio: Ratio, splits_mass: bool) -> Plan:
    """A plan of constraints that hold copies of particles; a phantom is in a row behind its particle's."""
    near, copies = near_in_memory(model), made.copies
    row_of = np.empty_like(near)
    row_of[near] = np.cumsum(copies[near]) - copies[near]
    nth = np.arange(made.phantom_count) - np.searchsorted(made.originals, made.originals)  # of its particle's phantoms
    rows = np.concatenate([row_of, row_of[made.originals] + 1 + nth]).astype(np.int32)
    groups = []
    for group, colored in zip(model.groups, made.groups):
        vertices = rows[colored.vertices]
        batches = Partition.from_coloring(colored.coloring, locality=vertices.min(axis=1))
        groups.append(planned_group(group, vertices, batches, colored.coloring, ratio))
    return Plan(model, np.repeat(near, copies[near]), row_of, tuple(groups), copies=copies, splits_mass=splits_mass)


def near_in_memory(model: Model) -> np.ndarray:
    """Particles in reverse Cuthill-McKee order: 25-30 % faster on badly ordered meshes."""
    pairs = [group.vertices[:, [i, i + 1]] for group in model.groups for i in range(group.vertices.shape[1] - 1)]
    if not pairs:
        return np.arange(model.particle_count)
    one, other = np.concatenate(pairs).T
    count = model.particle_count
    joined = coo_array(
        (np.ones(2 * len(one), np.int8), (np.concatenate([one, other]), np.concatenate([other, one]))),
        shape=(count, count),
    )
    return reverse_cuthill_mckee(joined.tocsr(), symmetric_mode=True).astype(np.int64)

"""A plan in parts, one for each rank: some blocks of its rows, and copies of the rows around them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.optimize import linear_sum_assignment

from .batches import Partition
from .model import ConstraintGroup, Model, Surface
from .plan import Plan, PlannedGroup
from .springs import whole_eights

FEWEST_ROWS, MOST_BLOCKS = 64, 1024  # of a block, and of all


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of its blocks come first, then copies of rows of other ranks, by rank and in the order of the plan."""

    plan: Plan  # on its own rows
    rows: np.ndarray  # (own,) int64, of the whole plan; -1 where a block is filled up to whole eights
    particles: np.ndarray  # (own,) int64, in the user's order
    copies: np.ndarray  # (c,) int64, rows of the whole plan
    ids: np.ndarray  # (blocks,) int32, the numbers of its blocks
    starts: np.ndarray  # (blocks + 1,) int64, the first row of each


@dataclass(frozen=True, eq=False)
class Blocks:
    """Runs of rows, each of which belongs to one rank, and how many constraints join one with another."""

    starts: np.ndarray  # (blocks + 1,) int64, the first row of each
    costs: np.ndarray  # (blocks,) float64, what each has to do, as long as nothing is measured
    offsets: np.ndarray  # (blocks + 1,) int64: those that block i is joined with are offsets[i] to offsets[i + 1]
    neighbors: np.ndarray
    joints: np.ndarray  # constraints with each of them

    @property
    def total(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True, eq=False)
class Exchange:
    """Which rows of a part are renewed from others' at one time, and which are sent for theirs."""

    takes: tuple[tuple[int, np.ndarray], ...]  # (rank, rows of this part)
    gives: tuple[tuple[int, np.ndarray], ...]


class Cut(Protocol):
    """A way to part a plan."""

    plan: Plan  # with its rows in blocks
    blocks: Blocks

    def among(self, owners: np.ndarray, ranks: int) -> Callable[[int], Part]: ...  # the part of each rank


def joined(starts: np.ndarray, costs: np.ndarray, one: np.ndarray, other: np.ndarray) -> Blocks:
    """Blocks that begin at these rows, where row one[i] is joined with row other[i], and the other way round."""
    total = len(starts) - 1
    block_of = np.repeat(np.arange(total, dtype=np.int32), np.diff(starts))
    one, other = block_of[one], block_of[other]
    apart = one != other
    keys, counts = np.unique(one[apart].astype(np.int64) * total + other[apart], return_counts=True)
    return Blocks(starts, costs, np.searchsorted(keys // total, np.arange(total + 1)), keys % total, counts)


def blocks_of_groups(plan: Plan) -> Blocks:
    """Blocks of equal size, which cost what their rows have of constraints."""
    count, vertices = len(plan.order), [planned.vertices for planned in plan.groups]
    size = whole_eights(max(-(-count // MOST_BLOCKS), FEWEST_ROWS))
    starts = np.append(np.arange(0, count, size), count)
    loads = sum((np.bincount(corners.ravel(), minlength=count) for corners in vertices), np.ones(count, np.int64))
    pairs = [corners[:, [i, i + 1]] for corners in vertices for i in range(corners.shape[1] - 1)]
    one, other = np.concatenate([*pairs, *(pair[:, ::-1] for pair in pairs), np.zeros((0, 2), np.int32)]).T
    return joined(starts, np.add.reduceat(loads, starts[:-1]).astype(float), one, other)


def assign(blocks: Blocks, costs: np.ndarray, ranks: int) -> np.ndarray:
    """Which rank each block goes to: equal sums of costs, and few constraints between ranks."""
    if ranks == 1:
        return np.zeros(blocks.total, np.int32)
    weights = np.maximum(1, costs / costs.max() * 1000).astype(np.int64)
    try:
        import pymetis
    except ImportError:  # blocks in turn are near each other
        middles = (np.cumsum(weights) - weights / 2) / weights.sum()
        return np.minimum((middles * ranks).astype(np.int32), ranks - 1)
    if not len(blocks.neighbors):
        return (np.arange(blocks.total) % ranks).astype(np.int32)
    adjacency = pymetis.CSRAdjacency(blocks.offsets, blocks.neighbors)
    _, owners = pymetis.part_graph(ranks, adjacency, vweights=weights.tolist(), eweights=blocks.joints.tolist())
    return np.array(owners, np.int32)


def renamed(owners: np.ndarray, before: np.ndarray, ranks: int) -> np.ndarray:
    """The same shares under the numbers with which the most blocks stay where they were."""
    common = np.zeros((ranks, ranks), np.int64)
    np.add.at(common, (owners, before), 1)
    return linear_sum_assignment(common, maximize=True)[1].astype(np.int32)[owners]


def exchange(needs: list[np.ndarray], owner_of: np.ndarray, rank: int, place_of: np.ndarray) -> Exchange:
    """A rank's share in a renewal, where each rank needs these rows of others."""
    takes = [(q, needs[rank][owner_of[needs[rank]] == q]) for q in range(len(needs))]
    gives = [(q, rows[owner_of[rows] == rank]) for q, rows in enumerate(needs)]
    listed = [tuple((q, place_of[rows]) for q, rows in pairs if len(rows)) for pairs in (takes, gives)]
    return Exchange(*listed)


def sent(exchanges: Iterable[Exchange]) -> list[int]:
    """The rows of each message in some renewals."""
    return [len(rows) for renewal in exchanges for _, rows in renewal.gives]


def by_owner(needed: np.ndarray, owner_of: np.ndarray) -> np.ndarray:
    """Marked rows by the rank that they belong to, and in the order of the plan."""
    rows = np.flatnonzero(needed)
    return rows[np.argsort(owner_of[rows], kind="stable")]


def some_of(planned: PlannedGroup, members: np.ndarray, place_of: np.ndarray, offsets: np.ndarray) -> PlannedGroup:
    """Some constraints of a group, on rows at other places, in batches that begin at `offsets`."""
    columns = place_of[planned.vertices[members]], planned.rest[members], planned.stiffness_ratio[members]
    compliance = None if planned.compliance is None else planned.compliance[members]
    group = ConstraintGroup(planned.group.name, planned.group.constraint, *columns, compliance)
    return PlannedGroup(group, Partition(np.arange(len(members)), offsets), None, *columns, compliance)


def moves(time: float) -> tuple[float, float, float]:
    """Stands for the motion of a collider, which only the first rank knows."""
    return (0.0, 0.0, 0.0)


def local_model(plan: Plan, rows: np.ndarray, groups: tuple[PlannedGroup, ...]) -> Model:
    """A model of some rows of a plan; -1 is a row that nothing happens to."""
    model, particles = plan.model, plan.order[np.maximum(rows, 0)]
    return Model(
        model.positions[particles],
        model.velocities[particles],
        np.where(rows < 0, 0, model.inverse_masses[particles]).astype(np.float32),
        tuple(planned.group for planned in groups),
        tuple(_still(surface) for surface in model.surfaces),
        model.gravity,
        np.zeros((0, 3), np.int32),
        (("all", slice(0, len(rows))),),
    )


def _still(surface: Surface) -> Surface:
    return surface if surface.motion is None else replace(surface, motion=moves)

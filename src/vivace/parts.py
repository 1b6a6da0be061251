"""A plan in parts, one for each rank: some blocks of its rows, and copies of the rows around them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.optimize import linear_sum_assignment

from .batches import Partition
from .decomposition import in_turn, neighbors_of, order_in_blocks, share_out
from .errors import InputError
from .model import ConstraintGroup, Model, Surface
from .plan import Plan, PlannedGroup

FEWEST_ROWS, MOST_BLOCKS = 64, 1024  # of a block, and of all


@dataclass(frozen=True, eq=False)
class Part:
    """Its own rows come first, then copies of rows of other ranks, by rank and in the order of the plan."""

    plan: Plan  # on its own rows
    rows: np.ndarray  # (own,) int64, of the whole plan; -1 where a block is filled up to whole eights
    particles: np.ndarray  # (own,) int64, in the user's order
    copies: np.ndarray  # (c,) int64, rows of the whole plan
    blocks: tuple[tuple[int, Any], ...]  # its blocks: their numbers, and which rows of this part they have

    @property
    def places(self) -> list[tuple[Any, Any]]:
        """Where its own rows are in this part, and where in the whole."""
        return [(slice(0, len(self.rows)), self.rows)]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows that belong to one rank together, and how many constraints join one block with another."""

    rows: np.ndarray  # (rows,) those of each block in turn
    starts: np.ndarray  # (blocks + 1,) int64, where each begins in `rows`
    costs: np.ndarray  # (blocks,) float64, what each has to do, as long as nothing is measured
    offsets: np.ndarray  # (blocks + 1,) int64: those that block i is joined with are offsets[i] to offsets[i + 1]
    neighbors: np.ndarray
    joints: np.ndarray  # constraints with each of them

    @property
    def total(self) -> int:
        return len(self.starts) - 1

    def owner_of(self, owners: np.ndarray) -> np.ndarray:
        """The rank of each row."""
        ranks = np.empty(len(self.rows), np.int32)
        ranks[self.rows] = np.repeat(owners, np.diff(self.starts))
        return ranks

    def placed(self, owners: np.ndarray, rank: int, place_of: np.ndarray) -> tuple[tuple[int, np.ndarray], ...]:
        """The blocks of a rank, whose rows are at these places."""
        bounds = self.starts
        return tuple((int(b), place_of[self.rows[bounds[b] : bounds[b + 1]]]) for b in np.flatnonzero(owners == rank))


@dataclass(frozen=True, eq=False)
class Exchange:
    """Which rows of a part are renewed from others' at one time, and which are sent for theirs."""

    takes: tuple[tuple[int, np.ndarray], ...]  # (rank, rows of this part)
    gives: tuple[tuple[int, np.ndarray], ...]


class Cut(Protocol):
    """A way to part a plan."""

    blocks: Blocks

    def among(self, owners: np.ndarray, ranks: int) -> Callable[[int], Part]: ...  # the part of each rank


def joined(rows: np.ndarray, starts: np.ndarray, costs: np.ndarray, one: np.ndarray, other: np.ndarray) -> Blocks:
    """Blocks of these rows, where row one[i] is joined with row other[i], and the other way round."""
    total, block_of = len(starts) - 1, np.empty(len(rows), np.int32)
    block_of[rows] = np.repeat(np.arange(total, dtype=np.int32), np.diff(starts))
    return Blocks(rows, starts, costs, *neighbors_of(block_of[one], block_of[other], total))


def blocks_of_groups(plan: Plan) -> Blocks:
    """Blocks of equal size, of rows that are near each other, which cost what they have of constraints."""
    count, vertices = len(plan.order), [planned.vertices for planned in plan.groups]
    rows = plan.row_of[order_in_blocks(plan.model.rest)]
    size = max(-(-count // MOST_BLOCKS), FEWEST_ROWS)
    starts = np.append(np.arange(0, count, size), count)
    loads = sum((np.bincount(corners.ravel(), minlength=count) for corners in vertices), np.ones(count, np.int64))
    pairs = [corners[:, [i, i + 1]] for corners in vertices for i in range(corners.shape[1] - 1)]
    one, other = np.concatenate([*pairs, *(pair[:, ::-1] for pair in pairs), np.zeros((0, 2), np.int32)]).T
    return joined(rows, starts, np.add.reduceat(loads[rows], starts[:-1]).astype(float), one, other)


def assign(blocks: Blocks, costs: np.ndarray, ranks: int) -> np.ndarray:
    """Which rank each block goes to: equal sums of costs, and few constraints between ranks."""
    if ranks == 1:
        return np.zeros(blocks.total, np.int32)
    weights = np.maximum(1, costs / costs.max() * 1000).astype(np.int64)
    try:
        return share_out(blocks.offsets, blocks.neighbors, blocks.joints, weights, ranks)
    except InputError:  # without METIS; blocks in turn are near each other
        return in_turn(weights, ranks)


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
    return PlannedGroup(group, Partition(np.arange(len(members), dtype=np.int32), offsets), None, *columns, compliance)


def moves(time: float) -> tuple[float, float, float]:
    """Stands for the motion of a collider, which only the first rank knows."""
    return (0.0, 0.0, 0.0)


def local_model(plan: Plan, rows: np.ndarray, groups: tuple[PlannedGroup, ...]) -> Model:
    """A model of some rows of a plan, without what the state knows better; -1 is a row that nothing happens to."""
    model, particles = plan.model, plan.order[np.maximum(rows, 0)]
    unknown = np.zeros((len(rows), 3), np.float32)
    return Model(
        unknown,
        unknown,
        np.where(rows < 0, 0, model.inverse_masses[particles]).astype(np.float32),
        tuple(planned.group for planned in groups),
        tuple(_still(surface) for surface in model.surfaces),
        model.gravity,
        np.zeros((0, 3), np.int32),
        (("all", slice(0, len(rows))),),
    )


def _still(surface: Surface) -> Surface:
    return surface if surface.motion is None else replace(surface, motion=moves)

"""A plan in parts, one for each rank: some blocks of its net, and copies of the rows around them."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from .batches import Partition
from .kernels.compile import compiled
from .model import ConstraintGroup, Model, Surface
from .plan import Plan, PlannedGroup
from .springs import Net


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of its blocks come first, then copies of rows of other ranks, by rank and in the order of the plan."""

    plan: Plan  # on its own rows
    rows: np.ndarray  # (own,) int64, of the whole plan; -1 where a block is filled up to whole eights
    particles: np.ndarray  # (own,) int64, in the user's order
    copies: np.ndarray  # (c,) int64, rows of the whole plan
    interior: int  # how many blocks, the first ones, need no copies
    senders: tuple[tuple[int, int, int], ...]  # (rank, first, last): whose rows the copies are
    receivers: tuple[tuple[int, np.ndarray], ...]  # (rank, rows of this part): who has copies of them


def part_of(plan: Plan, owners: np.ndarray, rank: int) -> Part:
    """The part of a rank, where block i belongs to rank owners[i]."""
    net, count = plan.net, len(plan.order)
    assert net is not None
    owner_of = np.repeat(owners.astype(np.int32), np.diff(net.starts))
    blocks = np.flatnonzero(owners == rank)
    touches = _touching(net.offsets, net.neighbors, net.starts, owner_of, blocks, rank)
    blocks = np.concatenate([blocks[~touches], blocks[touches]])
    sizes = np.diff(net.starts)[blocks]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.concatenate([np.arange(*net.starts[b : b + 2]) for b in blocks] or [np.zeros(0, np.int64)])
    entries = net.offsets[rows + 1] - net.offsets[rows]
    offsets = np.concatenate([[0], np.cumsum(entries)])
    neighbors, values = _entries(net.offsets, net.neighbors, net.values, rows, offsets)
    needed = np.zeros(net.rows, np.bool_)
    needed[neighbors] = True
    needed[rows] = False
    copies = np.flatnonzero(needed)
    copies = copies[np.argsort(owner_of[copies], kind="stable")]
    place_of = np.full(net.rows, -1, np.int32)
    place_of[rows] = np.arange(len(rows))
    place_of[copies] = len(rows) + np.arange(len(copies))
    own = Net(offsets, place_of[neighbors], values, net.drag[rows], starts, blocks.astype(np.int32), net.total)
    lenders = owner_of[copies]
    firsts = {int(q): np.searchsorted(lenders, [q, q + 1]) + len(rows) for q in np.unique(lenders)}
    senders = tuple((q, int(first), int(last)) for q, (first, last) in firsts.items())
    receivers = tuple((q, _lent(offsets, neighbors, owner_of, q)) for q, _, _ in senders)
    real = np.where(rows < count, rows, -1)
    local = _local_plan(plan, own, np.concatenate([real, copies]), place_of)
    particles = np.where(real < 0, -1, plan.order[real])
    return Part(local, real, particles, copies, int((~touches).sum()), senders, receivers)


def moves(time: float) -> tuple[float, float, float]:
    """Stands for the motion of a collider, which only the first rank knows."""
    return (0.0, 0.0, 0.0)


def _local_plan(plan: Plan, net: Net, rows: np.ndarray, place_of: np.ndarray) -> Plan:
    """A plan on some rows of another; -1 is a row that nothing happens to."""
    model = plan.model
    particles = plan.order[np.maximum(rows, 0)]
    inverse_masses = np.where(rows < 0, 0, model.inverse_masses[particles]).astype(np.float32)
    groups = tuple(_local_group(planned, net.rows, place_of) for planned in plan.groups)
    nothing = np.zeros((0, 3), np.int32)
    local = Model(
        model.positions[particles],
        model.velocities[particles],
        inverse_masses,
        tuple(planned.group for planned in groups),
        tuple(_still(surface) for surface in model.surfaces),
        model.gravity,
        nothing,
        (("all", slice(0, len(rows))),),
    )
    order = np.arange(len(rows))
    return Plan(local, order, order, groups, net=net)


def _still(surface: Surface) -> Surface:
    return surface if surface.motion is None else replace(surface, motion=moves)


def _local_group(planned: PlannedGroup, own: int, place_of: np.ndarray) -> PlannedGroup:
    """The constraints whose first corner is one of the `own` rows, so that each is in one part: to be measured."""
    chosen = np.flatnonzero((place_of[planned.vertices[:, 0]] >= 0) & (place_of[planned.vertices[:, 0]] < own))
    vertices = place_of[planned.vertices[chosen]]
    columns = vertices, planned.rest[chosen], planned.stiffness_ratio[chosen]
    compliance = None if planned.compliance is None else planned.compliance[chosen]
    group = ConstraintGroup(planned.group.name, planned.group.constraint, *columns, compliance)
    batch = Partition(np.arange(len(chosen)), np.array([0, len(chosen)]))
    return PlannedGroup(group, batch, None, *columns, compliance)


def block_graph(net: Net) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks that are joined by springs: offsets, neighbors, and the number of springs to each."""
    block_of = np.repeat(np.arange(net.total), np.diff(net.starts))
    one, other = np.repeat(block_of, np.diff(net.offsets)), block_of[net.neighbors]
    apart = one != other
    keys, counts = np.unique(one[apart] * net.total + other[apart], return_counts=True)
    offsets = np.searchsorted(keys // net.total, np.arange(net.total + 1))
    return offsets, keys % net.total, counts


def assign(net: Net, costs: np.ndarray, ranks: int) -> np.ndarray:
    """Which rank each block goes to: equal sums of costs, and few springs between ranks."""
    if ranks == 1:
        return np.zeros(net.total, np.int32)
    weights = np.maximum(1, costs / costs.max() * 1000).astype(np.int64)
    try:
        import pymetis
    except ImportError:  # blocks in turn are near each other
        middles = (np.cumsum(weights) - weights / 2) / weights.sum()
        return np.minimum((middles * ranks).astype(np.int32), ranks - 1)
    offsets, neighbors, counts = block_graph(net)
    if not len(neighbors):
        return (np.arange(net.total) % ranks).astype(np.int32)
    adjacency = pymetis.CSRAdjacency(offsets, neighbors)
    _, owners = pymetis.part_graph(ranks, adjacency, vweights=weights.tolist(), eweights=counts.tolist())
    return np.array(owners, np.int32)


def renamed(owners: np.ndarray, before: np.ndarray, ranks: int) -> np.ndarray:
    """The same shares under the numbers with which the most blocks stay where they were."""
    common = np.zeros((ranks, ranks), np.int64)
    np.add.at(common, (owners, before), 1)
    return linear_sum_assignment(common, maximize=True)[1].astype(np.int32)[owners]


@compiled
def _touching(
    offsets: np.ndarray, neighbors: np.ndarray, starts: np.ndarray, owner_of: np.ndarray, blocks: np.ndarray, rank: int
) -> np.ndarray:
    """Whether a block has a spring to another rank."""
    found = np.zeros(len(blocks), np.bool_)
    for i in range(len(blocks)):
        for entry in range(offsets[starts[blocks[i]]], offsets[starts[blocks[i] + 1]]):
            if owner_of[neighbors[entry]] != rank:
                found[i] = True
                break
    return found


@compiled
def _entries(
    offsets: np.ndarray, neighbors: np.ndarray, values: np.ndarray, rows: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The entries of some rows, one after the other."""
    chosen, own = np.empty(places[-1], np.int32), np.empty((places[-1], values.shape[1]), np.float32)
    for i in range(len(rows)):
        first = offsets[rows[i]]
        for k in range(places[i + 1] - places[i]):
            chosen[places[i] + k] = neighbors[first + k]
            own[places[i] + k] = values[first + k]
    return chosen, own


def _lent(offsets: np.ndarray, neighbors: np.ndarray, owner_of: np.ndarray, rank: int) -> np.ndarray:
    """The rows of a part that another rank has copies of, in the order of the whole plan."""
    return np.unique(np.searchsorted(offsets, np.flatnonzero(owner_of[neighbors] == rank), "right") - 1)

"""A net of springs in parts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .batches import Partition
from .kernels.compile import compiled
from .kernels.lanes import WIDTH
from .model import ConstraintGroup
from .parts import Blocks, Part, local_model
from .plan import Plan, PlannedGroup
from .springs import Net


@dataclass(frozen=True, eq=False)
class NetPart(Part):
    """A part that has its share of the net, and copies of the rows that its springs end at."""

    interior: int  # how many blocks, the first ones, need no copies
    senders: tuple[tuple[int, int, int], ...]  # (rank, first, last): whose rows the copies are
    receivers: tuple[tuple[int, np.ndarray], ...]  # (rank, rows of this part): who has copies of them

    @property
    def places(self) -> list[tuple[Any, Any]]:
        """Block by block, since those are runs of rows here and there."""
        firsts = [(here, int(self.rows[here.start])) for _, here in self.blocks]
        return [(here, slice(first, first + here.stop - here.start)) for here, first in firsts]


class NetCut:
    """See `Cut`: the blocks are those of the net."""

    def __init__(self, plan: Plan):
        net = plan.net
        assert net is not None
        block_of = np.repeat(np.arange(net.total, dtype=np.int32), np.diff(net.starts))
        graph = _block_graph(net.neighbors, net.bounds[net.starts // WIDTH], block_of)
        costs = np.diff(net.starts).astype(float)
        self.plan, self.blocks = plan, Blocks(np.arange(net.rows), net.starts, costs, *graph)

    def among(self, owners: np.ndarray, ranks: int) -> Callable[[int], NetPart]:
        return partial(part_of, self.plan, owners)


def part_of(plan: Plan, owners: np.ndarray, rank: int) -> NetPart:
    """The part of a rank, where block i belongs to rank owners[i]."""
    net, count = plan.net, len(plan.order)
    assert net is not None
    owners = owners.astype(np.int32)
    owner_of, firsts = np.repeat(owners, np.diff(net.starts)), net.bounds[net.starts // WIDTH]
    blocks = np.flatnonzero(owners == rank)
    touches = _touching(net.neighbors, firsts, owner_of, blocks, rank)
    blocks = np.concatenate([blocks[~touches], blocks[touches]])
    interior = int((~touches).sum())
    rows, starts = _runs(net.starts, blocks)
    slots, _ = _runs(firsts, blocks)
    place_of, copies = _places(net.neighbors, slots, rows, owner_of, int(owners.max()) + 1)
    neighbors = _renumbered(net.neighbors, slots, place_of)
    bounds = np.append(0, np.cumsum(np.diff(net.bounds)[rows[::WIDTH] // WIDTH])).astype(np.int32)
    springs = net.kinds[slots], net.strengths, net.rests
    own = Net(bounds, neighbors, *springs, net.drag[rows], starts, blocks.astype(np.int32), net.total)
    lenders = owner_of[copies]
    shares = {int(q): np.searchsorted(lenders, [q, q + 1]) + len(rows) for q in np.unique(lenders)}
    senders = tuple((q, int(first), int(last)) for q, (first, last) in shares.items())
    outer = slice(int(starts[interior]) // WIDTH, None)
    receivers = tuple(
        (q, _lent(bounds[outer], neighbors, int(starts[interior]), first, last)) for q, first, last in senders
    )
    real = np.where(rows < count, rows, -1)
    local = _local_plan(plan, own, np.concatenate([real, copies]), place_of)
    particles = np.where(real < 0, -1, plan.order[real])
    lengths = np.minimum(net.starts[blocks + 1], count) - net.starts[blocks]  # without what fills up the last block
    runs = zip(starts.tolist(), (starts[:-1] + lengths).tolist())
    placed = tuple((int(block), slice(*run)) for block, run in zip(blocks, runs))
    return NetPart(local, real, particles, copies, placed, interior, senders, receivers)


def _local_plan(plan: Plan, net: Net, rows: np.ndarray, place_of: np.ndarray) -> Plan:
    """A plan on some rows of another."""
    groups = tuple(_local_group(planned, net.rows, place_of) for planned in plan.groups)
    order = np.arange(len(rows))
    return Plan(local_model(plan, rows, groups), order, order, groups, net=net)


def _local_group(planned: PlannedGroup, own: int, place_of: np.ndarray) -> PlannedGroup:
    """The springs whose first end is one of the `own` rows, so that each is in one part: to be measured, no more."""
    vertices, rest = _springs_from(planned.vertices, planned.rest, place_of, own)
    columns = vertices, rest, np.zeros(0, np.float32)
    whole = Partition(np.arange(len(rest), dtype=np.int32), np.array([0, len(rest)]))
    return PlannedGroup(ConstraintGroup(planned.group.name, planned.group.constraint, *columns), whole, None, *columns)


@compiled
def _springs_from(
    vertices: np.ndarray, rest: np.ndarray, place_of: np.ndarray, own: int
) -> tuple[np.ndarray, np.ndarray]:
    count = 0
    for spring in range(len(vertices)):
        count += 0 <= place_of[vertices[spring, 0]] < own
    ends, lengths, found = np.empty((count, 2), np.int32), np.empty(count, np.float32), 0
    for spring in range(len(vertices)):
        place = place_of[vertices[spring, 0]]
        if 0 <= place < own:
            ends[found, 0], ends[found, 1] = place, place_of[vertices[spring, 1]]
            lengths[found] = rest[spring]
            found += 1
    return ends, lengths


@compiled
def _block_graph(
    neighbors: np.ndarray, firsts: np.ndarray, block_of: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    blocks = len(firsts) - 1
    offsets, counts, met = np.zeros(blocks + 1, np.int64), np.zeros(blocks, np.int64), np.empty(blocks, np.int64)
    found, sizes = [np.int64(0)], [np.int64(0)]
    for block in range(blocks):
        others = 0
        for slot in range(firsts[block], firsts[block + 1]):
            for lane in range(neighbors.shape[1]):
                other = block_of[neighbors[slot, lane]]
                if other != block:
                    if counts[other] == 0:
                        met[others] = other
                        others += 1
                    counts[other] += 1
        for other in np.sort(met[:others]):
            found.append(other)
            sizes.append(counts[other])
            counts[other] = 0
        offsets[block + 1] = len(found) - 1
    return offsets, np.array(found)[1:], np.array(sizes)[1:]


@compiled
def _touching(
    neighbors: np.ndarray, firsts: np.ndarray, owner_of: np.ndarray, blocks: np.ndarray, rank: int
) -> np.ndarray:
    """Whether a block has a spring to another rank; its slots begin at firsts[block]."""
    found = np.zeros(len(blocks), np.bool_)
    for i in range(len(blocks)):
        for slot in range(firsts[blocks[i]], firsts[blocks[i] + 1]):
            for lane in range(neighbors.shape[1]):
                found[i] |= owner_of[neighbors[slot, lane]] != rank
            if found[i]:
                break
    return found


@compiled
def _runs(firsts: np.ndarray, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The items of some blocks, where those of block i begin at firsts[i]; and where they begin in this list."""
    starts = np.zeros(len(blocks) + 1, np.int64)
    for i in range(len(blocks)):
        starts[i + 1] = starts[i] + firsts[blocks[i] + 1] - firsts[blocks[i]]
    items = np.empty(starts[-1], np.int64)
    for i in range(len(blocks)):
        items[starts[i] : starts[i + 1]] = np.arange(firsts[blocks[i]], firsts[blocks[i] + 1])
    return items, starts


@compiled
def _places(
    neighbors: np.ndarray, slots: np.ndarray, rows: np.ndarray, owner_of: np.ndarray, ranks: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where rows are in a part, -1 where they are not: its own, then those that its slots reach, by rank."""
    place_of = np.full(len(owner_of), -1, np.int32)
    place_of[rows] = np.arange(len(rows)).astype(np.int32)
    for slot in slots:
        for lane in range(neighbors.shape[1]):
            if place_of[neighbors[slot, lane]] == -1:
                place_of[neighbors[slot, lane]] = -2
    next_of = np.zeros(ranks + 1, np.int64)
    for row in range(len(owner_of)):
        if place_of[row] == -2:
            next_of[owner_of[row] + 1] += 1
    next_of = np.cumsum(next_of)
    copies = np.empty(next_of[-1], np.int64)
    for row in range(len(owner_of)):
        if place_of[row] == -2:
            place = next_of[owner_of[row]]
            copies[place], place_of[row] = row, len(rows) + place
            next_of[owner_of[row]] += 1
    return place_of, copies


@compiled
def _renumbered(neighbors: np.ndarray, slots: np.ndarray, place_of: np.ndarray) -> np.ndarray:
    """The neighbors of some slots, by their places."""
    found = np.empty((len(slots), neighbors.shape[1]), np.int32)
    for i in range(len(slots)):
        for lane in range(neighbors.shape[1]):
            found[i, lane] = place_of[neighbors[slots[i], lane]]
    return found


@compiled
def _lent(bounds: np.ndarray, neighbors: np.ndarray, start: int, first: int, last: int) -> np.ndarray:
    """The rows from `start` on that have a neighbor from `first` up to `last`: a rank with those has copies of them."""
    width = neighbors.shape[1]
    lent = np.zeros(width * (len(bounds) - 1), np.bool_)
    for eight in range(len(bounds) - 1):
        for slot in range(bounds[eight], bounds[eight + 1]):
            for lane in range(width):
                lent[width * eight + lane] |= first <= neighbors[slot, lane] < last
    return start + np.flatnonzero(lent)

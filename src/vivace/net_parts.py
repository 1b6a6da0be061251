"""A net of springs in parts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .kernels.compile import compiled
from .kernels.lanes import WIDTH
from .parts import Part, joined, local_model
from .plan import Plan
from .springs import Dues, Net


@dataclass(frozen=True, eq=False)
class Swap:
    """Rows of a table that a rank gets from others, and gives to others, at one time."""

    senders: tuple[tuple[int, int, int], ...]  # (rank, first, last): whose rows come there
    receivers: tuple[tuple[int, np.ndarray], ...]  # (rank, rows): who gets them


@dataclass(frozen=True, eq=False)
class NetPart(Part):
    """A part that has its share of the net, and copies of the rows that its springs end at."""

    interior: int  # how many blocks, the first ones, need no copies
    copied: Swap  # rows that others' springs end at, to have copies of them
    due: Swap  # what springs of one rank do to rows of another

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
        here = np.repeat(np.arange(net.rows).reshape(-1, WIDTH), net.outside_slots, axis=0).ravel()
        there = net.neighbors[np.repeat(net.dues.outside >= 0, np.diff(net.bounds))].ravel()
        costs = np.diff(net.starts).astype(float)
        ends = np.concatenate([here, there]), np.concatenate([there, here])
        self.plan, self.blocks = plan, joined(np.arange(net.rows), net.starts, costs, *ends)

    def among(self, owners: np.ndarray, ranks: int) -> Callable[[int], NetPart]:
        return partial(part_of, self.plan, owners)


def part_of(plan: Plan, owners: np.ndarray, rank: int) -> NetPart:
    """The part of a rank, where block i belongs to rank owners[i]."""
    net, count = plan.net, len(plan.order)
    assert net is not None
    # A due is paid by the rank whose spring it is to the rank that has the row.
    due_rows, payers = np.empty(net.dues.count, np.int64), np.repeat(owners, np.diff(net.dues.starts))
    due_rows[net.dues.claims[:, 1] - net.rows] = net.dues.claims[:, 0]
    payees = np.repeat(owners, np.diff(net.starts))[due_rows]
    paid, received = ((one == rank) & (other != rank) for one, other in ((payers, payees), (payees, payers)))

    blocks = np.flatnonzero(owners == rank)
    touches = np.isin(blocks, np.repeat(np.arange(net.total), np.diff(net.dues.starts))[paid])
    blocks, interior = np.concatenate([blocks[~touches], blocks[touches]]), int((~touches).sum())
    rows, starts = _runs(net.starts, blocks)
    own_dues, due_starts = _runs(net.dues.starts, blocks)
    copies, lenders = _by_rank(due_rows[paid], payees[paid])
    lent, borrowers = _by_rank(due_rows[received], payers[received])
    given, given_to = _by_rank(np.flatnonzero(paid), payees[paid])
    taken, taken_from = _by_rank(np.flatnonzero(received), payers[received])

    place_of = np.full(net.rows + net.dues.count, -1, np.int32)  # of rows and dues, where they are in this part
    place_of[rows], place_of[copies] = np.arange(len(rows)), len(rows) + np.arange(len(copies))
    place_of[own_dues] = len(rows) + np.arange(len(own_dues))
    place_of[net.rows + taken] = len(rows) + len(own_dues) + np.arange(len(taken))
    copied = Swap(_shifted(lenders, len(rows)), _in_shares(borrowers, place_of[lent]))
    due = Swap(_shifted(taken_from, len(rows) + len(own_dues)), _in_shares(given_to, place_of[net.rows + given]))
    dues = _local_dues(net, blocks, rows, place_of, due_starts + len(rows), len(own_dues) + len(taken))
    own = _local_net(net, blocks, rows, starts, place_of, dues)
    real = np.where(rows < count, rows, -1)
    local = _local_plan(plan, own, np.concatenate([real, copies]))
    particles = np.where(real < 0, -1, plan.order[real])
    lengths = np.minimum(net.starts[blocks + 1], count) - net.starts[blocks]  # without what fills up the last block
    runs = zip(starts.tolist(), (starts[:-1] + lengths).tolist())
    placed = tuple((int(block), slice(*run)) for block, run in zip(blocks, runs))
    return NetPart(local, real, particles, copies, placed, interior, copied, due)


def _by_rank(items: np.ndarray, ranks: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int, int]]]:
    """Items once for each rank, in ascending order; and where those of each rank are."""
    size = int(items.max(initial=0)) + 1
    keys = np.unique(ranks.astype(np.int64) * size + items)
    found, firsts = np.unique(keys // size, return_index=True)
    bounds = [*firsts.tolist(), len(keys)]
    return keys % size, list(zip(found.tolist(), bounds, bounds[1:]))


def _shifted(shares: list[tuple[int, int, int]], by: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((q, first + by, last + by) for q, first, last in shares)


def _in_shares(shares: list[tuple[int, int, int]], places: np.ndarray) -> tuple[tuple[int, np.ndarray], ...]:
    return tuple((q, places[first:last].astype(np.int64)) for q, first, last in shares)


def _local_dues(
    net: Net, blocks: np.ndarray, rows: np.ndarray, place_of: np.ndarray, due_starts: np.ndarray, count: int
) -> Dues:
    """The dues of some blocks: where those of each begin, and how many there are, with those of others."""
    dues, slots = net.dues, net.outside_slots
    firsts = np.append(0, np.cumsum(slots))[net.starts // WIDTH]
    own_slots = slots[rows[::WIDTH] // WIDTH]
    outside = np.where(own_slots > 0, np.cumsum(own_slots) - own_slots, -1).astype(np.int32)
    targets = _renumbered(dues.targets, _runs(firsts, blocks)[0], place_of)
    claims, claim_starts = _runs(dues.claim_starts, blocks)
    ranges = due_starts.astype(np.int32), place_of[dues.claims[claims]], claim_starts.astype(np.int32)
    return Dues(outside, targets, *ranges, dues.reach[blocks], count)


def _local_net(
    net: Net, blocks: np.ndarray, rows: np.ndarray, starts: np.ndarray, place_of: np.ndarray, dues: Dues
) -> Net:
    """Some blocks of a net, on rows at other places."""
    slots, _ = _runs(net.bounds[net.starts // WIDTH], blocks)
    bounds = np.append(0, np.cumsum(np.diff(net.bounds)[rows[::WIDTH] // WIDTH])).astype(np.int32)
    springs = _renumbered(net.neighbors, slots, place_of), net.kinds[slots], net.strengths, net.rests
    return Net(bounds, *springs, net.drag[rows], starts, dues, blocks.astype(np.int32), net.total, net.name)


def _local_plan(plan: Plan, net: Net, rows: np.ndarray) -> Plan:
    """A plan on some rows of another; all of its springs are in the net."""
    order = np.arange(len(rows))
    return Plan(local_model(plan, rows, ()), order, order, (), net=net)


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
def _renumbered(neighbors: np.ndarray, slots: np.ndarray, place_of: np.ndarray) -> np.ndarray:
    """The neighbors of some slots, by their places."""
    found = np.empty((len(slots), neighbors.shape[1]), np.int32)
    for i in range(len(slots)):
        for lane in range(neighbors.shape[1]):
            found[i, lane] = place_of[neighbors[slots[i], lane]]
    return found

"""A net of springs in parts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .kernels.compile import compiled
from .parts import Part, by_owner, joined, local_model, some_of
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
        rows = np.repeat(np.arange(net.rows, dtype=np.int32), np.diff(net.offsets))
        costs = np.diff(net.starts).astype(float)
        self.plan, self.blocks = plan, joined(np.arange(net.rows), net.starts, costs, rows, net.neighbors)

    def among(self, owners: np.ndarray, ranks: int) -> Callable[[int], NetPart]:
        return partial(part_of, self.plan, owners)


def part_of(plan: Plan, owners: np.ndarray, rank: int) -> NetPart:
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
    copies = by_owner(needed, owner_of)
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
    lengths = np.minimum(net.starts[blocks + 1], count) - net.starts[blocks]  # without what fills up the last block
    bounds = zip(starts.tolist(), (starts[:-1] + lengths).tolist())
    placed = tuple((int(block), slice(*pair)) for block, pair in zip(blocks, bounds))
    return NetPart(local, real, particles, copies, placed, int((~touches).sum()), senders, receivers)


def _local_plan(plan: Plan, net: Net, rows: np.ndarray, place_of: np.ndarray) -> Plan:
    """A plan on some rows of another."""
    groups = tuple(_local_group(planned, net.rows, place_of) for planned in plan.groups)
    order = np.arange(len(rows))
    return Plan(local_model(plan, rows, groups), order, order, groups, net=net)


def _local_group(planned: PlannedGroup, own: int, place_of: np.ndarray) -> PlannedGroup:
    """The constraints whose first corner is one of the `own` rows, so that each is in one part: to be measured."""
    chosen = np.flatnonzero((place_of[planned.vertices[:, 0]] >= 0) & (place_of[planned.vertices[:, 0]] < own))
    return some_of(planned, chosen, place_of, np.array([0, len(chosen)]))


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

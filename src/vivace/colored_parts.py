"""Colored constraints in parts: what each rank has to project so that its own rows come out right.

Between two renewals of its copies, a rank goes through several colors. What it needs is found backwards: after the last
of these colors its own rows; before a color, also all corners of the constraints that touch what is needed after it.
These it projects itself, wherever their corners belong, on copies that were right at the start. So ranks do some
constraints near borders several times, and talk less often. The bits are those of one process: each constraint that
counts is projected with the same numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .kernels.compile import compiled
from .parts import Blocks, Exchange, Part, blocks_of_groups, by_owner, exchange, local_model, sent, some_of
from .plan import Plan, PlannedGroup

EXCHANGE = 5000  # corners of constraints that are projected in the time that it takes to renew copies
Batch = tuple[int, int]  # group and batch


@dataclass(frozen=True, eq=False)
class ColoredPart(Part):
    """Its groups have all batches of the whole plan, some of them empty."""

    renewals: tuple[tuple[Batch, Exchange], ...]  # before these batches
    last: Exchange  # of positions, before constraints are measured
    counted: tuple[np.ndarray, ...]  # of each group and batch: how many, the first ones, this part measures

    def messages(self, iterations: int) -> list[int]:
        """The rows of each message that this part sends in a frame of one substep."""
        return sent([*iterations * [renewal for _, renewal in self.renewals], self.last])


class ColoredCut:
    """See `Cut`."""

    def __init__(self, plan: Plan):
        self.plan, self.blocks = plan, blocks_of_groups(plan)

    def among(self, owners: np.ndarray, ranks: int) -> Callable[[int], ColoredPart]:
        reach = Reach(self.plan, self.blocks.owner_of(owners), ranks)
        return lambda rank: _part_of(self.plan, self.blocks, owners, reach, rank)


class Reach:
    """What all ranks project, and which copies they need for it.

    How many colors come between two renewals: as long as another one makes them cheaper on average, at the rank that
    does the most twice.
    """

    def __init__(self, plan: Plan, owner_of: np.ndarray, ranks: int):
        self.owner_of = owner_of
        own = np.arange(ranks)[:, None] == owner_of
        self.members: list[dict[Batch, np.ndarray]] = [{} for _ in range(ranks)]  # of each rank
        self.needs: list[tuple[Batch, list[np.ndarray]]] = []  # before a batch: rows of others, of each rank
        self.measured = [_corners_of_first(plan, own[rank]) for rank in range(ranks)]
        batches = [(group, batch) for group, planned in enumerate(plan.groups) for batch in range(planned.batch_count)]
        needed, colors, twice = own.copy(), 0, 0
        for place in reversed(range(len(batches))):
            group, batch = batches[place]
            planned = plan.groups[group]
            first, last = planned.partition.offsets[batch : batch + 2]
            mine = [_touching(planned.vertices, first, last, rows) for rows in own]
            all_of_them = [_touching(planned.vertices, first, last, rows) for rows in needed] if colors else mine
            surplus = planned.vertices.shape[1] * max(len(a) - len(b) for a, b in zip(all_of_them, mine))
            if surplus * colors > EXCHANGE + twice:
                self.needs.append((batches[place + 1], [np.flatnonzero(rows) for rows in needed & ~own]))
                needed, colors, twice, surplus, all_of_them = own.copy(), 0, 0, 0, mine
            for rank, chosen in enumerate(all_of_them):
                self.members[rank][group, batch] = chosen
                needed[rank][planned.vertices[chosen]] = True
            colors, twice = colors + 1, twice + surplus
        if batches:
            self.needs.append((batches[0], [np.flatnonzero(rows) for rows in needed & ~own]))


def _corners_of_first(plan: Plan, own: np.ndarray) -> np.ndarray:
    """Rows of others that the constraints of this rank's first corners end at."""
    needed = np.zeros_like(own)
    for planned in plan.groups:
        needed[planned.vertices[own[planned.vertices[:, 0]]]] = True
    return np.flatnonzero(needed & ~own)


def _part_of(plan: Plan, blocks: Blocks, owners: np.ndarray, reach: Reach, rank: int) -> ColoredPart:
    owner_of = reach.owner_of
    rows = np.flatnonzero(owner_of == rank)  # as in the plan, so that constraints read memory forward
    needed = np.zeros(len(owner_of), np.bool_)
    for _, needs in reach.needs:
        needed[needs[rank]] = True
    needed[reach.measured[rank]] = True
    copies = by_owner(needed, owner_of)
    here = np.concatenate([rows, copies])
    place_of = np.full(len(owner_of), -1, np.int32)
    place_of[here] = np.arange(len(here))
    shares = [
        _share(planned, [reach.members[rank][group, batch] for batch in range(planned.batch_count)], rows, place_of)
        for group, planned in enumerate(plan.groups)
    ]
    groups, order = tuple(planned for planned, _ in shares), np.arange(len(here))
    return ColoredPart(
        Plan(local_model(plan, here, groups), order, order, groups),
        rows,
        plan.order[rows],
        copies,
        blocks.placed(owners, rank, place_of),
        tuple((batch, exchange(needs, owner_of, rank, place_of)) for batch, needs in reach.needs),
        exchange(reach.measured, owner_of, rank, place_of),
        tuple(counts for _, counts in shares),
    )


def _share(
    planned: PlannedGroup, batches: list[np.ndarray], rows: np.ndarray, place_of: np.ndarray
) -> tuple[PlannedGroup, np.ndarray]:
    """Some constraints of each batch, first those whose first corner is in `rows`, and how many these are."""
    chosen, counts = [], []
    for members in batches:
        first = place_of[planned.vertices[members, 0]] < len(rows)
        chosen += [members[first], members[~first]]
        counts.append(first.sum())
    members = np.concatenate([*chosen, np.zeros(0, np.int64)])
    offsets = np.cumsum([0, *(len(own) for own in batches)])
    return some_of(planned, members, place_of, offsets), np.array(counts, np.int64)


@compiled
def _touching(vertices: np.ndarray, first: int, last: int, rows: np.ndarray) -> np.ndarray:
    """Which constraints of a batch have a corner among the rows that are marked."""
    found, count = np.empty(last - first, np.int64), 0
    for constraint in range(first, last):
        for corner in range(vertices.shape[1]):
            if rows[vertices[constraint, corner]]:
                found[count] = constraint
                count += 1
                break
    return found[:count].copy()

"""Colored particles in parts: each rank visits its own rows, and renews what they look at before each color."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .coloring import Coloring
from .graph import vertex_graph
from .parts import Exchange, Part, blocks_of_groups, by_owner, exchange, local_model, sent, some_of
from .plan import Plan, PlannedGroup
from .system import part_of_system


@dataclass(frozen=True, eq=False)
class ParticlePart(Part):
    """Its copies have a color of their own, after all others, which nobody visits."""

    before: tuple[Exchange, ...]  # before each color: what its rows look at
    all_copies: Exchange
    measured: tuple[PlannedGroup, ...]  # of each group, the constraints whose first corner is here

    def messages(self, iterations: int) -> list[int]:
        """The rows of each message that this part sends in a frame of one substep."""
        pulls = [self.all_copies] if self.plan.system is not None and self.plan.system.projected else []
        return sent([*iterations * [*pulls, *self.before], self.all_copies])


class ParticleCut:
    """See `Cut`. Constraints stay in their order, in which particles add up what they ask."""

    def __init__(self, plan: Plan):
        assert plan.coloring is not None
        self.plan, self.blocks, self.coloring = plan, blocks_of_groups(plan), plan.coloring

    def among(self, owners: np.ndarray, ranks: int) -> Callable[[int], ParticlePart]:
        owner_of = self.blocks.owner_of(owners)
        looks = [self._looks(owner_of, rank) for rank in range(ranks)]
        return lambda rank: self._part_of(owners, owner_of, looks, rank)

    def _looks(self, owner_of: np.ndarray, rank: int) -> list[np.ndarray]:
        """The rows of others that this rank's rows of each color share a constraint with."""
        pairs = [np.zeros(0, np.int64)]
        for planned in self.plan.groups:
            own = owner_of[planned.vertices] == rank
            border = own.any(axis=1) & ~own.all(axis=1)
            corners, own = planned.vertices[border], own[border]
            for here in range(corners.shape[1]):
                for there in range(corners.shape[1]):
                    chosen = own[:, here] & ~own[:, there]
                    rows = corners[chosen]
                    pairs.append(self.coloring.colors[rows[:, here]].astype(np.int64) * len(owner_of) + rows[:, there])
        colors, rows = np.divmod(np.unique(np.concatenate(pairs)), len(owner_of))
        return np.split(rows, np.searchsorted(colors, np.arange(1, self.coloring.count)))

    def _part_of(
        self, owners: np.ndarray, owner_of: np.ndarray, looks: list[list[np.ndarray]], rank: int
    ) -> ParticlePart:
        plan, needed = self.plan, np.zeros(len(owner_of), np.bool_)
        rows = np.flatnonzero(owner_of == rank)
        everything = [np.unique(np.concatenate(of_rank)) for of_rank in looks]
        needed[everything[rank]] = True
        copies = by_owner(needed, owner_of)
        here = np.concatenate([rows, copies])
        place_of = np.full(len(owner_of), -1, np.int32)
        place_of[here] = np.arange(len(here))
        groups = tuple(
            _some(planned, (owner_of[planned.vertices] == rank).any(axis=1), place_of) for planned in plan.groups
        )
        measured = tuple(_some(planned, owner_of[planned.vertices[:, 0]] == rank, place_of) for planned in plan.groups)
        own_colors = self.coloring.colors[rows]
        colors = np.append(own_colors, np.full(len(copies), self.coloring.count, own_colors.dtype))
        order, system = np.arange(len(here)), None
        if plan.system is not None:
            vertices = [planned.vertices for planned in groups]
            system = part_of_system(plan.system, rows, place_of, vertices, len(here))
        coloring = Coloring(vertex_graph([], len(here)), colors)
        return ParticlePart(
            Plan(local_model(plan, here, groups), order, order, groups, coloring, system),
            rows,
            plan.order[rows],
            copies,
            self.blocks.placed(owners, rank, place_of),
            tuple(exchange(list(needs), owner_of, rank, place_of) for needs in zip(*looks)),
            exchange(everything, owner_of, rank, place_of),
            measured,
        )


def _some(planned: PlannedGroup, chosen: np.ndarray, place_of: np.ndarray) -> PlannedGroup:
    """Marked constraints of a group, in one batch."""
    members = np.flatnonzero(chosen)
    return some_of(planned, members, place_of, np.array([0, len(members)]))

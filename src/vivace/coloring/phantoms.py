"""Phantom partitioning: any number of colors, by splitting particles (Fratarcangeli and Pellacini 2015, paper 000).

A particle in more constraints than there are colors is split into copies: itself and its phantoms. A copy holds at most
one constraint of each color, so a particle with n_c constraints of color c needs max_c n_c copies, and the fewest there
can be are its constraints over the number of colors, rounded up. So constraints are colored first, each with the color
that asks for the fewest copies beyond those, and copies are handed out afterwards, in turn.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import checks
from ..caching import kept_arrays
from ..errors import InputError
from ..graph import Graph, constraint_graph
from ..kernels.compile import compiled
from ..progress import pieces
from .base import Coloring
from .by_name import color
from .cliques import clique_number, maximal_cliques
from .greedy import smallest_last_order

PARTICLES, BRON_KERBOSCH = "particles", "bron-kerbosch"
SPLIT, PAPER, HALF = "split", "paper", "half"
SWEEPS = 3  # the second saves some phantoms, the third a few, a fourth hardly any
UNEVEN = 1.5  # largest batch over the mean, from which on a coloring that fits is made anew
WORTH_KEEPING = 20_000  # constraints; fewer are partitioned faster than a file is read


@dataclass(frozen=True, eq=False)
class PhantomGroup:
    """A group's constraints, on copies."""

    name: str
    vertices: np.ndarray  # (m, arity) int32; numbers from `particle_count` on are phantoms
    coloring: Coloring
    target: int  # the number of colors that was asked for
    plain: Coloring  # without phantoms

    @property
    def unevenness(self) -> float:
        """The largest batch over the mean."""
        return 1 / self.coloring.balance


@dataclass(frozen=True, eq=False, repr=False)
class PhantomPartition:
    """Groups colored with the help of phantoms. Phantom i, numbered particle_count + i, is of `originals[i]`."""

    particle_count: int
    originals: np.ndarray  # (phantoms,) int32, ascending
    groups: tuple[PhantomGroup, ...]
    milliseconds: float

    @property
    def phantom_count(self) -> int:
        return len(self.originals)

    @cached_property
    def copies(self) -> np.ndarray:
        """How many copies each particle has, itself among them."""
        return 1 + np.bincount(self.originals, minlength=self.particle_count).astype(np.int32)

    @property
    def phantom_constraints(self) -> list[np.ndarray]:
        """One for each particle that was split: its number and those of its phantoms, which all must coincide."""
        split, first = np.unique(self.originals, return_index=True)
        phantoms = self.particle_count + np.arange(self.phantom_count, dtype=np.int32)
        return [np.append(p, own).astype(np.int32) for p, own in zip(split, np.split(phantoms, first[1:]))]

    @property
    def report(self) -> list[dict[str, Any]]:
        """Plain numbers for each group, before and after."""
        return [
            {
                "of": group.name,
                "constraints": len(group.vertices),
                "colors before": group.plain.count,
                "target": group.target,
                "colors": group.coloring.count,
                "smallest": int(group.coloring.sizes.min(initial=len(group.vertices))),
                "largest": int(group.coloring.sizes.max(initial=0)),
                "largest/mean": group.unevenness,
                "phantoms": self.phantom_count,
                "phantom constraints": int((self.copies > 1).sum()),
                "milliseconds": self.milliseconds,
                "sizes": group.coloring.sizes.tolist(),
                "sizes before": group.plain.sizes.tolist(),
            }
            for group in self.groups
        ]

    def __repr__(self) -> str:
        colors = ", ".join(f"{g.name} {g.plain.count} -> {g.coloring.count} colors" for g in self.groups)
        return f"<PhantomPartition: {colors}; {self.phantom_count} phantoms of {(self.copies > 1).sum()} particles>"


def check_colors(colors: int | str, least: int) -> None:
    """An error unless it is a number of colors, or "half" of what a graph needs."""
    if isinstance(colors, str) and colors != HALF:
        raise InputError(f"colors is {colors!r}; it must be a whole number, at least {least}, or 'half'")
    if not isinstance(colors, str):
        checks.whole("colors", colors, least)


def partition(
    groups: Any,
    colors: int | str = HALF,
    insertion: str = SPLIT,
    cliques: str = PARTICLES,
    particle_count: int | None = None,
    keep: bool = True,
) -> PhantomPartition:
    """Color each group of constraints with at most `colors` colors, by splitting particles.

    groups: those of a model, or arrays (m, arity) of particles, in a list or by name.
    colors: at least 2, or "half": half of the largest clique in each group, which paper 000 advises.
    insertion: "split" makes as few phantoms as it can, in batches of nearly equal size; "paper" is its printed
        algorithm 2, where each constraint of a clique that is too large gets a phantom of its own, and the number of
        colors may still come out larger.
    cliques: "particles" takes the constraints around each particle for the cliques, which most of them are;
        "bron-kerbosch" finds all.
    keep: keep what was found in a file (`vivace doctor` says where), for the next time with the same constraints.
    """
    start = time.perf_counter()
    checks.choice("insertion", insertion, (SPLIT, PAPER))
    checks.choice("cliques", cliques, (PARTICLES, BRON_KERBOSCH))
    check_colors(colors, 2)
    names, corners = _named(groups)
    count = 1 + max((int(vertices.max(initial=-1)) for vertices in corners), default=-1)
    count = count if particle_count is None else checks.whole("particle_count", particle_count, count)

    def make() -> dict[str, np.ndarray]:
        return _make(corners, count, colors, insertion, cliques)

    key = colors if isinstance(colors, str) else int(colors), insertion, cliques, count, *corners
    worth = keep and sum(map(len, corners)) >= WORTH_KEEPING
    wanted = {
        "originals",
        "targets",
        *(f"{part}{i}" for part in ("slots", "plain", "colors") for i in range(len(names))),
    }
    found = kept_arrays("phantoms", key, make, wanted) if worth else make()
    originals = found["originals"]
    phantoms_before = np.searchsorted(originals, np.arange(count))
    made = []
    for i, (name, vertices) in enumerate(zip(names, corners)):
        slots = found[f"slots{i}"]
        altered = np.where(slots > 0, count + phantoms_before[vertices] + slots - 1, vertices).astype(np.int32)
        graph = constraint_graph(altered, count + len(originals))
        plain = Coloring(constraint_graph(vertices, count), found[f"plain{i}"], "smallest-last")
        coloring = Coloring(graph, found[f"colors{i}"], f"phantoms, {insertion}").validate()
        made.append(PhantomGroup(name, altered, coloring, int(found["targets"][i]), plain))
    return PhantomPartition(count, originals, tuple(made), (time.perf_counter() - start) * 1e3)


def _named(groups: Any) -> tuple[list[str], list[np.ndarray]]:
    """Names and corners of each group."""
    if isinstance(groups, Mapping):
        pairs = list(groups.items())
    elif isinstance(groups, Sequence) and not isinstance(groups, str):
        pairs = [(getattr(g, "name", f"group {i}"), getattr(g, "vertices", g)) for i, g in enumerate(groups)]
    else:
        raise InputError(f"groups: expected groups of constraints, got {type(groups).__name__}; try [groups]")
    corners = []
    for name, vertices in pairs:
        try:
            array = np.asarray(vertices)
        except ValueError as problem:
            raise InputError(f"{name}: rows of different lengths") from problem
        if array.ndim != 2:
            raise InputError(f"{name}: expected an array (constraints, particles of each), got shape {array.shape}")
        checked = checks.indices(name, array, 2**31 - 1, array.shape[1], "particle")
        ordered = np.sort(checked, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if twice.any():
            raise InputError(f"{name}: constraint {int(np.argmax(twice))} names a particle twice")
        corners.append(checked)
    return [str(name) for name, _ in pairs], corners


def _make(
    groups: list[np.ndarray], count: int, colors: int | str, insertion: str, cliques: str
) -> dict[str, np.ndarray]:
    """All that takes time: a color for each constraint, and for each corner a slot, 0 for the particle itself."""
    found: dict[str, np.ndarray] = {}
    copies, targets = np.ones(count, np.int32), []
    for i, vertices in enumerate(groups):
        graph = constraint_graph(vertices, count)
        plain = color(graph)
        exact = cliques == BRON_KERBOSCH
        if isinstance(colors, str):
            target = max((clique_number(graph) if exact else graph.largest_hub) // 2, 2)
        else:
            target = int(colors)
        targets.append(target)
        found[f"plain{i}"] = plain.colors
        if insertion == PAPER:
            slots = _as_printed(graph, vertices, count, target, exact)
            found[f"slots{i}"], needed = slots, _copies_of(slots, vertices, count)
        else:
            found[f"colors{i}"], needed = _evenly(graph, vertices, plain, target, exact)
        copies = np.maximum(copies, needed)
    for i, vertices in enumerate(groups):
        if insertion == SPLIT:
            found[f"slots{i}"] = _in_turn(vertices, np.argsort(found[f"colors{i}"], kind="stable"), copies)
        else:
            altered = _numbered(vertices, found[f"slots{i}"], count)
            found[f"colors{i}"] = color(constraint_graph(altered, int(altered.max(initial=0)) + 1)).colors
    found["originals"] = np.repeat(np.arange(count, dtype=np.int32), copies - 1)
    found["targets"] = np.array(targets)
    return found


def _numbered(vertices: np.ndarray, slots: np.ndarray, count: int) -> np.ndarray:
    """Different copies as different numbers, without gaps."""
    flat = slots.ravel().astype(np.int64) * count + vertices.ravel()
    return np.unique(flat, return_inverse=True)[1].reshape(vertices.shape).astype(np.int32)


def _copies_of(slots: np.ndarray, vertices: np.ndarray, count: int) -> np.ndarray:
    copies = np.ones(count, np.int32)
    np.maximum.at(copies, vertices.ravel(), slots.ravel() + 1)
    return copies


def _evenly(
    graph: Graph, vertices: np.ndarray, plain: Coloring, target: int, exact: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Colors that ask for few copies, and how many copies of each particle they need."""
    sizes, alone = np.diff(graph.node_offsets), np.ones(graph.hub_count, np.int32)
    if plain.count <= target and plain.balance * UNEVEN >= 1:
        return plain.colors, alone
    most = min(target, plain.count)
    planned = np.maximum(-(-sizes // most), 1).astype(np.int32)
    if exact:
        _plan_for_cliques(*_largest_first(graph, most), vertices, planned, most)
    order, _ = smallest_last_order(graph.degrees, graph.hub_offsets, graph.hubs, graph.node_offsets, graph.nodes)
    colors, used = np.full(len(vertices), -1, np.int32), np.zeros(most, np.int64)
    for sweep in range(SWEEPS):
        for piece in pieces(f"inserting phantoms, {sweep + 1} of {SWEEPS}", order):
            _color_evenly(piece, vertices, graph.node_offsets, graph.nodes, planned, colors, used)
    colors = np.unique(colors, return_inverse=True)[1].astype(np.int32)  # fewer constraints than colors leave gaps
    needed = _copies_needed(graph.node_offsets, graph.nodes, colors, most)
    if plain.count <= target and needed.max() > 1:
        return plain.colors, alone  # uneven, but without phantoms
    return colors, needed


def _largest_first(graph: Graph, target: int) -> tuple[np.ndarray, np.ndarray]:
    """All cliques above the target, as offsets and members."""
    offsets, members = maximal_cliques(graph, target)
    order = np.argsort(-np.diff(offsets), kind="stable")
    sizes = np.diff(offsets)[order]
    places = np.repeat(offsets[:-1][order] - np.cumsum(sizes) + sizes, sizes) + np.arange(len(members))
    return np.concatenate([[0], np.cumsum(sizes)]), members[places]


@compiled
def _most_shared(clique: np.ndarray, vertices: np.ndarray, tally: np.ndarray) -> tuple[int, int]:
    """The number that most constraints of a clique hold, the first of equals, and how many do."""
    best, most = -1, 0
    for c in clique:
        for p in vertices[c]:
            tally[p] += 1
            if tally[p] > most:
                best, most = p, tally[p]
    for c in clique:
        for p in vertices[c]:
            tally[p] = 0
    return best, most


@compiled
def _plan_for_cliques(
    offsets: np.ndarray, members: np.ndarray, vertices: np.ndarray, planned: np.ndarray, target: int
) -> None:
    """More copies of a clique's most shared particle, where those that there are would leave it too large."""
    tally = np.zeros(len(planned), np.int32)
    for i in range(len(offsets) - 1):
        clique = members[offsets[i] : offsets[i + 1]]
        particle, shared = _most_shared(clique, vertices, tally)
        room = max(target - (len(clique) - shared), 1)
        planned[particle] = max(planned[particle], -(-shared // room))


@compiled
def _color_evenly(
    order: np.ndarray,
    vertices: np.ndarray,
    offsets: np.ndarray,
    constraints: np.ndarray,
    planned: np.ndarray,
    colors: np.ndarray,
    used: np.ndarray,
) -> None:
    """Give each constraint, in this order, the color that needs the fewest unplanned copies; of equals the least used.

    `constraints[offsets[p]:offsets[p + 1]]` are those of particle p.
    """
    tally, blocking = np.zeros(len(used), np.int32), np.zeros(len(used), np.int32)
    for c in order:
        if colors[c] >= 0:
            used[colors[c]] -= 1
            colors[c] = -1
        for p in vertices[c]:
            around = constraints[offsets[p] : offsets[p + 1]]
            for other in around:
                if colors[other] >= 0:
                    tally[colors[other]] += 1
            for other in around:
                if colors[other] >= 0:
                    if tally[colors[other]] >= planned[p]:
                        blocking[colors[other]] += 1
                    tally[colors[other]] = 0
        best = 0
        for other in range(1, len(used)):
            fewer = blocking[other] < blocking[best]
            if fewer or (blocking[other] == blocking[best] and used[other] < used[best]):
                best = other
        blocking[:] = 0
        colors[c] = best
        used[best] += 1


@compiled
def _copies_needed(offsets: np.ndarray, constraints: np.ndarray, colors: np.ndarray, color_count: int) -> np.ndarray:
    """For each particle, the most constraints of one color."""
    needed, tally = np.ones(len(offsets) - 1, np.int32), np.zeros(color_count, np.int32)
    for p in range(len(needed)):
        around = constraints[offsets[p] : offsets[p + 1]]
        for c in around:
            tally[colors[c]] += 1
            needed[p] = max(needed[p], tally[colors[c]])
        for c in around:
            tally[colors[c]] = 0
    return needed


@compiled
def _in_turn(vertices: np.ndarray, by_color: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """A slot for each corner: constraints, color after color, take the copies of a particle in turn.

    So those of one color take different copies, and all copies get equally many.
    """
    slots, turn = np.empty_like(vertices), np.zeros(len(copies), np.int32)
    for c in by_color:
        for corner in range(vertices.shape[1]):
            p = vertices[c, corner]
            slots[c, corner] = turn[p] % copies[p]
            turn[p] += 1
    return slots


def _as_printed(graph: Graph, vertices: np.ndarray, count: int, target: int, exact: bool) -> np.ndarray:
    """Algorithm 2 of paper 000: until no clique is larger than the target, shatter their most shared particles."""
    slots, given = np.zeros_like(vertices), np.zeros(count, np.int32)
    while True:
        altered = _numbered(vertices, slots, count)
        graph = constraint_graph(altered, int(altered.max(initial=-1)) + 1)
        if exact:
            offsets, members = _largest_first(graph, target)
        else:
            large = np.flatnonzero(np.diff(graph.node_offsets) > target)
            large = large[np.argsort(-np.diff(graph.node_offsets)[large], kind="stable")]
            lists = [graph.nodes[graph.node_offsets[p] : graph.node_offsets[p + 1]] for p in large]
            offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists], dtype=np.int64)])
            members = np.concatenate([np.zeros(0, np.int32), *lists])
        if len(offsets) == 1:
            return slots
        _shatter(offsets, members, altered, vertices, slots, given)


@compiled
def _shatter(
    offsets: np.ndarray,
    members: np.ndarray,
    altered: np.ndarray,
    vertices: np.ndarray,
    slots: np.ndarray,
    given: np.ndarray,
) -> None:
    """Give each constraint of a clique that holds its most shared particle a phantom of its own."""
    unused = altered.max() + 1
    tally = np.zeros(unused + altered.size, np.int32)
    for i in range(len(offsets) - 1):
        clique = members[offsets[i] : offsets[i + 1]]
        shared, times = _most_shared(clique, altered, tally)
        if times < 2:
            continue  # an earlier clique has taken this one apart
        for c in clique:
            for corner in range(vertices.shape[1]):
                if altered[c, corner] == shared:
                    given[vertices[c, corner]] += 1
                    slots[c, corner] = given[vertices[c, corner]]
                    altered[c, corner] = unused
                    unused += 1

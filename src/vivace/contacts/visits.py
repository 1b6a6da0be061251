"""Contacts met particle by particle: colors of particles in which no contact has two, and lists for eight lanes."""

from dataclasses import dataclass

import numpy as np
from numba import prange

from ..coloring import Coloring, ColoringError
from ..graph import unsigned
from ..kernels.compile import compiled, compiled_parallel
from ..kernels.contact import ARITY, contact_normal
from ..kernels.lanes import WIDTH
from ..kernels.touch import ROWS
from ..state import aligned
from .detect import Found

SLOTS = 64  # colors that a schedule has room for, at least


def slots_for(coloring: Coloring) -> int:
    """How many colors a schedule has room for: one more than neighbors, so that without contacts all find one."""
    return max(SLOTS, coloring.count, int(coloring.graph.degrees.max(initial=0)) + 1)


@dataclass(frozen=True, eq=False)
class Meetings:
    """The contacts of each row that can move: `entries[offsets[row]:offsets[row + 1]]`, each 4 * contact + corner."""

    offsets: np.ndarray  # (rows + 1,) int64
    entries: np.ndarray  # int32, ascending for each row


def meetings(corners: np.ndarray, movable: np.ndarray, left: np.ndarray | None = None) -> Meetings:
    """Of contacts (m, 4), without those that are `left` (m,) out."""
    return Meetings(*_meetings(corners, movable, np.zeros(len(corners), np.bool_) if left is None else left))


@compiled
def _meetings(corners: np.ndarray, movable: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.zeros(len(movable) + 1, np.int64)
    for i in range(len(corners)):
        for corner in range(ARITY):
            row = corners[i, corner]
            offsets[row + 1] += movable[row] and not left[i]
    for row in range(len(movable)):
        offsets[row + 1] += offsets[row]
    entries, places = np.empty(offsets[-1], np.int32), offsets[:-1].copy()
    for i in range(len(corners)):
        for corner in range(ARITY):
            row = corners[i, corner]
            if movable[row] and not left[i]:
                entries[places[row]] = ARITY * i + corner
                places[row] += 1
    return offsets, entries


@dataclass(frozen=True, eq=False)
class VertexColors:
    """Colors of particles for some contacts, and the contacts that found no room."""

    colors: np.ndarray  # (particles,) int32
    left: np.ndarray  # (m,) bool

    @property
    def count(self) -> int:
        return int(self.colors.max(initial=-1)) + 1

    @property
    def overflow(self) -> int:
        return int(self.left.sum())

    def validate(self, coloring: Coloring, corners: np.ndarray, movable: np.ndarray) -> None:
        """An error if neighbors in the graph of `coloring`, or corners of a contact that is not left, share a color."""
        Coloring(coloring.graph, self.colors, "colors with contacts").validate()
        for i in np.flatnonzero(~self.left):
            rows = corners[i][movable[corners[i]]]
            if len(np.unique(self.colors[rows])) < len(rows):
                raise ColoringError(f"colors with contacts: two corners of contact {i}, {rows.tolist()}, share a color")


def colors_with(
    coloring: Coloring, corners: np.ndarray, movable: np.ndarray, met: Meetings, slots: int
) -> VertexColors:
    """A coloring made proper for contacts too; it depends on nothing but the two.

    In the order of their numbers, particles that share a color with a lower one in a contact take the first that none
    of their neighbors has. Where all `slots` are taken, it is the first that none has of those in the graph itself, and
    contacts that still hold two particles of one color are left out.
    """
    graph = coloring.graph
    lists = unsigned(graph.hub_offsets, graph.hubs, graph.node_offsets, graph.nodes)
    contacts = *unsigned(corners), movable, *unsigned(met.offsets, met.entries)
    colors, crowded = _repaired(coloring.colors, *lists, *contacts, slots)
    if np.array_equal(colors, coloring.colors):
        colors = coloring.colors  # itself, so that nobody needs to make a new order of visits
    left = _sharing(colors, corners, movable) if crowded else np.zeros(len(corners), np.bool_)
    return VertexColors(colors, left)


@compiled
def _repaired(
    before: np.ndarray,
    hub_offsets: np.ndarray,
    hubs: np.ndarray,
    node_offsets: np.ndarray,
    nodes: np.ndarray,
    corners: np.ndarray,
    movable: np.ndarray,
    offsets: np.ndarray,
    entries: np.ndarray,
    slots: int,
) -> tuple[np.ndarray, int]:
    """The colors, and how many particles found none that is free in their contacts too."""
    colors, crowded = before.astype(np.int32), 0
    met = np.full(len(movable), slots, np.uint32)  # colors again, but none for those that cannot move
    for node in range(len(colors)):
        if movable[node]:
            met[node] = colors[node]
    held_by, met_by = np.full(slots, -1, np.int64), np.full(slots + 1, -1, np.int64)
    for node in range(len(colors)):
        clashes = False
        for entry in range(offsets[node], offsets[node + 1]):
            for corner in range(ARITY):
                other = corners[entries[entry] >> np.uint32(2), corner]
                met_by[met[other]] = node
                clashes |= other < node and met[other] == met[node]
        if clashes:
            for h in range(hub_offsets[node], hub_offsets[node + 1]):
                for m in range(node_offsets[hubs[h]], node_offsets[hubs[h] + 1]):
                    if nodes[m] != node:
                        held_by[colors[nodes[m]]] = node
            color = _first_free(held_by, met_by, node, slots)
            if color == slots:
                color = _first_free(held_by, held_by, node, slots)
                crowded += 1
            colors[node] = met[node] = color
    return colors, crowded


@compiled
def _first_free(held_by: np.ndarray, met_by: np.ndarray, node: int, slots: int) -> int:
    """The first color that neither list has for this node, or `slots`."""
    color = 0
    while color < slots and (held_by[color] == node or met_by[color] == node):
        color += 1
    return color


@compiled
def _sharing(colors: np.ndarray, corners: np.ndarray, movable: np.ndarray) -> np.ndarray:
    """Which contacts have two corners that can move and are of one color."""
    sharing = np.zeros(len(corners), np.bool_)
    for i in range(len(corners)):
        for one in range(ARITY):
            for other in range(one):
                a, b = corners[i, one], corners[i, other]
                sharing[i] |= movable[a] and movable[b] and colors[a] == colors[b]
    return sharing


@dataclass(frozen=True, eq=False)
class TouchLists:
    """The contacts of the particles of each color, side by side for eight of them, padded to the longest list."""

    found: Found
    first_block: np.ndarray  # (slots + 1,) int64
    particles: np.ndarray  # (blocks, 8) int32
    bounds: np.ndarray  # (blocks + 1,) int32, lists of each block
    corners: np.ndarray  # (at least the lists, 8, 4) int32
    contacts: np.ndarray  # (at least the lists, 8) int32, their first rows; behind the last one, if there is none
    own: np.ndarray  # (at least the lists, 8) float32, the share of the particle
    taken: np.ndarray  # (at least the lists, 3, 8) float32, of the contact's push
    rows: np.ndarray  # (at least ROWS (m + 1), 4) float32, of each contact, see `touch_kernel`

    def begin(self, start: np.ndarray, here: np.ndarray) -> None:
        """A substep in which particles go from the rows `start` to `here`: nothing has been pushed yet."""
        corners = self.found.corners
        data = turned(corners, self.found.data, start)
        _write_rows(corners, data, start, crowding(corners, data, here), self.rows)
        self.taken[: self.bounds[-1]] = 0


def touch_lists(
    found: Found, met: Meetings, colors: np.ndarray, slots: int, reuse: TouchLists | None = None
) -> TouchLists:
    """Into the memory of older lists, if it is large enough."""
    first_block, particles, bounds = _in_blocks_of_color(met.offsets, colors, slots)
    count = int(bounds[-1])
    corners = _room(reuse, "corners", count, (WIDTH, ARITY), np.int32)
    contacts = _room(reuse, "contacts", count, (WIDTH,), np.int32)
    own = _room(reuse, "own", count, (WIDTH,), np.float32)
    taken = _room(reuse, "taken", count, (3, WIDTH), np.float32)
    rows = _room(reuse, "rows", ROWS * (len(found) + 1), (4,), np.float32)
    _fill(particles, bounds, met.offsets, met.entries, found.corners, found.data, corners, contacts, own)
    return TouchLists(found, first_block, particles, bounds, corners, contacts, own, taken, rows)


def _room(reuse: TouchLists | None, name: str, count: int, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Old memory if it is large enough, for new pages cost more than filling them; else some more than is needed."""
    before = None if reuse is None else getattr(reuse, name)
    return before if before is not None and len(before) >= count else aligned((count + count // 4 + 1, *shape), dtype)


@compiled_parallel
def turned(corners: np.ndarray, data: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Data of contacts with their directions in a substep, see `contact_normal`."""
    made = data.copy()
    for i in prange(len(corners)):
        x, y, z = np.float32(0), np.float32(0), np.float32(0)
        for corner in range(ARITY):
            share, row = data[i, corner], corners[i, corner]
            x, y, z = x + share * start[row, 0], y + share * start[row, 1], z + share * start[row, 2]
        shares = data[i, 0], data[i, 1], data[i, 2], data[i, 3]
        normal = contact_normal((x, y, z), (*shares, data[i, 4], data[i, 5], data[i, 6]))
        made[i, 4], made[i, 5], made[i, 6] = normal
    return made


@compiled
def crowding(corners: np.ndarray, data: np.ndarray, here: np.ndarray) -> np.ndarray:
    """How many contacts (m, 4) of each row press where the rows are now, at least 1."""
    counts = np.zeros(len(here), np.float32)
    for i in range(len(corners)):
        gap = np.float32(0)
        for corner in range(ARITY):
            for axis in range(3):
                gap += data[i, corner] * here[corners[i, corner], axis] * data[i, 4 + axis]
        if gap < data[i, 7]:
            for corner in range(ARITY):
                counts[corners[i, corner]] += 1
    return np.maximum(counts, np.float32(1))


@compiled
def _in_blocks_of_color(
    offsets: np.ndarray, colors: np.ndarray, slots: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Particles that have contacts, by color, and the bounds of each block's lists.

    Those with most contacts come first, so that little is padded. A color is filled up to whole blocks by repeating its
    last particle.
    """
    lengths = np.diff(offsets)[: len(colors)]
    sizes, first_block = np.zeros(slots, np.int64), np.zeros(slots + 1, np.int64)
    for row in range(len(colors)):
        sizes[colors[row]] += lengths[row] > 0
    for color in range(slots):
        first_block[color + 1] = first_block[color] + (sizes[color] + WIDTH - 1) // WIDTH
    particles, places = np.zeros((first_block[-1], WIDTH), np.int32), first_block[:-1] * WIDTH
    flat, bounds = particles.ravel(), np.zeros(len(particles) + 1, np.int32)
    for row in _longest_first(lengths):
        flat[places[colors[row]]] = row
        places[colors[row]] += 1
    for color in range(slots):
        for place in range(places[color], first_block[color + 1] * WIDTH):
            flat[place] = flat[place - 1]
    for block in range(len(particles)):
        bounds[block + 1] = bounds[block] + lengths[particles[block, 0]]
    return first_block, particles, bounds


@compiled
def _longest_first(lengths: np.ndarray) -> np.ndarray:
    """The numbers of the lists that are not empty, equally long ones in their own order."""
    most = lengths.max() if len(lengths) else 0
    places = np.zeros(most + 1, np.int64)  # how many lists are longer
    for length in lengths:
        if length:
            places[length - 1] += 1
    for length in range(most - 1, -1, -1):
        places[length] += places[length + 1]
    order = np.empty(places[0], np.int32)
    for i in range(len(lengths)):
        if lengths[i]:
            order[places[lengths[i]]] = i
            places[lengths[i]] += 1
    return order


@compiled_parallel
def _write_rows(corners: np.ndarray, data: np.ndarray, start: np.ndarray, crowd: np.ndarray, rows: np.ndarray) -> None:
    """Contacts as `touch_kernel` reads them; behind the last one there is one without shares, which moves nothing."""
    rows[ROWS * len(corners) : ROWS * (len(corners) + 1)] = 0
    for i in prange(len(corners)):
        x, y, z = np.float32(0), np.float32(0), np.float32(0)
        weight, split = np.float32(0), np.float32(0)
        for corner in range(ARITY):
            share, row = data[i, corner], corners[i, corner]
            x, y, z = x + share * start[row, 0], y + share * start[row, 1], z + share * start[row, 2]
            weight += start[row, 3] * share**2
            split += start[row, 3] * share**2 * crowd[row]
        first = ROWS * i
        for k in range(4):
            rows[first, k], rows[first + 1, k] = 0, 0
            rows[first + 2, k], rows[first + 3, k] = data[i, k], data[i, 4 + k]
        rows[first, 3] = weight
        rows[first + 4, 0], rows[first + 4, 1], rows[first + 4, 2] = x, y, z
        rows[first + 4, 3] = 1 / split if split > 0 else 0


@compiled_parallel
def _fill(
    particles: np.ndarray,
    bounds: np.ndarray,
    offsets: np.ndarray,
    entries: np.ndarray,
    corners: np.ndarray,
    data: np.ndarray,
    listed: np.ndarray,
    contacts: np.ndarray,
    own: np.ndarray,
) -> None:
    """What is padded is a contact of the particle with itself that has no shares, and moves nothing."""
    for block in prange(len(particles)):
        for slot in range(bounds[block], bounds[block + 1]):
            for lane in range(WIDTH):
                row = particles[block, lane]
                entry = offsets[row] + slot - bounds[block]
                if entry < offsets[row + 1]:
                    i, corner = entries[entry] // ARITY, entries[entry] % ARITY
                    for k in range(ARITY):
                        listed[slot, lane, k] = corners[i, k]
                    contacts[slot, lane], own[slot, lane] = ROWS * i, data[i, corner]
                else:
                    for k in range(ARITY):
                        listed[slot, lane, k] = row
                    contacts[slot, lane], own[slot, lane] = ROWS * len(corners), 0

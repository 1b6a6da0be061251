"""Springs in blocks of particles that lie side by side, and what blocks owe each other."""

from dataclasses import dataclass

import numpy as np

from .batches import Partition
from .constraints import stretch
from .errors import InputError
from .kernels.compile import compiled
from .kernels.implicit import STRENGTHS
from .kernels.lanes import WIDTH
from .model import Model


@dataclass(frozen=True, eq=False)
class Net:
    """Springs side by side for eight rows at a time, padded to the longest list of the eight.

    Each spring is listed once, at one of its ends; one that joins two blocks in the lower of both. Those of rows 8 i to
    8 i + 7 are slots bounds[i] to bounds[i + 1]. Values stand once, however many slots are alike: kinds have the place
    of a slot's eight springs in each table.

    What springs do to their ends is added up row by row. A block writes to its own rows alone: for each row of another
    block that its springs end at it has a due, a row of its own behind all others; blocks claim what is due to them.

    Blocks of rows begin at a multiple of eight. A net may be a part of another: then neighbors may be rows beyond those
    of its own blocks, the last dues are those of others, and its blocks have the numbers `ids` among the `total` of the
    whole.
    """

    bounds: np.ndarray  # (eights + 1,) int32
    neighbors: np.ndarray  # (slots, 8) int32, the other end; a row itself where its list has ended
    kinds: np.ndarray  # (slots, 2) int32
    strengths: np.ndarray  # (s, 2, 8) float32: stiffness [N/m], damping [N s/m]; 0 beyond the end of a list
    rests: np.ndarray  # (r, 8) float32: rest length [m]
    drag: np.ndarray  # (rows,) float32, of air [kg/s]
    starts: np.ndarray  # (blocks + 1,) int64, the first row of each block
    dues: "Dues"
    ids: np.ndarray  # (blocks,) int32
    total: int
    name: str  # of the group that all springs are in; none where there are no springs

    @property
    def rows(self) -> int:
        return WIDTH * (len(self.bounds) - 1)

    @property
    def eights(self) -> np.ndarray:
        """(blocks + 1,) int32, the first eight rows of each block."""
        return (self.starts // WIDTH).astype(np.int32)

    @property
    def rows_of_a_block(self) -> int:
        """Those of the largest."""
        return int(np.diff(self.starts).max(initial=WIDTH))

    @property
    def sizes(self) -> dict[str, int]:
        """How many springs there are in the group, if there is one."""
        slots = np.bincount(self.kinds[:, 0], minlength=len(self.strengths))
        return {self.name: int(slots @ (self.strengths[:, 0] > 0).sum(axis=1))} if self.name else {}

    @property
    def outside_slots(self) -> np.ndarray:
        """How many slots each eight has, if some of its springs leave the block; else 0."""
        return np.where(self.dues.outside < 0, 0, np.diff(self.bounds))


@dataclass(frozen=True, eq=False)
class Dues:
    """What springs between blocks are added to. Places are those of rows and, behind them, of dues."""

    outside: np.ndarray  # (eights,) int32, where the targets of an eight's slots begin; -1 if all are its neighbors
    targets: np.ndarray  # (t, 8) int32, places: neighbors in the same block, else dues
    starts: np.ndarray  # (blocks + 1,) int32, places: the dues of each block
    claims: np.ndarray  # (c, 2) int32, a row and a due that belongs to it; of each block, in the order of its rows
    claim_starts: np.ndarray  # (blocks + 1,) int32
    reach: np.ndarray  # (blocks,) int32, by how many eights at most a target is ahead of the rows that its spring is at
    count: int

    def debtors(self) -> tuple[np.ndarray, np.ndarray]:
        """The blocks that each block has dues from, and where they begin. The number of blocks is for all elsewhere."""
        return self._listed(*self._pairs())

    def creditors(self) -> tuple[np.ndarray, np.ndarray]:
        """The blocks that each block has dues for, and where they begin, without those elsewhere."""
        owed, owing = self._pairs()
        here = owing < len(self.starts) - 1
        return self._listed(owing[here], owed[here])

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        blocks = len(self.starts) - 1
        owed = np.repeat(np.arange(blocks), np.diff(self.claim_starts))
        return owed, np.searchsorted(self.starts, self.claims[:, 1], side="right") - 1

    def _listed(self, blocks: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each block's others once, and where they begin."""
        size = len(self.starts)
        pairs = np.unique(blocks * size + others)
        starts = np.searchsorted(pairs, np.arange(size) * size)
        return (pairs % size).astype(np.int32), starts.astype(np.int32)


def check_springs(model: Model, solver: str) -> None:
    """An error if some constraints are not springs, or have a rest length below 0."""
    for group in model.groups:
        reason = None
        if group.constraint is not stretch:
            reason = "is no spring between two particles"
        elif group.compliance is None:
            reason = "has a stiffness ratio, without a unit"
        elif not (group.compliance > 0).all():
            reason = "is rigid"
        if reason:
            raise InputError(
                f"solver {solver!r} moves nets of springs, but group {group.name!r} {reason}; "
                f"use vivace.MassSpring as material"
            )
        shorter = np.flatnonzero(group.rest < 0)
        if len(shorter):
            ends, rest = group.vertices[shorter[0]], group.rest[shorter[0]]
            raise InputError(
                f"group {group.name!r}: the spring between particles {ends[0]} and {ends[1]} has a rest length of "
                f"{rest:g} m, but solver {solver!r} takes 0 and more"
            )


def make_net(model: Model, order: np.ndarray, row_of: np.ndarray, starts: np.ndarray) -> Net:
    """The springs of all groups, in an order of the particles, and in blocks that begin at these rows."""
    rows_of = row_of.astype(np.int32)
    pairs = np.concatenate([np.zeros((0, 2), np.int32), *(rows_of[group.vertices] for group in model.groups)])
    strengths, rests = np.empty((len(pairs), STRENGTHS), np.float32), np.empty((len(pairs), 1), np.float32)
    first = 0
    for group in model.groups:
        part = slice(first, first + len(group))
        assert group.compliance is not None
        strengths[part, 0], rests[part, 0] = 1 / group.compliance, group.rest
        strengths[part, 1] = 0 if group.damping is None else group.damping
        first += len(group)
    bounds, neighbors, numbers = _listed(pairs, starts)
    kinds = np.empty((len(neighbors), 2), np.int32)
    strengths, rests = (_palette(numbers, values, kinds[:, i]) for i, values in enumerate((strengths, rests)))
    drag = np.zeros(starts[-1], np.float32)
    drag[: len(order)] = model.drag[order]
    ids = np.arange(len(starts) - 1, dtype=np.int32)
    dues = _make_dues(bounds, neighbors, starts)
    springs = bounds, neighbors, kinds, strengths, rests[:, 0]
    return Net(*springs, drag, starts, dues, ids, len(ids), model.groups[0].name if model.groups else "")


def in_one_batch(vertices: np.ndarray, particle_count: int) -> tuple[Partition, None]:
    """Springs as they are: nobody goes through them but by the net."""
    return Partition(np.arange(len(vertices), dtype=np.int32), np.array([0, len(vertices)])), None


@compiled
def _listed(pairs: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs by one of their ends, in the order in which they are given: bounds, neighbors, and numbers of pairs.

    Those between blocks are listed at the lower row; within a block the longer list gives way.
    """
    rows = starts[-1]
    block_of, place = np.empty(rows, np.int32), np.zeros(rows, np.int32)
    for block in range(len(starts) - 1):
        block_of[starts[block] : starts[block + 1]] = block
    for pair in range(len(pairs)):
        place[min(pairs[pair, 0], pairs[pair, 1])] += 1
    ends = np.empty(len(pairs), np.int8)
    for pair in range(len(pairs)):
        here = 0 if pairs[pair, 0] < pairs[pair, 1] else 1
        low, high = pairs[pair, here], pairs[pair, 1 - here]
        ends[pair] = here
        if block_of[low] == block_of[high] and place[low] > place[high] + 1:
            ends[pair] = 1 - here
            place[low] -= 1
            place[high] += 1
    bounds = np.zeros(rows // WIDTH + 1, np.int32)
    for eight in range(rows // WIDTH):
        bounds[eight + 1] = bounds[eight] + place[eight * WIDTH : (eight + 1) * WIDTH].max()
    neighbors, numbers = np.empty((bounds[-1], WIDTH), np.int32), np.full((bounds[-1], WIDTH), -1, np.int32)
    for row in range(rows):
        neighbors[bounds[row // WIDTH] : bounds[row // WIDTH + 1], row % WIDTH] = row
    place[:] = 0
    for pair in range(len(pairs)):
        row = pairs[pair, ends[pair]]
        slot = bounds[row // WIDTH] + place[row]
        neighbors[slot, row % WIDTH], numbers[slot, row % WIDTH] = pairs[pair, 1 - ends[pair]], pair
        place[row] += 1
    return bounds, neighbors, numbers


def _make_dues(bounds: np.ndarray, neighbors: np.ndarray, starts: np.ndarray) -> Dues:
    outside, targets, due_starts, rows = _due(bounds, neighbors, starts)
    order = np.argsort(rows, kind="stable").astype(np.int32)
    claims = np.stack([rows[order], order + due_starts[0]], axis=1)
    claim_starts = np.searchsorted(claims[:, 0], starts).astype(np.int32)
    return Dues(outside, targets, due_starts, claims, claim_starts, _reach(bounds, neighbors, starts), len(rows))


@compiled
def _due(
    bounds: np.ndarray, neighbors: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The dues of all blocks: `outside`, `targets` and `starts` of `Dues`, and the row that each due belongs to."""
    eights, blocks, slots = len(bounds) - 1, len(starts) - 1, 0
    outside, due_starts = np.full(eights, -1, np.int32), np.empty(blocks + 1, np.int32)
    for block in range(blocks):  # how many targets there are
        for eight in range(starts[block] // WIDTH, starts[block + 1] // WIDTH):
            own = neighbors[bounds[eight] : bounds[eight + 1]]
            if own.size and (own.min() < starts[block] or own.max() >= starts[block + 1]):
                outside[eight] = slots
                slots += len(own)
    targets = np.empty((slots, WIDTH), np.int32)
    due_of, met, found = np.full(eights * WIDTH, -1, np.int32), np.empty(slots * WIDTH, np.int32), 0
    place = eights * WIDTH
    for block in range(blocks):
        first, due_starts[block] = found, place + found
        for eight in range(starts[block] // WIDTH, starts[block + 1] // WIDTH):
            if outside[eight] >= 0:
                for lane in range(WIDTH):
                    for slot in range(bounds[eight + 1] - bounds[eight]):
                        row = neighbors[bounds[eight] + slot, lane]
                        if starts[block] <= row < starts[block + 1]:
                            targets[outside[eight] + slot, lane] = row
                            continue
                        if due_of[row] < place + first:
                            due_of[row], met[found] = place + found, row
                            found += 1
                        targets[outside[eight] + slot, lane] = due_of[row]
    due_starts[blocks] = place + found
    return outside, targets, due_starts, met[:found].copy()


@compiled
def _reach(bounds: np.ndarray, neighbors: np.ndarray, starts: np.ndarray) -> np.ndarray:
    reach = np.zeros(len(starts) - 1, np.int32)
    for block in range(len(reach)):
        for eight in range(starts[block] // WIDTH, starts[block + 1] // WIDTH):
            for row in neighbors[bounds[eight] : bounds[eight + 1]].flat:
                if row < starts[block + 1]:
                    reach[block] = max(reach[block], row // WIDTH - eight)
    return reach


@compiled
def _palette(numbers: np.ndarray, values: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Number slots by what their springs are like, so that those that are alike have one number; gives these values."""
    slots, bits = len(numbers), values.view(np.uint32)
    size = 1
    while size < 2 * slots + 2:
        size *= 2
    known = np.full(size, -1, np.int32)  # kinds by their hash, each at the first free place from there on
    first_of, count = np.empty(slots, np.int32), 0
    for slot in range(slots):
        mixed = np.uint64(14695981039346656037)
        for lane in range(WIDTH):
            number = numbers[slot, lane]
            for k in range(values.shape[1]):
                mixed = (mixed ^ np.uint64(bits[number, k] if number >= 0 else 0)) * np.uint64(1099511628211)
        place = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(size - 1))
        while known[place] >= 0 and not _alike(numbers[slot], numbers[first_of[known[place]]], bits):
            place = (place + 1) & (size - 1)
        if known[place] < 0:
            known[place], first_of[count] = count, slot
            count += 1
        kinds[slot] = known[place]
    palette = np.zeros((count, values.shape[1], WIDTH), np.float32)
    for kind in range(count):
        for lane in range(WIDTH):
            number = numbers[first_of[kind], lane]
            if number >= 0:
                palette[kind, :, lane] = values[number]
    return palette


@compiled
def _alike(one: np.ndarray, other: np.ndarray, bits: np.ndarray) -> bool:
    """Whether eight springs have the same values as eight others; -1 is none."""
    for lane in range(WIDTH):
        a, b = one[lane], other[lane]
        if a == b:
            continue
        if a < 0 or b < 0:
            return False
        for k in range(bits.shape[1]):
            if bits[a, k] != bits[b, k]:
                return False
    return True

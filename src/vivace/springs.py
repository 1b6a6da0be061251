"""Springs as each particle sees them, in blocks of particles that lie side by side."""

from dataclasses import dataclass

import numpy as np
from numba import prange

from .constraints import stretch
from .errors import InputError
from .halving import halve
from .kernels.compile import compiled, compiled_parallel
from .kernels.implicit import SPRING_VALUES
from .kernels.lanes import WIDTH
from .model import Model

FEWEST_ROWS, MOST_BLOCKS = 256, 1024  # of a block, and of all, unless the user says otherwise


@dataclass(frozen=True, eq=False)
class Net:
    """The springs of row i are entries offsets[i] to offsets[i + 1]; each spring is listed at both of its ends.

    Blocks of rows begin at a multiple of eight. A net may be a part of another: then its neighbors may be rows beyond
    those of its own blocks, and its blocks have the numbers `ids` among the `total` of the whole.
    """

    offsets: np.ndarray  # (rows + 1,) int64
    neighbors: np.ndarray  # (entries,) int32
    values: np.ndarray  # (entries, 3) float32: stiffness [N/m], rest length [m], damping [N s/m]
    drag: np.ndarray  # (rows,) float32, of air [kg/s]
    starts: np.ndarray  # (blocks + 1,) int64, the first row of each block
    ids: np.ndarray  # (blocks,) int32
    total: int

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    def forget(self) -> None:
        """Give back the memory of the springs, where they are laid out and nobody will ask for them again."""
        object.__setattr__(self, "neighbors", self.neighbors[:0].copy())
        object.__setattr__(self, "values", self.values[:0].copy())


@dataclass(frozen=True, eq=False)
class SpringLists:
    """A net side by side for eight rows at a time, padded to the longest list of the eight."""

    bounds: np.ndarray  # (eights + 1,) int32, slots of each eight
    neighbors: np.ndarray  # (slots, 8) int32
    springs: np.ndarray  # (slots, 3, 8) float32


def check_springs(model: Model, solver: str) -> None:
    """An error if some constraints are not springs."""
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


def make_net(model: Model, order: np.ndarray, vertices: list[np.ndarray], blocks: int | None) -> Net:
    """The springs of all groups, given on rows in an order of the particles; at most `blocks` blocks, if given."""
    count = model.particle_count
    if blocks is not None and blocks > count:
        raise InputError(f"{blocks} blocks are more than there are particles ({count})")
    wanted = max(-(-count // MOST_BLOCKS), FEWEST_ROWS) if blocks is None else -(-count // blocks)
    pairs = np.concatenate([*vertices, np.zeros((0, 2), np.int32)]).astype(np.int32, copy=False)
    values = np.empty((len(pairs), SPRING_VALUES), np.float32)
    first = 0
    for group in model.groups:
        part = values[first : first + len(group)]
        assert group.compliance is not None
        part[:, 0], part[:, 1] = 1 / group.compliance, group.rest
        part[:, 2] = 0 if group.damping is None else group.damping
        first += len(group)
    rows = whole_eights(count)
    offsets, neighbors, listed = _listed(pairs, values, rows)
    starts = np.append(np.arange(0, rows, whole_eights(wanted)), rows)
    drag = np.zeros(rows, np.float32)
    drag[:count] = model.drag[order]
    return Net(offsets, neighbors, listed, drag, starts, np.arange(len(starts) - 1, dtype=np.int32), len(starts) - 1)


def whole_eights(count: int) -> int:
    return -(-count // WIDTH) * WIDTH


def lay_out(net: Net) -> SpringLists:
    """The lists of a net side by side."""
    bounds = _slots(net.offsets)
    slots = int(bounds[-1])
    neighbors, springs = np.empty((slots, WIDTH), np.int32), np.zeros((slots, SPRING_VALUES, WIDTH), np.float32)
    _fill(net.offsets, net.neighbors, net.values, bounds, neighbors, springs)
    return SpringLists(bounds, neighbors, springs)


def order_in_blocks(rest: np.ndarray) -> np.ndarray:
    """Particles in an order in which those in turn are near each other without forces."""
    order = np.arange(len(rest))
    halve(rest.astype(np.float64), order, 0, len(order), True)
    return order


@compiled
def _listed(pairs: np.ndarray, values: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs by each of their ends, in the order in which they are given."""
    offsets = np.zeros(rows + 1, np.int64)
    for pair in range(len(pairs)):
        offsets[pairs[pair, 0] + 1] += 1
        offsets[pairs[pair, 1] + 1] += 1
    for row in range(rows):
        offsets[row + 1] += offsets[row]
    place = offsets[:-1].copy()
    neighbors, listed = np.empty(2 * len(pairs), np.int32), np.empty((2 * len(pairs), values.shape[1]), np.float32)
    for pair in range(len(pairs)):
        for end in range(2):
            here = place[pairs[pair, end]]
            neighbors[here] = pairs[pair, 1 - end]
            listed[here] = values[pair]
            place[pairs[pair, end]] += 1
    return offsets, neighbors, listed


@compiled
def _slots(offsets: np.ndarray) -> np.ndarray:
    eights = (len(offsets) - 1) // WIDTH
    bounds = np.zeros(eights + 1, np.int32)
    for eight in range(eights):
        longest = 0
        for row in range(eight * WIDTH, (eight + 1) * WIDTH):
            longest = max(longest, offsets[row + 1] - offsets[row])
        bounds[eight + 1] = bounds[eight] + longest
    return bounds


@compiled_parallel
def _fill(
    offsets: np.ndarray,
    own_neighbors: np.ndarray,
    values: np.ndarray,
    bounds: np.ndarray,
    neighbors: np.ndarray,
    springs: np.ndarray,
) -> None:
    for eight in prange(len(bounds) - 1):
        for lane in range(WIDTH):
            row = eight * WIDTH + lane
            entry, end = offsets[row], offsets[row + 1]
            for slot in range(bounds[eight], bounds[eight + 1]):
                if entry < end:
                    neighbors[slot, lane] = own_neighbors[entry]
                    for k in range(springs.shape[1]):
                        springs[slot, k, lane] = values[entry, k]
                    entry += 1
                else:
                    neighbors[slot, lane] = row  # itself: nothing pulls it

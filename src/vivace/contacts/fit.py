"""Colors for contacts, found anew each time: the first that is free at all four corners, else the overflow."""

from dataclasses import dataclass

import numpy as np
from numba import prange

from ..coloring import ColoringError
from ..kernels.compile import compiled, compiled_parallel
from ..kernels.lanes import WIDTH, lowest_bit
from .detect import Found
from .touching import DATA

COLORS = 64  # as many as a word has bits; what finds none of them is averaged
ALL = np.uint64(2**COLORS - 1)


@dataclass(frozen=True, eq=False)
class Batches:
    """Contacts by color, each color filled up to whole blocks of lanes; the last batch is the overflow."""

    first_block: np.ndarray  # (COLORS + 2,) int64
    corners: np.ndarray  # (blocks * 8, 4) int32
    data: np.ndarray  # (blocks, 8, 8) float32: eight numbers of eight contacts
    sizes: np.ndarray  # (COLORS + 1,) contacts of each

    @property
    def colors(self) -> int:
        return int((self.sizes[:COLORS] > 0).sum())

    @property
    def overflow(self) -> int:
        return int(self.sizes[COLORS])

    def validate(self, movable: np.ndarray) -> None:
        """An error if two contacts of one color share a particle that can move."""
        for color in range(COLORS):
            first = WIDTH * self.first_block[color]
            rows = self.corners[first : first + self.sizes[color]]
            rows = rows[movable[rows]]
            if len(np.unique(rows)) < len(rows):
                raise ColoringError(f"contacts: two of color {color} share a particle")


def find_batches(found: Found, movable: np.ndarray) -> Batches:
    """First fit in the order of the contacts; rows that are not `movable` (rows,) are in nobody's way."""
    colors = first_fit(found.corners, movable)
    sizes = np.bincount(colors, minlength=COLORS + 1)
    blocks = -(-sizes // WIDTH)
    first_block = np.concatenate([[0], np.cumsum(blocks)])
    corners, data = _write(found.corners, found.data, _members(colors, first_block, sizes))
    return Batches(first_block, corners, data, sizes)


@compiled
def first_fit(corners: np.ndarray, movable: np.ndarray) -> np.ndarray:
    """The first color that no contact before has at a corner; COLORS where there is none."""
    taken, colors = np.zeros(len(movable), np.uint64), np.empty(len(corners), np.int32)
    for i in range(len(corners)):
        there = np.uint64(0)
        for corner in range(4):
            if movable[corners[i, corner]]:
                there |= taken[corners[i, corner]]
        color = COLORS if there == ALL else lowest_bit(np.int64(~there))
        colors[i] = color
        if color < COLORS:
            for corner in range(4):
                taken[corners[i, corner]] |= np.uint64(1) << np.uint64(color)
    return colors


@compiled
def _members(colors: np.ndarray, first_block: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The contact at each place of all batches; a batch's last one is repeated until its last block is full."""
    members, places = np.empty(first_block[-1] * WIDTH, np.int32), first_block[:-1] * WIDTH
    for i in range(len(colors)):
        members[places[colors[i]]] = i
        places[colors[i]] += 1
    for batch in range(len(sizes)):
        for place in range(places[batch], first_block[batch + 1] * WIDTH):
            members[place] = members[place - 1]
    return members


@compiled_parallel
def _write(corners: np.ndarray, data: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In the layout of the kernels."""
    blocks = len(members) // WIDTH
    written, numbers = np.empty((len(members), 4), np.int32), np.empty((blocks, DATA, WIDTH), np.float32)
    for block in prange(blocks):
        for lane in range(WIDTH):
            place = block * WIDTH + lane
            for corner in range(4):
                written[place, corner] = corners[members[place], corner]
            for k in range(DATA):
                numbers[block, k, lane] = data[members[place], k]
    return written, numbers

"""Which boxes overlap: a uniform hash grid, built and asked in parallel.

Space is cut into cells, and a cell's place in the table is its coordinates modulo a power of two each: far away cells
share a place, neighbors along y lie side by side. A box is stored once, where its middle is; one that is much larger
than a cell is stored in tiles. What asks goes in chunks of fixed size, so nothing depends on the number of threads.
"""

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel, floats_at
from ..kernels.lanes import all_lanes
from ..kernels.rows import load_pair

CHUNKS = 64  # pieces of work, for any number of threads
FIRST, LAST = (1, 2, 4), (8, 16, 32)  # flags: whether a tile is its box's first or last along x, y, z
MOST_TILES = 16  # a box, on average; cells grow until this holds
FAR = 2.0**30  # cells


@compiled
def cell_of(coordinate: float, inverse: float) -> int:
    """The number of the cell along one axis."""
    return int(np.floor(min(max(coordinate * inverse, -FAR), FAR)))


@compiled
def _tiles(low: float, high: float, inverse: float) -> int:
    """Into how many tiles a box is cut along one axis: none is larger than two cells."""
    return max(int(np.ceil(min((high - low) * inverse * 0.5, FAR))), 1)


@compiled_parallel
def _tile_counts(low: np.ndarray, high: np.ndarray, inverse: float) -> np.ndarray:
    counts, count = np.zeros(CHUNKS, np.int64), len(low)
    for chunk in prange(CHUNKS):
        total = 0.0
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            tiles = 1.0
            for axis in range(3):
                tiles *= _tiles(low[i, axis], high[i, axis], inverse)
            total += tiles
        counts[chunk] = int(min(total, 1e15))
    return counts


@compiled
def _place(x: int, y: int, z: int, bits: np.ndarray) -> int:
    """Where in the table a cell is."""
    x, y, z = x & ((1 << bits[0]) - 1), y & ((1 << bits[1]) - 1), z & ((1 << bits[2]) - 1)
    return (((x << bits[2]) | z) << bits[1]) | y


@compiled_parallel
def _write(
    low: np.ndarray, high: np.ndarray, inverse: float, begins: np.ndarray, bits: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Every tile's place in the table, bounds, box and flags.

    Bounds are low x, y, z, -, then high x, y, z, - with the sign turned: a box meets a tile where eight numbers are no
    larger than the box's eight, which is one comparison of lanes.
    """
    count, total = len(low), begins[-1]
    places, tiles = np.empty(total, np.int32), np.zeros((total, 8), np.float32)
    boxes, flags = np.empty(total, np.int32), np.empty(total, np.uint8)
    for chunk in prange(CHUNKS):
        at = begins[chunk]
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            nx = _tiles(low[i, 0], high[i, 0], inverse)
            ny = _tiles(low[i, 1], high[i, 1], inverse)
            nz = _tiles(low[i, 2], high[i, 2], inverse)
            for tile in range(nx * ny * nz):
                numbers = tile % nx, tile // nx % ny, tile // (nx * ny)
                cut = nx, ny, nz
                flag = 0
                for axis in range(3):
                    size = (high[i, axis] - low[i, axis]) / np.float32(cut[axis])
                    first, last = numbers[axis] == 0, numbers[axis] == cut[axis] - 1
                    tiles[at, axis] = low[i, axis] + np.float32(numbers[axis]) * size
                    tiles[at, 4 + axis] = -(
                        high[i, axis] if last else low[i, axis] + np.float32(numbers[axis] + 1) * size
                    )
                    flag |= (FIRST[axis] if first else 0) | (LAST[axis] if last else 0)
                places[at] = _place(
                    cell_of(0.5 * (tiles[at, 0] - tiles[at, 4]), inverse),
                    cell_of(0.5 * (tiles[at, 1] - tiles[at, 5]), inverse),
                    cell_of(0.5 * (tiles[at, 2] - tiles[at, 6]), inverse),
                    bits,
                )
                boxes[at], flags[at] = i, flag
                at += 1
    return places, tiles, boxes, flags


@compiled_parallel
def _sort(
    places: np.ndarray, tiles: np.ndarray, boxes: np.ndarray, flags: np.ndarray, size: int, parts: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """By place, in the order they came: a counting sort in `parts` parts."""
    offsets, total = np.zeros(size + 1, np.int32), len(places)
    counts = np.zeros((parts, size), np.int32)
    for part in prange(parts):
        for i in range(part * total // parts, (part + 1) * total // parts):
            counts[part, places[i]] += 1
    to = 0
    for place in range(size):
        offsets[place] = to
        for part in range(parts):
            here = counts[part, place]
            counts[part, place] = to
            to += here
    offsets[size] = to
    sorted_tiles, sorted_boxes, sorted_flags = np.empty_like(tiles), np.empty_like(boxes), np.empty_like(flags)
    for part in prange(parts):
        for i in range(part * total // parts, (part + 1) * total // parts):
            to = counts[part, places[i]]
            counts[part, places[i]] = to + 1
            for k in range(8):
                sorted_tiles[to, k] = tiles[i, k]
            sorted_boxes[to], sorted_flags[to] = boxes[i], flags[i]
    return offsets, sorted_tiles, sorted_boxes, sorted_flags


@compiled
def overlapping(
    i: int,
    low: np.ndarray,
    high: np.ndarray,
    inverse: float,
    reach: np.ndarray,
    bits: np.ndarray,
    offsets: np.ndarray,
    tiles: np.ndarray,
    boxes: np.ndarray,
    flags: np.ndarray,
    asked: np.ndarray,
    found: np.ndarray,
) -> tuple[int, np.ndarray]:
    """How many stored boxes overlap box i of those from `low` to `high`, and their numbers, each once, in `found`.

    `reach` is how far a tile's middle may be from its sides.
    `asked` is scratch memory of eight floats; `found` comes back larger if there was not enough of it.
    """
    x_bits, y_bits, z_bits = bits[0], bits[1], bits[2]
    x0, x1 = cell_of(low[i, 0] - reach[0], inverse), cell_of(high[i, 0] + reach[0], inverse)
    y0, y1 = cell_of(low[i, 1] - reach[1], inverse), cell_of(high[i, 1] + reach[1], inverse)
    z0, z1 = cell_of(low[i, 2] - reach[2], inverse), cell_of(high[i, 2] + reach[2], inverse)
    x1 = min(x1, x0 + (1 << x_bits) - 1)  # once around is all there is
    y1 = min(y1, y0 + (1 << y_bits) - 1)
    z1 = min(z1, z0 + (1 << z_bits) - 1)
    top = (1 << y_bits) - 1
    begin, end = y0 & top, (y0 & top) + y1 - y0
    for axis in range(3):
        asked[axis], asked[4 + axis] = high[i, axis], -low[i, axis]
    box, stored = load_pair(floats_at(asked.ctypes.data), 0), floats_at(tiles.ctypes.data)
    count = 0
    for x in range(x0, x1 + 1):
        for z in range(z0, z1 + 1):
            column = (((x & ((1 << x_bits) - 1)) << z_bits) | (z & ((1 << z_bits) - 1))) << y_bits
            for wrapped in range(1 if end <= top else 2):  # the run of cells along y may go over the table's edge
                first = offsets[np.uint64(column + (0 if wrapped else begin))]
                last = offsets[np.uint64(column + (end - top if wrapped else min(end, top) + 1))]
                if count + last - first > len(found):
                    larger = np.empty(2 * (count + last - first), np.int32)
                    larger[:count] = found[:count]
                    found = larger
                for entry in range(first, last):
                    found[np.uint64(count)] = entry
                    count += all_lanes(load_pair(stored, entry) <= box)
    kept = 0
    for k in range(count):
        tile = found[np.uint64(k)]
        if flags[tile] == 63 or _counts_here(i, low, tiles, tile, flags[tile]):
            found[np.uint64(kept)] = boxes[tile]
            kept += 1
    return kept, found


@compiled
def _counts_here(i: int, low: np.ndarray, tiles: np.ndarray, entry: int, flag: int) -> bool:
    """Of a box in several tiles, the one counts that has the lowest corner of what both boxes share."""
    for axis in range(3):
        if low[i, axis] < tiles[entry, axis]:
            if flag & FIRST[axis] == 0:
                return False
        elif low[i, axis] >= -tiles[entry, 4 + axis] and flag & LAST[axis] == 0:
            return False
    return True


class Grid:
    """Boxes in a table of cells, for `overlapping`."""

    def __init__(self, low: np.ndarray, high: np.ndarray, cell: float, threads: int):
        self.inverse = 1 / cell
        counts = _tile_counts(low, high, self.inverse)
        while counts.sum() > MOST_TILES * len(low):
            self.inverse /= 1.5
            counts = _tile_counts(low, high, self.inverse)
        self.bits = _bits(low, high, self.inverse, int(counts.sum()))
        # No tile is wider than two cells, and rounding must not lose one.
        self.reach = np.minimum((high - low).max(axis=0, initial=0) / 2, 1 / self.inverse) * np.float32(1.0001)
        entries = _write(low, high, self.inverse, np.concatenate([[0], np.cumsum(counts)]), self.bits)
        self.offsets, self.tiles, self.boxes, self.flags = _sort(*entries, 1 << int(self.bits.sum()), threads)

    @property
    def lists(self) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What `overlapping` reads."""
        return self.inverse, self.reach, self.bits, self.offsets, self.tiles, self.boxes, self.flags


def _bits(low: np.ndarray, high: np.ndarray, inverse: float, entries: int) -> np.ndarray:
    """The table's sizes along x, y, z as powers of two: as many cells as space has, but not many more than tiles."""
    extent = np.maximum((high.max(axis=0) - low.min(axis=0)) * inverse, 1) if len(low) else np.ones(3)
    bits = np.ceil(np.log2(extent)).astype(np.int64)
    most = max(2 * entries, 64).bit_length()
    while bits.sum() > most:
        bits[np.argmax(bits)] -= 1
    return bits

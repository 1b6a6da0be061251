"""What points, edges and triangles sweep over on their way, eight at once, and whether two of them come near.

Every row goes from its middle minus half its way to its middle plus half its way, as seen by who goes along with the
mean of all; the solver may hold it back or push it aside by as much as it goes. Its way's fourth number is its own, so
that what has a corner in common is told from what is near. Or it goes nowhere in particular, but stays in a room: a
ball around its middle.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import prange

from ..kernels.compile import compiled, compiled_parallel, floats_at, ints_at
from ..kernels.lanes import WIDTH, absolute, lane_bits, lowest_bit, maximum, minimum, select, sqrt, value_function
from ..kernels.rows import gather, load_block, store_block
from ..kernels.vec3 import add, cross, dot, norm, scale, sub
from .cells import CHUNKS
from .clusters import Clusters
from .narrow import OUTER

POINT, EDGE, TRIANGLE, END = range(4)  # triangles and ends look for points, the others for their like
# Numbers of a point or an edge: middle, half of it, half way, how far beyond, how far apart its ends' ways are, rows.
SEGMENT = 13
PRISM = 26  # and of a triangle: corner, half way, normal, three sides, reach, how far beyond, apart, tilt, outer, rows
MOST_ROWS = 1 << 24  # so many whole numbers are exact in float32
ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
THIRD, TINY = np.float32(1 / 3), np.float32(1e-30)


class Rows(NamedTuple):
    """Where rows are on their ways."""

    middles: np.ndarray  # (rows, 4) float32: the middle of a way, and how far beyond it the solver may move the row
    ways: np.ndarray  # (rows, 4) float32: half the way, and the number of the row
    rooms: (
        np.ndarray
    )  # (rows,) float32, radius of the ball that it stays in beside its way; the largest of a block counts


@dataclass(frozen=True, eq=False)
class Described:
    """Members of clusters, and boxes around what they sweep over."""

    corners: np.ndarray  # (blocks * 8, arity) int32
    lanes: np.ndarray  # (blocks,) uint8, bits of the members that count
    chosen: np.ndarray  # (k,) int32, blocks that have one
    numbers: np.ndarray  # (blocks, SEGMENT or PRISM, 8) float32
    members: np.ndarray  # (blocks, 6, 8) float32, boxes: lowest and highest corners
    boxes: np.ndarray  # (k, 6) float32, around those of a chosen block that count


def describe(kind: int, clusters: Clusters, lanes: np.ndarray, rows: Rows, distance: np.float32) -> Described:
    """Those members of clusters whose bits are set; a triangle's box reaches as far as what it looks for may be."""
    chosen = np.flatnonzero(lanes).astype(np.int32)
    numbers = np.empty((clusters.blocks, PRISM if kind == TRIANGLE else SEGMENT, WIDTH), np.float32)
    members, boxes = np.empty((clusters.blocks, 6, WIDTH), np.float32), np.empty((len(chosen), 6), np.float32)
    described = Described(clusters.corners, lanes, chosen, numbers, members, boxes)
    describe_again(kind, described, np.arange(len(chosen)), rows, distance)
    return described


def describe_again(kind: int, described: Described, places: np.ndarray, rows: Rows, distance: np.float32) -> None:
    """Let those of the chosen blocks that are at some places (k,) be as rows are now."""
    of_blocks = described.corners, described.lanes, described.chosen
    _describe(kind, places, of_blocks, rows, distance, (described.numbers, described.members, described.boxes))


@compiled_parallel
def _describe(kind, places, of_blocks, of_rows, distance, described):
    for chunk in prange(CHUNKS):
        first, last = chunk * len(places) // CHUNKS, (chunk + 1) * len(places) // CHUNKS
        _describe_some(kind, places[first:last], of_blocks, of_rows, distance, described)


@compiled
def _describe_some(kind, places, of_blocks, of_rows, distance, described):
    corners, lanes, chosen = of_blocks
    middles, ways, rooms = of_rows
    numbers, members, boxes = described
    at, to, rows = floats_at(middles.ctypes.data), floats_at(ways.ctypes.data), ints_at(corners.ctypes.data)
    made, sides = floats_at(numbers.ctypes.data), floats_at(members.ctypes.data)
    for i in places:
        block = np.int64(chosen[i])
        room = _largest(rooms, corners, block)
        if kind == TRIANGLE:
            prism, low, high = prism_of(gather(at, rows, block, 3), gather(to, rows, block, 3), room, distance)
            for k in range(PRISM):
                store_block(made, block * PRISM + k, prism[k])
        else:
            if kind == POINT:
                here, there = gather(at, rows, block, 1), gather(to, rows, block, 1)
                segment, low, high = segment_of(here[0], here[0], there[0], there[0], ONE, room)
            elif kind == EDGE:
                here, there = gather(at, rows, block, 2), gather(to, rows, block, 2)
                segment, low, high = segment_of(
                    here[0], here[1], there[0], there[1], ONE + np.float32(2.4 * OUTER), room
                )
            else:
                here, there = gather(at, rows, block, 3), gather(to, rows, block, 3)
                segment, low, high = segment_of(here[0], here[1], there[0], there[1], ONE, room)
            for k in range(SEGMENT):
                store_block(made, block * SEGMENT + k, segment[k])
        for axis in range(3):
            store_block(sides, block * 6 + axis, low[axis])
            store_block(sides, block * 6 + 3 + axis, high[axis])
        for axis in range(3):
            bits, least, most = np.int64(lanes[block]), np.float32(np.inf), np.float32(-np.inf)
            while bits:
                lane = lowest_bit(bits)
                bits &= bits - 1
                least = min(least, members[block, axis, lane])
                most = max(most, members[block, 3 + axis, lane])
            boxes[i, axis], boxes[i, 3 + axis] = least, most


@compiled
def _largest(rooms, corners, block):
    """The largest room of all corners of a block."""
    largest = np.float32(0)
    for lane in range(block * WIDTH, (block + 1) * WIDTH):
        for corner in range(corners.shape[1]):
            largest = max(largest, rooms[corners[lane, corner]])
    return largest


@value_function
def segment_of(a, b, way_a, way_b, longer, room):
    """Numbers and box of edge ab, so many times longer, or of a point, which is an edge from a to a."""
    middle, half, way = scale(HALF, add(a, b)), scale(HALF * longer, sub(b, a)), scale(HALF, add(way_a, way_b))
    beyond, apart = maximum(a[3], b[3]), longer * (HALF * norm(sub(way_b, way_a)) + room)
    reach = beyond + apart
    size = (
        absolute(half[0]) + absolute(way[0]) + reach,
        absolute(half[1]) + absolute(way[1]) + reach,
        absolute(half[2]) + absolute(way[2]) + reach,
    )
    return (*middle, *half, *way, beyond, apart, way_a[3], way_b[3]), sub(middle, size), add(middle, size)


@value_function
def prism_of(corners, ways, room, distance):
    """Numbers and box of triangle abc.

    A point faces it only within its sides, or as far beyond as points and sides may move, the plane's tilt included. If
    two sides u and v change by at most d, their cross product changes by at most d (|u| + |v| + d): divided by its
    length, that is the sine of the tilt at the most. In rooms of radius r, d is 2 r.
    """
    a, b, c = corners
    way = scale(THIRD, add(ways[0], add(ways[1], ways[2])))
    apart = maximum(norm(sub(ways[0], way)), maximum(norm(sub(ways[1], way)), norm(sub(ways[2], way))))
    turned, apart = np.float32(1.2) * apart, np.float32(1.2) * (apart + room)  # more a little beyond a corner
    beyond = maximum(a[3], maximum(b[3], c[3]))
    u, v = sub(b, a), sub(c, a)
    w = sub(v, u)
    across = cross(u, v)
    area = norm(across)
    inverse = select(area > ZERO, ONE / maximum(area, TINY), ZERO)
    normal = scale(inverse, across)
    first, second, third = outwards(u, normal), outwards(scale(-ONE, v), normal), outwards(w, normal)
    lengths = norm(u), norm(v), norm(w)
    longest = maximum(lengths[0], maximum(lengths[1], lengths[2]))
    shorter = lengths[0] + lengths[1] + lengths[2] - longest
    over = distance + beyond + apart
    tilt = select(area > ZERO, TWO * (turned * longest + room * (shorter + TWO * room)) * inverse, ONE)
    outer = np.float32(1.2 * OUTER) * longest
    low, high, aside = minima(a, b, c), maxima(a, b, c), sideways(apart, tilt, over) + TWO * outer  # at the corners
    size = (
        over * absolute(normal[0]) + aside * sqrt(maximum(ONE - normal[0] * normal[0], ZERO)) + absolute(way[0]),
        over * absolute(normal[1]) + aside * sqrt(maximum(ONE - normal[1] * normal[1], ZERO)) + absolute(way[1]),
        over * absolute(normal[2]) + aside * sqrt(maximum(ONE - normal[2] * normal[2], ZERO)) + absolute(way[2]),
    )
    sides = *first, *second, *third, dot(third, u)
    rows = ways[0][3], ways[1][3], ways[2][3]
    return (a[0], a[1], a[2], *way, *normal, *sides, beyond, apart, tilt, outer, *rows), sub(low, size), add(high, size)


@value_function
def sideways(apart, tilt, near):
    """How far beyond its sides a triangle may face what is so near: both move, and its plane tilts."""
    return minimum(apart + tilt * near, near)


@value_function
def minima(a, b, c):
    return minimum(a[0], minimum(b[0], c[0])), minimum(a[1], minimum(b[1], c[1])), minimum(a[2], minimum(b[2], c[2]))


@value_function
def maxima(a, b, c):
    return maximum(a[0], maximum(b[0], c[0])), maximum(a[1], maximum(b[1], c[1])), maximum(a[2], maximum(b[2], c[2]))


@value_function
def outwards(side, normal):
    """The unit vector to the right of a side, in the plane of the normal."""
    right = cross(side, normal)
    length = norm(right)
    return scale(select(length > ZERO, ONE / maximum(length, TINY), ZERO), right)


@value_function
def _clamped(value):
    return minimum(maximum(value, -ONE), ONE)


@value_function
def edges_within(middle, half, other_middle, other_half, distance):
    """Whether two edges, middle + s half with s from -1 to 1, are at most so far apart (Ericson 2005, 5.1.9)."""
    way = sub(other_middle, middle)
    a, e, b = dot(other_half, other_half), dot(half, half), dot(other_half, half)
    c, f = dot(other_half, way), dot(half, way)
    s = _clamped((b * f - c * e) / maximum(a * e - b * b, TINY))
    t = _clamped((b * s + f) / maximum(e, TINY))
    s = _clamped((b * t - c) / maximum(a, TINY))
    between = sub(add(way, scale(s, other_half)), scale(t, half))
    return dot(between, between) <= distance * distance


@value_function
def prism_within(point, way, corner, normal, first, second, third, reach, distance, beyond):
    """Whether a point comes at most so near to a triangle's plane, and at most so far `beyond` each of its sides.

    It goes from point - way to point + way, as seen from the triangle. `first`, `second`, `third` point outwards in the
    plane; the third side is at `reach` from `corner` along its own.
    """
    at = sub(point, corner)
    outside = maximum(dot(at, first) - absolute(dot(way, first)), dot(at, second) - absolute(dot(way, second)))
    outside = maximum(outside, dot(at, third) - absolute(dot(way, third)) - reach)
    return (outside <= beyond) & (absolute(dot(at, normal)) - absolute(dot(way, normal)) <= distance)


@compiled
def near_prisms(points, point, prisms, block, distance):
    """Bits of those of eight triangles that a point comes near, and is no corner of; it is a lane of all points."""
    x, y, z, _, _, _, u, v, w, beyond, room, row, _ = _numbers(points, point)
    prism = load_block(prisms, block, PRISM)
    corner, way, normal = prism[0:3], (u - prism[3], v - prism[4], w - prism[5]), prism[6:9]
    first, second, third, reach = prism[9:12], prism[12:15], prism[15:18], prism[18]
    near = distance + maximum(prism[19], beyond) + prism[20]
    aside = sideways(prism[20], prism[21], near) + prism[22]
    within = prism_within((x, y, z), way, corner, normal, first, second, third, reach, near + room, aside + room)
    return lane_bits(within & _differ(prism[23], row) & _differ(prism[24], row) & _differ(prism[25], row))


@compiled
def near_segments(segments, segment, others, block, distance):
    """The same for an edge or a point, and eight edges, ends or points."""
    a, b, c, d, e, f, u, v, w, own, own_apart, one, two = _numbers(segments, segment)
    x, y, z, i, j, k, l, m, n, beyond, apart, p, q = load_block(others, block, SEGMENT)
    near = distance + maximum(beyond, own) + apart + own_apart + norm((l - u, m - v, n - w))
    within = edges_within((x, y, z), (i, j, k), (a, b, c), (d, e, f), near)
    return lane_bits(within & _differ(p, one) & _differ(p, two) & _differ(q, one) & _differ(q, two))


@compiled
def _numbers(segments, lane):
    """What is known of one of all points or edges."""
    n = lane // WIDTH * WIDTH * SEGMENT + lane % WIDTH
    return (
        *_three(segments, n),
        *_three(segments, n + 3 * WIDTH),
        *_three(segments, n + 6 * WIDTH),
        *_three(segments, n + 9 * WIDTH),
        segments[n + 12 * WIDTH],
    )


@value_function
def _differ(row, other):
    return absolute(row - other) > HALF


@compiled
def _three(numbers, first):
    return numbers[first], numbers[first + WIDTH], numbers[first + 2 * WIDTH]

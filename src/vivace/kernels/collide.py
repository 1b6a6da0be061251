"""Particles against a signed distance: one projection out of the collider, with friction, and a stop at thin ones.

Kernels share their first addresses: positions, positions at the start of the step, the collider's parameters, its
touch (friction, margin, half its thickness), its motion over the step, and two tables, which only grids have.
"""

from functools import cache

import numpy as np

from .compile import floats_at, kernel, source_digest
from .lanes import absolute, all_lanes, maximum, minimum, select, sqrt, value_function
from .pose import POSE, riding, standing
from .rows import load_numbers, load_rows, store_rows
from .vec3 import add, dot, norm, scale, sub

ZERO, QUARTER, HALF, ONE = np.float32(0), np.float32(0.25), np.float32(0.5), np.float32(1)
SHARED = 7  # addresses
STEPS = 24  # along a way, as long as the distance allows; then so many even ones to its end
TOUCHING = np.float32(1e-3)  # of a particle's way in a step: so near to the collider it touches it
FACING, BACK, SAME_SIDE = np.float32(0.5), np.float32(-0.1), np.float32(0.1)
LIFTED = np.float32(1 / 8)
FAR = np.float32(1e18)
AN_EVEN_STEP = np.float32(1 / (2 * STEPS))


@value_function
def pushed_out(point, start, distance, normal, friction, margin):
    """A row moved to `margin` from the collider's surface, its slide since `start` braked by friction.

    Coulomb on positions: the slide along the surface shrinks by at most friction * depth, so what would slide less
    than that stays where it was (static friction).       Macklin et al. 2014, section 6.1
    """
    depth = margin - distance
    hit = (depth > ZERO) & (point[3] > ZERO)
    x, y, z = add(point, scale(depth, normal))
    way = sub((x, y, z), start)
    slide = sub(way, scale(dot(way, normal), normal))
    length = norm(slide)
    grip = minimum(friction * depth / select(length > ZERO, length, ONE), ONE)
    x, y, z = sub((x, y, z), scale(grip, slide))
    return select(hit, x, point[0]), select(hit, y, point[1]), select(hit, z, point[2]), point[3]


@value_function
def clearance(point, gap):
    """Where a particle is, and how far it may go from there: half the gap.

    A distance may change by twice as much as a particle goes. Those of shapes change by as much at the most, those of
    trilinear grids by the root of three times as much.
    """
    return point[0], point[1], point[2], HALF * gap


@value_function
def is_clear(point, clear):
    return norm(sub(point, clear)) < clear[3]


@value_function
def carried(row, before, after):
    """A row that goes along with another one."""
    x, y, z = sub(after, before)
    return row[0] + x, row[1] + y, row[2] + z, row[3]


@value_function
def straight(start, end):
    """Direction and length of the way from one point to another; no direction where there is no way."""
    way = sub(end, start)
    length = norm(way)
    return scale(ONE / select(length > ZERO, length, ONE), way), length


@value_function
def at(origin, along, direction):
    """A point on a way."""
    return add(origin, scale(along, direction))


@value_function
def ahead(distance, normal, direction, margin):
    """The distance to the collider's margin, where a way leads to it; far, where it leads away."""
    return select(dot(direction, normal) < ZERO, distance - margin, FAR)


@value_function
def next_along(along, distance, gap, length, has_arrived, share):
    """A step as long as the distance, but at least a share of the rest; nowhere after arriving.

    On a surface that the way leads away from the distance allows no step: there it is one of many even ones.
    """
    shortest = maximum((length - along) * share, select(gap < FAR, ZERO, length * AN_EVEN_STEP))
    return select(has_arrived, along, minimum(along + maximum(distance, shortest), length))


@value_function
def chord_to(point, distance, normal, margin, touch):
    """The way from where a collider was touched to where a particle would be pushed out of it."""
    return sub(add(point, scale(maximum(margin - distance, ZERO), normal)), touch)


@value_function
def wrong_side(point, safe, length, gap, normal, chord, normal_there):
    """1 where a particle that touched a collider would not be pushed out on the side where it touched it, else 0.

    On an arc the chord is across the sum of the normals at both ends; here it may be off by half a right angle. Ways
    shorter than `safe` are right whatever the others in the block do.
    """
    both = add(normal, normal_there)
    lowest = maximum(sqrt(HALF * dot(chord, chord) * dot(both, both)), SAME_SIDE * length)
    wrong = select(dot(normal, normal_there) < FACING, ONE, select(dot(chord, both) < -lowest, ONE, ZERO))
    touched = (length > safe) & (gap <= TOUCHING * length) & (point[3] > ZERO)
    return select(touched, wrong, ZERO)


@value_function
def around_an_edge(point, slid, normal, chord, normal_there, gap_between):
    """`slid`, or `point` where it only went around an edge: there the collider is solid between both sides.

    Half the chord leads half as deep below either side as the whole.
    """
    depth = minimum(-dot(chord, normal), dot(chord, normal_there))
    is_edge = (dot(normal, normal_there) > BACK) & (depth > ZERO) & (gap_between < -QUARTER * depth)
    return select(is_edge, point[0], slid[0]), select(is_edge, point[1], slid[1]), select(is_edge, point[2], slid[2])


@value_function
def out_of_plane(point, start, touch, gap, normal, friction, margin):
    """Pushed out as if the surface were flat where it was touched."""
    return pushed_out(point, start, dot(sub(point, touch), normal) + gap + margin, normal, friction, margin)


@value_function
def stopped_short(point, end, touch, along, direction, gap, lift, wrong):
    """`point`, or, where it went wrong, `end`, or so far along the way there as nothing blocks it."""
    blocked, through = (gap <= HALF * lift) & (lift > ZERO), wrong > ZERO
    x, y, z = at(touch, along, direction)
    x, y, z = select(blocked, x, end[0]), select(blocked, y, end[1]), select(blocked, z, end[2])
    return select(through, x, point[0]), select(through, y, point[1]), select(through, z, point[2]), point[3]


@cache
def march_along(distance_normal):
    """Sphere tracing [Hart 1996]: where a way first comes near a collider."""
    distance_normal = value_function(distance_normal)

    def march(origin, direction, length, margin, near, parameters):
        """How far along a way it is nearer to `margin` than `near`, the distance to it there, and the normal.

        A step is as long as the distance, so it skips nothing. On ways that graze a surface such steps get ever
        shorter; there, even ones end the way. A surface that the way leads away from is not in its way.
        """
        along = ZERO * length
        for k in range(2 * STEPS + 1):
            distance, normal = distance_normal(at(origin, along, direction), parameters)
            gap = ahead(distance, normal, direction, margin)
            has_arrived = minimum(gap - near, length - along) <= ZERO
            if all_lanes(has_arrived) or k == 2 * STEPS:
                break
            share = ZERO if k < STEPS else ONE / np.float32(2 * STEPS - k)
            along = next_along(along, distance - margin, gap, length, has_arrived, share)
        return along, gap, normal

    return value_function(march)


@cache
def stop_by(distance_normal):
    """The test of a step's way against a collider that may be thin."""
    distance_normal, march = value_function(distance_normal), march_along(distance_normal)

    def stopped(point, start, parameters, friction, margin, reach):
        """Whether a row went through the collider since `start`, and where it may be: on the side that it came from.

        A particle that ends inside is pushed out to the nearest side, and that is the right one unless it has come
        too far. Then, as if the surface were flat where it was first touched, it is pushed out of that plane, with
        friction, and goes along it as far as nothing else is in the way. Ways shorter than `reach` are not looked at.
        """
        direction, length = straight(start, point)
        if all_lanes(length <= reach):
            return False, point
        distance, _ = distance_normal(start, parameters)
        safe = maximum(absolute(distance - margin), reach)
        if all_lanes(length <= safe):
            return False, point
        along, gap, normal = march(start, direction, length, margin, TOUCHING * length, parameters)
        touch = at(start, along, direction)
        distance, there = distance_normal(point, parameters)
        chord = chord_to(point, distance, there, margin, touch)
        wrong = wrong_side(point, safe, length, gap, normal, chord, there)
        if all_lanes(wrong <= ZERO):
            return False, point
        slid = out_of_plane(point, start, touch, gap, normal, friction, margin)
        direction, length = straight(touch, slid)
        # From above the surface that it slides along, another one can be seen coming.
        lift = LIFTED * length
        along, gap, _ = march(at(touch, lift, normal), direction, length, margin, HALF * lift, parameters)
        between, _ = distance_normal(at(touch, HALF, chord), parameters)
        end = around_an_edge(point, slid, normal, chord, there, between - margin)
        return True, stopped_short(point, end, touch, along, direction, gap, lift, wrong)

    return value_function(stopped)


@value_function
def numbers_alone(numbers, addresses):
    """The parameters of a collider that is a formula."""
    return numbers


@value_function
def numbers_and_tables(numbers, addresses):
    """The parameters of one whose distance is in a grid."""
    return numbers, floats_at(addresses[5]), floats_at(addresses[6])


@cache
def collide_kernel(distance_normal, parameter_count, carried_count=0, moves=False, has_tables=False):
    """After the shared addresses come rows for clearances, then `carried_count` arrays of rows that go along with what
    is pushed: the aims, so that inertia does not pull a particle back inside, and earlier positions, so that a push is
    not prolonged.

    A clearance is where a particle was, and how far it may go from there without a look at the collider; where the
    collider moves, all are looked at. Items are blocks of eight rows.
    """
    distance_normal = value_function(distance_normal)
    start_of, parameters_of = riding if moves else standing, numbers_and_tables if has_tables else numbers_alone
    digest = source_digest(distance_normal, pushed_out, start_of, clearance, is_clear)

    @kernel
    def collide(addresses, first, last):
        _ = digest  # part of the cache key
        positions, starts = floats_at(addresses[0]), floats_at(addresses[1])
        parameters = parameters_of(load_numbers(floats_at(addresses[2]), 0, parameter_count), addresses)
        touch, motion = floats_at(addresses[3]), load_numbers(floats_at(addresses[4]), 0, POSE)
        clearances = floats_at(addresses[SHARED])
        for block in range(first, last):
            point = load_rows(positions, block)
            if not moves and all_lanes(is_clear(point, load_rows(clearances, block))):
                continue
            distance, normal = distance_normal(point, parameters)
            if not moves:
                store_rows(clearances, block, clearance(point, distance - touch[1]))
            if all_lanes(distance >= touch[1]):
                continue
            start = start_of(load_rows(starts, block), motion)
            pushed = pushed_out(point, start, distance, normal, touch[0], touch[1])
            store_rows(positions, block, pushed)
            for i in range(carried_count):
                rows = floats_at(addresses[SHARED + 1 + i])
                store_rows(rows, block, carried(load_rows(rows, block), point, pushed))

    return collide


@cache
def stop_kernel(distance_normal, parameter_count, moves=False, has_tables=False):
    """Only the shared addresses. Items are blocks of eight rows."""
    stopped = stop_by(distance_normal)
    start_of, parameters_of = riding if moves else standing, numbers_and_tables if has_tables else numbers_alone
    digest = source_digest(stopped, start_of)

    @kernel
    def stop(addresses, first, last):
        _ = digest  # part of the cache key
        positions, starts = floats_at(addresses[0]), floats_at(addresses[1])
        parameters = parameters_of(load_numbers(floats_at(addresses[2]), 0, parameter_count), addresses)
        touch, motion = floats_at(addresses[3]), load_numbers(floats_at(addresses[4]), 0, POSE)
        for block in range(first, last):
            point, start = load_rows(positions, block), start_of(load_rows(starts, block), motion)
            went_through, end = stopped(point, start, parameters, touch[0], touch[1], touch[2])
            if went_through:
                store_rows(positions, block, end)

    return stop

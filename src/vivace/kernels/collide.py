"""Particles against a signed distance: one projection out of the collider, with friction."""

from functools import cache

import numpy as np

from .compile import floats_at, kernel, source_digest
from .lanes import minimum, select, value_function
from .rows import load_numbers, load_rows, store_rows
from .vec3 import add, dot, norm, scale, sub

ZERO, ONE = np.float32(0), np.float32(1)


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
def carried(row, before, after):
    """A row that goes along with another one."""
    x, y, z = sub(after, before)
    return row[0] + x, row[1] + y, row[2] + z, row[3]


@cache
def collide_kernel(distance_normal, parameter_count, carried_count=0):
    """Addresses: positions, positions at the start of the step, collider parameters, friction and margin, then
    `carried_count` arrays of rows that go along with what is pushed: the aims, so that inertia does not pull a particle
    back inside, and earlier positions, so that a push is not prolonged. Items are blocks of eight rows.
    """
    distance_normal = value_function(distance_normal)
    digest = source_digest(distance_normal, pushed_out)

    @kernel
    def collide(addresses, first, last):
        _ = digest  # part of the cache key
        positions, starts = floats_at(addresses[0]), floats_at(addresses[1])
        parameters, surface = load_numbers(floats_at(addresses[2]), 0, parameter_count), floats_at(addresses[3])
        for block in range(first, last):
            point = load_rows(positions, block)
            distance, normal = distance_normal(point, parameters)
            start = load_rows(starts, block)
            pushed = pushed_out(point, start, distance, normal, surface[0], surface[1])
            store_rows(positions, block, pushed)
            for i in range(carried_count):
                rows = floats_at(addresses[4 + i])
                store_rows(rows, block, carried(load_rows(rows, block), point, pushed))

    return collide

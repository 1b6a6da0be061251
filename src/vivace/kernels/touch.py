"""Contacts met particle by particle: a visit moves that particle alone, but each contact keeps account of its push.

If corners were pushed one by one by what is left of a gap, who comes first would give way to all that comes, without
slowing it: momentum would come from nowhere, and heaps were seen to explode. So a contact has one push for all its
corners; each takes its share of it when it is visited, and what the others still have to take counts as done. Contacts
do not see what others will do to their corners, so each takes a particle for as much lighter as it has contacts (mass
splitting, Tonge et al. 2012): without that, pushes were seen to grow from iteration to iteration.
"""

from functools import cache

import numpy as np

from .compile import floats_at, ints_at, kernel, source_digest
from .contact import ARITY, combined, moved_by
from .lanes import WIDTH, maximum, minimum, select, value_function
from .rows import gather, gather_rows, load_block, scatter_rows, store_block
from .vec3 import add, dot, norm, scale, sub

ZERO, ONE, ROW_BYTES = np.float32(0), np.float32(1), 16
# What `touch_push` reads of a contact: its data (see `Found`), its `combined` corners at the start, and one over its
# weight (see `contact_weight`) with masses split, or 0.
START, INVERSE_WEIGHT = 8, 11
# A contact is so many rows of four: its push and its weight, by how much its gap still changes when all corners have
# taken their shares, its shares, direction and thickness, and what is at START.
ROWS = 5


@value_function
def touch_push(point, push, numbers, friction):
    """The push (x, y, z) of a contact, renewed so that the gap is met; a corner moves by inverse_mass * share * push.

    `point` is the `combined` corners when all have taken their shares of the push so far. Along the normal a push only
    repels; across it, it holds what slides since the start, with at most `friction` times as much (Coulomb).
    For a contact alone, the first time, it is what `contact_move` says. Where a contact has no weight, there is none.
    """
    normal, start = (numbers[4], numbers[5], numbers[6]), (numbers[START], numbers[START + 1], numbers[START + 2])
    inverse_weight, before = numbers[INVERSE_WEIGHT], dot(push, normal)
    pressure = maximum(before + inverse_weight * (numbers[7] - dot(point, normal)), ZERO * before)
    way = sub(point, start)
    slide = sub(way, scale(dot(way, normal), normal))
    grip = sub(sub(push, scale(before, normal)), scale(inverse_weight, slide))
    length = norm(grip)
    held = minimum(friction * pressure / select(length > ZERO, length, ONE), ONE)
    return add(scale(pressure, normal), scale(held, grip))


@value_function
def carried_along(row, before, after):
    """A row moved by as much as another one was."""
    return row[0] + (after[0] - before[0]), row[1] + (after[1] - before[1]), row[2] + (after[2] - before[2]), row[3]


@cache
def touch_kernel(carried_count):
    """Sweep over blocks of eight particles that share no contact.

    Addresses: positions, particles, slot bounds, corners, contacts (their first rows), the rows of all contacts, the
    share of the particle and what it has taken in each slot, friction, then `carried_count` arrays of rows that go
    along, as in `collide_kernel`.
    """
    digest = source_digest(touch_push, combined)

    @kernel
    def touch_blocks(addresses, first, last):
        _ = digest  # part of the cache key
        positions, particles, bounds = floats_at(addresses[0]), ints_at(addresses[1]), ints_at(addresses[2])
        corners, contacts = ints_at(addresses[3]), ints_at(addresses[4])
        pushes, changes, shares = (
            floats_at(addresses[5]),
            floats_at(addresses[5] + ROW_BYTES),
            floats_at(addresses[5] + 2 * ROW_BYTES),
        )
        normals, starts = floats_at(addresses[5] + 3 * ROW_BYTES), floats_at(addresses[5] + 4 * ROW_BYTES)
        owns, taken, friction = floats_at(addresses[6]), floats_at(addresses[7]), floats_at(addresses[8])[0]
        for block in range(first, last):
            before = gather_rows(positions, particles, block * WIDTH, 1)
            here = before
            for slot in range(bounds[block], bounds[block + 1]):
                place, own, took = slot * WIDTH, load_block(owns, slot, 1), load_block(taken, slot, 3)
                push, change = gather_rows(pushes, contacts, place, 1), gather_rows(changes, contacts, place, 1)
                share, normal = gather_rows(shares, contacts, place, 1), gather_rows(normals, contacts, place, 1)
                numbers = *share, *normal, *gather_rows(starts, contacts, place, 1)
                point = add(combined(gather(positions, corners, slot, ARITY), share), change)
                renewed = touch_push(point, push, numbers, friction)
                move = sub(renewed, took)
                here = moved_by(here, here[3], own, move)
                scatter_rows(positions, particles, block * WIDTH, 1, here)  # so that the next slot sees it
                change = sub(
                    add(change, scale(push[3], sub(renewed, push))),
                    scale(here[3] * own * own, move),
                )
                scatter_rows(pushes, contacts, place, 1, (renewed[0], renewed[1], renewed[2], push[3]))
                scatter_rows(changes, contacts, place, 1, (change[0], change[1], change[2], push[3]))
                for axis in range(3):
                    store_block(taken, slot * 3 + axis, renewed[axis])
            for k in range(carried_count):
                rows = floats_at(addresses[9 + k])
                row = carried_along(gather_rows(rows, particles, block * WIDTH, 1), before, here)
                scatter_rows(rows, particles, block * WIDTH, 1, row)

    return touch_blocks

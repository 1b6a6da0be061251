"""Projection of contacts between soft things: one half-space for each, with friction."""

from functools import cache

import numpy as np

from .apart import correction
from .compile import floats_at, ints_at, kernel, source_digest
from .lanes import WIDTH, absolute, minimum, select, value_function
from .rows import gather, gather_rows, gather_split, load_block, scatter_rows
from .vec3 import dot, norm, sub

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
ARITY, DATA = 4, 8


@value_function
def contact_move(corners, starts, data, friction):
    """What the gap asks for: corner i moves by inverse_mass_i * share_i * result."""
    return gap_move(combined(corners, data), combined(starts, data), contact_weight(corners, data), data, friction)


@value_function
def combined(corners, data):
    """sum share_i x_i: from one side of the contact to the other."""
    x, y, z = data[0] * corners[0][0], data[0] * corners[0][1], data[0] * corners[0][2]
    for i in range(1, 4):
        x, y, z = x + data[i] * corners[i][0], y + data[i] * corners[i][1], z + data[i] * corners[i][2]
    return x, y, z


@value_function
def contact_weight(corners, data):
    """sum inverse_mass_i share_i^2: how much the gap gives way to a unit push."""
    weight = corners[0][3] * data[0] * data[0]
    for i in range(1, 4):
        weight = weight + corners[i][3] * data[i] * data[i]
    return weight


@value_function
def contact_normal(start, data):
    """The direction of a contact in a substep, from `combined` corners at its start.

    Contacts may be older than that. Where the fourth corner has no share, a point meets a point or an edge, around
    which it may go: there the direction turns with them, up to 60 degrees, beyond which it stays.
    """
    normal, length = (data[4], data[5], data[6]), norm(start)
    turns = (absolute(data[3]) <= ZERO) & (dot(start, normal) > HALF * length)
    inverse = ONE / select(length > ZERO, length, ONE)
    return (
        select(turns, inverse * start[0], normal[0]),
        select(turns, inverse * start[1], normal[1]),
        select(turns, inverse * start[2], normal[2]),
    )


@value_function
def gap_move(here, start, weight, data, friction):
    """The push that opens a gap, from `combined` corners now and at the start.

    gap = n . sum share_i x_i, at least the thickness. Coulomb on positions as against colliders: the slide across n
    since the start shrinks by at most friction * depth.       Macklin et al. 2014, section 6.1
    """
    normal = contact_normal(start, data)
    depth = data[7] - dot(here, normal)
    way = sub(here, start)
    along = dot(way, normal)
    slide = way[0] - along * normal[0], way[1] - along * normal[1], way[2] - along * normal[2]
    length = norm(slide)
    grip = minimum(friction * depth / select(length > ZERO, length, ONE), ONE)
    scale = select((depth > ZERO) & (weight > ZERO), ONE / select(weight > ZERO, weight, ONE), ZERO)
    return (
        scale * (depth * normal[0] - grip * slide[0]),
        scale * (depth * normal[1] - grip * slide[1]),
        scale * (depth * normal[2] - grip * slide[2]),
    )


@value_function
def moved_by(row, weight, share, move):
    """A row after its part of the move; `weight` is the inverse mass that counts."""
    step = weight * share
    return row[0] + step * move[0], row[1] + step * move[1], row[2] + step * move[2], row[3]


@cache
def contact_kernel(carried_count):
    """Sweep over blocks of eight contacts that share no particle.

    Addresses: positions, positions at the start, corners, data, friction, then `carried_count` arrays of rows that go
    along, as in `collide_kernel`.
    """
    digest = source_digest(contact_move)

    @kernel
    def project_contacts(addresses, first, last):
        _ = digest  # part of the cache key
        positions, starts, corners = floats_at(addresses[0]), floats_at(addresses[1]), ints_at(addresses[2])
        data, friction = floats_at(addresses[3]), floats_at(addresses[4])[0]
        for block in range(first, last):
            here, numbers = gather(positions, corners, block, ARITY), load_block(data, block, DATA)
            move = contact_move(here, gather(starts, corners, block, ARITY), numbers, friction)
            for i in range(ARITY):
                place = block * WIDTH * ARITY + i
                scatter_rows(positions, corners, place, ARITY, moved_by(here[i], here[i][3], numbers[i], move))
                for k in range(carried_count):
                    rows = floats_at(addresses[5 + k])
                    row = gather_rows(rows, corners, place, ARITY)
                    scatter_rows(rows, corners, place, ARITY, moved_by(row, here[i][3], numbers[i], move))

    return project_contacts


@cache
def contact_apart_kernel():
    """The same for contacts that share particles: a correction for each corner, as in `project_apart_kernel`.

    Addresses: positions, positions at the start, corners, data, friction, shares of mass, places, corrections.
    """
    digest = source_digest(contact_move, correction)

    @kernel
    def project_contacts_apart(addresses, first, last):
        _ = digest  # part of the cache key
        positions, starts, corners = floats_at(addresses[0]), floats_at(addresses[1]), ints_at(addresses[2])
        data, friction, shares = floats_at(addresses[3]), floats_at(addresses[4])[0], floats_at(addresses[5])
        places, corrections = ints_at(addresses[6]), floats_at(addresses[7])
        for block in range(first, last):
            here, numbers = gather_split(positions, corners, shares, block, ARITY), load_block(data, block, DATA)
            move = contact_move(here, gather(starts, corners, block, ARITY), numbers, friction)
            for i in range(ARITY):
                scatter_rows(
                    corrections, places, block * WIDTH * ARITY + i, ARITY, correction(here[i], move, numbers[i])
                )

    return project_contacts_apart

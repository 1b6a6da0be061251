"""PBD and XPBD vertex by vertex: what all constraints on a particle ask of it, summed up, moves that particle alone."""

from functools import cache

import numpy as np

from .compile import floats_at, ints_at, kernel, source_digest
from .integrate import STEP
from .lanes import WIDTH, maximum, minimum, select, spread, value_function
from .project import projection, rest_values
from .relax import relaxed
from .rows import gather, gather_rows, load_block, load_rows, scatter_rows, store_rows
from .vec3 import add, dot, scale

ZERO, ONE, TWO, HALF = np.float32(0), np.float32(1), np.float32(2), np.float32(0.5)


@value_function
def own(gradients, corner):
    """The gradient at the corner of this number; none where there is no such corner."""
    total = scale(ZERO, gradients[0])
    for c in range(len(gradients)):
        here = (corner > np.float32(c) - HALF) & (corner < np.float32(c) + HALF)
        total = add(total, scale(select(here, ONE, ZERO), gradients[c]))
    return total


@value_function
def asked(value, gradients, corners, corner, inverse_mass, stiffness_ratio):
    """PBD: the move of one corner by a projection of the whole constraint, and 1, to take the mean.

    Doubled, since the others do not move now, but no further than to where this corner alone would meet the constraint:
    so the mean over a group does not overshoot.
    """
    change = projection(value, gradients, corners, stiffness_ratio)
    gradient = own(gradients, corner)
    mine, all_of_them = inverse_mass * dot(gradient, gradient), ZERO * value
    for c in range(len(corners)):
        all_of_them = all_of_them + corners[c][3] * dot(gradients[c], gradients[c])
    whole = select(mine > ZERO, all_of_them / select(mine > ZERO, mine, ONE), ZERO)
    x, y, z = scale(minimum(TWO, whole) * inverse_mass * change, gradient)
    return x, y, z, select(stiffness_ratio > ZERO, ONE, ZERO)


@value_function
def pushed(value, gradients, factor, corner, stiffness):
    """XPBD: the force -k C grad C on one corner, and how fast it falls when that corner gives way, k |grad C|^2."""
    gradient = own(gradients, corner)
    squared = value * ZERO + factor * factor
    strength = select(squared > ZERO, stiffness / squared, ZERO)
    x, y, z = scale(-strength * value, gradient)
    return x, y, z, strength * dot(gradient, gradient)


@value_function
def settled(here, aim, moves, forces, squared_step, omega, compliant):
    """A particle after its visit: forces and inertia balanced, then what projections ask of it."""
    balanced = relaxed(here, aim, forces, forces[3], squared_step, omega)
    return (
        select(compliant > ZERO, balanced[0], here[0]) + omega * moves[0],
        select(compliant > ZERO, balanced[1], here[1]) + omega * moves[1],
        select(compliant > ZERO, balanced[2], here[2]) + omega * moves[2],
        here[3],
    )


@cache
def visit_kernel(constraint, compliant):
    """Adds up what a group's constraints ask of each particle of some blocks.

    Addresses: positions, particles, slot bounds, members, corners, rest, strengths (ratios or stiffnesses), sums.
    """
    value_gradient = value_function(constraint.value_gradient)
    arity, rests = constraint.ARITY, rest_values(constraint)
    digest = source_digest(value_gradient, projection, own)

    @kernel
    def visit_blocks(addresses, first, last):
        _ = digest  # part of the cache key
        positions, particles, bounds = floats_at(addresses[0]), ints_at(addresses[1]), ints_at(addresses[2])
        members, corner_of, rest = ints_at(addresses[3]), floats_at(addresses[4]), floats_at(addresses[5])
        strengths, sums = floats_at(addresses[6]), floats_at(addresses[7])
        for block in range(first, last):
            here = gather_rows(positions, particles, block * WIDTH, 1)
            x = y = z = total = spread(ZERO)
            for slot in range(bounds[block], bounds[block + 1]):
                corners = gather(positions, members, slot, arity)
                value, gradients, factor = value_gradient(corners, load_block(rest, slot, rests))
                corner, strength = load_block(corner_of, slot, 1), load_block(strengths, slot, 1)
                if compliant:
                    part = pushed(value, gradients, factor, corner, strength)
                else:
                    part = asked(value, gradients, corners, corner, here[3], strength)
                x, y, z, total = x + part[0], y + part[1], z + part[2], total + part[3]
            before = load_rows(sums, block)
            if not compliant:
                x, y, z = scale(ONE / maximum(total, ONE), (x, y, z))
            store_rows(sums, block, (before[0] + x, before[1] + y, before[2] + z, before[3] + total))

    return visit_blocks


@cache
def settle_kernel():
    """Moves the particles of some blocks, and empties their sums.

    Addresses: positions, aims, particles, sums of moves, sums of forces, motion parameters, omega and 1 if there are
    forces, else 0.
    """
    digest = source_digest(settled, relaxed)

    @kernel
    def settle_blocks(addresses, first, last):
        _ = digest  # part of the cache key
        positions, aims, particles = floats_at(addresses[0]), floats_at(addresses[1]), ints_at(addresses[2])
        moves, forces = floats_at(addresses[3]), floats_at(addresses[4])
        step, options = floats_at(addresses[5])[STEP], floats_at(addresses[6])
        none = spread(ZERO)
        for block in range(first, last):
            here = gather_rows(positions, particles, block * WIDTH, 1)
            aim = gather_rows(aims, particles, block * WIDTH, 1)
            row = settled(
                here,
                aim,
                load_rows(moves, block),
                load_rows(forces, block),
                step * step,
                options[0],
                spread(options[1]),
            )
            scatter_rows(positions, particles, block * WIDTH, 1, row)
            store_rows(moves, block, (none, none, none, none))
            store_rows(forces, block, (none, none, none, none))

    return settle_blocks

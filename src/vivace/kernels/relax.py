"""Projective Dynamics vertex by vertex: eight particles of one color at a time, over padded, transposed lists.

Everything is written as a change of the present position, so that rounding is relative to the change.
"""

from functools import cache

import numpy as np

from .compile import floats_at, ints_at, kernel, source_digest
from .integrate import STEP
from .lanes import WIDTH, multiply_add, select, spread, value_function
from .nearest import LESS, ROWS, returned
from .project import rest_values
from .rows import gather, gather_rows, load_block, load_pair, scatter_rows, store_pair, store_rows
from .vec3 import scale, sub

ZERO, ONE = np.float32(0), np.float32(1)
RELAX, IMBALANCE = 0, 1


@value_function
def relaxed(here, aim, force, diagonal, squared_step, omega):
    """A particle where the forces on it would balance if it alone moved, or `omega` times as far.

    q' = q + omega (s - q + w h^2 f) / (1 + w h^2 D), f = pulls - L q, D = L_ii, w the inverse mass: a row of
    (M / h^2 + L) q = M s / h^2 + pulls, times w h^2. A pinned particle goes where it is told, s.
    """
    g = here[3] * squared_step
    share = omega / (ONE + g * diagonal)
    return (
        here[0] + share * (aim[0] - here[0] + g * force[0]),
        here[1] + share * (aim[1] - here[1] + g * force[1]),
        here[2] + share * (aim[2] - here[2] + g * force[2]),
        here[3],
    )


@value_function
def out_of_balance(here, aim, force, squared_step):
    """M (s - q) / h^2 + f: what a direct solve has to bring to zero. None of it at a pinned particle."""
    free = here[3] > ZERO
    inertia = ONE / (select(free, here[3], ONE) * squared_step)
    return (
        select(free, inertia * (aim[0] - here[0]) + force[0], ZERO),
        select(free, inertia * (aim[1] - here[1]) + force[1], ZERO),
        select(free, inertia * (aim[2] - here[2]) + force[2], ZERO),
        ZERO * here[0],
    )


@value_function
def no_spring(projected, rest):
    """Stands in where no springs are folded into the visits."""
    return projected


@cache
def relax_kernel(constraint):
    """A visit to each particle of some blocks; `constraint` is that of the springs, or None.

    Addresses: positions to read, positions to write, aims s, particles, bounds, neighbors, weights, stiffness, rest,
    pulled rows, pulls, diagonal, motion parameters, omega, RELAX or IMBALANCE (which writes what
    `out_of_balance` says to the blocks' own rows instead), 1 where springs have weights beside them, else 0, and 1
    where each has its own stiffness, 0 where one block of stiffnesses serves them all.
    """
    nearest = no_spring if constraint is None else value_function(constraint.nearest)
    digest = source_digest(nearest, relaxed)

    @kernel
    def relax_blocks(addresses, first, last):
        _ = digest  # part of the cache key
        positions, target, aims = floats_at(addresses[0]), floats_at(addresses[1]), floats_at(addresses[2])
        particles, bounds, neighbors = ints_at(addresses[3]), ints_at(addresses[4]), ints_at(addresses[5])
        weights, stiffness, rest = floats_at(addresses[6]), floats_at(addresses[7]), floats_at(addresses[8])
        pulled, pulls = ints_at(addresses[9]), floats_at(addresses[10])
        diagonal = floats_at(addresses[11])
        step, omega = floats_at(addresses[12])[STEP], floats_at(addresses[13])[0]
        weighted, stiffness_step = addresses[15], addresses[16]
        for block in range(first, last):
            here = gather_rows(positions, particles, block * WIDTH, 1)
            x = y = z = spread(ZERO)
            for slot in range(bounds[8 * block], bounds[8 * block + 1]):
                edge = sub(here, gather_rows(positions, neighbors, slot * WIDTH, 1))
                wanted = nearest((edge,), load_block(rest, slot, 1))[0]
                spring = load_block(stiffness, slot * stiffness_step, 1)
                x = x + spring * (wanted[0] - edge[0])
                y = y + spring * (wanted[1] - edge[1])
                z = z + spring * (wanted[2] - edge[2])
                if weighted:
                    weight = load_block(weights, slot, 1)
                    x, y, z = x - weight * edge[0], y - weight * edge[1], z - weight * edge[2]
            for slot in range(bounds[8 * block + 1], bounds[8 * block + 2]):
                edge, weight = (
                    sub(gather_rows(positions, neighbors, slot * WIDTH, 1), here),
                    load_block(weights, slot, 1),
                )
                x, y, z = x + weight * edge[0], y + weight * edge[1], z + weight * edge[2]
            for slot in range(bounds[8 * block + 3], bounds[8 * block + 4]):
                pull = gather_rows(pulls, pulled, slot * WIDTH, 1)
                x, y, z = x + pull[0], y + pull[1], z + pull[2]
            aim = gather_rows(aims, particles, block * WIDTH, 1)
            if addresses[14] == IMBALANCE:
                row = out_of_balance(here, aim, (x, y, z), step * step)
            else:
                row = relaxed(here, aim, (x, y, z), load_block(diagonal, block, 1), step * step, omega)
            scatter_rows(target, particles, block * WIDTH, 1, row)

    return relax_blocks


@cache
def pull_kernel(constraint, by_difference):
    """Local step: the nearest rest shape of each constraint, as the pull stiffness A^T p on each of its corners.

    `by_difference`: stiffness A^T (p - A x) instead.

    Addresses: positions, vertices, rest, stiffness, pulls. Items are blocks of eight constraints.
    """
    coefficients, nearest = value_function(constraint.coefficients), value_function(constraint.nearest)
    arity, rests, rows_of, less = (
        constraint.ARITY,
        rest_values(constraint),
        ROWS[constraint.ROWS],
        LESS[constraint.ROWS],
    )
    digest = source_digest(coefficients, nearest, rows_of)

    @kernel
    def project_locally(addresses, first, last):
        _ = digest  # part of the cache key
        positions, vertices, rest = floats_at(addresses[0]), ints_at(addresses[1]), floats_at(addresses[2])
        stiffness, pulls = floats_at(addresses[3]), floats_at(addresses[4])
        for block in range(first, last):
            shape = load_block(rest, block, rests)
            a = coefficients(shape)
            projected = rows_of(a, gather(positions, vertices, block, arity))
            wanted = nearest(projected, shape)
            if by_difference:
                wanted = less(wanted, projected)
            strength = load_block(stiffness, block, 1)
            for corner in range(arity):
                x, y, z = scale(strength, returned(a, wanted, corner))
                store_rows(pulls, block * arity + corner, (x, y, z, ZERO * x))

    return project_locally


@cache
def extrapolate_kernel():
    """Over-relaxation after a whole sweep: q' = omega (q - earlier) + earlier.

    Addresses: positions, earlier positions, where to keep a copy of the new ones, omega. Items are pairs of rows.
    """
    digest = source_digest()

    @kernel
    def extrapolate(addresses, first, last):
        _ = digest  # part of the cache key
        positions, earlier, kept = floats_at(addresses[0]), floats_at(addresses[1]), floats_at(addresses[2])
        omega = floats_at(addresses[3])[0]
        for pair in range(first, last):
            before = load_pair(earlier, pair)
            made = multiply_add(omega, load_pair(positions, pair) - before, before)
            store_pair(positions, pair, made)
            store_pair(kept, pair, made)

    return extrapolate


@cache
def blend_kernel():
    """A step of the Chebyshev semi-iterative method: q' = omega (gamma (new - q) + q - earlier) + earlier (Wang 2015).

    Addresses: positions q, new ones, earlier ones (which become q), omega and gamma. Items are pairs of rows.
    """
    digest = source_digest()

    @kernel
    def blend(addresses, first, last):
        _ = digest  # part of the cache key
        positions, new, earlier = floats_at(addresses[0]), floats_at(addresses[1]), floats_at(addresses[2])
        omega, gamma = floats_at(addresses[3])[0], floats_at(addresses[3])[1]
        for pair in range(first, last):
            here, before = load_pair(positions, pair), load_pair(earlier, pair)
            step = multiply_add(gamma, load_pair(new, pair) - here, here - before)
            store_pair(positions, pair, multiply_add(omega, step, before))
            store_pair(earlier, pair, here)

    return blend

"""The implicit step of a net of springs, eight particles at a time: its matrix, and conjugate gradients.

In double precision: what rounding does to stiff springs is a force of its own, and a cloth that folds multiplies it
(docs/decisions/0015). A spring's block of the matrix is alpha I + along e e^T, where e is its edge: two numbers are
stored, and the edge is found again from where its ends are. The direction of the search has rows of four numbers, with
the mass in the fourth place, 0 where a particle is pinned, which filters it out of every product; the residual and the
product, which no neighbor looks at, have three lines of eight numbers for every eight particles. An item is a block of
particles. Each block has one partial sum of a dot product, and partial sums are always added up in the same order.
"""

from functools import cache

import numpy as np

from .compile import doubles_at, floats_at, ints_at, kernel, source_digest
from .integrate import IMPULSE, STEP
from .lanes import (
    WIDTH,
    all_lanes,
    inverse_root,
    maximum,
    minimum,
    narrowed,
    select,
    spread_wide,
    sum_of_lanes,
    value_function,
    widened,
)
from .rows import gather_rows, load_block, load_rows, store_block, store_rows
from .vec3 import dot, sub

HALF, QUARTER = np.float32(0.5), np.float32(0.25)
ZERO, ONE, TINY = np.float32(0), np.float32(1), np.float32(1e-30)
# Numbers of a solve, in one float64 array. TOLERANCE is given, of the residual relative to the first.
MEASURE, FIRST, ALPHA, BETA, DONE, COUNT, TOLERANCE, ENERGY, MOTION, AFTER, WORK = range(11)
NUMBERS = 11
AXES, STRENGTHS, COEFFICIENTS, INVERSE_VALUES = 3, 2, 2, 6


@value_function
def spring_shape(edge, rest):
    """The inverse of a spring's length, its stretch [m], and c = 1 - rest / length.

    c is kept at 0 where the spring is compressed, or the matrix would be indefinite.
    """
    squared = dot(edge, edge)
    inverse = inverse_root(maximum(squared, TINY))
    return inverse, squared * inverse - rest, maximum(ONE - rest * inverse, ZERO * inverse)


@value_function
def spring_block(inverse, tense, stiffness, damping, step):
    """A spring's block of the matrix as alpha and along: h^2 K + h d n n^T with K = k (c I + (1 - c) n n^T)."""
    stiff = step * step * stiffness
    alpha = stiff * tense
    return alpha, (stiff - alpha + step * damping) * inverse * inverse


@value_function
def times_spring(alpha, along, edge, u):
    """alpha u + along (e . u) e."""
    pull = along * dot(edge, u)
    return (alpha * u[0] + pull * edge[0], alpha * u[1] + pull * edge[1], alpha * u[2] + pull * edge[2])


@value_function
def inverse_block(diagonal, w):
    """The inverse of the symmetric block diagonal I + w, given w as xx, yy, zz, xy, xz, yz."""
    a, b, c = diagonal + w[0], diagonal + w[1], diagonal + w[2]
    d, e, f = w[3], w[4], w[5]
    # Minors; the block is at least the mass times I, so the determinant is not 0 for a particle that can move.
    xx, xy, xz = b * c - f * f, e * f - d * c, d * f - e * b
    determinant = a * xx + d * xy + e * xz
    scale = ONE / select(determinant > ZERO, determinant, ONE)
    yy, zz, yz = a * c - e * e, a * b - d * d, d * e - a * f
    return (xx * scale, yy * scale, zz * scale, xy * scale, xz * scale, yz * scale)


@value_function
def times_block(inverses, eight, r):
    """The residual times the inverses of particles' own blocks, which lie in single precision at an address."""
    inverse = load_block(floats_at(inverses), eight, INVERSE_VALUES)
    xx, yy, zz = widened(inverse[0]), widened(inverse[1]), widened(inverse[2])
    xy, xz, yz = widened(inverse[3]), widened(inverse[4]), widened(inverse[5])
    return (
        xx * r[0] + xy * r[1] + xz * r[2],
        xy * r[0] + yy * r[1] + yz * r[2],
        xz * r[0] + yz * r[1] + zz * r[2],
    )


@value_function
def times_inverse_mass(inverses, eight, r):
    """The same with inverse masses, in double precision."""
    inverse = load_block(doubles_at(inverses), eight, 1)
    return (inverse * r[0], inverse * r[1], inverse * r[2])


@value_function
def masses(inverse):
    """Of particles, given their inverse masses; 0 where they are pinned."""
    return select(inverse > ZERO, ONE / select(inverse > ZERO, inverse, ONE), ZERO)


@value_function
def store_axes(values, eight, v):
    store_block(values, AXES * eight, v[0])
    store_block(values, AXES * eight + 1, v[1])
    store_block(values, AXES * eight + 2, v[2])


@cache
def assemble_kernel(by_blocks):
    """The right-hand side, the preconditioner, and what the matrix makes of a free fall.

    Five partial sums: the measure of the right-hand side, its product and that of the fall with the fall, the energy of
    motion and springs, and that of motion alone.
    `by_blocks`: whether the preconditioner is the inverse of each particle's own block, or of its mass.
    Addresses: positions, velocities, motion, first eight of each block, partial sum of each block, bounds of the slots
    of each eight, neighbors, kinds, strengths, rests, coefficients, residual, product, number of blocks in all,
    partial sums, inverses, drag of each particle, wind.
    """
    precondition = times_block if by_blocks else times_inverse_mass
    digest = source_digest(spring_shape, precondition)

    @kernel
    def assemble(addresses, first, last):
        _ = digest  # part of the cache key
        positions, velocities, motion = doubles_at(addresses[0]), doubles_at(addresses[1]), floats_at(addresses[2])
        eights, ids, bounds = ints_at(addresses[3]), ints_at(addresses[4]), ints_at(addresses[5])
        neighbors, kinds, strengths = ints_at(addresses[6]), ints_at(addresses[7]), floats_at(addresses[8])
        rests, coefficients, inverses = floats_at(addresses[9]), doubles_at(addresses[10]), addresses[15]
        residual, product, sums = doubles_at(addresses[11]), doubles_at(addresses[12]), addresses[13]
        partial, drags, wind = doubles_at(addresses[14]), floats_at(addresses[16]), floats_at(addresses[17])
        step, nothing = np.float64(motion[STEP]), spread_wide(ZERO)
        fall = (
            spread_wide(motion[IMPULSE]),
            spread_wide(motion[IMPULSE + 1]),
            spread_wide(motion[IMPULSE + 2]),
        )
        for block in range(first, last):
            total, gained, held_back, energy, motion_energy = 0.0, 0.0, 0.0, 0.0, 0.0
            for eight in range(eights[block], eights[block + 1]):
                here, velocity = load_rows(positions, eight), load_rows(velocities, eight)
                free = here[3] > ZERO
                mass, drag = masses(here[3]), step * widened(load_block(drags, eight, 1))
                held = mass + drag
                # Air pulls with c (wind - v), so that c h is added to the mass in the matrix.
                x = mass * fall[0] + drag * (wind[0] - velocity[0])
                y = mass * fall[1] + drag * (wind[1] - velocity[1])
                z = mass * fall[2] + drag * (wind[2] - velocity[2])
                diagonal, strained, lightest = held, nothing, here[3]
                xx = yy = zz = xy = xz = yz = nothing
                for slot in range(bounds[eight], bounds[eight + 1]):
                    there = gather_rows(positions, neighbors, slot * WIDTH, 1)
                    lightest = minimum(lightest, there[3])
                    rest = widened(load_block(rests, kinds[2 * slot + 1], 1))
                    edge = sub(there, here)
                    inverse, stretch, tense = spring_shape(edge, rest)
                    stiffness, damping = load_block(strengths, kinds[2 * slot], STRENGTHS)
                    stiffness = widened(stiffness)
                    alpha, along = spring_block(inverse, tense, stiffness, widened(damping), step)
                    store_block(coefficients, COEFFICIENTS * slot, alpha)
                    store_block(coefficients, COEFFICIENTS * slot + 1, along)
                    tension = stiffness * stretch
                    strained = strained + tension * stretch
                    slip = sub(gather_rows(velocities, neighbors, slot * WIDTH, 1), velocity)
                    pull = step * tension * inverse + along * dot(edge, slip)
                    x, y, z = x + pull * edge[0], y + pull * edge[1], z + pull * edge[2]
                    x, y, z = x + alpha * slip[0], y + alpha * slip[1], z + alpha * slip[2]
                    if by_blocks:
                        diagonal = diagonal + alpha
                        ax, ay, az = along * edge[0], along * edge[1], along * edge[2]
                        xx, yy, zz = xx + ax * edge[0], yy + ay * edge[1], zz + az * edge[2]
                        xy, xz, yz = xy + ax * edge[1], xz + ax * edge[2], yz + ay * edge[2]
                qx, qy, qz = held * fall[0], held * fall[1], held * fall[2]
                if not all_lanes(lightest > ZERO):
                    for slot in range(bounds[eight], bounds[eight + 1]):
                        # In a fall only springs to what is pinned change their length.
                        there = gather_rows(positions, neighbors, slot * WIDTH, 1)
                        pinned = select(there[3] > ZERO, nothing, ONE)
                        alpha, along = load_block(coefficients, slot, COEFFICIENTS)
                        pull = times_spring(alpha, along, sub(there, here), fall)
                        qx, qy, qz = qx + pinned * pull[0], qy + pinned * pull[1], qz + pinned * pull[2]
                if by_blocks:
                    blocks, own = floats_at(inverses), inverse_block(diagonal, (xx, yy, zz, xy, xz, yz))
                    store_block(blocks, INVERSE_VALUES * eight, narrowed(own[0]))
                    store_block(blocks, INVERSE_VALUES * eight + 1, narrowed(own[1]))
                    store_block(blocks, INVERSE_VALUES * eight + 2, narrowed(own[2]))
                    store_block(blocks, INVERSE_VALUES * eight + 3, narrowed(own[3]))
                    store_block(blocks, INVERSE_VALUES * eight + 4, narrowed(own[4]))
                    store_block(blocks, INVERSE_VALUES * eight + 5, narrowed(own[5]))
                else:
                    weight = select(free, ONE / select(free, held, ONE), ZERO)
                    store_block(doubles_at(inverses), eight, weight)
                r = (select(free, x, ZERO), select(free, y, ZERO), select(free, z, ZERO))
                q = (select(free, qx, ZERO), select(free, qy, ZERO), select(free, qz, ZERO))
                store_axes(residual, eight, r)
                store_axes(product, eight, q)
                total += sum_of_lanes(dot(r, precondition(inverses, eight, r)))
                gained += sum_of_lanes(dot(r, fall))
                held_back += sum_of_lanes(dot(q, fall))
                moving = HALF * mass * dot(velocity, velocity)
                energy += sum_of_lanes(moving + QUARTER * strained)
                motion_energy += sum_of_lanes(moving)
            partial[4 * sums + ids[block]] = motion_energy
            partial[ids[block]] = total
            partial[sums + ids[block]] = gained
            partial[2 * sums + ids[block]] = held_back
            partial[3 * sums + ids[block]] = energy

    return assemble


@cache
def start_kernel(by_blocks):
    """Take over as much of a free fall as pays, and turn to the first direction from there.

    Else few iterations would let stiff springs hold a body in the air, since the search minds them first.
    Addresses: residual, product, direction, change, first eights, ids, partial sums, numbers, inverses, motion,
    positions, drag of each particle.
    """
    precondition = times_block if by_blocks else times_inverse_mass
    digest = source_digest(precondition, masses)

    @kernel
    def start(addresses, first, last):
        _ = digest  # part of the cache key
        residual, product, direction = doubles_at(addresses[0]), doubles_at(addresses[1]), doubles_at(addresses[2])
        change, eights, ids = doubles_at(addresses[3]), ints_at(addresses[4]), ints_at(addresses[5])
        partial, numbers = doubles_at(addresses[6]), doubles_at(addresses[7])
        motion, positions, drags = floats_at(addresses[9]), doubles_at(addresses[10]), floats_at(addresses[11])
        alpha, step, nothing = numbers[ALPHA], np.float64(motion[STEP]), spread_wide(ZERO)
        x, y, z = alpha * motion[IMPULSE], alpha * motion[IMPULSE + 1], alpha * motion[IMPULSE + 2]
        for block in range(first, last):
            total = 0.0
            for eight in range(eights[block], eights[block + 1]):
                r, q = load_block(residual, eight, AXES), load_block(product, eight, AXES)
                weight = load_rows(positions, eight)[3]
                held = select(weight > ZERO, masses(weight) + step * widened(load_block(drags, eight, 1)), ZERO)
                r = (r[0] - alpha * q[0], r[1] - alpha * q[1], r[2] - alpha * q[2])
                p = precondition(addresses[8], eight, r)
                store_axes(residual, eight, r)
                store_rows(direction, eight, (p[0], p[1], p[2], held))
                falls = select(held > ZERO, nothing + ONE, ZERO)
                store_rows(change, eight, (falls * x, falls * y, falls * z, nothing))
                total += sum_of_lanes(dot(r, p))
            partial[ids[block]] = total

    return start


@cache
def multiply_kernel():
    """The matrix times the direction. Addresses: positions, direction, product, first eights, ids, bounds,
    neighbors, coefficients, partial sums, numbers."""
    digest = source_digest(times_spring)

    @kernel
    def multiply(addresses, first, last):
        _ = digest  # part of the cache key
        positions, direction, product = doubles_at(addresses[0]), doubles_at(addresses[1]), doubles_at(addresses[2])
        eights, ids, bounds = ints_at(addresses[3]), ints_at(addresses[4]), ints_at(addresses[5])
        neighbors, coefficients = ints_at(addresses[6]), doubles_at(addresses[7])
        partial, numbers = doubles_at(addresses[8]), doubles_at(addresses[9])
        if numbers[DONE] == 0:
            for block in range(first, last):
                total = 0.0
                for eight in range(eights[block], eights[block + 1]):
                    here, p = load_rows(positions, eight), load_rows(direction, eight)
                    x, y, z = p[3] * p[0], p[3] * p[1], p[3] * p[2]
                    for slot in range(bounds[eight], bounds[eight + 1]):
                        edge = sub(here, gather_rows(positions, neighbors, slot * WIDTH, 1))
                        u = sub(p, gather_rows(direction, neighbors, slot * WIDTH, 1))
                        alpha, along = load_block(coefficients, slot, COEFFICIENTS)
                        pull = times_spring(alpha, along, edge, u)
                        x, y, z = x + pull[0], y + pull[1], z + pull[2]
                    free = p[3] > ZERO
                    q = (select(free, x, ZERO), select(free, y, ZERO), select(free, z, ZERO))
                    store_axes(product, eight, q)
                    total += sum_of_lanes(dot(p, q))
                partial[ids[block]] = total

    return multiply


@cache
def descend_kernel(by_blocks):
    """The residual after a step along the direction. Addresses: residual, product, first eights, ids, partial sums,
    numbers, inverses."""
    precondition = times_block if by_blocks else times_inverse_mass
    digest = source_digest(precondition)

    @kernel
    def descend(addresses, first, last):
        _ = digest  # part of the cache key
        residual, product = doubles_at(addresses[0]), doubles_at(addresses[1])
        eights, ids = ints_at(addresses[2]), ints_at(addresses[3])
        partial, numbers = doubles_at(addresses[4]), doubles_at(addresses[5])
        if numbers[DONE] == 0:
            alpha = numbers[ALPHA]
            for block in range(first, last):
                total = 0.0
                for eight in range(eights[block], eights[block + 1]):
                    r, q = load_block(residual, eight, AXES), load_block(product, eight, AXES)
                    r = (r[0] - alpha * q[0], r[1] - alpha * q[1], r[2] - alpha * q[2])
                    store_axes(residual, eight, r)
                    total += sum_of_lanes(dot(r, precondition(addresses[6], eight, r)))
                partial[ids[block]] = total

    return descend


@cache
def turn_kernel(by_blocks):
    """The change of velocity after that step, and the next direction. Addresses: direction, change, residual, first
    eights, numbers, inverses."""
    precondition = times_block if by_blocks else times_inverse_mass
    digest = source_digest(precondition)

    @kernel
    def turn(addresses, first, last):
        _ = digest  # part of the cache key
        direction, change, residual = doubles_at(addresses[0]), doubles_at(addresses[1]), doubles_at(addresses[2])
        eights, numbers = ints_at(addresses[3]), doubles_at(addresses[4])
        alpha, beta = numbers[ALPHA], numbers[BETA]
        if alpha != ZERO:
            for eight in range(eights[first], eights[last]):
                p, dv, r = load_rows(direction, eight), load_rows(change, eight), load_block(residual, eight, AXES)
                dv = (dv[0] + alpha * p[0], dv[1] + alpha * p[1], dv[2] + alpha * p[2], dv[3])
                store_rows(change, eight, dv)
                z = precondition(addresses[5], eight, r)
                p = (z[0] + beta * p[0], z[1] + beta * p[1], z[2] + beta * p[2], p[3])
                store_rows(direction, eight, p)

    return turn


FALL, BEGIN, LENGTH, NEXT, BALANCE = range(5)


@value_function
def sum_of(values, first, count):
    total = 0.0
    for i in range(first, first + count):
        total += values[i]
    return total


@cache
def sum_kernel(what):
    """Partial sums added up, and what follows from it. Addresses: partial sums, their number, numbers."""
    digest = source_digest(sum_of)

    @kernel
    def add_up(addresses, first, last):
        _ = digest  # part of the cache key
        partial, count, numbers = doubles_at(addresses[0]), addresses[1], doubles_at(addresses[2])
        if first < last:
            total = sum_of(partial, 0, count)
            # What is not a number goes on, and is found at the end.
            if what == FALL:
                gained, held_back = sum_of(partial, count, count), sum_of(partial, 2 * count, count)
                numbers[FIRST], numbers[COUNT], numbers[BETA] = total, 0.0, 0.0
                numbers[ALPHA] = 0.0 if held_back <= 0.0 else gained / held_back
                numbers[ENERGY] = sum_of(partial, 3 * count, count)
                numbers[MOTION] = sum_of(partial, 4 * count, count)
            elif what == BALANCE:
                numbers[AFTER], numbers[WORK] = total, sum_of(partial, count, count)
            elif what == BEGIN:
                numbers[MEASURE] = total
                enough = numbers[TOLERANCE] * numbers[TOLERANCE] * numbers[FIRST]
                numbers[DONE] = 1.0 if total <= enough else 0.0
            elif numbers[DONE] != 0:
                numbers[ALPHA] = 0.0
            elif what == LENGTH:
                # Rounding may leave nothing to gain along a direction: then this is the best there is.
                numbers[DONE] = 1.0 if total <= 0.0 else 0.0
                numbers[ALPHA] = 0.0 if total <= 0.0 else numbers[MEASURE] / total
            else:
                numbers[BETA], numbers[MEASURE] = total / numbers[MEASURE], total
                numbers[COUNT] += 1.0
                if total <= numbers[TOLERANCE] * numbers[TOLERANCE] * numbers[FIRST]:
                    numbers[DONE] = 1.0

    return add_up

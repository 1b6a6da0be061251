"""The implicit step of a net of springs, eight particles at a time: its matrix, and conjugate gradients.

Rows of four numbers, in double precision: what rounding does to stiff springs is a force of its own, and a cloth that
folds multiplies it (docs/decisions/0015). The direction of the search carries the mass in its fourth place, the
residual the inverse mass, both 0 where a particle is pinned, which filters it out of every product. An item is a block
of particles. Each block has one partial sum of a dot product, and partial sums are always added up in the same order.
"""

from functools import cache

import numpy as np

from .compile import doubles_at, floats_at, ints_at, kernel, source_digest
from .integrate import IMPULSE, STEP
from .lanes import WIDTH, maximum, narrowed, select, spread_wide, sqrt, sum_of_lanes, value_function, widened
from .rows import gather_rows, load_block, load_rows, store_block, store_rows
from .vec3 import dot, sub

HALF = np.float32(0.5)
ZERO, ONE, TINY = np.float32(0), np.float32(1), np.float32(1e-30)
# Numbers of a solve, in one float64 array. TOLERANCE is given, of the residual relative to the first.
MEASURE, FIRST, ALPHA, BETA, DONE, COUNT, TOLERANCE, ENERGY, MOTION, AFTER, WORK = range(11)
NUMBERS = 11
# What a spring becomes: alpha and w, its 3x3 block being alpha I + w w^T.
COEFFICIENTS, SPRING_VALUES, INVERSE_VALUES = 4, 3, 6


@value_function
def spring_block(edge, slip, stiffness, rest, damping, step):
    """What a spring adds to the right-hand side, and its block of the matrix as alpha and w.

    edge, slip: where the other end is, and its velocity, as seen from this end. K = k (c I + (1 - c) n n^T) with
    c = 1 - rest / length is -df/dx; c is kept at 0 where the spring is compressed, or the matrix would be indefinite.
    """
    squared = dot(edge, edge)
    inverse = ONE / sqrt(maximum(squared, TINY))
    n = (edge[0] * inverse, edge[1] * inverse, edge[2] * inverse)
    tense = maximum(ONE - rest * inverse, ZERO * inverse)
    stiff = step * step * stiffness
    alpha, along = stiff * tense, stiff * (ONE - tense) + step * damping
    pull = step * stiffness * (squared * inverse - rest) + along * dot(n, slip)
    impulse = (pull * n[0] + alpha * slip[0], pull * n[1] + alpha * slip[1], pull * n[2] + alpha * slip[2])
    w = sqrt(along)
    return impulse, alpha, (w * n[0], w * n[1], w * n[2])


@value_function
def stored(edge, stiffness, rest):
    """The energy of a spring; each of its ends counts half of it."""
    stretch = sqrt(dot(edge, edge)) - rest
    return HALF * stiffness * stretch * stretch


@value_function
def inverse_block(diagonal, w):
    """The inverse of the symmetric block diagonal I + sum of w w^T, given those sums: xx, yy, zz, xy, xz, yz."""
    a, b, c = diagonal + w[0], diagonal + w[1], diagonal + w[2]
    d, e, f = w[3], w[4], w[5]
    # Minors; the block is at least the mass times I, so the determinant is not 0 for a particle that can move.
    xx, xy, xz = b * c - f * f, e * f - d * c, d * f - e * b
    determinant = a * xx + d * xy + e * xz
    scale = ONE / select(determinant > ZERO, determinant, ONE)
    yy, zz, yz = a * c - e * e, a * b - d * d, d * e - a * f
    return (xx * scale, yy * scale, zz * scale, xy * scale, xz * scale, yz * scale)


@value_function
def times_block(inverse, r):
    xx, yy, zz = widened(inverse[0]), widened(inverse[1]), widened(inverse[2])
    xy, xz, yz = widened(inverse[3]), widened(inverse[4]), widened(inverse[5])
    return (
        xx * r[0] + xy * r[1] + xz * r[2],
        xy * r[0] + yy * r[1] + yz * r[2],
        xz * r[0] + yz * r[1] + zz * r[2],
    )


@value_function
def times_inverse_mass(inverse, r):
    return (r[3] * r[0], r[3] * r[1], r[3] * r[2])


@cache
def assemble_kernel(by_blocks):
    """The matrix, the right-hand side, and what the matrix makes of a free fall.

    Five partial sums: the measure of the right-hand side, its product and that of the fall with the fall, the energy of
    motion and springs, and that of motion alone.
    `by_blocks`: whether the preconditioner is the inverse of each particle's own block, or of its mass.
    Addresses: positions, velocities, motion, first eight of each block, partial sum of each block, bounds of the slots
    of each eight, neighbors, springs (stiffness, rest, damping), coefficients, residual, product, number of blocks in
    all, partial sums, inverse blocks, drag of each particle, wind.
    """
    precondition = times_block if by_blocks else times_inverse_mass
    digest = source_digest(spring_block, precondition)

    @kernel
    def assemble(addresses, first, last):
        _ = digest  # part of the cache key
        positions, velocities, motion = doubles_at(addresses[0]), doubles_at(addresses[1]), floats_at(addresses[2])
        eights, ids, bounds, neighbors = (
            ints_at(addresses[3]),
            ints_at(addresses[4]),
            ints_at(addresses[5]),
            ints_at(addresses[6]),
        )
        springs, coefficients, residual = floats_at(addresses[7]), doubles_at(addresses[8]), doubles_at(addresses[9])
        product, sums, partial = doubles_at(addresses[10]), addresses[11], doubles_at(addresses[12])
        inverses, drags, wind = floats_at(addresses[13]), floats_at(addresses[14]), floats_at(addresses[15])
        step, nothing = np.float64(motion[STEP]), spread_wide(ZERO)
        fall = (
            spread_wide(motion[IMPULSE]),
            spread_wide(motion[IMPULSE + 1]),
            spread_wide(motion[IMPULSE + 2]),
            nothing,
        )
        for block in range(first, last):
            total, gained, held_back, energy, motion_energy = 0.0, 0.0, 0.0, 0.0, 0.0
            for eight in range(eights[block], eights[block + 1]):
                here, velocity = load_rows(positions, eight), load_rows(velocities, eight)
                free = here[3] > ZERO
                mass = select(free, ONE / select(free, here[3], ONE), ZERO)
                # Air pulls with c (wind - v), so that c h is added to the mass in the matrix.
                drag = step * widened(load_block(drags, eight, 1))
                held = mass + drag
                x = mass * fall[0] + drag * (wind[0] - velocity[0])
                y = mass * fall[1] + drag * (wind[1] - velocity[1])
                z = mass * fall[2] + drag * (wind[2] - velocity[2])
                qx, qy, qz = held * fall[0], held * fall[1], held * fall[2]
                diagonal, strained = held, nothing
                xx = yy = zz = xy = xz = yz = nothing
                for slot in range(bounds[eight], bounds[eight + 1]):
                    there = gather_rows(positions, neighbors, slot * WIDTH, 1)
                    edge = sub(there, here)
                    slip = sub(gather_rows(velocities, neighbors, slot * WIDTH, 1), velocity)
                    stiffness, rest, damping = load_block(springs, slot, SPRING_VALUES)
                    stiffness, rest, damping = widened(stiffness), widened(rest), widened(damping)
                    impulse, alpha, w = spring_block(edge, slip, stiffness, rest, damping, step)
                    strained = strained + stored(edge, stiffness, rest)
                    x, y, z = x + impulse[0], y + impulse[1], z + impulse[2]
                    # In a fall only springs to what is pinned change their length.
                    pinned = select(there[3] > ZERO, nothing, ONE)
                    along = pinned * dot(w, fall)
                    qx = qx + pinned * alpha * fall[0] + along * w[0]
                    qy = qy + pinned * alpha * fall[1] + along * w[1]
                    qz = qz + pinned * alpha * fall[2] + along * w[2]
                    store_block(coefficients, COEFFICIENTS * slot, alpha)
                    store_block(coefficients, COEFFICIENTS * slot + 1, w[0])
                    store_block(coefficients, COEFFICIENTS * slot + 2, w[1])
                    store_block(coefficients, COEFFICIENTS * slot + 3, w[2])
                    if by_blocks:
                        diagonal = diagonal + alpha
                        xx, yy, zz = xx + w[0] * w[0], yy + w[1] * w[1], zz + w[2] * w[2]
                        xy, xz, yz = xy + w[0] * w[1], xz + w[0] * w[2], yz + w[1] * w[2]
                weight = select(free, ONE / select(free, held, ONE), ZERO)
                r = (select(free, x, ZERO), select(free, y, ZERO), select(free, z, ZERO), weight)
                if by_blocks:
                    inverse = inverse_block(diagonal, (xx, yy, zz, xy, xz, yz))
                    store_block(inverses, INVERSE_VALUES * eight, narrowed(inverse[0]))
                    store_block(inverses, INVERSE_VALUES * eight + 1, narrowed(inverse[1]))
                    store_block(inverses, INVERSE_VALUES * eight + 2, narrowed(inverse[2]))
                    store_block(inverses, INVERSE_VALUES * eight + 3, narrowed(inverse[3]))
                    store_block(inverses, INVERSE_VALUES * eight + 4, narrowed(inverse[4]))
                    store_block(inverses, INVERSE_VALUES * eight + 5, narrowed(inverse[5]))
                q = (select(free, qx, ZERO), select(free, qy, ZERO), select(free, qz, ZERO), select(free, held, ZERO))
                store_rows(residual, eight, r)
                store_rows(product, eight, q)
                inverse = load_block(inverses, eight * by_blocks, INVERSE_VALUES)
                total += sum_of_lanes(dot(r, precondition(inverse, r)))
                gained += sum_of_lanes(dot(r, fall))
                held_back += sum_of_lanes(dot(q, fall))
                moving = HALF * mass * dot(velocity, velocity)
                energy += sum_of_lanes(moving + HALF * strained)
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
    Addresses: residual, product, direction, change, first eights, ids, partial sums, numbers, inverse blocks, motion.
    """
    precondition = times_block if by_blocks else times_inverse_mass
    digest = source_digest(precondition)

    @kernel
    def start(addresses, first, last):
        _ = digest  # part of the cache key
        residual, product, direction = doubles_at(addresses[0]), doubles_at(addresses[1]), doubles_at(addresses[2])
        change, eights, ids = doubles_at(addresses[3]), ints_at(addresses[4]), ints_at(addresses[5])
        partial, numbers, inverses = doubles_at(addresses[6]), doubles_at(addresses[7]), floats_at(addresses[8])
        motion, nothing = floats_at(addresses[9]), spread_wide(ZERO)
        alpha = numbers[ALPHA]
        x, y, z = alpha * motion[IMPULSE], alpha * motion[IMPULSE + 1], alpha * motion[IMPULSE + 2]
        for block in range(first, last):
            total = 0.0
            for eight in range(eights[block], eights[block + 1]):
                r, q = load_rows(residual, eight), load_rows(product, eight)
                free = q[3] > ZERO
                r = (r[0] - alpha * q[0], r[1] - alpha * q[1], r[2] - alpha * q[2], r[3])
                p = precondition(load_block(inverses, eight * by_blocks, INVERSE_VALUES), r)
                store_rows(residual, eight, r)
                store_rows(direction, eight, (p[0], p[1], p[2], q[3]))
                falls = select(free, nothing + ONE, ZERO)
                store_rows(change, eight, (falls * x, falls * y, falls * z, nothing))
                total += sum_of_lanes(dot(r, p))
            partial[ids[block]] = total

    return start


@cache
def multiply_kernel():
    """The matrix times the direction. Addresses: direction, product, first eights, ids, bounds, neighbors,
    coefficients, partial sums, numbers."""
    digest = source_digest()

    @kernel
    def multiply(addresses, first, last):
        _ = digest  # part of the cache key
        direction, product = doubles_at(addresses[0]), doubles_at(addresses[1])
        eights, ids, bounds = ints_at(addresses[2]), ints_at(addresses[3]), ints_at(addresses[4])
        neighbors, coefficients = ints_at(addresses[5]), doubles_at(addresses[6])
        partial, numbers = doubles_at(addresses[7]), doubles_at(addresses[8])
        if numbers[DONE] == 0:
            for block in range(first, last):
                total = 0.0
                for eight in range(eights[block], eights[block + 1]):
                    p = load_rows(direction, eight)
                    x, y, z = p[3] * p[0], p[3] * p[1], p[3] * p[2]
                    for slot in range(bounds[eight], bounds[eight + 1]):
                        u = sub(p, gather_rows(direction, neighbors, slot * WIDTH, 1))
                        alpha, wx, wy, wz = load_block(coefficients, slot, COEFFICIENTS)
                        along = wx * u[0] + wy * u[1] + wz * u[2]
                        x, y, z = (
                            x + alpha * u[0] + along * wx,
                            y + alpha * u[1] + along * wy,
                            z + alpha * u[2] + along * wz,
                        )
                    free = p[3] > ZERO
                    q = (select(free, x, ZERO), select(free, y, ZERO), select(free, z, ZERO), spread_wide(ZERO))
                    store_rows(product, eight, q)
                    total += sum_of_lanes(dot(p, q))
                partial[ids[block]] = total

    return multiply


@cache
def descend_kernel(by_blocks):
    """The residual after a step along the direction. Addresses: residual, product, first eights, ids, partial sums,
    numbers, inverse blocks."""
    precondition = times_block if by_blocks else times_inverse_mass
    digest = source_digest(precondition)

    @kernel
    def descend(addresses, first, last):
        _ = digest  # part of the cache key
        residual, product = doubles_at(addresses[0]), doubles_at(addresses[1])
        eights, ids = ints_at(addresses[2]), ints_at(addresses[3])
        partial, numbers, inverses = doubles_at(addresses[4]), doubles_at(addresses[5]), floats_at(addresses[6])
        if numbers[DONE] == 0:
            alpha = numbers[ALPHA]
            for block in range(first, last):
                total = 0.0
                for eight in range(eights[block], eights[block + 1]):
                    r, q = load_rows(residual, eight), load_rows(product, eight)
                    r = (r[0] - alpha * q[0], r[1] - alpha * q[1], r[2] - alpha * q[2], r[3])
                    store_rows(residual, eight, r)
                    total += sum_of_lanes(
                        dot(r, precondition(load_block(inverses, eight * by_blocks, INVERSE_VALUES), r))
                    )
                partial[ids[block]] = total

    return descend


@cache
def turn_kernel(by_blocks):
    """The change of velocity after that step, and the next direction. Addresses: direction, change, residual, first
    eights, numbers, inverse blocks."""
    precondition = times_block if by_blocks else times_inverse_mass
    digest = source_digest(precondition)

    @kernel
    def turn(addresses, first, last):
        _ = digest  # part of the cache key
        direction, change, residual = doubles_at(addresses[0]), doubles_at(addresses[1]), doubles_at(addresses[2])
        eights, numbers, inverses = ints_at(addresses[3]), doubles_at(addresses[4]), floats_at(addresses[5])
        alpha, beta = numbers[ALPHA], numbers[BETA]
        if alpha != ZERO:
            for eight in range(eights[first], eights[last]):
                p, dv, r = load_rows(direction, eight), load_rows(change, eight), load_rows(residual, eight)
                dv = (dv[0] + alpha * p[0], dv[1] + alpha * p[1], dv[2] + alpha * p[2], dv[3])
                store_rows(change, eight, dv)
                z = precondition(load_block(inverses, eight * by_blocks, INVERSE_VALUES), r)
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

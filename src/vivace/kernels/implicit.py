"""The implicit step of a net of springs, eight particles at a time: its matrix, and what all of it shares.

In double precision: what rounding does to stiff springs is a force of its own, and a cloth that folds multiplies it
(docs/decisions/0015). Each spring is computed once, and added to both of its ends (docs/decisions/0019). Its block of
the matrix is alpha I + w w^T: w is stored, and alpha follows from it (docs/decisions/0024). Vectors have rows of four
numbers; the direction of the search has the mass and h times the drag in the fourth place, 0 where a particle is
pinned. The residual and the change of velocity, which no neighbor looks at, have three lines of eight numbers for every
eight particles. An item is a block of particles: it writes to its own rows and dues (see `Net`). Each block has one
partial sum of a dot product, and partial sums are always added up in the same order.
"""

from functools import cache

import numpy as np

from .compile import doubles_at, floats_at, ints_at, kernel, source_digest
from .integrate import IMPULSE, KEPT, STEP
from .lanes import (
    WIDTH,
    all_lanes,
    inverse_root,
    maximum,
    minimum,
    narrowed,
    select,
    spread_wide,
    sqrt,
    sum_of_lanes,
    value_function,
    widened,
)
from .rows import (
    add_rows,
    gather_rows,
    load_block,
    load_rows,
    prefetch_block,
    prefetch_row,
    scatter_add,
    store_block,
    store_rows,
)
from .vec3 import dot, scale, sub

HALF = np.float32(0.5)
ZERO, ONE, TINY = np.float32(0), np.float32(1), np.float32(1e-30)
# Numbers of a solve, in one float64 array. TOLERANCE is given, of the residual relative to the first. FALLEN is the
# share of a free fall that the search begins with, PRODUCTS counts those of the matrix.
MEASURE, FIRST, ALPHA, BETA, DONE, COUNT, TOLERANCE, ENERGY, MOTION, AFTER, WORK, FALLEN, PRODUCTS = range(13)
NUMBERS = 13
AXES, ROW, STRENGTHS, COEFFICIENTS, INVERSE_VALUES = 3, 4, 2, 3, 6
# A smaller residual, relative to the first, changes nothing: far below, products would become 0 by rounding.
LEAST = 1e-20
# What is fetched so early has come when it is needed: slots or claims into the first cache, slots into the second,
# lists of neighbors, slots that are written, and eights of rows.
AHEAD, FAR_AHEAD, LIST_AHEAD, WRITTEN_AHEAD, ROWS_AHEAD = 12, 64, 32, 24, 16


@value_function
def spring_shape(edge, rest):
    """The inverse of a spring's length, its stretch [m], and c = 1 - rest / length.

    c is kept at 0 where the spring is compressed, or the matrix would be indefinite.
    """
    squared = dot(edge, edge)
    inverse = inverse_root(maximum(squared, TINY))
    return inverse, squared * inverse - rest, maximum(ONE - rest * inverse, ZERO * inverse)


@value_function
def spring_firmness(stiffness, damping, step):
    """A spring's block of the matrix along the spring, h^2 k + h d [kg]: alpha + w . w, however it is stretched."""
    return step * (step * stiffness + damping)


@value_function
def spring_scale(inverse, tense, stiffness, damping, step):
    """What makes w of e in a spring's block of the matrix, h^2 K + h d n n^T with K = k (c I + (1 - c) n n^T)."""
    return sqrt(step * step * stiffness * (ONE - tense) + step * damping) * inverse


@value_function
def spring_alpha(firmness, w):
    """Rounding may leave a little less than nothing, or the matrix would be indefinite."""
    return maximum(firmness - dot(w, w), ZERO * firmness)


@value_function
def times_spring(alpha, w, u):
    """alpha u + (w . u) w."""
    along = dot(w, u)
    return (alpha * u[0] + along * w[0], alpha * u[1] + along * w[1], alpha * u[2] + along * w[2])


@value_function
def inverse_block(diagonal, w):
    """The inverse of the symmetric block diagonal I + w, given w as xx, yy, zz, xy, xz, yz."""
    a, b, c = diagonal + w[0], diagonal + w[1], diagonal + w[2]
    d, e, f = w[3], w[4], w[5]
    # Minors; the block is at least the mass times I, so the determinant is not 0 for a particle that can move.
    xx, xy, xz = b * c - f * f, e * f - d * c, d * f - e * b
    determinant = a * xx + d * xy + e * xz
    share = ONE / select(determinant > ZERO, determinant, ONE)
    yy, zz, yz = a * c - e * e, a * b - d * d, d * e - a * f
    return (xx * share, yy * share, zz * share, xy * share, xz * share, yz * share)


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
def faded(velocity, inverse, kept):
    """What damping has left of a velocity, where a particle is not pinned."""
    share = select(inverse > ZERO, spread_wide(kept), ONE)
    return (share * velocity[0], share * velocity[1], share * velocity[2], velocity[3])


@value_function
def store_axes(values, eight, v):
    store_block(values, AXES * eight, v[0])
    store_block(values, AXES * eight + 1, v[1])
    store_block(values, AXES * eight + 2, v[2])


@value_function
def changed_so_far(change, eight, mass, numbers, motion):
    """The change of velocity before the last step along a direction: that of the fall, until one is stored."""
    if numbers[PRODUCTS] > ONE:
        return load_block(change, eight, AXES)
    fallen, free = numbers[FALLEN], mass > ZERO
    return (
        select(free, spread_wide(fallen * motion[IMPULSE]), ZERO),
        select(free, spread_wide(fallen * motion[IMPULSE + 1]), ZERO),
        select(free, spread_wide(fallen * motion[IMPULSE + 2]), ZERO),
    )


@value_function
def clear(rows, first, last):
    for number in range(4 * first, 4 * last):
        rows[number] = 0.0


@value_function
def claim(rows, claims, first, last):
    """Add to rows what is due to them."""
    for i in range(first, min(first + AHEAD, last)):
        prefetch_row(rows, claims[2 * i + 1])
    for i in range(first, last):
        prefetch_row(rows, claims[2 * min(i + AHEAD, last - 1) + 1])
        row, due = 4 * claims[2 * i], 4 * claims[2 * i + 1]
        rows[row] += rows[due]
        rows[row + 1] += rows[due + 1]
        rows[row + 2] += rows[due + 2]
        rows[row + 3] += rows[due + 3]


@cache
def firm_kernel():
    """The firmness of springs, by their kinds of strengths. Addresses: strengths, motion, firmness."""
    digest = source_digest(spring_firmness)

    @kernel
    def firm(addresses, first, last):
        _ = digest  # part of the cache key
        strengths, firmness = floats_at(addresses[0]), doubles_at(addresses[2])
        step = np.float64(floats_at(addresses[1])[STEP])
        for kind in range(first, last):
            stiffness, damping = load_block(strengths, kind, STRENGTHS)
            store_block(firmness, kind, spring_firmness(widened(stiffness), widened(damping), step))

    return firm


@cache
def assemble_kernel():
    """The springs' blocks of the matrix, and what springs add to both of their ends; after `firm`.

    Three sums for each row: the pull of its springs, and x of what they make of a free fall; the diagonal of its own
    block of the matrix, and y of that; the rest of the block, and z. In a fall only springs to what is pinned change
    their length. Partial sums 2 and 3: the product of the fall with that, and the energy of springs.
    Addresses: positions, velocities, motion, first eight of each block, ids of the blocks, bounds of the slots of each
    eight, neighbors, kinds, strengths, rests, outside, targets, first due of each block, reach, coefficients,
    three sums, number of blocks in all, partial sums, firmness.
    """
    digest = source_digest(spring_shape)

    @kernel
    def assemble(addresses, first, last):
        _ = digest  # part of the cache key
        positions, velocities, motion = doubles_at(addresses[0]), doubles_at(addresses[1]), floats_at(addresses[2])
        eights, ids, bounds = ints_at(addresses[3]), ints_at(addresses[4]), ints_at(addresses[5])
        neighbors, kinds, strengths = ints_at(addresses[6]), ints_at(addresses[7]), floats_at(addresses[8])
        rests, outside, targets = floats_at(addresses[9]), ints_at(addresses[10]), ints_at(addresses[11])
        dues, reach, coefficients = ints_at(addresses[12]), ints_at(addresses[13]), doubles_at(addresses[14])
        pulls, diagonals, others = doubles_at(addresses[15]), doubles_at(addresses[16]), doubles_at(addresses[17])
        sums, partial, firmness = addresses[18], doubles_at(addresses[19]), doubles_at(addresses[20])
        step, kept, nothing = np.float64(motion[STEP]), motion[KEPT], spread_wide(ZERO)
        fall = (
            spread_wide(motion[IMPULSE]),
            spread_wide(motion[IMPULSE + 1]),
            spread_wide(motion[IMPULSE + 2]),
        )
        for block in range(first, last):
            for rows in (pulls, diagonals, others):
                clear(rows, dues[block], dues[block + 1])
            strained = held_back = nothing
            cleared, end = eights[block], eights[block + 1]
            for eight in range(eights[block], end):
                while cleared < end and cleared <= eight + reach[block]:  # just before the first spring adds to them
                    for rows in (pulls, diagonals, others):
                        clear(rows, WIDTH * cleared, WIDTH * cleared + WIDTH)
                        prefetch_block(rows, cleared + ROWS_AHEAD, ROW, 2)
                    prefetch_block(positions, cleared + ROWS_AHEAD, ROW, 2)
                    prefetch_block(velocities, cleared + ROWS_AHEAD, ROW, 2)
                    cleared += 1
                here = load_rows(positions, eight)
                velocity = faded(load_rows(velocities, eight), here[3], kept)
                begin, ends, target = bounds[eight], neighbors, bounds[eight]
                if outside[eight] >= 0:
                    ends, target = targets, outside[eight]
                # Roots first, and alone: then several springs' long chains run side by side. What comes of them lies in
                # the springs' places until w does.
                for slot in range(begin, bounds[eight + 1]):
                    prefetch_block(coefficients, slot + WRITTEN_AHEAD, COEFFICIENTS, 2)
                    rest = widened(load_block(rests, kinds[2 * slot + 1], 1))
                    edge = sub(gather_rows(positions, neighbors, slot * WIDTH, 1), here)
                    inverse, stretch, tense = spring_shape(edge, rest)
                    stiffness, damping = load_block(strengths, kinds[2 * slot], STRENGTHS)
                    stiffness = widened(stiffness)
                    tension = stiffness * stretch
                    strained = strained + tension * stretch
                    along = spring_scale(inverse, tense, stiffness, widened(damping), step)
                    store_block(coefficients, COEFFICIENTS * slot, along)
                    store_block(coefficients, COEFFICIENTS * slot + 1, step * tension * inverse)
                x = y = z = xx = yy = zz = xy = xz = yz = qx = qy = qz = nothing
                for slot in range(begin, bounds[eight + 1]):
                    there = gather_rows(positions, neighbors, slot * WIDTH, 1)
                    slip = sub(velocity, faded(gather_rows(velocities, neighbors, slot * WIDTH, 1), there[3], kept))
                    edge = sub(there, here)
                    along, pull, _ = load_block(coefficients, slot, COEFFICIENTS)
                    w = scale(along, edge)
                    alpha = spring_alpha(load_block(firmness, kinds[2 * slot], 1), w)
                    store_block(coefficients, COEFFICIENTS * slot, w[0])
                    store_block(coefficients, COEFFICIENTS * slot + 1, w[1])
                    store_block(coefficients, COEFFICIENTS * slot + 2, w[2])
                    brake = times_spring(alpha, w, slip)
                    px, py, pz = brake[0] - pull * edge[0], brake[1] - pull * edge[1], brake[2] - pull * edge[2]
                    wxx, wyy, wzz = alpha + w[0] * w[0], alpha + w[1] * w[1], alpha + w[2] * w[2]
                    wxy, wxz, wyz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
                    fx = fy = fz = nothing
                    least, most = minimum(here[3], there[3]), maximum(here[3], there[3])
                    if not all_lanes(least > ZERO):
                        changed = select(least > ZERO, nothing, select(most > ZERO, nothing + ONE, ZERO))
                        f = times_spring(changed * alpha, w, (changed * fall[0], changed * fall[1], changed * fall[2]))
                        fx, fy, fz = f[0], f[1], f[2]
                        held_back = held_back + dot(f, fall)
                        qx, qy, qz = qx + fx, qy + fy, qz + fz
                    x, y, z = x - px, y - py, z - pz
                    xx, yy, zz = xx + wxx, yy + wyy, zz + wzz
                    xy, xz, yz = xy + wxy, xz + wxz, yz + wyz
                    place = (target + slot - begin) * WIDTH
                    scatter_add(pulls, ends, place, 1, (px, py, pz, fx))
                    scatter_add(diagonals, ends, place, 1, (wxx, wyy, wzz, fy))
                    scatter_add(others, ends, place, 1, (wxy, wxz, wyz, fz))
                add_rows(pulls, eight, (x, y, z, qx))
                add_rows(diagonals, eight, (xx, yy, zz, qy))
                add_rows(others, eight, (xy, xz, yz, qz))
            partial[2 * sums + ids[block]] = sum_of_lanes(held_back)
            partial[3 * sums + ids[block]] = sum_of_lanes(HALF * strained)

    return assemble


@cache
def weigh_kernel(by_blocks):
    """The right-hand side, the preconditioner, and what the matrix makes of a free fall, after `assemble`.

    Five partial sums: the measure of the right-hand side, its product and that of the fall with the fall, the energy of
    motion and springs, and that of motion alone. The first sum of each row becomes what is made of the fall,
    and the mass and h times the drag, 0 where a particle is pinned.
    `by_blocks`: whether the preconditioner is the inverse of each particle's own block, or of its mass.
    Addresses: positions, velocities, motion, first eights, ids, claims, first claim of each block, three sums,
    residual, inverses, number of blocks in all, partial sums, drag of each particle, wind.
    """
    precondition = times_block if by_blocks else times_inverse_mass
    digest = source_digest(precondition)

    @kernel
    def weigh(addresses, first, last):
        _ = digest  # part of the cache key
        positions, velocities, motion = doubles_at(addresses[0]), doubles_at(addresses[1]), floats_at(addresses[2])
        eights, ids = ints_at(addresses[3]), ints_at(addresses[4])
        claims, claimed = ints_at(addresses[5]), ints_at(addresses[6])
        pulls, diagonals, others = doubles_at(addresses[7]), doubles_at(addresses[8]), doubles_at(addresses[9])
        residual, inverses, sums = doubles_at(addresses[10]), addresses[11], addresses[12]
        partial, drags, wind = doubles_at(addresses[13]), floats_at(addresses[14]), floats_at(addresses[15])
        step = np.float64(motion[STEP])
        fall = (
            spread_wide(motion[IMPULSE]),
            spread_wide(motion[IMPULSE + 1]),
            spread_wide(motion[IMPULSE + 2]),
        )
        for block in range(first, last):
            for rows in (pulls, diagonals, others):
                claim(rows, claims, claimed[block], claimed[block + 1])
            total, gained, held_back, energy = 0.0, 0.0, 0.0, 0.0
            for eight in range(eights[block], eights[block + 1]):
                weight = load_rows(positions, eight)[3]
                velocity = faded(load_rows(velocities, eight), weight, motion[KEPT])
                pull, diagonal, other = load_rows(pulls, eight), load_rows(diagonals, eight), load_rows(others, eight)
                free = weight > ZERO
                mass, drag = masses(weight), step * widened(load_block(drags, eight, 1))
                held = mass + drag
                # Air pulls with c (wind - v), so that c h is added to the mass in the matrix.
                x = pull[0] + mass * fall[0] + drag * (wind[0] - velocity[0])
                y = pull[1] + mass * fall[1] + drag * (wind[1] - velocity[1])
                z = pull[2] + mass * fall[2] + drag * (wind[2] - velocity[2])
                qx, qy, qz = pull[3] + held * fall[0], diagonal[3] + held * fall[1], other[3] + held * fall[2]
                if by_blocks:
                    blocks, own = floats_at(inverses), inverse_block(held, diagonal[:3] + other[:3])
                    store_block(blocks, INVERSE_VALUES * eight, narrowed(select(free, own[0], ZERO)))
                    store_block(blocks, INVERSE_VALUES * eight + 1, narrowed(select(free, own[1], ZERO)))
                    store_block(blocks, INVERSE_VALUES * eight + 2, narrowed(select(free, own[2], ZERO)))
                    store_block(blocks, INVERSE_VALUES * eight + 3, narrowed(select(free, own[3], ZERO)))
                    store_block(blocks, INVERSE_VALUES * eight + 4, narrowed(select(free, own[4], ZERO)))
                    store_block(blocks, INVERSE_VALUES * eight + 5, narrowed(select(free, own[5], ZERO)))
                else:
                    store_block(doubles_at(inverses), eight, select(free, ONE / select(free, held, ONE), ZERO))
                r = (select(free, x, ZERO), select(free, y, ZERO), select(free, z, ZERO))
                q = (select(free, qx, ZERO), select(free, qy, ZERO), select(free, qz, ZERO), select(free, held, ZERO))
                store_axes(residual, eight, r)
                store_rows(pulls, eight, q)
                total += sum_of_lanes(dot(r, precondition(inverses, eight, r)))
                gained += sum_of_lanes(dot(r, fall))
                held_back += sum_of_lanes(select(free, held, ZERO) * dot(fall, fall))
                energy += sum_of_lanes(HALF * mass * dot(velocity, velocity))
            partial[ids[block]] = total
            partial[sums + ids[block]] = gained
            partial[2 * sums + ids[block]] += held_back
            partial[3 * sums + ids[block]] += energy
            partial[4 * sums + ids[block]] = energy

    return weigh

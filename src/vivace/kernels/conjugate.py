"""Conjugate gradients on the matrix of a net of springs, with one sum over all blocks in an iteration.

An iteration is a product of the matrix with a direction, and the step along it that follows. How long that is, is known
when all products are; and so is how much of the residual is left after it, r.z - 2 a (r.s) + a^2 (q.s) with s that the
preconditioner makes of the product q, before anybody has computed it. So the next direction is known too, and the step
is taken just before the next product, block by block (docs/decisions/0021). What was foretold says whether this is
enough, and the next direction; the next step's length comes of the residual as it then is (Chen and Carson 2020).
"""

from functools import cache

from .compile import doubles_at, floats_at, ints_at, kernel, source_digest
from .implicit import (
    AFTER,
    AHEAD,
    ALPHA,
    AXES,
    BETA,
    COEFFICIENTS,
    COUNT,
    DONE,
    ENERGY,
    FALLEN,
    FAR_AHEAD,
    FIRST,
    LIST_AHEAD,
    MEASURE,
    MOTION,
    PRODUCTS,
    TOLERANCE,
    WORK,
    ZERO,
    changed_so_far,
    claim,
    clear,
    spring_alpha,
    store_axes,
    times_block,
    times_inverse_mass,
    times_spring,
)
from .lanes import WIDTH, spread_wide, sum_of_lanes, value_function
from .rows import add_rows, gather_rows, load_block, load_rows, prefetch_block, scatter_add, store_rows
from .vec3 import dot, sub

ROUNDING = 1e-14  # of a difference of sums over many particles, relative to them


@cache
def start_kernel(by_blocks):
    """Take over as much of a free fall as pays, and turn to the first direction from there.

    Else few iterations would let stiff springs hold a body in the air, since the search minds them first.
    Addresses as those of `descend`.
    """
    precondition = times_block if by_blocks else times_inverse_mass
    digest = source_digest(precondition)

    @kernel
    def start(addresses, first, last):
        _ = digest  # part of the cache key
        residual, product, direction = doubles_at(addresses[0]), doubles_at(addresses[1]), doubles_at(addresses[2])
        eights, ids, partial = ints_at(addresses[4]), ints_at(addresses[5]), doubles_at(addresses[6])
        alpha = doubles_at(addresses[7])[FALLEN]
        for block in range(first, last):
            total = spread_wide(ZERO)
            for eight in range(eights[block], eights[block + 1]):
                r, q = load_block(residual, eight, AXES), load_rows(product, eight)
                r = (r[0] - alpha * q[0], r[1] - alpha * q[1], r[2] - alpha * q[2])
                p = precondition(addresses[8], eight, r)
                store_axes(residual, eight, r)
                store_rows(direction, eight, (p[0], p[1], p[2], q[3]))
                total = total + dot(r, p)
            partial[ids[block]] = sum_of_lanes(total)

    return start


@cache
def descend_kernel(by_blocks):
    """Take the step along the direction: the change of velocity and the residual there, and the next direction.

    After the last product nobody needs a direction: `accelerate` takes that step. Partial sum 0: the measure of the
    residual. Addresses: residual, product, direction, change, first eights, ids, partial sums, numbers, inverses,
    motion.
    """
    precondition = times_block if by_blocks else times_inverse_mass
    digest = source_digest(precondition, changed_so_far)

    @kernel
    def descend(addresses, first, last):
        _ = digest  # part of the cache key
        residual, product, direction = doubles_at(addresses[0]), doubles_at(addresses[1]), doubles_at(addresses[2])
        change, eights, ids = doubles_at(addresses[3]), ints_at(addresses[4]), ints_at(addresses[5])
        partial, numbers, motion = doubles_at(addresses[6]), doubles_at(addresses[7]), floats_at(addresses[9])
        alpha, beta = numbers[ALPHA], numbers[BETA]
        for block in range(first, last):
            total = spread_wide(ZERO)
            for eight in range(eights[block], eights[block + 1]):
                r, q, p = load_block(residual, eight, AXES), load_rows(product, eight), load_rows(direction, eight)
                dv = changed_so_far(change, eight, p[3], numbers, motion)
                store_axes(change, eight, (dv[0] + alpha * p[0], dv[1] + alpha * p[1], dv[2] + alpha * p[2]))
                r = (r[0] - alpha * q[0], r[1] - alpha * q[1], r[2] - alpha * q[2])
                z = precondition(addresses[8], eight, r)
                store_axes(residual, eight, r)
                p = (z[0] + beta * p[0], z[1] + beta * p[1], z[2] + beta * p[2], p[3])
                store_rows(direction, eight, p)
                total = total + dot(r, z)
            partial[ids[block]] = sum_of_lanes(total)

    return descend


@cache
def multiply_kernel():
    """The matrix times the direction: what each block's springs add to its own rows, and to its dues.

    Rows that are pinned get something too, which the preconditioner leaves out. Partial sum 1: the product with the
    direction, that of masses and of springs. Addresses: direction, product, first eights, ids, bounds, neighbors,
    outside, targets, first dues, reach, coefficients, number of blocks in all, partial sums, kinds, firmness.
    """
    digest = source_digest(times_spring)

    @kernel
    def multiply(addresses, first, last):
        _ = digest  # part of the cache key
        direction, product = doubles_at(addresses[0]), doubles_at(addresses[1])
        eights, ids, bounds = ints_at(addresses[2]), ints_at(addresses[3]), ints_at(addresses[4])
        neighbors, outside, targets = ints_at(addresses[5]), ints_at(addresses[6]), ints_at(addresses[7])
        dues, reach, coefficients = ints_at(addresses[8]), ints_at(addresses[9]), doubles_at(addresses[10])
        sums, partial, nothing = addresses[11], doubles_at(addresses[12]), spread_wide(ZERO)
        kinds, firmness = ints_at(addresses[13]), doubles_at(addresses[14])
        for block in range(first, last):
            clear(product, dues[block], dues[block + 1])
            total, begun, end = nothing, eights[block], eights[block + 1]
            for eight in range(eights[block], end):
                # Rows begin with their mass just before the first spring adds to them.
                while begun < end and begun <= eight + reach[block]:
                    p = load_rows(direction, begun)
                    q = (p[3] * p[0], p[3] * p[1], p[3] * p[2], nothing)
                    store_rows(product, begun, q)
                    total = total + dot(p, q)
                    begun += 1
                p, x, y, z = load_rows(direction, eight), nothing, nothing, nothing
                begin, ends, target = bounds[eight], neighbors, bounds[eight]
                if outside[eight] >= 0:
                    ends, target = targets, outside[eight]
                for slot in range(begin, bounds[eight + 1]):
                    u = sub(gather_rows(direction, neighbors, slot * WIDTH, 1), p)
                    w = load_block(coefficients, slot, COEFFICIENTS)
                    alpha = spring_alpha(load_block(firmness, kinds[2 * slot], 1), w)
                    prefetch_block(neighbors, slot + LIST_AHEAD, 1, 1)
                    prefetch_block(coefficients, slot + AHEAD, COEFFICIENTS, 1)
                    prefetch_block(coefficients, slot + FAR_AHEAD, COEFFICIENTS, 2)
                    pull = times_spring(alpha, w, u)
                    x, y, z = x - pull[0], y - pull[1], z - pull[2]
                    total = total + dot(u, pull)
                    place = (target + slot - begin) * WIDTH
                    scatter_add(product, ends, place, 1, (pull[0], pull[1], pull[2], nothing))
                add_rows(product, eight, (x, y, z, nothing))
            partial[sums + ids[block]] = sum_of_lanes(total)

    return multiply


@cache
def measure_kernel(by_blocks):
    """What is due to rows of the product, added to them; and what a step along the direction does to the residual.

    Partial sums 2 and 3: the products of the residual and of the product with the preconditioned product.
    Addresses: residual, product, first eights, ids, claims, first claim of each block, inverses, number of blocks in
    all, partial sums, numbers.
    """
    precondition = times_block if by_blocks else times_inverse_mass
    digest = source_digest(precondition)

    @kernel
    def measure(addresses, first, last):
        _ = digest  # part of the cache key
        residual, product = doubles_at(addresses[0]), doubles_at(addresses[1])
        eights, ids = ints_at(addresses[2]), ints_at(addresses[3])
        claims, claimed = ints_at(addresses[4]), ints_at(addresses[5])
        sums, partial, numbers = addresses[7], doubles_at(addresses[8]), doubles_at(addresses[9])
        if numbers[DONE] == 0:  # else `rest` finds blocks of an iteration before that had to wait
            for block in range(first, last):
                claim(product, claims, claimed[block], claimed[block + 1])
                crossed = squared = spread_wide(ZERO)
                for eight in range(eights[block], eights[block + 1]):
                    r, q = load_block(residual, eight, AXES), load_rows(product, eight)
                    s = precondition(addresses[6], eight, q)
                    crossed, squared = crossed + dot(r, s), squared + dot(q, s)
                partial[2 * sums + ids[block]] = sum_of_lanes(crossed)
                partial[3 * sums + ids[block]] = sum_of_lanes(squared)

    return measure


FALL, NEXT, BALANCE = range(3)


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
                numbers[FIRST], numbers[ALPHA], numbers[BETA], numbers[DONE] = total, 0.0, 0.0, 0.0
                numbers[COUNT], numbers[PRODUCTS] = 0.0, 0.0
                numbers[FALLEN] = 0.0 if held_back <= 0.0 else gained / held_back
                numbers[ENERGY] = sum_of(partial, 3 * count, count)
                numbers[MOTION] = sum_of(partial, 4 * count, count)
            elif what == BALANCE:
                numbers[AFTER], numbers[WORK] = total, sum_of(partial, count, count)
            elif numbers[DONE] == 0:
                along, crossed = sum_of(partial, count, count), sum_of(partial, 2 * count, count)
                squared = sum_of(partial, 3 * count, count)
                enough = numbers[TOLERANCE] * numbers[TOLERANCE] * numbers[FIRST]
                numbers[PRODUCTS] += 1.0
                if total <= enough or along <= 0.0:
                    # Rounding may leave nothing to gain along a direction: then this is the best there is.
                    numbers[MEASURE], numbers[ALPHA], numbers[DONE] = total, 0.0, 1.0
                else:
                    alpha = total / along
                    # The measure after that step, before it is taken: less than rounding of what it is now means
                    # nothing, and the next iteration tells.
                    ahead = total - 2.0 * alpha * crossed + alpha * alpha * squared
                    ahead = ROUNDING * total if ahead < ROUNDING * total else ahead
                    numbers[MEASURE], numbers[ALPHA], numbers[BETA] = ahead, alpha, ahead / total
                    numbers[COUNT] += 1.0
                    numbers[DONE] = 1.0 if ahead <= enough else 0.0

    return add_up

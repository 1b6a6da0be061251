"""What comes after the implicit solve: the prediction, its energy, and where particles end up."""

from functools import cache

import numpy as np

from .compile import doubles_at, floats_at, ints_at, kernel, source_digest
from .implicit import ALPHA, HALF, ONE, STRENGTHS, ZERO, changed_so_far, faded, masses, spring_shape
from .integrate import IMPULSE, INVERSE_STEP, KEPT, STEP
from .lanes import (
    WIDTH,
    absolute,
    all_lanes,
    largest_lane,
    maximum,
    minimum,
    multiply_add,
    narrowed,
    select,
    spread_wide,
    sum_of_lanes,
    value_function,
    widened,
)
from .rows import gather_rows, load_block, load_rows, store_rows
from .vec3 import dot, sub


@value_function
def flown(x, v, step):
    return (multiply_add(step, v[0], x[0]), multiply_add(step, v[1], x[1]), multiply_add(step, v[2], x[2]), x[3])


@cache
def accelerate_kernel():
    """Velocities, damped, take the change and the last step of the solve over, and positions are predicted.

    Addresses: velocities, positions, change, the last direction, which becomes positions ahead, motion, numbers of the
    solve, first eights.
    """
    digest = source_digest(flown, changed_so_far)

    @kernel
    def accelerate(addresses, first, last):
        _ = digest  # part of the cache key
        velocities, positions, change = doubles_at(addresses[0]), doubles_at(addresses[1]), doubles_at(addresses[2])
        ahead, motion, numbers = doubles_at(addresses[3]), floats_at(addresses[4]), doubles_at(addresses[5])
        step, kept, alpha, eights = np.float64(motion[STEP]), motion[KEPT], numbers[ALPHA], ints_at(addresses[6])
        for eight in range(eights[first], eights[last]):
            v, x, p = load_rows(velocities, eight), load_rows(positions, eight), load_rows(ahead, eight)
            dv, free = changed_so_far(change, eight, x[3], numbers, motion), x[3] > ZERO
            dv = (dv[0] + alpha * p[0], dv[1] + alpha * p[1], dv[2] + alpha * p[2])
            dv = (select(free, dv[0], ZERO), select(free, dv[1], ZERO), select(free, dv[2], ZERO))
            v = faded(v, x[3], kept)
            v = (v[0] + dv[0], v[1] + dv[1], v[2] + dv[2], v[3])
            store_rows(velocities, eight, v)
            store_rows(ahead, eight, flown(x, v, step))

    return accelerate


@cache
def shorten_kernel():
    """Leave a share of the velocity of what is free, and predict positions anew. Items are eights of rows.

    Addresses: velocities, positions, share, positions ahead, motion.
    """
    digest = source_digest(flown)

    @kernel
    def shorten(addresses, first, last):
        _ = digest  # part of the cache key
        velocities, positions, left = doubles_at(addresses[0]), doubles_at(addresses[1]), doubles_at(addresses[2])[0]
        ahead, step = doubles_at(addresses[3]), np.float64(floats_at(addresses[4])[STEP])
        for eight in range(first, last):
            v, x = load_rows(velocities, eight), load_rows(positions, eight)
            share = select(x[3] > ZERO, spread_wide(left), ONE)
            v = (share * v[0], share * v[1], share * v[2], v[3])
            store_rows(velocities, eight, v)
            store_rows(ahead, eight, flown(x, v, step))

    return shorten


@cache
def energy_kernel():
    """Energy after the step, and the work that gravity, air and pins have done in it; and what is left of springs.

    Addresses: positions ahead, velocities, motion, first eights, ids, bounds, neighbors, kinds, strengths, rests,
    number of blocks in all, partial sums, drag, wind, sums of squares and largest stretches (2 a block).
    """
    digest = source_digest(spring_shape)

    @kernel
    def add_energy(addresses, first, last):
        _ = digest  # part of the cache key
        ahead, velocities, motion = doubles_at(addresses[0]), doubles_at(addresses[1]), floats_at(addresses[2])
        eights, ids, bounds = ints_at(addresses[3]), ints_at(addresses[4]), ints_at(addresses[5])
        neighbors, kinds, strengths = ints_at(addresses[6]), ints_at(addresses[7]), floats_at(addresses[8])
        rests, sums, partial = floats_at(addresses[9]), addresses[10], doubles_at(addresses[11])
        drags, wind, results = floats_at(addresses[12]), floats_at(addresses[13]), doubles_at(addresses[14])
        step, nothing = np.float64(motion[STEP]), spread_wide(ZERO)
        for block in range(first, last):
            energy, work = 0.0, 0.0
            squares = largest = nothing
            for eight in range(eights[block], eights[block + 1]):
                here, v = load_rows(ahead, eight), load_rows(velocities, eight)
                free = here[3] > ZERO
                mass = masses(here[3])
                strained = pulled = nothing
                for slot in range(bounds[eight], bounds[eight + 1]):
                    there = gather_rows(ahead, neighbors, slot * WIDTH, 1)
                    edge = sub(there, here)
                    stiffness, _ = load_block(strengths, kinds[2 * slot], STRENGTHS)
                    stiffness, rest = widened(stiffness), widened(load_block(rests, kinds[2 * slot + 1], 1))
                    inverse, stretch, _ = spring_shape(edge, rest)
                    tension, size = stiffness * stretch, absolute(stretch)
                    strained = strained + tension * stretch
                    squares, largest = squares + size * size, maximum(largest, size)
                    if not all_lanes(minimum(here[3], there[3]) > ZERO):
                        # What holds a pin pulls against its springs.
                        u = gather_rows(velocities, neighbors, slot * WIDTH, 1)
                        along = select(there[3] > ZERO, nothing, dot(edge, u))
                        along = along - select(free, nothing, dot(edge, v))
                        pulled = pulled + step * tension * inverse * along
                fallen = v[0] * motion[IMPULSE] + v[1] * motion[IMPULSE + 1] + v[2] * motion[IMPULSE + 2]
                blown = (wind[0] - v[0]) * v[0] + (wind[1] - v[1]) * v[1] + (wind[2] - v[2]) * v[2]
                blown = select(free, step * widened(load_block(drags, eight, 1)) * blown, ZERO)
                energy += sum_of_lanes(HALF * mass * dot(v, v) + HALF * strained)
                work += sum_of_lanes(pulled + mass * fallen + blown)
            partial[ids[block]] = energy
            partial[sums + ids[block]] = work
            results[2 * block], results[2 * block + 1] = sum_of_lanes(squares), largest_lane(narrowed(largest))

    return add_energy


@value_function
def store_narrowed(rows, eight, row):
    store_rows(rows, eight, (narrowed(row[0]), narrowed(row[1]), narrowed(row[2]), narrowed(row[3])))


@cache
def offer_kernel():
    """The prediction in single precision, for colliders and the like to push. Items are eights of rows.

    Addresses: positions ahead, predicted.
    """
    digest = source_digest()

    @kernel
    def offer(addresses, first, last):
        _ = digest  # part of the cache key
        ahead, predicted = doubles_at(addresses[0]), floats_at(addresses[1])
        for eight in range(first, last):
            store_narrowed(predicted, eight, load_rows(ahead, eight))

    return offer


@cache
def arrive_kernel():
    """Positions become the prediction, where nothing can have pushed it. Items are eights of rows.

    Addresses: velocities, positions, positions ahead, and the state's positions and velocities in single precision.
    """
    digest = source_digest()

    @kernel
    def arrive(addresses, first, last):
        _ = digest  # part of the cache key
        velocities, positions, ahead = doubles_at(addresses[0]), doubles_at(addresses[1]), doubles_at(addresses[2])
        shown_positions, shown_velocities = floats_at(addresses[3]), floats_at(addresses[4])
        for eight in range(first, last):
            x = load_rows(ahead, eight)
            store_rows(positions, eight, x)
            store_narrowed(shown_positions, eight, x)
            store_narrowed(shown_velocities, eight, load_rows(velocities, eight))

    return arrive


@value_function
def settled(there, aim, v, inverse_step):
    """Position and velocity along one axis; where nothing has pushed the prediction, no digit of either is lost."""
    push = widened(there - narrowed(aim))
    return select(absolute(push) > ZERO, widened(there), aim), multiply_add(push, inverse_step, v)


@cache
def settle_kernel():
    """Positions and velocities take over what has become of the prediction. Items are eights of rows.

    Addresses: velocities, positions, predicted, and the state's positions and velocities in single precision, motion.
    """
    digest = source_digest(settled, flown)

    @kernel
    def settle(addresses, first, last):
        _ = digest  # part of the cache key
        velocities, positions, predicted = doubles_at(addresses[0]), doubles_at(addresses[1]), floats_at(addresses[2])
        shown_positions, shown_velocities = floats_at(addresses[3]), floats_at(addresses[4])
        motion = floats_at(addresses[5])
        step, inverse_step = np.float64(motion[STEP]), np.float64(motion[INVERSE_STEP])
        for eight in range(first, last):
            v, there = load_rows(velocities, eight), load_rows(predicted, eight)
            aim = flown(load_rows(positions, eight), v, step)
            x0, v0 = settled(there[0], aim[0], v[0], inverse_step)
            x1, v1 = settled(there[1], aim[1], v[1], inverse_step)
            x2, v2 = settled(there[2], aim[2], v[2], inverse_step)
            store_rows(positions, eight, (x0, x1, x2, aim[3]))
            store_rows(velocities, eight, (v0, v1, v2, v[3]))
            store_rows(shown_positions, eight, there)
            store_narrowed(shown_velocities, eight, (v0, v1, v2, v[3]))

    return settle

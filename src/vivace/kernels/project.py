"""Projection of any constraint: the only place that knows how to move particles.

A constraint file knows its value and gradient. Here they become a sweep of eight constraints at a time, and one of a
single constraint after the other for the serial solver.
"""

from functools import cache

import numpy as np

from .compile import floats_at, ints_at, kernel, source_digest
from .integrate import INVERSE_STEP
from .lanes import WIDTH, select, spread, value_function
from .rows import gather, load_block, load_rest, scatter_rows, store_block
from .vec3 import dot

ZERO = np.float32(0)


@value_function
def projection(value, gradients, corners, stiffness_ratio):
    """How far to go along the gradients, so that corner i moves by inverse_mass_i * result * gradients[i].

    lambda = -k C / sum_i w_i |grad_i C|^2       Fratarcangeli and Pellacini 2015, eq. 4, with inverse masses w
    `value` and `gradients` may both carry a common factor: it cancels in the move, and lets a constraint leave out a
    division (with unit gradients the stretch sweep ran at 0.7 of its present speed).
    """
    weight = corners[0][3] * dot(gradients[0], gradients[0])
    for corner in range(1, len(corners)):
        weight = weight + corners[corner][3] * dot(gradients[corner], gradients[corner])
    # No weight, no move: all corners are pinned or the constraint is degenerate.
    return select(weight > ZERO, -stiffness_ratio * value / weight, ZERO)


@value_function
def moved(corner, gradient, change):
    """The corner after the projection; its inverse mass stays."""
    step = corner[3] * change
    return corner[0] + step * gradient[0], corner[1] + step * gradient[1], corner[2] + step * gradient[2], corner[3]


@value_function
def compliant_projection(value, gradients, factor, corners, compliance, multiplier):
    """The same for a constraint that gives way; the multiplier grows by factor * result.

    d lambda = (-C - a lambda) / (sum_i w_i |grad_i C|^2 + a), a = compliance / h^2    Macklin et al. 2016, eq. 18
    """
    weight = compliance * factor * factor
    for corner in range(len(corners)):
        weight = weight + corners[corner][3] * dot(gradients[corner], gradients[corner])
    return select(weight > ZERO, -(value + compliance * factor * multiplier) / weight, ZERO)


def rest_values(constraint) -> int:
    """How many numbers describe a constraint's rest shape."""
    return getattr(constraint, "REST_VALUES", 1)


@cache
def project_kernel(constraint):
    """Sweep over blocks of eight constraints that share no particle.

    Addresses: positions, vertices, rest, stiffness ratios, and 1 where there is a ratio per constraint, 0 where one
    block of ratios serves them all.
    """
    value_gradient = value_function(constraint.value_gradient)
    arity, rests = constraint.ARITY, rest_values(constraint)
    digest = source_digest(value_gradient, projection)

    @kernel
    def project_blocks(addresses, first, last):
        _ = digest  # part of the cache key
        positions, vertices = floats_at(addresses[0]), ints_at(addresses[1])
        rest, ratios, ratio_step = floats_at(addresses[2]), floats_at(addresses[3]), addresses[4]
        for block in range(first, last):
            corners = gather(positions, vertices, block, arity)
            value, gradients, _factor = value_gradient(corners, load_block(rest, block, rests))
            change = projection(value, gradients, corners, load_block(ratios, block * ratio_step, 1))
            for corner in range(arity):
                place = block * WIDTH * arity + corner
                scatter_rows(positions, vertices, place, arity, moved(corners[corner], gradients[corner], change))

    return project_blocks


@cache
def project_compliant_kernel(constraint):
    """The sweep of XPBD over blocks of eight constraints that share no particle.

    Addresses: positions, vertices, rest, compliances, 1 or 0 as in `project_kernel`, multipliers, motion parameters.
    """
    value_gradient = value_function(constraint.value_gradient)
    arity, rests = constraint.ARITY, rest_values(constraint)
    digest = source_digest(value_gradient, projection)

    @kernel
    def project_compliant_blocks(addresses, first, last):
        _ = digest  # part of the cache key
        positions, vertices, rest = floats_at(addresses[0]), ints_at(addresses[1]), floats_at(addresses[2])
        compliances, step, multipliers = floats_at(addresses[3]), addresses[4], floats_at(addresses[5])
        rate = floats_at(addresses[6])[INVERSE_STEP]
        for block in range(first, last):
            corners = gather(positions, vertices, block, arity)
            value, gradients, factor = value_gradient(corners, load_block(rest, block, rests))
            softness = rate * rate * load_block(compliances, block * step, 1)
            multiplier = load_block(multipliers, block, 1)
            change = compliant_projection(value, gradients, factor, corners, softness, multiplier)
            store_block(multipliers, block, multiplier + factor * change)
            for corner in range(arity):
                place = block * WIDTH * arity + corner
                scatter_rows(positions, vertices, place, arity, moved(corners[corner], gradients[corner], change))

    return project_compliant_blocks


@cache
def forget_kernel():
    """Multipliers start each substep at zero. Addresses: multipliers. Items are blocks."""
    digest = source_digest()

    @kernel
    def forget_blocks(addresses, first, last):
        _ = digest  # part of the cache key
        multipliers = floats_at(addresses[0])
        for block in range(first, last):
            store_block(multipliers, block, spread(ZERO))

    return forget_blocks


@value_function
def row_at(positions, i):
    return positions[4 * i], positions[4 * i + 1], positions[4 * i + 2], positions[4 * i + 3]


@value_function
def corners1(p, v, i):
    return (row_at(p, v[i]),)


@value_function
def corners2(p, v, i):
    return row_at(p, v[2 * i]), row_at(p, v[2 * i + 1])


@value_function
def corners3(p, v, i):
    return row_at(p, v[3 * i]), row_at(p, v[3 * i + 1]), row_at(p, v[3 * i + 2])


@value_function
def corners4(p, v, i):
    return row_at(p, v[4 * i]), row_at(p, v[4 * i + 1]), row_at(p, v[4 * i + 2]), row_at(p, v[4 * i + 3])


# Numba unrolls no tuple of a length it cannot see, so the serial gather is spelled out.
CORNERS = {1: corners1, 2: corners2, 3: corners3, 4: corners4}


@cache
def project_in_order_kernel(constraint):
    """One constraint after the other, in the order they are stored, by whichever thread gets the single item.

    Addresses: positions, vertices, rest, stiffness ratios, number of constraints.
    """
    value_gradient, arity = value_function(constraint.value_gradient), constraint.ARITY
    corners_of, rests = CORNERS[arity], rest_values(constraint)
    digest = source_digest(value_gradient, projection)

    @kernel
    def project_in_order(addresses, first, last):
        _ = digest  # part of the cache key
        positions, vertices = floats_at(addresses[0]), ints_at(addresses[1])
        rest, ratios = floats_at(addresses[2]), floats_at(addresses[3])
        for i in range(first * addresses[4], last * addresses[4]):
            corners = corners_of(positions, vertices, i)
            value, gradients, _factor = value_gradient(corners, load_rest(rest, i, rests))
            change = projection(value, gradients, corners, ratios[i])
            for corner in range(arity):
                place, target = moved(corners[corner], gradients[corner], change), 4 * vertices[i * arity + corner]
                positions[target], positions[target + 1], positions[target + 2] = place[0], place[1], place[2]

    return project_in_order

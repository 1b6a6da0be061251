"""Constraints that share particles, projected apart from each other, then brought together again.

A remainder writes a correction for each corner, and each particle then takes the mean of its own, always in the same
order. A split particle's copies move for themselves, and then meet at their mean.
"""

from functools import cache

import numpy as np

from .compile import floats_at, ints_at, kernel, source_digest
from .integrate import INVERSE_STEP
from .lanes import WIDTH, value_function
from .project import compliant_projection, projection, rest_values
from .rows import gather_split, load_block, scatter_rows, store_block

ZERO, ONE = np.float32(0), np.float32(1)


@value_function
def correction(corner, gradient, change):
    """How far the projection moves a corner."""
    step = corner[3] * change
    return step * gradient[0], step * gradient[1], step * gradient[2], ZERO * step


@cache
def project_apart_kernel(constraint):
    """Sweep over blocks of eight constraints that only read positions, and write a correction for each corner.

    Addresses: positions, vertices, rest, stiffness ratios, 1 or 0 as in `project_kernel`, shares of mass, places of
    the corrections, corrections.
    """
    value_gradient = value_function(constraint.value_gradient)
    arity, rests = constraint.ARITY, rest_values(constraint)
    digest = source_digest(value_gradient, projection, correction)

    @kernel
    def project_blocks_apart(addresses, first, last):
        _ = digest  # part of the cache key
        positions, vertices, rest = floats_at(addresses[0]), ints_at(addresses[1]), floats_at(addresses[2])
        ratios, ratio_step, shares = floats_at(addresses[3]), addresses[4], floats_at(addresses[5])
        places, corrections = ints_at(addresses[6]), floats_at(addresses[7])
        for block in range(first, last):
            corners = gather_split(positions, vertices, shares, block, arity)
            value, gradients, _factor = value_gradient(corners, load_block(rest, block, rests))
            change = projection(value, gradients, corners, load_block(ratios, block * ratio_step, 1))
            for corner in range(arity):
                moved = correction(corners[corner], gradients[corner], change)
                scatter_rows(corrections, places, block * WIDTH * arity + corner, arity, moved)

    return project_blocks_apart


@cache
def project_compliant_apart_kernel(constraint):
    """The same for XPBD. Addresses: positions, vertices, rest, compliances, 1 or 0, shares, places, corrections,
    multipliers, motion parameters, relaxation: the multiplier grows by as much of its change as the positions take.
    """
    value_gradient = value_function(constraint.value_gradient)
    arity, rests = constraint.ARITY, rest_values(constraint)
    digest = source_digest(value_gradient, projection, correction)

    @kernel
    def project_compliant_blocks_apart(addresses, first, last):
        _ = digest  # part of the cache key
        positions, vertices, rest = floats_at(addresses[0]), ints_at(addresses[1]), floats_at(addresses[2])
        compliances, step, shares = floats_at(addresses[3]), addresses[4], floats_at(addresses[5])
        places, corrections, multipliers = ints_at(addresses[6]), floats_at(addresses[7]), floats_at(addresses[8])
        rate, relaxation = floats_at(addresses[9])[INVERSE_STEP], floats_at(addresses[10])[0]
        for block in range(first, last):
            corners = gather_split(positions, vertices, shares, block, arity)
            value, gradients, factor = value_gradient(corners, load_block(rest, block, rests))
            softness = rate * rate * load_block(compliances, block * step, 1)
            multiplier = load_block(multipliers, block, 1)
            change = compliant_projection(value, gradients, factor, corners, softness, multiplier)
            store_block(multipliers, block, multiplier + relaxation * factor * change)
            for corner in range(arity):
                moved = correction(corners[corner], gradients[corner], change)
                scatter_rows(corrections, places, block * WIDTH * arity + corner, arity, moved)

    return project_compliant_blocks_apart


@cache
def average_kernel(carried_count=0):
    """Each particle goes on by `relaxation` times the mean of its corrections, which lie side by side.

    Addresses: positions, rows of the particles, where their corrections begin, corrections, relaxation, then
    `carried_count` arrays of rows that go along, as in `collide_kernel`.
    """
    digest = source_digest()

    @kernel
    def average_corrections(addresses, first, last):
        _ = digest  # part of the cache key
        positions, rows, begins = floats_at(addresses[0]), ints_at(addresses[1]), ints_at(addresses[2])
        corrections, relaxation = floats_at(addresses[3]), floats_at(addresses[4])[0]
        for i in range(first, last):
            x, y, z = ZERO, ZERO, ZERO
            for place in range(begins[i], begins[i + 1]):
                x += corrections[4 * place]
                y += corrections[4 * place + 1]
                z += corrections[4 * place + 2]
            row, share = 4 * rows[i], relaxation / np.float32(begins[i + 1] - begins[i])
            positions[row] += share * x
            positions[row + 1] += share * y
            positions[row + 2] += share * z
            for k in range(carried_count):
                along = floats_at(addresses[5 + k])
                along[row] += share * x
                along[row + 1] += share * y
                along[row + 2] += share * z

    return average_corrections


@cache
def merge_kernel():
    """The copies of each split particle, in rows side by side, go to their mean. Pinned ones stay.

    Summed up as distances from the first, so that copies which coincide do not move.
    Addresses: positions, first rows, copies.
    """
    digest = source_digest()

    @kernel
    def merge_copies(addresses, first, last):
        _ = digest  # part of the cache key
        positions, rows, copies = floats_at(addresses[0]), ints_at(addresses[1]), ints_at(addresses[2])
        for i in range(first, last):
            row, end = 4 * rows[i], 4 * (rows[i] + copies[i])
            if positions[row + 3] > ZERO:
                x, y, z = ZERO, ZERO, ZERO
                for copy in range(row + 4, end, 4):
                    x += positions[copy] - positions[row]
                    y += positions[copy + 1] - positions[row + 1]
                    z += positions[copy + 2] - positions[row + 2]
                share = ONE / np.float32(copies[i])
                x = positions[row] + share * x
                y = positions[row + 1] + share * y
                z = positions[row + 2] + share * z
                for copy in range(row, end, 4):
                    positions[copy], positions[copy + 1], positions[copy + 2] = x, y, z

    return merge_copies

"""What a step left behind: how far the constraints are from being met, and whether every number is finite.

Sums run over chunks of fixed size, or blocks of a net, and are added up in order, so they do not depend on the number
of threads.
"""

from functools import cache

import numpy as np

from .compile import doubles_at, floats_at, ints_at, kernel, source_digest
from .lanes import (
    WIDTH,
    absolute,
    first_lanes,
    largest_lane,
    maximum,
    select,
    spread,
    spread_wide,
    sum_of_lanes,
    value_function,
    widened,
)
from .project import rest_values
from .rows import gather, gather_rows, load_block, load_pair, load_rows

ZERO, ONE, LARGEST = np.float32(0), np.float32(1), np.finfo(np.float32).max
CHUNK = 64  # blocks, or pairs of rows


def chunks(count: int) -> int:
    return -(-count // CHUNK)


@value_function
def violation(value, factor):
    """The constraint itself, without the factor that its file left in; where that is zero, so is the value."""
    return value / select(factor > ZERO, factor, ONE)


@cache
def residual_kernel(constraint):
    """Sum of squares and largest |C| of each chunk of constraints.

    Addresses: positions, vertices, rest, real constraints in each block, results (2 a chunk), number of blocks.
    """
    value_gradient = value_function(constraint.value_gradient)
    arity, rests = constraint.ARITY, rest_values(constraint)
    digest = source_digest(value_gradient, violation)

    @kernel
    def residual(addresses, first, last):
        _ = digest  # part of the cache key
        positions, vertices, rest = floats_at(addresses[0]), ints_at(addresses[1]), floats_at(addresses[2])
        filled, results, blocks = floats_at(addresses[3]), doubles_at(addresses[4]), addresses[5]
        for chunk in range(first, last):
            total, worst = 0.0, ZERO
            for block in range(chunk * CHUNK, min((chunk + 1) * CHUNK, blocks)):
                corners = gather(positions, vertices, block, arity)
                value, _gradients, factor = value_gradient(corners, load_block(rest, block, rests))
                here = select(first_lanes(filled[block]), violation(value, factor), ZERO)
                total += sum_of_lanes(here * here)
                worst = max(worst, largest_lane(absolute(here)))
            results[2 * chunk], results[2 * chunk + 1] = total, worst

    return residual


@cache
def net_residual_kernel(constraint):
    """The same for each block of a net of springs; beyond the end of a list rest lengths are 0, and so is what is left.

    Addresses: positions, first eights, bounds, neighbors, kinds, rests, results (2 a block).
    """
    value_gradient = value_function(constraint.value_gradient)
    digest = source_digest(value_gradient, violation)

    @kernel
    def net_residual(addresses, first, last):
        _ = digest  # part of the cache key
        positions, eights, bounds = floats_at(addresses[0]), ints_at(addresses[1]), ints_at(addresses[2])
        neighbors, kinds, rests = ints_at(addresses[3]), ints_at(addresses[4]), floats_at(addresses[5])
        results = doubles_at(addresses[6])
        for block in range(first, last):
            total, worst = spread_wide(ZERO), spread(ZERO)
            for eight in range(eights[block], eights[block + 1]):
                here = load_rows(positions, eight)
                for slot in range(bounds[eight], bounds[eight + 1]):
                    there = gather_rows(positions, neighbors, slot * WIDTH, 1)
                    rest = load_block(rests, kinds[2 * slot + 1], 1)
                    value, _gradients, factor = value_gradient((here, there), rest)
                    left = violation(value, factor)
                    total = total + widened(left * left)
                    worst = maximum(worst, absolute(left))
            results[2 * block], results[2 * block + 1] = sum_of_lanes(total), largest_lane(worst)

    return net_residual


@cache
def finite_kernel():
    """1 for each chunk of rows in which some number is not finite. Addresses: rows, results, number of pairs."""
    digest = source_digest()

    @kernel
    def all_finite(addresses, first, last):
        _ = digest  # part of the cache key
        rows, results, pairs = floats_at(addresses[0]), floats_at(addresses[1]), addresses[2]
        for chunk in range(first, last):
            bad = spread(ZERO)
            for pair in range(chunk * CHUNK, min((chunk + 1) * CHUNK, pairs)):
                # A comparison with NaN does not hold.
                bad = select(absolute(load_pair(rows, pair)) <= LARGEST, bad, ONE)
            results[chunk] = largest_lane(bad)

    return all_finite

"""Particles in flight: prediction before the projections, velocities after them.

Two rows (x, y, z, inverse mass) fill a register as they lie in memory; velocities and gravity carry 0 in the fourth
place, so the inverse mass passes through untouched.

Verlet, in the form that survives small steps in single precision: the velocity takes over only what the constraints
changed, v' = v* + (p - p*) / h, where p* = x + h v* is predicted once more with the same rounding. Differencing
positions instead, v' = (p - x) / h, divides the rounding of x by h: 10 m from the origin, with h = 1/3840 s, that is
two thirds of what gravity adds in a step, and a fall of one second ends 1.4 m too low.
"""

from functools import cache

import numpy as np

from .compile import floats_at, kernel, source_digest
from .lanes import multiply_add, select, value_function
from .rows import load_block, load_pair, store_pair, weight_of_pair

ZERO = np.float32(0)
# Motion parameters, in one float32 array: h, 1 / h, velocity kept after damping, -, then gravity * h for two rows.
STEP, INVERSE_STEP, KEPT, IMPULSE = 0, 1, 2, 8


def motion_parameters(step, damping, gravity):
    """The numbers that the integration kernels read; `damping` [1/s] leaves exp(-damping h) of the old velocity."""
    parameters = np.zeros(16, np.float32)
    parameters[[STEP, INVERSE_STEP, KEPT]] = step, 1 / step, np.exp(-damping * step)
    parameters[IMPULSE : IMPULSE + 3] = parameters[IMPULSE + 4 : IMPULSE + 7] = np.asarray(gravity, float) * step
    return parameters


@value_function
def flight_velocity(velocity, weight, kept, impulse):
    """The velocity that a particle flies with: damped, then pulled by gravity. A pinned one goes as it was told."""
    return select(weight > ZERO, multiply_add(kept, velocity, impulse), velocity)


@cache
def predict_kernel():
    """Addresses: predicted, positions, velocities, motion parameters. Items are pairs of rows."""
    digest = source_digest(flight_velocity)

    @kernel
    def predict(addresses, first, last):
        _ = digest  # part of the cache key
        predicted, positions = floats_at(addresses[0]), floats_at(addresses[1])
        velocities, motion = floats_at(addresses[2]), floats_at(addresses[3])
        impulse = load_block(motion, 1, 1)
        for pair in range(first, last):
            here = load_pair(positions, pair)
            flight = flight_velocity(load_pair(velocities, pair), weight_of_pair(here), motion[KEPT], impulse)
            store_pair(predicted, pair, multiply_add(motion[STEP], flight, here))

    return predict


@cache
def update_kernel():
    """Addresses as in `predict_kernel`: velocities and positions take over what the projections made."""
    digest = source_digest(flight_velocity)

    @kernel
    def update_velocities(addresses, first, last):
        _ = digest  # part of the cache key
        predicted, positions = floats_at(addresses[0]), floats_at(addresses[1])
        velocities, motion = floats_at(addresses[2]), floats_at(addresses[3])
        impulse = load_block(motion, 1, 1)
        for pair in range(first, last):
            here, there = load_pair(positions, pair), load_pair(predicted, pair)
            flight = flight_velocity(load_pair(velocities, pair), weight_of_pair(here), motion[KEPT], impulse)
            aim = multiply_add(motion[STEP], flight, here)
            store_pair(velocities, pair, multiply_add(there - aim, motion[INVERSE_STEP], flight))
            store_pair(positions, pair, there)

    return update_velocities


@cache
def copy_kernel():
    """Addresses: target, source. Items are pairs of rows."""
    digest = source_digest()

    @kernel
    def copy_rows(addresses, first, last):
        _ = digest  # part of the cache key
        target, source = floats_at(addresses[0]), floats_at(addresses[1])
        for pair in range(first, last):
            store_pair(target, pair, load_pair(source, pair))

    return copy_rows

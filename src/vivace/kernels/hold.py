"""Points that a hand holds: each is a mean of three particles, and is drawn to a place that moves."""

from functools import cache

from .compile import floats_at, ints_at, kernel, source_digest
from .lanes import value_function

CORNERS = 3
NUMBERS = 10  # three shares, the place now (3), its way in a whole frame (3), the part of the distance to go


@value_function
def hold_push(a, b, c, shares, place, firmness):
    """What moves each corner by its inverse mass times its share, so that the point goes a part of its distance."""
    weight = shares[0] * shares[0] * a[3] + shares[1] * shares[1] * b[3] + shares[2] * shares[2] * c[3]
    scale = firmness / weight
    return (
        scale * (place[0] - shares[0] * a[0] - shares[1] * b[0] - shares[2] * c[0]),
        scale * (place[1] - shares[0] * a[1] - shares[1] * b[1] - shares[2] * c[1]),
        scale * (place[2] - shares[0] * a[2] - shares[1] * b[2] - shares[2] * c[2]),
    )


@value_function
def _four(rows, row):
    return rows[4 * row], rows[4 * row + 1], rows[4 * row + 2], rows[4 * row + 3]


@cache
def hold_kernel(carried_count):
    """One item: all held points, one after the other, since they may share particles.

    Addresses: positions, corners, numbers, how many, then `carried_count` arrays of rows that go along, as in
    `collide_kernel`.
    """
    digest = source_digest(hold_push)

    @kernel
    def hold_points(addresses, first, last):
        _ = digest  # part of the cache key
        positions, corners, numbers = floats_at(addresses[0]), ints_at(addresses[1]), floats_at(addresses[2])
        for _item in range(first, last):
            for held in range(ints_at(addresses[3])[0]):
                place = NUMBERS * held
                shares = numbers[place], numbers[place + 1], numbers[place + 2]
                a, b, c = corners[CORNERS * held], corners[CORNERS * held + 1], corners[CORNERS * held + 2]
                goal = numbers[place + 3], numbers[place + 4], numbers[place + 5]
                here = _four(positions, a), _four(positions, b), _four(positions, c)
                push = hold_push(here[0], here[1], here[2], shares, goal, numbers[place + 9])
                for corner in range(CORNERS):
                    row = corners[CORNERS * held + corner]
                    step = numbers[place + corner] * positions[4 * row + 3]
                    for axis in range(3):
                        positions[4 * row + axis] += step * push[axis]
                        for k in range(carried_count):
                            floats_at(addresses[4 + k])[4 * row + axis] += step * push[axis]

    return hold_points


@cache
def advance_hold_kernel():
    """One item: every place goes on by a substep. Addresses: numbers, how many, the substep's share of the frame."""
    digest = source_digest()

    @kernel
    def advance_holds(addresses, first, last):
        _ = digest  # part of the cache key
        numbers, share = floats_at(addresses[0]), floats_at(addresses[2])[0]
        for _item in range(first, last):
            for held in range(ints_at(addresses[1])[0]):
                for axis in range(3):
                    numbers[NUMBERS * held + 3 + axis] += share * numbers[NUMBERS * held + 6 + axis]

    return advance_holds

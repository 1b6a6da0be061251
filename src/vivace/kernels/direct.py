"""A factored system solved exactly: forward and backward through L D L^T, three coordinates at a time."""

from functools import cache

from .compile import floats_at, ints_at, kernel, source_digest


@cache
def solve_kernel():
    """positions += P^T L^-T D^-1 L^-1 P residual, by whichever thread gets the single item.

    Addresses: positions, residual, scratch rows, particle of each factor row, column starts of L, row of each entry,
    entries, 1 / D, number of factor rows.
    """
    digest = source_digest()

    @kernel
    def solve_directly(addresses, first, last):
        _ = digest  # part of the cache key
        positions, residual, y = floats_at(addresses[0]), floats_at(addresses[1]), floats_at(addresses[2])
        particles, starts, rows = ints_at(addresses[3]), ints_at(addresses[4]), ints_at(addresses[5])
        entries, inverse = floats_at(addresses[6]), floats_at(addresses[7])
        count = addresses[8] * (last - first)
        for i in range(count):
            for axis in range(4):
                y[4 * i + axis] = residual[4 * particles[i] + axis]
        for j in range(count):
            a, b, c = y[4 * j], y[4 * j + 1], y[4 * j + 2]
            for e in range(starts[j], starts[j + 1]):
                i, value = 4 * rows[e], entries[e]
                y[i] -= value * a
                y[i + 1] -= value * b
                y[i + 2] -= value * c
        for j in range(count - 1, -1, -1):
            a, b, c = y[4 * j] * inverse[j], y[4 * j + 1] * inverse[j], y[4 * j + 2] * inverse[j]
            for e in range(starts[j], starts[j + 1]):
                i, value = 4 * rows[e], entries[e]
                a -= value * y[i]
                b -= value * y[i + 1]
                c -= value * y[i + 2]
            y[4 * j], y[4 * j + 1], y[4 * j + 2] = a, b, c
        for i in range(count):
            for axis in range(3):
                positions[4 * particles[i] + axis] += y[4 * i + axis]

    return solve_directly

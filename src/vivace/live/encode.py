"""What a frame needs before it is sent: positions in 16 bits, normals in 8. One thread, and Python's others run on."""

from functools import partial
from typing import Any

import numpy as np

from ..kernels.compile import compiled

STEPS = 65535  # from one side of the box to the other
UNIT = 127  # a normal's length


_beside_python = partial(compiled, nogil=True)  # does not hold Python's lock


@_beside_python
def quantize(positions: np.ndarray) -> Any:
    """The box of positions (n, 3) float32, as low (3,) and high (3,) float32, and where they are in it, uint16 (n, 3).

    x = low + q (high - low) / 65535, q rounded to the nearest. An axis without extent has zeros. Numbers that are not
    finite do not count for the box and have zeros.
    """
    low, high = np.full(3, np.inf, np.float32), np.full(3, -np.inf, np.float32)
    for i in range(len(positions)):
        for axis in range(3):
            x = positions[i, axis]
            if abs(x) < np.inf:
                low[axis], high[axis] = min(low[axis], x), max(high[axis], x)
    scale = np.zeros(3)
    for axis in range(3):
        if low[axis] > high[axis]:
            low[axis] = high[axis] = 0
        extent = np.float64(high[axis]) - np.float64(low[axis])
        if extent > 0:
            scale[axis] = STEPS / extent
    places = np.empty(positions.shape, np.uint16)
    for i in range(len(positions)):
        for axis in range(3):
            x = positions[i, axis]
            place = (np.float64(x) - low[axis]) * scale[axis] + 0.5
            places[i, axis] = np.uint16(place) if abs(x) < np.inf else 0
    return low, high, places


@_beside_python
def vertex_normals(positions: np.ndarray, triangles: np.ndarray) -> Any:
    """Normals (n, 3) int8, 127 long, of the triangles around each vertex, weighted by area; zero where there is none.

    `triangles` (t, 3) are trusted to name vertices.
    """
    sums = np.zeros(positions.shape)  # in double precision, where no position's fourth power is too large or too small
    for t in range(len(triangles)):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        px, py, pz = np.float64(positions[a, 0]), np.float64(positions[a, 1]), np.float64(positions[a, 2])
        ux, uy, uz = positions[b, 0] - px, positions[b, 1] - py, positions[b, 2] - pz
        vx, vy, vz = positions[c, 0] - px, positions[c, 1] - py, positions[c, 2] - pz
        x, y, z = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
        for corner in (a, b, c):
            sums[corner, 0] += x
            sums[corner, 1] += y
            sums[corner, 2] += z
    normals = np.zeros(positions.shape, np.int8)
    for i in range(len(normals)):
        x, y, z = sums[i, 0], sums[i, 1], sums[i, 2]
        length = np.sqrt(x * x + y * y + z * z)
        if 0 < length < np.inf:
            scale = UNIT / length
            normals[i, 0] = np.int8(np.rint(x * scale))
            normals[i, 1] = np.int8(np.rint(y * scale))
            normals[i, 2] = np.int8(np.rint(z * scale))
    return normals

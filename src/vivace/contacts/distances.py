"""How far apart things are, one pair at a time, in double precision."""

import numpy as np

from ..kernels.compile import compiled


@compiled
def _cross(ax, ay, az, bx, by, bz):
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@compiled
def nearest_on_triangle(p, a, b, c):
    """Distance of a point from a triangle (Ericson 2005, section 5.1.5, by regions)."""
    abx, aby, abz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    acx, acy, acz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    nx, ny, nz = _cross(abx, aby, abz, acx, acy, acz)
    area = nx * nx + ny * ny + nz * nz
    px, py, pz = p[0] - a[0], p[1] - a[1], p[2] - a[2]
    if area > 0:
        x, y, z = _cross(abx, aby, abz, px, py, pz)
        of_c = (x * nx + y * ny + z * nz) / area
        x, y, z = _cross(px, py, pz, acx, acy, acz)
        of_b = (x * nx + y * ny + z * nz) / area
        if of_b >= 0 and of_c >= 0 and of_b + of_c <= 1:
            return abs(px * nx + py * ny + pz * nz) / np.sqrt(area)
    return min(nearest_on_edge(p, a, b), nearest_on_edge(p, b, c), nearest_on_edge(p, c, a))


@compiled
def nearest_on_edge(p, a, b):
    """Distance of a point from an edge."""
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    wx, wy, wz = p[0] - a[0], p[1] - a[1], p[2] - a[2]
    length = ux * ux + uy * uy + uz * uz
    t = min(max((ux * wx + uy * wy + uz * wz) / length, 0.0), 1.0) if length > 0 else 0.0
    x, y, z = wx - t * ux, wy - t * uy, wz - t * uz
    return np.sqrt(x * x + y * y + z * z)


@compiled
def edge_distance(a, b, c, d):
    """Distance of two edges."""
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = d[0] - c[0], d[1] - c[1], d[2] - c[2]
    wx, wy, wz = a[0] - c[0], a[1] - c[1], a[2] - c[2]
    uu, vv, uv = ux * ux + uy * uy + uz * uz, vx * vx + vy * vy + vz * vz, ux * vx + uy * vy + uz * vz
    uw, vw = ux * wx + uy * wy + uz * wz, vx * wx + vy * wy + vz * wz
    determinant = uu * vv - uv * uv
    if determinant > 0:
        s, r = (uv * vw - vv * uw) / determinant, (uu * vw - uv * uw) / determinant
        if 0 <= s <= 1 and 0 <= r <= 1:
            x, y, z = wx + s * ux - r * vx, wy + s * uy - r * vy, wz + s * uz - r * vz
            return np.sqrt(x * x + y * y + z * z)
    return min(
        min(nearest_on_edge(a, c, d), nearest_on_edge(b, c, d)), min(nearest_on_edge(c, a, b), nearest_on_edge(d, a, b))
    )

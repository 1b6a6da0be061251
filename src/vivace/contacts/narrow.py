"""Whether two things that move in a straight line come close: a point and a triangle, two edges, two points.

Each test finds the moment at which they first are as close as the thickness, looks there whether they face each other,
and answers with a direction that keeps the side they were on, and with the shares of the corners in their distance:
gap = n . (sum of share_i x_i), which must stay at least the thickness. Fast things are caught before they pass.
"""

import numpy as np

from ..kernels.compile import compiled
from ..kernels.lanes import maximum, minimum, select, value_function
from ..kernels.vec3 import cross, dot, sub

ZERO, ONE = np.float32(0), np.float32(1)
TOLERANCE = 0.05  # how far beyond a triangle's or an edge's end still counts, in parts of it
OUTER = np.float32(TOLERANCE)
SMALLEST_SINE = 0.03  # edges more parallel than that have no direction across


@compiled
def _cross(ax, ay, az, bx, by, bz):
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@compiled
def _plane(a, b, c):
    """Unit normal of a triangle and twice its area."""
    x, y, z = _cross(b[0] - a[0], b[1] - a[1], b[2] - a[2], c[0] - a[0], c[1] - a[1], c[2] - a[2])
    area = np.sqrt(x * x + y * y + z * z)
    scale = 1 / area if area > 0 else 0.0
    return x * scale, y * scale, z * scale, area


@compiled
def _at(start, end, t):
    return (
        start[0] + t * (end[0] - start[0]),
        start[1] + t * (end[1] - start[1]),
        start[2] + t * (end[2] - start[2]),
    )


@compiled
def _moments(before, after, thickness):
    """When the gap, which changes evenly, falls to the thickness and to zero: 0 if it is there, 1 at the latest."""
    if before <= after:
        return 0.0, 1.0
    near = min(max((before - thickness) / (before - after), 0.0), 1.0)
    return near, min(before / (before - after), 1.0)


# A quick look at eight pairs at a time. What is beyond the same side of a triangle, or an edge's end, at the start and
# at the end of its way does not meet it, nor what stays farther away than that. Most of what shares a box does.


@value_function
def point_sides(corners):
    """How far point p is on the inner side of the three sides of triangle abc, scaled, and its height over it."""
    p, a, b, c = corners
    u, v, w = sub(b, a), sub(c, a), sub(p, a)
    uu, vv, uv, uw, vw = dot(u, u), dot(v, v), dot(u, v), dot(u, w), dot(v, w)
    square = uu * vv - uv * uv
    of_b, of_c, beyond = vv * uw - uv * vw, uu * vw - uv * uw, OUTER * square
    return of_b + beyond, of_c + beyond, square - of_b - of_c + beyond, dot(cross(u, v), w), square


@value_function
def edge_sides(corners):
    """The same for the nearest points of edges ab and cd, between their ends."""
    a, b, c, d = corners
    u, v, w = sub(b, a), sub(d, c), sub(a, c)
    uu, vv, uv, uw, vw = dot(u, u), dot(v, v), dot(u, v), dot(u, w), dot(v, w)
    square = uu * vv - uv * uv
    s, r, beyond = uv * vw - vv * uw, uu * vw - uv * uw, OUTER * square
    inner = minimum(s, square - s) + beyond
    return inner, minimum(r, square - r) + beyond, inner, dot(cross(u, v), w), square


@value_function
def stay_apart(before, after, near):
    """Whether sides or heights, before and after, tell that two things do not meet: 1 or 0."""
    inside = maximum(before[0], after[0])
    inside = minimum(minimum(inside, maximum(before[1], after[1])), maximum(before[2], after[2]))
    far = (after[3] * after[3] > near * near * after[4]) & (before[3] * after[3] > ZERO)
    return select(inside < ZERO, ONE, select(far, ONE, ZERO))


@compiled
def point_triangle(p0, p1, a0, a1, b0, b1, c0, c1, thickness, slack, found):
    """Whether point p comes near the inside of triangle abc; `found` takes four shares and the direction."""
    nx, ny, nz, area = _plane(a0, b0, c0)
    before = nx * (p0[0] - a0[0]) + ny * (p0[1] - a0[1]) + nz * (p0[2] - a0[2])
    side = 1.0 if before >= 0 else -1.0
    mx, my, mz, _ = _plane(a1, b1, c1)
    after = side * (mx * (p1[0] - a1[0]) + my * (p1[1] - a1[1]) + mz * (p1[2] - a1[2]))
    if after > thickness + slack or area == 0:
        return False
    near, touch = _moments(side * before, after, thickness)
    return _faces(p0, p1, a0, a1, b0, b1, c0, c1, near, side, found) or _faces(
        p0, p1, a0, a1, b0, b1, c0, c1, touch, side, found
    )


@compiled
def _faces(p0, p1, a0, a1, b0, b1, c0, c1, t, side, found):
    """Whether point p is over the inside of triangle abc at moment t."""
    p, a, b, c = _at(p0, p1, t), _at(a0, a1, t), _at(b0, b1, t), _at(c0, c1, t)
    nx, ny, nz, area = _plane(a, b, c)
    if area == 0:
        return False
    x, y, z = _cross(b[0] - a[0], b[1] - a[1], b[2] - a[2], p[0] - a[0], p[1] - a[1], p[2] - a[2])
    of_c = (x * nx + y * ny + z * nz) / area
    x, y, z = _cross(p[0] - a[0], p[1] - a[1], p[2] - a[2], c[0] - a[0], c[1] - a[1], c[2] - a[2])
    of_b = (x * nx + y * ny + z * nz) / area
    of_a = 1 - of_b - of_c
    if min(of_a, of_b, of_c) < -TOLERANCE:
        return False
    of_a, of_b, of_c = max(of_a, 0.0), max(of_b, 0.0), max(of_c, 0.0)
    total = of_a + of_b + of_c
    found[0], found[1], found[2], found[3] = 1.0, -of_a / total, -of_b / total, -of_c / total
    found[4], found[5], found[6] = side * nx, side * ny, side * nz
    return True


@compiled
def edge_edge(a0, a1, b0, b1, c0, c1, d0, d1, thickness, slack, found):
    """Whether the insides of edges ab and cd come near each other; `found` as above."""
    nx, ny, nz = _cross(b0[0] - a0[0], b0[1] - a0[1], b0[2] - a0[2], d0[0] - c0[0], d0[1] - c0[1], d0[2] - c0[2])
    mx, my, mz = _cross(b1[0] - a1[0], b1[1] - a1[1], b1[2] - a1[2], d1[0] - c1[0], d1[1] - c1[1], d1[2] - c1[2])
    before = nx * (a0[0] - c0[0]) + ny * (a0[1] - c0[1]) + nz * (a0[2] - c0[2])
    side = 1.0 if before >= 0 else -1.0
    after = side * (mx * (a1[0] - c1[0]) + my * (a1[1] - c1[1]) + mz * (a1[2] - c1[2]))
    square, later_square = nx * nx + ny * ny + nz * nz, mx * mx + my * my + mz * mz
    if (after > 0 and after * after > (thickness + slack) ** 2 * later_square) or square == 0 or later_square == 0:
        return False
    before, after = before / np.sqrt(square), after / np.sqrt(later_square)
    near, touch = _moments(side * before, after, thickness)
    return _crosses(a0, a1, b0, b1, c0, c1, d0, d1, near, side, found) or _crosses(
        a0, a1, b0, b1, c0, c1, d0, d1, touch, side, found
    )


@compiled
def _crosses(a0, a1, b0, b1, c0, c1, d0, d1, t, side, found):
    """Whether the insides of edges ab and cd are nearest to each other at moment t."""
    a, b, c, d = _at(a0, a1, t), _at(b0, b1, t), _at(c0, c1, t), _at(d0, d1, t)
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = d[0] - c[0], d[1] - c[1], d[2] - c[2]
    wx, wy, wz = a[0] - c[0], a[1] - c[1], a[2] - c[2]
    uu, vv, uv = ux * ux + uy * uy + uz * uz, vx * vx + vy * vy + vz * vz, ux * vx + uy * vy + uz * vz
    uw, vw = ux * wx + uy * wy + uz * wz, vx * wx + vy * wy + vz * wz
    determinant = uu * vv - uv * uv
    if determinant < SMALLEST_SINE * SMALLEST_SINE * uu * vv or determinant == 0:
        return False
    s, r = (uv * vw - vv * uw) / determinant, (uu * vw - uv * uw) / determinant
    if min(s, r) < -TOLERANCE or max(s, r) > 1 + TOLERANCE:
        return False
    s, r = min(max(s, 0.0), 1.0), min(max(r, 0.0), 1.0)
    nx, ny, nz = _cross(ux, uy, uz, vx, vy, vz)
    scale = side / np.sqrt(nx * nx + ny * ny + nz * nz)
    found[0], found[1], found[2], found[3] = 1 - s, s, r - 1, -r
    found[4], found[5], found[6] = nx * scale, ny * scale, nz * scale
    return True


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


@compiled
def point_point(p0, p1, a0, a1, thickness, slack, found):
    """Whether points p and a come near; the direction is that of the way between them when they are nearest."""
    wx, wy, wz = p0[0] - a0[0], p0[1] - a0[1], p0[2] - a0[2]
    vx, vy, vz = p1[0] - a1[0] - wx, p1[1] - a1[1] - wy, p1[2] - a1[2] - wz
    speed = vx * vx + vy * vy + vz * vz
    t = min(max(-(wx * vx + wy * vy + wz * vz) / speed, 0.0), 1.0) if speed > 0 else 0.0
    x, y, z = wx + t * vx, wy + t * vy, wz + t * vz
    nearest = np.sqrt(x * x + y * y + z * z)
    if nearest > thickness + slack:
        return False
    apart = np.sqrt(wx * wx + wy * wy + wz * wz)
    if apart == 0:
        return False
    found[0], found[1], found[2], found[3] = 1.0, -1.0, 0.0, 0.0
    found[4], found[5], found[6] = wx / apart, wy / apart, wz / apart
    return True

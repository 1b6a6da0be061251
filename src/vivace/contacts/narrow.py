"""Whether two things that move in a straight line come close: a point and a triangle, two edges, two points.

Each test finds the moment at which they first are as close as the thickness, looks there whether they face each other,
and answers with a direction that keeps the side they were on, and with the shares of the corners in their distance:
gap = n . (sum of share_i x_i), which must stay at least the thickness. Fast things are caught before they pass.

Corners are as `gather` gives them, at the start and at the end of their way. The answer is 1 or 0, then what a contact
is made of: four shares and the direction.
"""

import numpy as np

from ..kernels.lanes import absolute, maximum, minimum, select, sqrt, value_function
from ..kernels.vec3 import add, cross, dot, norm, scale, sub

ZERO, ONE = np.float32(0), np.float32(1)
OUTER = np.float32(0.05)  # how far beyond a triangle's side or an edge's end still counts, in parts of it
SMALLEST_SINE_SQUARED = np.float32(0.1**2)  # edges more parallel than that have no direction across


# A point is at w + f u + g v from a place on a triangle, and so is a place on one edge from one on another. Both are
# nearest where that is across u and v; what differs is which f and g are within.


@value_function
def of_point(corners):
    """w, u, v of point p and triangle abc."""
    p, a, b, c = corners
    return sub(p, a), sub(a, b), sub(a, c)


@value_function
def of_edges(corners):
    """w, u, v of edges ab and cd."""
    a, b, c, d = corners
    return sub(a, c), sub(b, a), sub(c, d)


@value_function
def _between(ways, f, g):
    w, u, v = ways
    return add(w, add(scale(f, u), scale(g, v)))


@value_function
def _safe(value):
    return select(value > ZERO, value, ONE)


@value_function
def _part(value):
    return minimum(maximum(value, ZERO), ONE)


@value_function
def _moments(before, after, thickness):
    """When the gap, which changes evenly, falls to the thickness and to zero: 0 if it is there, 1 at the latest."""
    falls = before > after
    rate = select(falls, before - after, ONE)
    return select(falls, _part((before - thickness) / rate), ZERO), select(falls, _part(before / rate), ONE)


@value_function
def _facing(is_point, start, end, t):
    """Whether they face each other at moment t (1 or 0), where, and in which direction."""
    w = add(start[0], scale(t, sub(end[0], start[0])))
    u = add(start[1], scale(t, sub(end[1], start[1])))
    v = add(start[2], scale(t, sub(end[2], start[2])))
    uu, vv, uv, uw, vw = dot(u, u), dot(v, v), dot(u, v), dot(u, w), dot(v, w)
    normal = cross(u, v)
    square = dot(normal, normal)
    f, g = (uv * vw - vv * uw) / _safe(square), (uv * uw - uu * vw) / _safe(square)
    inner = minimum(f, g)
    if is_point:
        inner = minimum(inner, ONE - f - g)
        total = maximum(f, ZERO) + maximum(g, ZERO) + maximum(ONE - f - g, ZERO)
        f, g = maximum(f, ZERO) / _safe(total), maximum(g, ZERO) / _safe(total)
        defined = square > ZERO
    else:
        inner = minimum(inner, minimum(ONE - f, ONE - g))
        f, g = _part(f), _part(g)
        defined = (square > ZERO) & (square >= SMALLEST_SINE_SQUARED * uu * vv)
    faces = select((inner >= -OUTER) & defined, ONE, ZERO)
    return faces, f, g, scale(ONE / _safe(norm(normal)), normal)


@value_function
def meeting(is_point, start, end, thickness, slack):
    """Whether they come within the thickness and a slack (1 or 0), where (f and g), the direction, and the gap.

    `start` and `end` are w, u, v.
    """
    early, late = cross(start[1], start[2]), cross(end[1], end[2])
    before, after = dot(early, start[0]) / _safe(norm(early)), dot(late, end[0]) / _safe(norm(late))
    side = select(before < ZERO, -ONE, ONE)
    near, touch = _moments(side * before, side * after, thickness)
    first, second = _facing(is_point, start, end, near), _facing(is_point, start, end, touch)
    at_first = first[0] > ZERO
    f, g = select(at_first, first[1], second[1]), select(at_first, first[2], second[2])
    normal = (
        select(at_first, first[3][0], second[3][0]),
        select(at_first, first[3][1], second[3][1]),
        select(at_first, first[3][2], second[3][2]),
    )
    # The direction is that of the moment they met; at the start they must be on its side.
    gap = dot(normal, _between(start, f, g))
    normal = scale(select(gap < ZERO, -ONE, ONE), normal)
    most = thickness + slack
    stay_near = (side * after <= most) & (dot(normal, _between(end, f, g)) <= most) & (dot(early, early) > ZERO)
    return select(stay_near, maximum(first[0], second[0]), ZERO), f, g, normal, absolute(gap)


@value_function
def end_meeting(start, end, thickness, slack):
    """The same for a point p and edge ab, where the surface of triangle abc ends, as seen from p beyond it.

    `start` and `end` are corners p, a, b, c; the answer is 1 or 0, where along ab, and the direction.
    """
    p, a, b, c = start
    u, v, w = sub(b, a), sub(c, a), sub(p, a)
    uu, uv, uw = dot(u, u), dot(u, v), dot(u, w)
    beyond = uu * dot(v, w) - uv * uw <= ZERO
    f = _part(uw / _safe(uu))
    here = sub(w, scale(f, u))
    there = sub(sub(end[0], end[1]), scale(f, sub(end[2], end[1])))
    met, normal = points_meeting(here, there, thickness, slack)
    return select(beyond, met, ZERO), f, normal


@value_function
def points_meeting(start, end, thickness, slack):
    """The same for two points that are `start` and `end` apart: the direction is that from one to the other."""
    way = sub(end, start)
    speed = dot(way, way)
    t = _part(-dot(start, way) / _safe(speed))
    nearest, apart = add(start, scale(t, way)), norm(start)
    most = thickness + slack
    normal = scale(ONE / _safe(apart), start)
    met = (dot(nearest, nearest) <= most * most) & (apart > ZERO) & (dot(normal, end) <= most)
    return select(met, ONE, ZERO), normal


@value_function
def longest_way(ways, most):
    """The longest of some ways, at most so long."""
    longest = dot(ways[0], ways[0])
    for i in range(1, len(ways)):
        longest = maximum(longest, dot(ways[i], ways[i]))
    return minimum(sqrt(longest), most)

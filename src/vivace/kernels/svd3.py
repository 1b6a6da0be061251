"""Singular values of 3x3 matrices, as value functions: no branch, no table, the same on lanes, numbers and arrays.

A matrix is a tuple of three columns. One-sided Jacobi (Hestenes 1958): rotations V from the right make the columns of
F V orthogonal; their lengths are the singular values. V is a rotation. So is U, whose last column is the cross product
of the others: where F is inside out, the smallest singular value comes out negative instead (Irving et al. 2004), and
a projection that makes it positive again turns the element right side out along its thinnest direction.
"""

import numpy as np

from .lanes import absolute, select, sqrt, value_function
from .vec3 import add, cross, dot, scale, sub

ZERO, ONE, FOUR, TWO, MINUS = np.float32(0), np.float32(1), np.float32(4), np.float32(2), np.float32(-1)
HALF, CLOSE = np.float32(0.5), np.float32(1e-7)
TINY = np.float32(1e-18)  # squared length of a column that has no direction; elements at rest have columns of one
SWEEPS, NEWTON_STEPS = 4, 6


@value_function
def turn(a, b, cosine, sine):
    """Two vectors after a rotation that mixes them."""
    return sub(scale(cosine, a), scale(sine, b)), (
        sine * a[0] + cosine * b[0],
        sine * a[1] + cosine * b[1],
        sine * a[2] + cosine * b[2],
    )


@value_function
def made_orthogonal(a, b, va, vb):
    """Columns a, b of F V, turned until they are orthogonal, and the same turn for the columns of V."""
    gap, overlap = dot(b, b) - dot(a, a), dot(a, b)
    divisor = absolute(gap) + sqrt(gap * gap + FOUR * overlap * overlap)
    tangent = select(gap < ZERO, -TWO, TWO) * overlap / select(divisor > ZERO, divisor, ONE)
    cosine = ONE / sqrt(ONE + tangent * tangent)
    sine = cosine * tangent
    a, b = turn(a, b, cosine, sine)
    va, vb = turn(va, vb, cosine, sine)
    return a, b, va, vb


@value_function
def pick(mask, a, b):
    """A vector where the mask holds, else another."""
    return select(mask, a[0], b[0]), select(mask, a[1], b[1]), select(mask, a[2], b[2])


@value_function
def longer_first(a, b, va, vb):
    """Both columns in the order of their lengths; an exchange turns one of them round, so that V stays a rotation."""
    wrong = dot(a, a) < dot(b, b)
    return pick(wrong, b, a), pick(wrong, scale(MINUS, a), b), pick(wrong, vb, va), pick(wrong, scale(MINUS, va), vb)


@value_function
def directed(a, otherwise):
    """The unit vector along `a`, or another where `a` has no direction."""
    squared = dot(a, a)
    there = squared > TINY
    return pick(there, scale(ONE / sqrt(select(there, squared, ONE)), a), otherwise)


@value_function
def across(a):
    """A unit vector at right angles to the unit vector `a`."""
    flat = absolute(a[0]) < absolute(a[1])
    one, none = select(flat, ONE, ZERO), select(flat, ZERO, ONE)
    made = cross(a, (one, none, ZERO))
    return scale(ONE / sqrt(dot(made, made)), made)


@value_function
def singular_values(f0, f1, f2):
    """U, (s0, s1, s2), V with F = U diag(s) V^T: U and V are rotations, s0 >= s1 >= |s2|; s2 < 0 where det F < 0."""
    zero = ZERO * f0[0]
    one = ONE + zero
    v0, v1, v2 = (one, zero, zero), (zero, one, zero), (zero, zero, one)
    for _ in range(SWEEPS):
        f0, f1, v0, v1 = made_orthogonal(f0, f1, v0, v1)
        f0, f2, v0, v2 = made_orthogonal(f0, f2, v0, v2)
        f1, f2, v1, v2 = made_orthogonal(f1, f2, v1, v2)
    f0, f1, v0, v1 = longer_first(f0, f1, v0, v1)
    f0, f2, v0, v2 = longer_first(f0, f2, v0, v2)
    f1, f2, v1, v2 = longer_first(f1, f2, v1, v2)
    u0 = directed(f0, (one, zero, zero))
    u1 = directed(sub(f1, scale(dot(u0, f1), u0)), across(u0))
    u2 = cross(u0, u1)
    return (u0, u1, u2), (dot(u0, f0), dot(u1, f1), dot(u2, f2)), (v0, v1, v2)


@value_function
def column(u, s, v, row):
    """Column `row` of U diag(s) V^T."""
    a, b, c = s[0] * v[0][row], s[1] * v[1][row], s[2] * v[2][row]
    return (
        a * u[0][0] + b * u[1][0] + c * u[2][0],
        a * u[0][1] + b * u[1][1] + c * u[2][1],
        a * u[0][2] + b * u[1][2] + c * u[2][2],
    )


@value_function
def composed(u, s, v):
    """The columns of U diag(s) V^T."""
    return column(u, s, v, 0), column(u, s, v, 1), column(u, s, v, 2)


@value_function
def halfway(a, b, inverse):
    """The mean of a column and the same column of the inverse transpose."""
    return add(scale(HALF, a), scale(HALF * inverse, b))


@value_function
def rotation(f0, f1, f2):
    """The rotation of F = R S by Newton's method, R <- (R + R^-T) / 2 (Higham 1986), and where that has settled on it.

    Six times faster than the singular values. It has not settled where F is inside out, flat or torn far apart.
    """
    volume = dot(cross(f0, f1), f2)
    right = volume > ZERO
    change = ZERO * volume
    for _ in range(NEWTON_STEPS):
        c0, c1, c2 = cross(f1, f2), cross(f2, f0), cross(f0, f1)
        volume = dot(c2, f2)
        inverse = ONE / select(volume > ZERO, volume, ONE)
        n0, n1, n2 = halfway(f0, c0, inverse), halfway(f1, c1, inverse), halfway(f2, c2, inverse)
        d0, d1, d2 = sub(n0, f0), sub(n1, f1), sub(n2, f2)
        change = dot(d0, d0) + dot(d1, d1) + dot(d2, d2)
        f0, f1, f2 = n0, n1, n2
    return (f0, f1, f2), right & (change < CLOSE)

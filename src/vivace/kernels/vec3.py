"""Vectors are 3-tuples of values; rows of four (x, y, z, inverse mass) may be passed too, the fourth is ignored.

Tuples cost nothing: after inlining no tuple is left in the machine code (tests/kernels/test_lanes.py looks).
"""

from .lanes import sqrt, value_function


@value_function
def add(a, b):
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@value_function
def sub(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@value_function
def scale(s, a):
    return s * a[0], s * a[1], s * a[2]


@value_function
def dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@value_function
def cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@value_function
def norm(a):
    return sqrt(dot(a, a))

"""What Projective Dynamics asks of a constraint: A x, the nearest point p of its rest shapes, and A^T back again.

Energy = stiffness / 2 |A x - p|^2 (Bouaziz et al. 2014, eq. 4, with B = 1). A acts alike on x, y and z, so it is
`ROWS` by `ARITY` numbers, `coefficients(rest)`; `nearest(projected, rest)` is p.
"""

from .lanes import sqrt, value_function
from .vec3 import add, dot, scale, sub


@value_function
def combined(coefficients, corners):
    """One row of A x. Rows for several corners sum to zero, so differences do, and lose no digits far from 0."""
    if len(corners) == 1:
        return scale(coefficients[0], corners[0])
    total = scale(coefficients[1], sub(corners[1], corners[0]))
    for corner in range(2, len(corners)):
        total = add(total, scale(coefficients[corner], sub(corners[corner], corners[0])))
    return total


@value_function
def one_row(coefficients, corners):
    return (combined(coefficients[0], corners),)


@value_function
def three_rows(coefficients, corners):
    return (
        combined(coefficients[0], corners),
        combined(coefficients[1], corners),
        combined(coefficients[2], corners),
    )


ROWS = {1: one_row, 3: three_rows}


@value_function
def returned(coefficients, rows, corner):
    """What A^T makes of `rows` at one corner."""
    total = scale(coefficients[0][corner], rows[0])
    for row in range(1, len(rows)):
        total = add(total, scale(coefficients[row][corner], rows[row]))
    return total


@value_function
def less_one_row(a, b):
    return (sub(a[0], b[0]),)


@value_function
def less_three_rows(a, b):
    return sub(a[0], b[0]), sub(a[1], b[1]), sub(a[2], b[2])


LESS = {1: less_one_row, 3: less_three_rows}


@value_function
def squared(rows):
    total = dot(rows[0], rows[0])
    for row in range(1, len(rows)):
        total = total + dot(rows[row], rows[row])
    return total


@value_function
def distance_gradient_one(coefficients, rows):
    gap = squared(rows)
    return gap, (returned(coefficients, rows, 0),), sqrt(gap)


@value_function
def distance_gradient_four(coefficients, rows):
    """C = |A x - p| and its gradient A^T (A x - p) / |A x - p|, both times that length; `rows` is A x - p.

    p moves along the rest shapes, at right angles to A x - p, so its own derivative drops out.
    """
    gap = squared(rows)
    gradients = (
        returned(coefficients, rows, 0),
        returned(coefficients, rows, 1),
        returned(coefficients, rows, 2),
        returned(coefficients, rows, 3),
    )
    return gap, gradients, sqrt(gap)

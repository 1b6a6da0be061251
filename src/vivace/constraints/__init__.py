"""Constraints, one file each: ARITY and value_gradient(corners, rest), plain maths on values (docs/extending.md).

A file here is found by its name, which becomes the constraint's name.
"""

from typing import Any

from ..checks import choice
from ..errors import InputError
from ..model import Constraint
from ..registry import modules_of

MOST_REST_VALUES = 16


def constraints() -> dict[str, Constraint]:
    """Every built-in constraint by its name."""
    return {module.__name__.rsplit(".", 1)[-1]: module for module in modules_of(__name__)}


def find(constraint: Any) -> tuple[str, Constraint]:
    """Name and constraint, from a built-in name or from anything with ARITY and value_gradient."""
    if isinstance(constraint, str):
        return choice("constraint", constraint, constraints()), constraints()[constraint]
    name = getattr(constraint, "__name__", type(constraint).__name__).rsplit(".", 1)[-1]
    arity = getattr(constraint, "ARITY", None)
    if (
        not isinstance(arity, int)
        or arity not in (1, 2, 3, 4)
        or not callable(getattr(constraint, "value_gradient", None))
    ):
        raise InputError(f"constraint {name!r} needs ARITY (1 to 4) and a function value_gradient(corners, rest)")
    if getattr(constraint, "ROWS", 1) not in (1, 3):
        raise InputError(f"constraint {name!r}: ROWS must be 1 or 3")
    columns = getattr(constraint, "REST_VALUES", 1)
    if not isinstance(columns, int) or not 1 <= columns <= MOST_REST_VALUES:
        raise InputError(f"constraint {name!r}: REST_VALUES must be 1 to {MOST_REST_VALUES}")
    return name, constraint

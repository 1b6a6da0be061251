"""Solvers, one file each. A file here with a dictionary SOLVERS adds its classes by name."""

from typing import Any

from ..checks import choice
from ..errors import InputError
from ..registry import declared
from .base import Solver


def solvers() -> dict[str, type[Solver]]:
    """Every solver class by its name."""
    return declared(__name__, "SOLVERS")


def find(solver: str | Solver, **options: Any) -> Solver:
    """A solver from its name, with its default options but these, or one as it is."""
    if isinstance(solver, str):
        made = solvers()[choice("solver", solver, solvers())]
        for name in options:
            if name not in getattr(made, "__dataclass_fields__", {}):
                raise InputError(f"solver {solver!r} has no option {name!r}")
        return made(**options)
    if isinstance(solver, type) or not isinstance(solver, Solver):
        raise InputError(f"solver {solver!r}: expected a name or a solver object, such as vivace.ColoredGaussSeidel()")
    return solver

"""Checks at the public border: each names the bad argument and its first offender. Inside, data is trusted."""

import difflib
import importlib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from .errors import InputError

LARGEST_NUMBER = 1e18  # its square still fits single precision


def array(name: str, values: Any, columns: int | None = None) -> np.ndarray:
    """Finite float32 numbers; (n, columns), or (n,) if `columns` is None."""
    try:
        if np.asarray(values).dtype.kind not in "fiub":
            raise TypeError
        result = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InputError(f"{name}: expected numbers, got {_kind(values)}") from problem
    _check_shape(name, result, columns)
    rows = ~np.isfinite(result) if columns is None else ~np.isfinite(result).all(axis=1)
    if rows.any():
        first = int(np.argmax(rows))
        raise InputError(f"{name}: {count(rows.sum(), 'row')} not finite (first: row {first}, {_show(result[first])})")
    if result.size and np.abs(result).max() > LARGEST_NUMBER:
        first = int(np.argmax(np.abs(result).reshape(len(result), -1).max(axis=1) > LARGEST_NUMBER))
        raise InputError(f"{name}: row {first}, {_show(result[first])}, is too large for single precision")
    return np.ascontiguousarray(result, np.float32)


def indices(name: str, values: Any, limit: int, columns: int | None = None, what: str = "vertex") -> np.ndarray:
    """Integers in 0..limit-1 as int32; (n, columns), or (n,) if `columns` is None."""
    try:
        result = np.asarray(values)
    except ValueError as problem:
        raise InputError(f"{name}: rows of different lengths") from problem
    if result.size == 0 and result.ndim == 1:
        result = np.zeros((0, columns) if columns else 0, np.int32)
    if result.dtype.kind not in "iu":
        raise InputError(f"{name}: expected whole numbers, got {_kind(values)}")
    _check_shape(name, result, columns)
    bad = (result < 0) | (result >= limit)
    if bad.any():
        first = np.argwhere(bad)[0]
        raise InputError(
            f"{name}: row {first[0]} names {what} {result[tuple(first)]}, but there are {limit} (0 to {limit - 1})"
        )
    return np.ascontiguousarray(result, np.int32)


def listed(values: Any) -> Any:
    """A single item as a list of one; anything else as it is, for the checks that follow."""
    try:
        return np.atleast_1d(values)
    except ValueError:
        return values


def number(name: str, value: Any, least: float = -math.inf, most: float = math.inf, open_below: bool = False) -> float:
    """One finite number within bounds."""
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InputError(f"{name}: expected a number, got {value!r}") from problem
    if math.isfinite(result) and abs(result) > LARGEST_NUMBER:
        raise InputError(f"{name} is {value!r}; that does not fit single precision")
    if not math.isfinite(result) or result < least or result > most or (open_below and result == least):
        bounds = (
            f"{'above' if open_below else 'at least'} {least:g}"
            if most == math.inf
            else f"between {least:g} and {most:g}"
        )
        raise InputError(f"{name} is {value!r}; it must be {'finite' if least == -math.inf else bounds}")
    return result


def whole(name: str, value: Any, least: int, most: int = 10**9) -> int:
    """One whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} is {value!r}; it must be a whole number, at least {least}")
    if value > most:
        raise InputError(f"{name} is {value!r}; it must be at most {most}")
    return int(value)


def vector(name: str, value: Any) -> tuple[float, float, float]:
    """Three finite numbers."""
    try:
        result = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InputError(f"{name}: expected three numbers, got {value!r}") from problem
    if result.shape != (3,) or not np.isfinite(result).all() or np.abs(result).max() > LARGEST_NUMBER:
        raise InputError(f"{name} is {value!r}; it must be three finite numbers, at most {LARGEST_NUMBER:g}")
    x, y, z = (float(v) for v in result)
    return x, y, z


def choice(what: str, name: Any, known: Iterable[str]) -> str:
    """One of the known names; else an error that offers the nearest."""
    names = sorted(known)
    if name in names:
        return str(name)
    near = difflib.get_close_matches(str(name), names, 1, 0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(f"unknown {what} {name!r}; {hint}known: {', '.join(names)}")


def extra(module: str, name: str = "render") -> Any:
    """Import an optional library, or say what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        raise InputError(f"{module} is not installed; it comes with: pip install 'vivace[{name}]'") from problem


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 row is`, `3 rows are`."""
    return f"{number} {noun} is" if number == 1 else f"{number} {plural or noun + 's'} are"


def _check_shape(name: str, values: np.ndarray, columns: int | None) -> None:
    wanted = "(n,)" if columns is None else f"(n, {columns})"
    if values.ndim != (1 if columns is None else 2) or (columns is not None and values.shape[1] != columns):
        raise InputError(f"{name}: expected shape {wanted}, got {values.shape}")


def _kind(values: Any) -> str:
    return f"dtype {values.dtype}" if isinstance(values, np.ndarray) else type(values).__name__


def _show(row: Any) -> str:
    return "(" + ", ".join(f"{v:g}" for v in np.atleast_1d(row)) + ")"

"""Benchmarks, one file per table or figure: NAME, a docstring, run(options) -> rows, plot(rows, figure)."""

from types import ModuleType

from ..registry import modules_of


def benches() -> dict[str, ModuleType]:
    """Every benchmark by its name."""
    return {module.NAME: module for module in modules_of(__name__) if hasattr(module, "NAME")}

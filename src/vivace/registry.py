"""Finding what a folder holds: each file there declares its own names, and no list has to be kept."""

import importlib
import pkgutil
from types import ModuleType
from typing import Any


def modules_of(package: str) -> list[ModuleType]:
    """The modules of a package, in the order of their names."""
    root = importlib.import_module(package)
    return [
        importlib.import_module(f"{package}.{info.name}")
        for info in sorted(pkgutil.iter_modules(root.__path__), key=lambda i: i.name)
    ]


def declared(package: str, attribute: str) -> dict[str, Any]:
    """All entries of the dictionaries called `attribute` in the modules of a package."""
    found: dict[str, Any] = {}
    for module in modules_of(package):
        found.update(getattr(module, attribute, {}))
    return found

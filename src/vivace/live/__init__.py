"""A simulation that is watched and touched while it runs: server, protocol, page.

`vivace.live(simulation)` shows one from Python.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, simulation: Any, **options: Any) -> Any:
        """Run a simulation in the background and show it; see `vivace.live.launch.live`."""
        from .launch import live

        return live(simulation, **options)


sys.modules[__name__].__class__ = _Callable

"""Vivace: real-time soft bodies (cloth, noodles, solids) by parallel Gauss-Seidel over graph colors."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import live
    from .collision.box import Box
    from .collision.capsule import Capsule
    from .collision.cylinder import Cylinder
    from .collision.mesh_collider import MeshCollider
    from .collision.plane import Plane
    from .collision.sphere import Sphere
    from .collision.torus import Torus
    from .coloring import Coloring, PhantomPartition, color, partition
    from .errors import InputError, SimulationError
    from .graph import Graph
    from .io import Camera
    from .materials import Compliances, Elastic, MassSpring, Ratios, Springs
    from .mesh import Mesh
    from .scene import Body, Scene
    from .scenes import Settings
    from .simulation import Report, Simulation
    from .solvers.gauss_seidel import ColoredGaussSeidel
    from .solvers.implicit import ImplicitEuler
    from .solvers.jacobi import AveragedJacobi, HybridJacobi
    from .solvers.pd_chebyshev import PDChebyshev
    from .solvers.pd_direct import PDDirect
    from .solvers.pd_jacobi import PDJacobi
    from .solvers.phantoms import Phantoms
    from .solvers.serial import SerialGaussSeidel
    from .solvers.vivace import Vivace
    from .solvers.xpbd import XPBD

__version__ = "0.1.0"
__all__ = [
    "AveragedJacobi",
    "Body",
    "Box",
    "Camera",
    "Capsule",
    "ColoredGaussSeidel",
    "Coloring",
    "Compliances",
    "Cylinder",
    "Elastic",
    "Graph",
    "HybridJacobi",
    "ImplicitEuler",
    "InputError",
    "MassSpring",
    "Mesh",
    "MeshCollider",
    "PDChebyshev",
    "PDDirect",
    "PDJacobi",
    "PhantomPartition",
    "Phantoms",
    "Plane",
    "Ratios",
    "Report",
    "Scene",
    "SerialGaussSeidel",
    "Settings",
    "Simulation",
    "SimulationError",
    "Sphere",
    "Springs",
    "Torus",
    "Vivace",
    "XPBD",
    "color",
    "live",
    "partition",
]
# Imported when first used: the command answers --help without waiting for Numba, and can still choose its threads.
_HOMES = {
    "collision.box": ("Box",),
    "collision.capsule": ("Capsule",),
    "collision.cylinder": ("Cylinder",),
    "collision.mesh_collider": ("MeshCollider",),
    "collision.plane": ("Plane",),
    "collision.sphere": ("Sphere",),
    "collision.torus": ("Torus",),
    "coloring": ("Coloring", "PhantomPartition", "color", "partition"),
    "errors": ("InputError", "SimulationError"),
    "graph": ("Graph",),
    "io": ("Camera",),
    "materials": ("Compliances", "Elastic", "MassSpring", "Ratios", "Springs"),
    "mesh": ("Mesh",),
    "scene": ("Body", "Scene"),
    "scenes": ("Settings",),
    "simulation": ("Report", "Simulation"),
    "solvers.gauss_seidel": ("ColoredGaussSeidel",),
    "solvers.implicit": ("ImplicitEuler",),
    "solvers.jacobi": ("AveragedJacobi", "HybridJacobi"),
    "solvers.pd_chebyshev": ("PDChebyshev",),
    "solvers.pd_direct": ("PDDirect",),
    "solvers.pd_jacobi": ("PDJacobi",),
    "solvers.phantoms": ("Phantoms",),
    "solvers.serial": ("SerialGaussSeidel",),
    "solvers.vivace": ("Vivace",),
    "solvers.xpbd": ("XPBD",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "live":
        return importlib.import_module(".live", __name__)
    if name not in _HOME_OF:
        raise AttributeError(f"module 'vivace' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Vivace: real-time soft bodies (cloth, noodles, solids) by parallel Gauss-Seidel over graph colors."""

from .collision.cylinder import Cylinder
from .collision.plane import Plane
from .collision.sphere import Sphere
from .coloring import Coloring, color
from .errors import InputError, SimulationError
from .graph import Graph
from .io import Camera
from .mesh import Mesh
from .scene import Body, Compliances, Ratios, Scene
from .scenes import Settings
from .simulation import Report, Simulation
from .solvers.gauss_seidel import ColoredGaussSeidel
from .solvers.serial import SerialGaussSeidel

__version__ = "0.1.0"
__all__ = [
    "Body",
    "Camera",
    "Coloring",
    "Compliances",
    "ColoredGaussSeidel",
    "Cylinder",
    "Graph",
    "InputError",
    "Mesh",
    "Plane",
    "Ratios",
    "Report",
    "Scene",
    "SerialGaussSeidel",
    "Settings",
    "Simulation",
    "SimulationError",
    "Sphere",
    "color",
]

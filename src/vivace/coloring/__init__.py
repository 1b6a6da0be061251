"""Graph colorings. A file here with a dictionary ALGORITHMS adds its algorithms by name."""

from .base import COLORED_ANEW, REPAIRED, Algorithm, Coloring, ColoringError
from .by_name import algorithms, color
from .phantoms import PhantomGroup, PhantomPartition, partition
from .repair import renewed

__all__ = [
    "COLORED_ANEW",
    "REPAIRED",
    "Algorithm",
    "Coloring",
    "ColoringError",
    "PhantomGroup",
    "PhantomPartition",
    "algorithms",
    "color",
    "partition",
    "renewed",
]

"""Any closed mesh, by its distance on a sparse grid."""

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .. import checks
from ..errors import InputError
from ..kernels.grid import grid_distance_normal
from ..kernels.pose import POSE, to_local, turned
from ..mesh import Mesh
from .motion import IDENTITY, composed, flat, rotation_matrix
from .sampling import sampled
from .shape import Placed


def distance_normal(point, parameters):
    """Interpolated in the grid; parameters: numbers (pose (12), those of the grid), its index, its distances."""
    numbers, index, values = parameters
    distance, normal = grid_distance_normal(to_local(point, numbers), numbers[POSE:], index, values)
    return distance, turned(normal, numbers)


class MeshCollider(Placed):
    """The inside of a closed mesh: of a `vivace.Mesh`, or of a file that trimesh reads.

    Distances are sampled once, at the corners of voxels of this size [m] within `band` [m] of the surface (by default
    three voxels) and everywhere inside, and kept in a file for the next time. Between them they are interpolated: a
    part that is thinner than a voxel is lost. The collider can be moved, and move, but not be joined with others.
    """

    distance_normal = staticmethod(distance_normal)

    def __init__(self, mesh: Mesh | str | Path, voxel: float, band: float | None = None):
        self.voxel = checks.number("MeshCollider voxel", voxel, 0, open_below=True)
        self.band = 3 * self.voxel if band is None else checks.number("MeshCollider band", band, self.voxel)
        self.name, (vertices, triangles) = _name(mesh), _surface(mesh)
        vertices, triangles = _merged(vertices, triangles)
        if not len(triangles):
            raise InputError(f"{self.name} has no triangle with a size")
        size = np.ptp(vertices, axis=0).max()
        if self.voxel > size:
            raise InputError(f"{self.name} is {size:.3g} m large, less than a voxel of {self.voxel:g} m")
        open_edges = _open_edges(triangles)
        if len(open_edges):
            place = ", ".join(f"{number:.3g}" for number in vertices[open_edges[0]].mean(axis=0))
            warnings.warn(
                f"{self.name} is not closed: {checks.count(len(open_edges), 'edge')} open (first: at {place}); "
                "what is inside is told by its winding number",
                stacklevel=2,
            )
        self._vertices, self._triangles = vertices, triangles
        self._grid = sampled(self.name, vertices, triangles, self.voxel, self.band)
        self.pose = IDENTITY

    def __repr__(self) -> str:
        return f"<MeshCollider of {self.name}: {len(self._grid.values)} blocks of voxels of {self.voxel:g} m>"

    @property
    def thinnest(self) -> float:
        """A voxel: what is thinner is not there."""
        return self.voxel

    @property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        return self._grid.blocks, self._grid.values.ravel()

    def parameters(self) -> Any:
        """The numbers of pose and grid, then its tables."""
        return (*flat(self.pose), *self._grid.numbers), *self.tables

    def shape(self, reach: float) -> tuple[np.ndarray, np.ndarray]:
        """The mesh itself, to draw."""
        return self._vertices @ self.pose[:, :3].T + self.pose[:, 3], self._triangles

    def moved(self, translation: Any = (0.0, 0.0, 0.0), rotation: Any = None) -> "MeshCollider":
        result = copy.copy(self)
        turn = IDENTITY[:, :3] if rotation is None else rotation_matrix("rotation", rotation)
        result.pose = composed(np.column_stack([turn, checks.vector("translation", translation)]), self.pose)
        return result


def _name(mesh: Any) -> str:
    return f"mesh {str(mesh)!r}" if isinstance(mesh, (str, Path)) else "the mesh of a MeshCollider"


def _surface(mesh: Any) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles, (n, 3) float64 and (t, 3)."""
    if isinstance(mesh, Mesh):
        return mesh.vertices.astype(np.float64), mesh.triangles
    if not isinstance(mesh, (str, Path)):
        raise InputError(f"MeshCollider: expected a vivace.Mesh or a file, got {type(mesh).__name__}")
    trimesh = checks.extra("trimesh", "mesh")
    if not Path(mesh).is_file():
        raise InputError(f"MeshCollider: there is no file {str(mesh)!r}")
    try:
        found = trimesh.load_mesh(str(mesh), process=False)
        vertices, triangles = np.asarray(found.vertices), np.asarray(found.faces)
    except Exception as problem:  # its readers raise all kinds
        raise InputError(f"MeshCollider: {str(mesh)!r} cannot be read as a mesh: {problem}") from problem
    if not len(triangles):
        raise InputError(f"MeshCollider: {str(mesh)!r} has no triangles")
    vertices = checks.array(f"{_name(mesh)}: vertices", vertices, 3).astype(np.float64)
    return vertices, checks.indices(f"{_name(mesh)}: triangles", triangles, len(vertices), 3)


def _merged(vertices: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertices at the same place as one, without those of no triangle; triangles that have three different ones."""
    used, triangles = np.unique(triangles, return_inverse=True)
    vertices, same = np.unique(vertices[used], axis=0, return_inverse=True)
    triangles = same.ravel()[triangles.reshape(-1, 3)]
    one, two, three = triangles.T
    area = np.linalg.norm(np.cross(vertices[two] - vertices[one], vertices[three] - vertices[one]), axis=1)
    return vertices, triangles[area > 0]


def _open_edges(triangles: np.ndarray) -> np.ndarray:
    """Edges that are not passed as often in one direction as in the other."""
    ends = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    edges, which = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    balance = np.bincount(which.ravel(), weights=np.where(ends[:, 0] < ends[:, 1], 1, -1), minlength=len(edges))
    return edges[balance != 0]

"""What a viewer draws of a scene besides its bodies: colliders as meshes, and where they are."""

import importlib.util

import numpy as np

from ..checks import extra
from ..collision.motion import pose_at, surface_name
from ..io.picture import collider_shape, is_ground
from ..model import Model


def collider_meshes(model: Model) -> list[tuple[np.ndarray, np.ndarray]]:
    """Vertices and triangles of every collider, where it was defined; none of the ground, which is drawn by itself.

    Without PyVista, only of those that know their shape: joined ones are made from their distances by it.
    """
    low, high = model.positions.min(axis=0), model.positions.max(axis=0)
    found = importlib.util.find_spec("pyvista") is not None
    meshes = []
    for surface in model.surfaces:
        vertices, triangles = np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int32)
        if is_ground(surface):
            pass
        elif found:
            shape = collider_shape(extra("pyvista"), surface.collider, low, high).triangulate()
            vertices, triangles = np.asarray(shape.points), shape.regular_faces if shape.n_cells else triangles
        elif hasattr(surface.collider, "shape"):
            made = surface.collider.shape(reach=float(np.linalg.norm(high - low)))
            vertices, triangles = made if made is not None else (vertices, triangles)
        meshes.append((np.asarray(vertices, np.float32), np.asarray(triangles, np.int32)))
    return meshes


def collider_poses(model: Model, time: float) -> dict[str, list[list[float]]]:
    """Of those that move, by their number: 3x4."""
    return {
        str(number): pose_at(surface_name(number, surface.collider), surface.motion, time).tolist()
        for number, surface in enumerate(model.surfaces)
        if surface.motion is not None
    }

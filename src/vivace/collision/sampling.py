"""Signed distances to a mesh on a sparse grid: sampled near its surface, and inside.

Distances and winding numbers come from libigl. Its `signed_distance` by fast winding numbers multiplies the two: then
distances are off by the error of the approximation, and on open meshes by much more. Here they give only the sign.
"""

from typing import Any, NamedTuple

import numpy as np

from .. import checks
from ..caching import kept_arrays
from ..errors import InputError
from ..kernels.grid import CORNERS, SIDE
from ..progress import pieces

VERSION = 1  # of how grids are made
LARGEST = 256e6  # [bytes] of distances
MOST_BLOCKS = 2**21  # in the box around a mesh
SAMPLES_AT_ONCE = 100_000


class Grid(NamedTuple):
    """See `kernels.grid`."""

    numbers: tuple[float, ...]
    blocks: np.ndarray  # (blocks of the box) float32, what is where
    values: np.ndarray  # (kept blocks, 9^3) float32 [m]


def sampled(name: str, vertices: np.ndarray, triangles: np.ndarray, voxel: float, band: float) -> Grid:
    """The grid around a mesh, from a file if it was made before."""
    low, high = vertices.min(axis=0) - (band + voxel), vertices.max(axis=0) + (band + voxel)
    shape = np.ceil((high - low) / (SIDE * voxel)).astype(np.int64)
    _check_size(name, vertices, triangles, voxel, band, shape)
    igl = checks.extra("igl", "mesh")

    def make() -> dict[str, np.ndarray]:
        return _sample(igl, vertices, triangles, low, shape, voxel, band)

    made = kept_arrays("grids", (VERSION, vertices, triangles, voxel, band), make)
    if not len(made["values"]) or made["values"].min() >= 0:
        raise InputError(f"{name} is thinner than its voxels of {voxel:g} m: no corner is inside; take smaller ones")
    return Grid((*low, 1 / voxel, *map(float, shape), band), made["index"], made["values"])


def _check_size(
    name: str, vertices: np.ndarray, triangles: np.ndarray, voxel: float, band: float, shape: np.ndarray
) -> None:
    """An error that says how large the grid would be, before any work is done."""
    one, two, three = vertices[triangles].transpose(1, 0, 2)
    side = SIDE * voxel
    area = np.linalg.norm(np.cross(two - one, three - one), axis=1).sum() / 2
    volume = abs(np.einsum("ij,ij->", one, np.cross(two, three))) / 6
    blocks = float(np.prod(shape.astype(float)))
    kept = min((area * 2 * (band + side) + volume) / side**3, blocks)
    size = kept * CORNERS**3 * 4
    if size > LARGEST or blocks > MOST_BLOCKS:
        raise InputError(
            f"{name}: voxels of {voxel:g} m would take about {size / 1e6:.0f} MB, {kept:.0f} blocks of {SIDE}^3 in a "
            f"box of {blocks:.0f}; {LARGEST / 1e6:.0f} MB and {MOST_BLOCKS} blocks are the most"
        )


def _sample(
    igl: Any, vertices: np.ndarray, triangles: np.ndarray, low: np.ndarray, shape: np.ndarray, voxel: float, band: float
) -> dict[str, np.ndarray]:
    triangles = triangles.astype(np.int64)

    def distances(what: str, corners: np.ndarray) -> np.ndarray:
        """At corners of voxels, (n, 3), or at places between them."""
        result = []
        for piece in pieces(what, low + corners * voxel, max(len(corners) // SAMPLES_AT_ONCE, 1)):
            squared, _, _ = igl.point_mesh_squared_distance(piece, vertices, triangles)
            inside = np.abs(igl.fast_winding_number(vertices, triangles, piece)) > 0.5
            result.append(np.where(inside, -1, 1) * np.sqrt(squared))
        return np.concatenate(result)

    k, j, i = np.unravel_index(np.arange(np.prod(shape)), shape[::-1])
    first = np.stack([i, j, k], axis=1) * SIDE
    middle = distances("looking for the surface", first + SIDE / 2)
    across = np.sqrt(3) / 2 * SIDE * voxel  # from the middle of a block to its corner
    near, deep = np.abs(middle) < band + across, middle <= -(band + across)
    index = -(middle - across)
    index[near | deep] = np.arange(np.count_nonzero(near | deep))
    values = np.empty((np.count_nonzero(near | deep), CORNERS**3), np.float32)
    values[index[near].astype(int)] = _at_corners(distances, first[near], np.arange(CORNERS))
    if deep.any():
        # Nothing is near, so that the way out may be coarse.
        corners = _at_corners(distances, first[deep], np.array([0, SIDE])).reshape(-1, 2, 2, 2)
        share = np.stack([1 - np.arange(CORNERS) / SIDE, np.arange(CORNERS) / SIDE])
        filled = np.einsum("bzyx,zk,yj,xi->bkji", corners, share, share, share)
        values[index[deep].astype(int)] = filled.reshape(-1, CORNERS**3)
    return {"index": index.astype(np.float32), "values": values}


def _at_corners(distances: Any, first: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(blocks, len(offsets)^3), x running fastest; a corner that blocks share is sampled once."""
    z, y, x = np.meshgrid(offsets, offsets, offsets, indexing="ij")
    corners = first[:, None, :] + np.stack([x, y, z], axis=-1).reshape(-1, 3)
    span = corners.max(initial=0) + 1
    keys, where = np.unique((corners @ [1, span, span**2]).ravel(), return_inverse=True)
    unique = np.stack([keys % span, keys // span % span, keys // span**2], axis=1)
    return distances("sampling distances", unique)[where].reshape(len(first), -1)

"""Pictures without a screen, by PyVista: shaded bodies, colliders, ground with shadow, ambient occlusion.

The shadow is the bodies themselves, flattened onto the ground along the light: sharp, and free of the artifacts of
shadow maps, which also take three times as long on a processor without GPU.
"""

import ctypes
import os
import platform
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..collision.motion import Motion, pose_at, surface_name
from ..errors import InputError
from ..model import Model, Surface
from . import Camera, extra, partial_name

SIZE = (1280, 720)
PAPER, SHADOW, METAL = "#eceae4", "#cfccc4", "#9aa0a6"
BODY_COLORS = (
    (0.82, 0.29, 0.30),
    (0.16, 0.47, 0.62),
    (0.92, 0.66, 0.24),
    (0.36, 0.60, 0.38),
    (0.53, 0.36, 0.58),
    (0.90, 0.48, 0.36),
)
LIGHT = np.array([0.45, 1.0, 0.35])  # towards the light
GL_LIBRARIES = ("libEGL.so.1", "libGL.so.1", "libOSMesa.so.8")


def check_gl() -> None:
    """An error that names the package, where no OpenGL library is found."""
    if platform.system() != "Linux":
        return
    for library in GL_LIBRARIES:
        try:
            ctypes.CDLL(library)
            return
        except OSError:
            continue
    raise InputError(
        "no OpenGL library found for pictures; on Debian or Ubuntu: apt-get install libegl1 libgl1-mesa-dri "
        "(.npz output needs none)"
    )


class Renderer:
    """Takes pictures of a model's positions."""

    def __init__(self, model: Model, camera: Camera | None = None, size: tuple[int, int] = SIZE):
        check_gl()
        if not os.environ.get("DISPLAY"):
            os.environ.setdefault("VTK_DEFAULT_OPENGL_WINDOW", "vtkEGLRenderWindow")
        pyvista = extra("pyvista")
        self._pyvista, self._model = pyvista, model
        low, high = model.positions.min(axis=0), model.positions.max(axis=0)
        self._ground = ground_height(model)
        if self._ground is None and camera is not None:
            self._ground = camera.ground
        if self._ground is None:
            # Nothing to fall on: room for a body to hang or fall by its own size.
            low = low - np.array([0, 0.9 * np.ptp(model.positions, axis=0).max(), 0], np.float32)
            self._ground = float(low[1])
        low[1] = min(low[1], self._ground)
        span = float(np.linalg.norm(high - low))
        self._plotter = pyvista.Plotter(off_screen=True, window_size=list(size), lighting="none")
        self._plotter.set_background(PAPER)
        self._bodies = self._surface(model.positions)
        colors = np.empty((model.particle_count, 3), np.float32)
        for i, (_, rows) in enumerate(model.bodies):
            colors[rows] = BODY_COLORS[i % len(BODY_COLORS)]
        self._bodies.point_data["color"] = (colors * 255).astype(np.uint8)
        shown = self._plotter.add_mesh(
            self._bodies, scalars="color", rgb=True, ambient=0.25, diffuse=0.8, specular=0.08
        )
        shown.prop.interpolation = "Phong"  # smooth_shading=True would copy the mesh, and its points could not move
        self._shadow = self._flattened(model.positions)
        self._plotter.add_mesh(self._shadow, color=SHADOW, lighting=False)
        floor = pyvista.Plane(
            center=(low + high) / 2 * [1, 0, 1] + [0, self._ground - 1e-3 * span, 0],
            direction=(0, 1, 0),
            i_size=40 * span,
            j_size=40 * span,
        )
        self._plotter.add_mesh(floor, color=PAPER, lighting=False)
        self._moving: list[_Moving] = []
        for number, surface in enumerate(model.surfaces):
            if not is_ground(surface):
                self._add_collider(surface_name(number, surface.collider), surface, low, high, span)
        for direction, strength in (
            (LIGHT, 0.65),
            ((0.9, 0.3, 0.5), 0.35),
            ((-0.7, 0.4, 0.7), 0.2),
            ((0.1, 0.2, -1.0), 0.2),
        ):
            self._plotter.add_light(
                pyvista.Light(position=tuple(np.asarray(direction) * 10), focal_point=(0, 0, 0), intensity=strength)
            )
        middle = (low + high) / 2
        eye, target = (camera.eye, camera.target) if camera else (middle + span * np.array([0.75, 0.5, 1.1]), middle)
        self._plotter.camera_position = [tuple(eye), tuple(target), (0, 1, 0)]
        self._plotter.camera.clipping_range = (0.01 * span, 100 * span)
        self._plotter.enable_ssao(radius=0.06 * span, bias=0.002 * span, kernel_size=32, blur=True)

    def picture(self, positions: np.ndarray, time: float = 0.0) -> np.ndarray:
        """One picture, (height, width, 3) uint8; `time` [s] says where colliders are that move."""
        surface = self._surface(positions)
        self._bodies.points = surface.points
        self._bodies.point_data.active_normals = surface.point_data["Normals"]
        self._shadow.points = self._flattened(positions).points
        for collider in self._moving:
            self._show_at(collider, time)
        self._plotter.render()
        return self._plotter.screenshot(None, return_img=True)

    def close(self) -> None:
        self._plotter.close()

    def _surface(self, positions: np.ndarray) -> Any:
        mesh = self._pyvista.PolyData.from_regular_faces(positions, self._model.triangles)
        return mesh.compute_normals(
            cell_normals=False, split_vertices=False, consistent_normals=False, auto_orient_normals=False
        )

    def _flattened(self, positions: np.ndarray) -> Any:
        return self._pyvista.PolyData.from_regular_faces(self._on_ground(positions), self._model.triangles)

    def _on_ground(self, positions: np.ndarray) -> np.ndarray:
        """Where the light throws these points."""
        height = np.maximum(positions[:, 1] - self._ground, 0)[:, None]
        flat = positions - height * (LIGHT / LIGHT[1])
        flat[:, 1] = self._ground
        return flat.astype(np.float32)

    def _add_collider(self, name: str, surface: Surface, low: np.ndarray, high: np.ndarray, span: float) -> None:
        """A collider where it was defined; one that moves is brought to its place in each picture."""
        shape = collider_shape(self._pyvista, surface.collider, low, high)
        if not shape.n_points:
            return
        flat, sunk = shape.copy(), np.array([0, 5e-4 * span, 0])
        flat.points = self._on_ground(np.asarray(shape.points)) - sunk
        self._plotter.add_mesh(flat, color=SHADOW, lighting=False)
        shown = self._plotter.add_mesh(
            shape, color=METAL, smooth_shading=True, ambient=0.25, diffuse=0.75, specular=0.2
        )
        if surface.motion is not None:
            self._moving.append(_Moving(name, surface.motion, shown, flat, np.array(shape.points), sunk))

    def _show_at(self, collider: "_Moving", time: float) -> None:
        pose = pose_at(collider.name, collider.motion, time)
        collider.shown.user_matrix = np.vstack([pose, [0, 0, 0, 1]])
        collider.shadow.points = self._on_ground(collider.points @ pose[:, :3].T + pose[:, 3]) - collider.sunk


def collider_shape(pyvista: Any, collider: Any, low: np.ndarray, high: np.ndarray) -> Any:
    """A collider's own shape, or else the surface where its distance is zero, within the surroundings of a box."""
    span = float(np.linalg.norm(high - low))
    made = collider.shape(reach=span) if hasattr(collider, "shape") else None
    if made is not None:
        return pyvista.PolyData.from_regular_faces(*made).compute_normals(
            split_vertices=False, auto_orient_normals=False
        )
    # First where the surface is, then as finely as can be there: a wall may be thin.
    grid = _distances(pyvista, collider, low - 0.3 * span, high + 0.3 * span, 60)
    cell = np.array(grid.spacing)
    near = np.asarray(grid.points)[np.abs(grid.point_data["distance"]) < np.linalg.norm(cell)]
    if not len(near):
        return pyvista.PolyData()
    fine = _distances(pyvista, collider, near.min(axis=0) - cell, near.max(axis=0) + cell, 120)
    return fine.contour([0.0], scalars="distance")


def _distances(pyvista: Any, collider: Any, low: np.ndarray, high: np.ndarray, steps: int) -> Any:
    grid = pyvista.ImageData(
        dimensions=(steps, steps, steps), spacing=tuple((high - low) / (steps - 1)), origin=tuple(low)
    )
    with np.errstate(all="ignore"):
        distance, _ = collider.distance_normal(tuple(grid.points.T), collider.parameters())
    grid.point_data["distance"] = distance
    return grid


class _Moving(NamedTuple):
    """A collider that is drawn at another place in each picture."""

    name: str
    motion: Motion
    shown: Any
    shadow: Any
    points: np.ndarray  # where it was defined
    sunk: np.ndarray  # how far below the ground its shadow is, so as not to lie in the bodies'


def is_ground(surface: Surface) -> bool:
    """Whether it is a level floor that stays where it is."""
    collider = surface.collider
    if surface.motion is not None or getattr(collider, "normal", None) is None:
        return False
    return np.allclose(collider.parameters()[:3], (0, 1, 0))


def ground_height(model: Model) -> float | None:
    """The height of the highest level floor among the colliders."""
    heights = [surface.collider.parameters()[3] for surface in model.surfaces if is_ground(surface)]
    return max(heights) if heights else None


class PngWriter:
    """A picture of the last frame."""

    def __init__(self, path: Path, model: Model, dt: float, camera: Camera | None = None):
        self.path, self._imageio = path, extra("imageio.v3")
        self._renderer = Renderer(model, camera)
        self._last, self._dt, self._frame = model.positions, dt, 0

    def write(self, positions: np.ndarray) -> None:
        self._last = positions
        self._frame += 1

    def close(self) -> None:
        picture = self._renderer.picture(self._last, self._frame * self._dt)
        self._renderer.close()
        target = partial_name(self.path)
        try:
            self._imageio.imwrite(target, picture, extension=".png")
            target.replace(self.path)
        finally:
            target.unlink(missing_ok=True)

    def discard(self) -> None:
        self._renderer.close()


WRITERS = {".png": PngWriter}

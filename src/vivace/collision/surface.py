"""A surface of a model as the kernels read it."""

import math
from collections.abc import Iterable

import numpy as np

from ..kernels.pose import END, PATH, POSE, START
from ..model import Surface
from .motion import composed, path_between, pose_at
from .shape import THIN, placed

NONE = np.zeros(1, np.float32)
Ways = dict[int, tuple[np.ndarray, np.ndarray]]  # poses (3, 4) of a surface at the start and the end of a frame


class SurfaceNumbers:
    """The numbers of a surface. Those of a moving one change from substep to substep: a sweep writes them.

    parameters: of the collider's distance, float32; of one that moves they begin with its pose.
    touch: friction, margin and the longest way that cannot lead through it, float32.
    motion: by how much it moved in the last substep; path: what it does in this frame; share: of the frame, a substep.
    """

    def __init__(self, surface: Surface):
        self.moves = surface.motion is not None
        collider = placed(surface.collider) if self.moves else surface.collider
        self.distance_normal, parameters = collider.distance_normal, collider.parameters()
        self.tables: tuple[np.ndarray, ...] = getattr(collider, "tables", ())
        self.parameters = np.array(parameters[0] if self.tables else parameters, np.float32)
        thinnest = getattr(collider, "thinnest", THIN)
        self.can_be_passed = thinnest < math.inf
        reach = thinnest / 2 if self.can_be_passed else 0.0
        self.touch = np.array([surface.friction, surface.margin, reach], np.float32)
        self.motion, self.path, self.share = np.zeros(POSE, np.float32), np.zeros(PATH), np.zeros(1)
        if surface.motion is not None:
            self._own_pose = collider.pose
            start = pose_at("a collider", surface.motion, 0.0)
            self.send(start, start)
            self.parameters[:POSE] = self.path[START:END]

    @property
    def two_tables(self) -> tuple[np.ndarray, ...]:
        """Those of a grid, or what nobody reads."""
        return self.tables or (NONE, NONE)

    def send(self, start: np.ndarray, end: np.ndarray) -> None:
        """Let it go from pose to pose in the next frame."""
        self.path[:] = path_between(composed(start, self._own_pose), composed(end, self._own_pose))


class Surfaces(list[SurfaceNumbers]):
    """Those of a model, in its order."""

    def __init__(self, surfaces: Iterable[Surface]):
        super().__init__(SurfaceNumbers(surface) for surface in surfaces)
        self._duration = math.inf

    def send(self, ways: Ways, duration: float) -> None:
        """Let some go from pose to pose in the next frame, which lasts `duration` [s]."""
        self._duration = duration
        for surface, (start, end) in ways.items():
            self[surface].send(start, end)

    def set_step(self, step: float) -> None:
        """From now on, substeps have this length [s]."""
        for numbers in self:
            numbers.share[0] = step / self._duration

"""Poses of colliders, and the way from one to the next."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import checks
from ..errors import InputError
from ..kernels.pose import ANGLE, AXIS, END, PATH, START, TRANSLATION

Motion = Callable[[float], Any]  # time [s] -> pose
RIGID = 1e-4  # how far from a rotation the numbers of a matrix may be
FASTEST = 100.0  # [m/s]
WIDEST = np.radians(170)  # of a frame: from half a turn on, nobody can tell which way it went


IDENTITY = np.eye(3, 4)


def rotation_matrix(name: str, value: Any) -> tuple[tuple[float, float, float], ...]:
    """A 3x3 rotation; the nearest one, where it is off by rounding."""
    try:
        matrix = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{name}: expected a 3x3 matrix, got {value!r}") from problem
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all():
        raise InputError(f"{name}: expected a 3x3 matrix of finite numbers, got {value!r}")
    off = np.abs(matrix @ matrix.T - np.eye(3)).max()
    if off > RIGID or np.linalg.det(matrix) < 0:
        reason = f"its rows are off by {off:.2g}" if off > RIGID else "it is a reflection (determinant -1)"
        raise InputError(f"{name}: {matrix.tolist()} is not a rotation: {reason}")
    u, _, v = np.linalg.svd(matrix)
    x, y, z = (tuple(float(number) for number in row) for row in u @ v)
    return x, y, z  # type: ignore[return-value]


def pose_of(name: str, value: Any) -> np.ndarray:
    """A pose (3, 4) from a translation (3), or from a rigid 3x4 or 4x4 matrix."""
    wanted = f"{name}: expected a translation (3) or a rigid 3x4 or 4x4 matrix, got {' '.join(repr(value).split())}"
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(wanted) from problem
    if numbers.shape == (3,):
        return np.column_stack([np.eye(3), checks.vector(name, numbers)])
    if numbers.shape == (4, 4) and np.array_equal(numbers[3], [0, 0, 0, 1]):
        numbers = numbers[:3]
    if numbers.shape != (3, 4):
        raise InputError(wanted)
    return np.column_stack([rotation_matrix(name, numbers[:, :3]), checks.vector(name, numbers[:, 3])])


def pose_at(name: str, motion: Motion, time: float) -> np.ndarray:
    """Where a motion is at some time [s]."""
    name = f"{name}: motion({time:g})"
    try:
        value = motion(time)
    except Exception as problem:
        raise InputError(f"{name} raised {type(problem).__name__}: {problem}") from problem
    return pose_of(name, value)


def surface_name(number: int, collider: Any) -> str:
    """How messages call a collider of a scene."""
    return f"collider {number} ({type(collider).__name__})"


def composed(outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """The pose (3, 4) that does what `inner` does, then what `outer` does."""
    return np.column_stack([outer[:, :3] @ inner[:, :3], outer[:, :3] @ inner[:, 3] + outer[:, 3]])


def check_way(name: str, start: np.ndarray, end: np.ndarray, time: float, duration: float) -> None:
    """An error if a collider jumps rather than moves; `duration` [s] is that of the frame that begins at `time`."""
    distance = np.linalg.norm(end[:, 3] - start[:, 3])
    angle = np.linalg.norm(_rotation_vector(end[:, :3] @ start[:, :3].T))
    when = f"between t = {time:g} s and {time + duration:g} s"
    if distance > FASTEST * duration:
        raise InputError(f"{name} jumps by {distance:.3g} m {when}; {FASTEST:g} m/s is the fastest that it may move")
    if angle > WIDEST:
        raise InputError(f"{name} turns by {np.degrees(angle):.0f} degrees {when}; it must be less than half a turn")


def path_between(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """A frame's path from pose to pose by a constant twist, as `kernels.pose` reads it."""
    rotation = end[:, :3] @ start[:, :3].T
    vector = _rotation_vector(rotation)
    angle = float(np.linalg.norm(vector))
    path = np.zeros(PATH)
    # At once by the twist v: t = (I + (1 - cos a) / a K + (1 - sin a / a) K^2) v
    moved, along = end[:, 3] - rotation @ start[:, 3], np.eye(3)
    if angle > 0:
        x, y, z = path[AXIS : AXIS + 3] = vector / angle
        cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        along += (1 - np.cos(angle)) / angle * cross + (1 - np.sin(angle) / angle) * cross @ cross
    path[ANGLE] = angle
    path[TRANSLATION : TRANSLATION + 3] = np.linalg.solve(along, moved)
    path[START:END], path[END : END + 12] = flat(start), flat(end)
    return path


def flat(pose: np.ndarray) -> np.ndarray:
    """A pose (3, 4) as twelve numbers: rotation, then translation."""
    return np.concatenate([pose[:, :3].ravel(), pose[:, 3]])


def _rotation_vector(rotation: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(rotation).as_rotvec()

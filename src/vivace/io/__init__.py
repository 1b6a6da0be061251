"""Writers, one file per kind of output. A file here with a dictionary WRITERS adds its endings.

Every writer writes to a temporary name beside its target and renames at the end: a target is never half-written, and
what was there stays there until then.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..checks import choice, number, vector
from ..checks import extra as extra  # for writers
from ..errors import InputError
from ..files import partial_name as partial_name  # for writers
from ..model import Model
from ..registry import declared


@dataclass(frozen=True)
class Camera:
    """Where a picture is taken from, and of what [m].

    ground: height of the ground, where the scene has no level floor; by default it lies below the bodies as they start.
    """

    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    ground: float | None = None

    def __post_init__(self) -> None:
        vector("Camera eye", self.eye)
        vector("Camera target", self.target)
        if self.ground is not None:
            number("Camera ground", self.ground)


class Writer(Protocol):
    """Takes frames; `close` makes the file appear, also after fewer frames than planned; `discard` leaves no trace."""

    path: Path

    def write(self, positions: np.ndarray) -> None: ...

    def close(self) -> None: ...

    def discard(self) -> None: ...


def writers() -> dict[str, Any]:
    """Every writer class by the ending of its files."""
    return declared(__name__, "WRITERS")


def open_writers(paths: Iterable[Path], model: Model, dt: float, camera: Camera | None = None) -> list[Writer]:
    """A writer for each path. All paths are tried before any work is done."""
    paths = list(paths)
    known = writers()
    for path in paths:
        if not path.suffix:
            raise InputError(f"cannot write {path}: its name needs an ending; known: {', '.join(sorted(known))}")
        choice("output format", path.suffix.lower(), known)
        check_writable(path)
    check_different(paths)
    opened: list[Writer] = []
    try:
        for path in paths:
            opened.append(known[path.suffix.lower()](path, model, dt, camera))
    except BaseException:
        for writer in opened:
            writer.discard()
        raise
    return opened


def check_different(paths: Iterable[Path]) -> None:
    """An error if two outputs would be one file."""
    seen: set[str] = set()
    for path in paths:
        place = str(path.resolve()).lower()
        if place in seen:
            raise InputError(f"cannot write {path} twice")
        seen.add(place)


def check_writable(path: Path) -> None:
    """An error that says why, if a file cannot be made at `path`."""
    folder, trial = path.parent, partial_name(path)
    try:
        if not folder.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {folder}")
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder")
        trial.touch()
        trial.unlink()
    except OSError as problem:
        raise InputError(f"cannot write {path}: {problem.strerror}") from problem


def write_text(path: Path, text: str) -> None:
    """Write a text file as a whole or not at all."""
    try:
        partial_name(path).write_text(text)
        partial_name(path).replace(path)
    except OSError as problem:
        partial_name(path).unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {problem.strerror}") from problem

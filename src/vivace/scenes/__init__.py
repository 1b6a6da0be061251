"""Built-in scenes, one file each, in the same form as a user's scene file.

A scene file defines `scene()`, and may define `SETTINGS`, `CAMERA`, `script(simulation)`, which is called before every
frame, and `check(simulation)`. Built-in ones have a NAME, take `scene(scale)` and have `PAPER`, the settings of the
paper they come from.
"""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from ..checks import choice, number, whole
from ..errors import InputError
from ..io import Camera
from ..registry import modules_of
from ..scene import Scene
from ..simulation import Simulation


@dataclass(frozen=True)
class Settings:
    """How a scene is run unless the user says otherwise."""

    iterations: int = 8
    substeps: int = 1
    dt: float = 1 / 60  # [s] a frame
    damping: float = 0.1  # [1/s]
    frames: int = 300
    spend: str = "iterations"  # what a time budget goes into, if one is given: iterations or substeps


Statement = tuple[str, bool]
LARGEST_SCALE = 1000


@dataclass(frozen=True)
class Setup:
    """A scene with all that its file says of it."""

    name: str
    summary: str
    make: Callable[[float], Scene]
    settings: Settings = Settings()
    paper: Settings | None = None
    camera: Camera | None = None
    check: Callable[[Simulation], Iterator[Statement]] | None = None
    script: Callable[[Simulation], None] | None = None

    def scale_for(self, particles: int) -> float:
        """The scale that gives about so many particles."""
        whole("particles", particles, 1)
        return particles / self.make(1.0).particle_count

    def before_frame(self, simulation: Simulation) -> None:
        """Do what the scene's script does before a frame; nothing where there is no script."""
        if self.script is None:
            return
        try:
            self.script(simulation)
        except InputError:
            raise
        except Exception as problem:
            raise InputError(f"{self.name}: script() raised {_told(problem, self.name)}") from problem

    def checked(self, simulation: Simulation) -> dict[str, bool]:
        """What the scene's check says of a simulation's final state."""
        if not callable(self.check):
            raise InputError(f"{self.name} defines no check(simulation)")
        try:
            return {str(text): bool(holds) for text, holds in self.check(simulation)}
        except Exception as problem:
            raise InputError(f"{self.name}: check() raised {_told(problem, self.name)}") from problem

    def chosen(self, paper: bool = False, **changes: Any) -> Settings:
        """The scene's settings, or its paper's, with some of them changed."""
        if paper and self.paper is None:
            raise InputError(f"{self.name} has no settings of a paper")
        settings = replace(self.paper if paper and self.paper else self.settings, **changes)
        whole("frames", settings.frames, 1)
        return settings


def built_in() -> dict[str, Setup]:
    """Every built-in scene by its name."""
    return {module.NAME: _setup(module, module.NAME) for module in modules_of(__name__) if hasattr(module, "NAME")}


def find(name: str) -> Setup:
    """A built-in scene, or the one in a Python file."""
    if name.endswith(".py"):
        return _setup(_load(Path(name)), name)
    return built_in()[choice("scene", name, built_in())]


def _setup(module: ModuleType, name: str) -> Setup:
    settings, camera = getattr(module, "SETTINGS", Settings()), getattr(module, "CAMERA", None)
    if not isinstance(settings, Settings):
        raise InputError(f"{name}: SETTINGS must be a vivace.Settings, got {type(settings).__name__}")
    if not isinstance(camera, Camera | None):
        raise InputError(f"{name}: CAMERA must be a vivace.Camera, got {type(camera).__name__}")
    paper = getattr(module, "PAPER", None)
    if not isinstance(paper, Settings | None):
        raise InputError(f"{name}: PAPER must be a vivace.Settings, got {type(paper).__name__}")
    script = getattr(module, "script", None)
    if script is not None and not callable(script):
        raise InputError(f"{name}: script must be a function of the simulation, got {type(script).__name__}")
    summary = (module.__doc__ or "").strip().split("\n")[0]
    return Setup(
        name,
        summary,
        lambda scale: _make(module, name, scale),
        settings,
        paper,
        camera,
        getattr(module, "check", None),
        script,
    )


def _make(module: Any, name: str, scale: float) -> Scene:
    number("scale", scale, 0, LARGEST_SCALE, open_below=True)
    takes_scale = inspect.isfunction(module.scene) and "scale" in inspect.signature(module.scene).parameters
    if scale != 1 and not takes_scale:
        raise InputError(f"{name}: scene() takes no scale, so --scale cannot be used with it")
    try:
        with redirect_stdout(sys.stderr):  # what it prints must not get into the answer
            scene = module.scene(scale=scale) if takes_scale else module.scene()
    except InputError:
        raise
    except (Exception, SystemExit) as problem:
        raise InputError(f"{name}: scene() raised {_told(problem, name)}") from problem
    if not isinstance(scene, Scene):
        raise InputError(f"{name}: scene() returned {type(scene).__name__}, not a vivace.Scene")
    return scene


def _load(path: Path) -> ModuleType:
    try:
        there = path.is_file()
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror}") from problem
    if not there:
        raise InputError(f"there is no scene file {path}")
    # Not the bare stem, or random.py would hide the real one. The kernel cache and dataclasses look modules up by name.
    name, folder = f"vivace_scene_{path.stem}", str(path.resolve().parent)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if folder not in sys.path:
        sys.path.insert(0, folder)  # a scene may import what lies beside it
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as problem:
        del sys.modules[name]
        raise InputError(f"{path} raised {_told(problem, str(path))}") from problem
    if not callable(getattr(module, "scene", None)):
        raise InputError(f"{path} defines no function scene()")
    return module


def _told(problem: BaseException, file: str) -> str:
    """What went wrong and in which line of the user's file."""
    lines = (
        [
            frame.lineno
            for frame in inspect.getinnerframes(problem.__traceback__)
            if Path(frame.filename).name == Path(file).name
        ]
        if problem.__traceback__
        else []
    )
    line = lines[-1] if lines else getattr(problem, "lineno", None)
    return f"{type(problem).__name__}{f' in line {line}' if line else ''}: {problem}"

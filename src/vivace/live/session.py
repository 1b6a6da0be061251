"""A simulation that is told what to do between frames; what it was told and did can be repeated to the bit."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np

from .. import checks, solvers
from ..budget import check_budget
from ..coloring import algorithms
from ..errors import InputError, SimulationError
from ..io import check_writable, open_writers, partial_name, write_text
from ..simulation import Grab, Report, Simulation
from .film import start_film
from .paint import PAINTS, Painter
from .protocol import check_command

VERSION = 1  # of the files that sessions are saved in
MOST_KEPT_BYTES = 1 << 28  # positions of the last seconds
STIFFNESS = 1e-3, 1e3
MOST_ITERATIONS, MOST_SUBSTEPS = 1000, 100
FIRST = 1  # frames of a simulation that take what they take: kernels are compiled in them
WATCHING = ("pause", "play", "step", "record")  # commands that change nothing of what is computed


class Session:
    """Steps a simulation, does what it is told, and keeps what it looked like in the last seconds.

    before_frame: what a scene's script does. about: what a saved session says of its scene, to find it again.
    recorded: whether it keeps what it was told and did, to be saved.
    """

    def __init__(
        self,
        simulation: Simulation,
        before_frame: Callable[[Simulation], None] | None = None,
        budget_ms: float | None = None,
        spend: str = "iterations",
        seconds_kept: float = 10.0,
        folder: Path | None = None,
        about: dict[str, Any] | None = None,
        recorded: bool = False,
    ):
        self.before_frame, self.spend = before_frame, spend
        self.budget_ms = budget_ms
        self.folder, self.about, self.recorded = folder, about or {}, recorded
        self.playing, self.problem = True, ""
        self.paint, self._without_budget, self._compiled = "none", FIRST, set[type]()
        self._use(simulation)
        self._steps_left, self._films = 0, list[Popen[str]]()
        self._grabs: dict[tuple[int, int], Grab] = {}
        self._solver, self._coloring = _solver_name(simulation.solver), getattr(simulation.solver, "coloring", None)
        self._log: list[dict[str, Any]] = []
        self._told: list[dict[str, Any]] = []
        self._again: Iterator[Report] | None = None
        self.repeated = False  # whether a saved session was repeated to its end
        frame_bytes = max(simulation.model.positions.nbytes, 1)
        longest = round(checks.number("seconds_kept", seconds_kept, 0) / simulation.dt)
        self._kept: deque[np.ndarray] = deque(maxlen=min(longest, MOST_KEPT_BYTES // frame_bytes))
        self._start = self._settings()

    # ---- what it is told ----

    def apply(self, command: dict[str, Any], viewer: int = 0) -> dict[str, Any]:
        """Do what a viewer asks, between frames; gives what there is to answer. An InputError changes nothing."""
        if self._again is not None and command["do"] not in WATCHING:
            raise InputError("a saved session is being repeated; wait until it is done")
        return self._do(command, viewer)

    def _do(self, command: dict[str, Any], viewer: int) -> dict[str, Any]:
        do = command["do"]
        arguments = {name: value for name, value in command.items() if name != "do"}
        if do in ("grab", "move", "release"):
            arguments["viewer"] = viewer
        if do in ("move", "release") and (viewer, arguments["id"]) not in self._grabs:
            return {}  # it was let go by a reset
        answer = getattr(self, f"_{do}")(**arguments) or {}
        if do not in WATCHING and self.recorded:
            told = {**command, "viewer": viewer}
            if do == "move" and self._told and {**self._told[-1], "to": None} == {**told, "to": None}:
                self._told.pop()  # of two moves in a frame, the last counts
            self._told.append(told)
        return answer

    def forget(self, viewer: int) -> None:
        """A viewer is gone: let go what it held."""
        if self._again is None:
            for _, number in [key for key in self._grabs if key[0] == viewer]:
                self._do({"do": "release", "id": number}, viewer)

    def _pause(self) -> None:
        self.playing, self._steps_left = False, 0

    def _play(self) -> None:
        self.playing, self.problem = True, ""

    def _step(self, frames: int = 1) -> None:
        self.playing, self._steps_left, self.problem = False, self._steps_left + frames, ""

    def _reset(self) -> None:
        """Everything is where it was at the start; settings stay as they are."""
        old = self.simulation
        self._use(Simulation(old.scene, old.solver, *self._motion(), old.threads, old.seed, old.backend))
        self.simulation.control.gravity = old.control.gravity
        self._grabs.clear()
        self._kept.clear()
        self.problem = ""

    def _set(self, name: str, value: Any) -> None:
        checks.choice("parameter", name, SETTERS)
        SETTERS[name](self, value)

    def _grab(
        self, viewer: int, id: int = 0, vertex: int | None = None, origin: Any = None, direction: Any = None
    ) -> dict[str, Any]:
        what: Any = vertex if vertex is not None else self.simulation.pick(origin, direction)
        if what is None:
            return {"grabbed": None}
        grab = self.simulation.grab(what)
        self._release(viewer, id)
        self._grabs[viewer, id] = grab
        return {"grabbed": grab.target}

    def _move(self, viewer: int, id: int, to: Any) -> None:
        self._grabs[viewer, id].move(to)

    def _release(self, viewer: int, id: int) -> None:
        if (viewer, id) in self._grabs:
            self._grabs.pop((viewer, id)).release()

    def _record(self, seconds: float, path: str) -> dict[str, Any]:
        """Write what the last seconds looked like, into the folder for that, under a name that is not taken."""
        if self.folder is None:
            raise InputError("this server keeps no recordings; --recordings names a folder for them")
        if Path(path).name != path:
            raise InputError(f"{path!r}: a recording's name has no folder")
        if (self.folder / path).exists():
            raise InputError(f"{self.folder / path} is there already")
        return self.write_last(self.folder / path, seconds)

    def write_last(self, target: Path, seconds: float) -> dict[str, Any]:
        """Write what the last seconds looked like to .npz at once, or begin to make a .mp4 of it."""
        if target.suffix.lower() not in (".npz", ".mp4"):
            raise InputError(f"{target}: a recording's name ends in .npz or .mp4")
        self._poll_films()
        if self._films:
            raise InputError("a film is being made; wait until it is done")
        count = min(round(seconds / self.simulation.dt) or 1, len(self._kept))
        if not count:
            raise InputError("there is nothing to record yet")
        check_writable(target)
        frames, simulation = list(self._kept)[-count:], self.simulation
        film = target.suffix.lower() == ".mp4"
        if film and "scene" not in self.about:
            raise InputError(f"{target}: films are made of scenes that have a name; .npz can be written")
        file = partial_name(target).with_suffix(".npz") if film else target
        (writer,) = open_writers([file], simulation.model, simulation.dt)
        try:
            for positions in frames:
                writer.write(positions)
        except BaseException:
            writer.discard()
            raise
        writer.close()
        if film:
            starts = (simulation.frame - count + 1) * simulation.dt
            self._films.append(start_film(file, target, self.about["scene"], self.about.get("scale", 1.0), starts))
        return {"recorded": str(target.resolve()), "frames": count, "seconds": count * simulation.dt}

    @property
    def filming(self) -> bool:
        """Whether a film is being made."""
        self._poll_films()
        return bool(self._films)

    def close(self) -> None:
        """Wait for a film that is being made; an error if it could not be."""
        for film in self._films:
            film.wait()
        self.problem = ""
        self._poll_films()
        if self.problem:
            raise InputError(self.problem)

    def _poll_films(self) -> None:
        done = [film for film in self._films if film.poll() is not None]
        self._films = [film for film in self._films if film not in done]
        for film in done:
            complaint = film.communicate()[1].strip()
            if film.returncode:
                self.problem = complaint.splitlines()[-1] if complaint else "a film could not be made"

    # ---- what it does ----

    def advance(self, work: Any = None) -> Report | None:
        """One frame, if it plays or has frames left to do; None if not. A simulation that breaks down is paused."""
        if self._films:
            self._poll_films()
        if self._again is not None and work is None:
            return self._once_more()
        if not (self.playing or self._steps_left or work):
            return None
        if self._steps_left:
            self._steps_left -= 1
        told, self._told = self._told, []
        try:
            if self.before_frame:
                self.before_frame(self.simulation)
            budget = None if work or self._without_budget else self.budget_ms
            report = self.simulation.step(budget, self.spend, work)
            self._without_budget = max(self._without_budget - 1, 0)
        except (SimulationError, InputError) as problem:
            self.playing, self._steps_left, self.problem = False, 0, str(problem)
            self._told = told
            return None
        if self.recorded:
            self._log.append({"told": told, "work": report.work})
        if self._kept.maxlen:
            self._kept.append(self.simulation.positions)
        return report

    def repeat(self, reports: Iterator[Report]) -> None:
        """Let `advance` go through these instead, and pause at their end."""
        self._again = reports

    def _once_more(self) -> Report | None:
        assert self._again is not None
        if not (self.playing or self._steps_left):
            return None
        try:
            return next(self._again)
        except StopIteration:
            self._again, self.playing, self.repeated = None, False, True
        except InputError as problem:
            self._again, self.playing, self.repeated, self.problem = None, False, True, str(problem)
        for viewer, number in list(self._grabs):  # of viewers that were there then
            self._do({"do": "release", "id": number}, viewer)
        return None

    def begin(self) -> None:
        """What was set so far is how it began."""
        self._told, self._start = [], self._settings()

    def painted(self) -> np.ndarray | None:
        """What particles are painted with, (n,) uint8; None if with nothing."""
        return self._painter.paint(self.paint)

    @property
    def settings(self) -> dict[str, Any]:
        """All that can be set, as it is now."""
        return {**self._settings(), "paint": self.paint}

    def _settings(self) -> dict[str, Any]:
        simulation = self.simulation
        return {
            "solver": self._solver,
            "coloring": self._coloring if isinstance(self._coloring, str) else None,
            "iterations": simulation.iterations,
            "substeps": simulation.substeps,
            "budget_ms": self.budget_ms,
            "damping": simulation.damping,
            "gravity": [float(g) for g in simulation.control.gravity],
            "stiffness": simulation.scene.stiffness,
        }

    # ---- saved and repeated ----

    def save(self, path: Path) -> None:
        """All that was told and done so far, for `replay`."""
        start = {**self._start, "dt": self.simulation.dt, "seed": self.simulation.seed}
        content = {"vivace session": VERSION, "about": self.about, "start": start, "frames": self._log}
        write_text(path, json.dumps(content))

    # ---- settings ----

    def _motion(self, iterations: int | None = None, substeps: int | None = None) -> tuple[int, int, float, float]:
        old = self.simulation
        return iterations or old.iterations, substeps or old.substeps, old.dt, old.damping

    def _rebuild(self, solver: Any = None, **motion: int) -> None:
        old = self.simulation
        new = Simulation(old.scene, solver or old.solver, *self._motion(**motion), old.threads, old.seed, old.backend)
        if self.budget_ms is not None:
            new.check_budget(self.spend)
        new.take_over(old)
        self._use(new)

    def _use(self, simulation: Simulation) -> None:
        self.simulation, self._painter = simulation, Painter(simulation)
        if type(simulation.solver) not in self._compiled:
            self._compiled.add(type(simulation.solver))
            self._without_budget = FIRST

    def _set_solver(self, value: Any) -> None:
        name = checks.choice("solver", value, solvers.solvers())
        self._rebuild(solvers.find(name))
        self._solver, self._coloring = name, getattr(self.simulation.solver, "coloring", None)

    def _set_coloring(self, value: Any) -> None:
        name, solver = checks.choice("coloring", value, algorithms()), self.simulation.solver
        if not is_dataclass(solver) or "coloring" not in [field.name for field in fields(solver)]:
            raise InputError(f"solver {self._solver} has no coloring to choose")
        self._rebuild(replace(solver, coloring=name))
        self._coloring = name

    def _set_iterations(self, value: Any) -> None:
        self._rebuild(iterations=checks.whole("iterations", value, 1, MOST_ITERATIONS))

    def _set_substeps(self, value: Any) -> None:
        self._rebuild(substeps=checks.whole("substeps", value, 1, MOST_SUBSTEPS))

    def _set_budget(self, value: Any) -> None:
        if value is not None:
            check_budget(value, self.spend)
            self.simulation.check_budget(self.spend)
        self.budget_ms = None if value is None else float(value)

    def _set_damping(self, value: Any) -> None:
        self.simulation.damping = checks.number("damping", value, 0)

    def _set_gravity(self, value: Any) -> None:
        self.simulation.control.gravity = checks.vector("gravity", value)

    def _set_stiffness(self, value: Any) -> None:
        scene = self.simulation.scene
        before, scene.stiffness = scene.stiffness, checks.number("stiffness", value, *STIFFNESS)
        try:
            self._rebuild()
        except BaseException:
            scene.stiffness = before
            raise

    def _set_paint(self, value: Any) -> None:
        self.paint = checks.choice("paint", value, PAINTS)


SETTERS: dict[str, Callable[[Session, Any], None]] = {
    "solver": Session._set_solver,
    "coloring": Session._set_coloring,
    "iterations": Session._set_iterations,
    "substeps": Session._set_substeps,
    "budget_ms": Session._set_budget,
    "damping": Session._set_damping,
    "gravity": Session._set_gravity,
    "stiffness": Session._set_stiffness,
    "paint": Session._set_paint,
}


def _solver_name(solver: Any) -> str:
    return next((name for name, kind in solvers.solvers().items() if type(solver) is kind), type(solver).__name__)


def load(path: Path) -> dict[str, Any]:
    """A saved session, checked."""
    try:
        content = json.loads(path.read_text())
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror}") from problem
    except ValueError as problem:
        raise InputError(f"{path} is not a saved session: {problem}") from problem
    if not isinstance(content, dict) or content.get("vivace session") != VERSION:
        raise InputError(f"{path} is not a saved session, or one of another version than {VERSION}")
    if not isinstance(content.get("frames"), list) or not isinstance(content.get("start"), dict):
        raise InputError(f"{path} is not a whole session: it has no frames, or does not say how they began")
    return content


def replay(session: Session, frames: list[dict[str, Any]]) -> Iterator[Report]:
    """Do again what a saved session says, frame by frame, giving back each report."""
    for number, frame in enumerate(frames, 1):
        try:
            for told in frame["told"]:
                command = {name: value for name, value in told.items() if name != "viewer"}
                check_command(command)
                if command["do"] in WATCHING:
                    raise ValueError(f"{command['do']} is no part of a session")
                session._do(command, int(told["viewer"]))
            work = tuple(tuple(piece) for piece in frame["work"])
        except InputError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as problem:
            raise InputError(f"the saved session is broken in frame {number}: {problem!r}") from problem
        report = session.advance(work)
        if report is None:
            raise InputError(f"the saved session cannot be repeated, in frame {number}: {session.problem}")
        yield report

"""Runs a session at a steady rate for any number of viewers."""

import contextlib
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import checks, coloring, solvers
from ..errors import InputError, SimulationError
from ..io.picture import ground_height
from ..model import Model
from ..simulation import Report, Simulation
from .broadcast import LOOPBACK
from .frames import SharedFrames
from .paint import PAINTS
from .protocol import Hello, encode_hello
from .session import Session
from .shapes import collider_meshes, collider_poses

RATE = 60.0  # frames a second
BUDGET = 0.6  # of the time between two frames; the rest is for those who watch
START_SECONDS = 60.0  # the process for viewers may have to compile first


class Broadcaster:
    """Starts the process that viewers talk to, hands frames to it, and hears what viewers ask. Nothing here waits."""

    def __init__(self, hello: Hello, host: str, port: int, token: str | None):
        self.frames = SharedFrames.make(hello.about["particles"])
        handle, name = tempfile.mkstemp(prefix="vivace-hello-")
        self._asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._changed, self._closing = threading.Condition(), False
        self._newest: dict[str, Any] | None = None
        self._answers: list[dict[str, Any]] = []
        self._number = -1
        try:
            with open(handle, "wb") as file:
                file.write(encode_hello(hello))
            command = [sys.executable, "-m", "vivace.live.broadcast"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            start = {"host": host, "port": port, "token": token, "hello": name, "particles": hello.about["particles"]}
            self._write({**start, "frames": str(self.frames.path)})
            self.port = self._first_word(host, port)
        finally:
            Path(name).unlink(missing_ok=True)
            self.frames.path.unlink(missing_ok=True)  # both have it open
        for work in (self._listen, self._talk):
            threading.Thread(target=work, daemon=True, name=f"vivace {work.__name__}").start()

    def _first_word(self, host: str, port: int) -> int:
        assert self._process.stdout is not None
        waiting = threading.Timer(START_SECONDS, self._process.kill)
        waiting.start()
        line = self._process.stdout.readline()
        waiting.cancel()
        said = json.loads(line) if line else {"error": "the process for viewers did not start"}
        if "error" in said:
            self._process.wait()
            raise InputError(f"cannot listen on {host}:{port}: {said['error']}")
        return int(said["port"])

    def publish(self, positions: np.ndarray, paint: np.ndarray | None, report: dict[str, Any]) -> None:
        """Let this be the newest frame."""
        self._number += 1
        self.frames.write(self._number, positions, paint)
        with self._changed:
            self._newest = {"number": self._number, "painted": paint is not None, "report": report}
            self._changed.notify()

    def asked(self, wait: float = 0.0) -> Iterator[dict[str, Any]]:
        """What viewers have asked since; waits so many seconds for the first."""
        with contextlib.suppress(queue.Empty):
            yield self._asked.get(timeout=wait) if wait > 0 else self._asked.get_nowait()
            while True:
                yield self._asked.get_nowait()

    def answer(self, ticket: int, answer: dict[str, Any]) -> None:
        with self._changed:
            self._answers.append({"ticket": ticket, "answer": answer})
            self._changed.notify()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """End the process; viewers are told that the connection is closed."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _talk(self) -> None:
        """Hand over what there is to say; the process may be stopped or slow, the simulation goes on meanwhile."""
        with contextlib.suppress(OSError, ValueError):
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._newest or self._answers or self._closing)
                    lines = [*self._answers, *([self._newest] if self._newest else [])]
                    self._newest, self._answers, closing = None, [], self._closing
                for line in lines:
                    self._write(line)
                if closing:
                    break
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()

    def _write(self, line: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self._process.stdout:
                self._asked.put(json.loads(line))


class LiveServer:
    """A session and the viewers it has. `run` goes on until it is stopped."""

    def __init__(
        self,
        session: Session,
        name: str,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        rate: float = RATE,
        camera: Any = None,
    ):
        self.session, self.rate = session, checks.number("rate", rate, 0, 1000, open_below=True)
        if host not in LOOPBACK and not token:
            raise InputError(f"{host} can be reached by others, so viewers need a token")
        self.token = token
        model = session.simulation.model
        hello = Hello(name, about(session, camera), model.triangles, collider_meshes(model))
        self.broadcaster = Broadcaster(hello, host, checks.whole("port", port, 0, 65535), token)
        self.port = self.broadcaster.port
        self.steps_a_second = 0.0
        self._stopped = threading.Event()
        self._last: Report | None = None

    def run(self, frames: int | None = None) -> None:
        """Steps at the set rate, until it is stopped or so many frames are done."""
        period, due = 1 / self.rate, time.perf_counter()
        count, since = 0, time.perf_counter()
        self._publish()
        while not self._stopped.is_set() and (frames is None or frames > 0):
            changed = self._obey(max(due - time.perf_counter(), 0.0))
            if time.perf_counter() < due:
                if changed:
                    self._publish()
                continue
            # A frame that comes too late moves all that follow: none is hurried to catch up.
            due = max(due + period, time.perf_counter())
            problem = self.session.problem
            report = self.session.advance()
            if report:
                self._last, count = report, count + 1
                frames = None if frames is None else frames - 1
            if (now := time.perf_counter()) - since > 1:
                self.steps_a_second, count, since = count / (now - since), 0, now
            if report or changed or self.session.problem != problem:
                self._publish()
            if frames is not None and self.session.repeated:
                break
            if not self.broadcaster.alive:
                raise SimulationError("the process that viewers talk to has ended")

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self.broadcaster.close()

    def _obey(self, wait: float) -> bool:
        """Do what viewers have asked, for half the time between two frames at most: no crowd of them stops steps."""
        changed, end = False, time.perf_counter() + wait + 0.5 / self.rate
        for asked in self.broadcaster.asked(wait):
            changed = True
            if "gone" in asked:
                self.session.forget(asked["gone"])
                continue
            try:
                answer = self.session.apply(asked["command"], asked["viewer"])
            except (InputError, SimulationError, OSError) as problem:
                answer = {"refused": str(problem)}
            self.broadcaster.answer(asked["ticket"], answer)
            if time.perf_counter() > end:
                break
        return changed

    def _publish(self) -> None:
        session, simulation = self.session, self.session.simulation
        report = {
            "frame": simulation.frame,
            "time": simulation.time,
            "playing": session.playing,
            "problem": session.problem,
            "settings": session.settings,
            "poses": collider_poses(simulation.model, simulation.time),
            "steps_a_second": self.steps_a_second,
            "step": self._last.as_dict() if self._last else None,
        }
        self.broadcaster.publish(simulation.positions, session.painted(), report)


def default_budget(simulation: Simulation, rate: float, spend: str) -> float | None:
    """What a step may take at a rate [ms]; None where the solver cannot keep a budget."""
    try:
        simulation.check_budget(spend)
    except InputError:
        return None
    return BUDGET * 1000 / rate


def about(session: Session, camera: Any) -> dict[str, Any]:
    """What viewers are told once."""
    model = session.simulation.model
    return {
        "particles": model.particle_count,
        "bodies": [[name, rows.start, rows.stop] for name, rows in model.bodies],
        "groups": [group.name for group in model.groups],
        "stages": _stages(model),
        "dt": session.simulation.dt,
        "ground": ground_height(model),
        "camera": [list(camera.eye), list(camera.target)] if camera else None,
        "solvers": sorted(solvers.solvers()),
        "colorings": sorted(coloring.algorithms()),
        "paints": list(PAINTS),
        "start": [model.positions.min(axis=0).tolist(), model.positions.max(axis=0).tolist()],
    }


def _stages(model: Model) -> list[str]:
    """What a step's time may go into, whatever the solver; `vivace` and its like relax particles."""
    touching = ["contacts", "detect"] if model.touching else []
    return [*(group.name for group in model.groups), "relax", *(["collide"] if model.surfaces else []), *touching]

"""What the commands `live`, `serve` and `view` do, and `vivace.live()`."""

import secrets
import socket
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .. import checks, scenes, solvers
from ..budget import check_budget
from ..checks import extra
from ..errors import InputError
from ..io import Camera, check_writable
from ..simulation import Simulation
from .client import Connection
from .page import Page
from .server import LOOPBACK, LiveServer, default_budget
from .session import Session, load, replay

PAGE_SECONDS = 60.0  # until a page must have opened
Say = Callable[[str], None]


def make_session(
    scene: str,
    solver: str,
    scale: float,
    seed: int,
    threads: int | None,
    rate: float | None,
    budget_ms: float | None,
    recordings: Path | None,
    changes: dict[str, Any],
    recorded: bool = False,
    backend: str = "cpu",
) -> tuple[Session, scenes.Setup, float]:
    """A scene by its name, ready to run; also what its file says, and its rate."""
    extra("websockets", "live")
    setup = scenes.find(scene)
    settings = setup.chosen(**changes)
    motion = settings.iterations, settings.substeps, settings.dt, settings.damping
    simulation = Simulation(setup.make(scale), solvers.find(solver), *motion, threads, seed, backend)
    rate = 1 / settings.dt if rate is None else checks.number("rate", rate, 0, 1000, open_below=True)
    if budget_ms is None:
        budget_ms = default_budget(simulation, rate, settings.spend)
    elif budget_ms == 0:
        budget_ms = None
    else:
        check_budget(budget_ms, settings.spend)
        simulation.check_budget(settings.spend)
    about = {"scene": scene, "scale": scale}
    kept: dict[str, Any] = dict(folder=recordings, about=about, recorded=recorded)
    session = Session(simulation, setup.before_frame, budget_ms, settings.spend, **kept)
    return session, setup, rate


def session_again(
    path: Path, threads: int | None, recordings: Path | None, recorded: bool = False
) -> tuple[Session, scenes.Setup, float, Any]:
    """The scene of a saved session, as it began, and the frames to repeat."""
    saved = load(path)
    start = saved["start"]
    try:
        changes = {name: start[name] for name in ("iterations", "substeps", "dt", "damping")}
        scene, scale, coloring = str(saved["about"]["scene"]), saved["about"]["scale"], start["coloring"]
        later = {name: start[name] for name in ("coloring", "gravity", "stiffness")}
        arguments = scene, start["solver"], scale, start["seed"], threads, None, start["budget_ms"] or 0, recordings
    except (KeyError, TypeError) as problem:
        raise InputError(f"{path} does not say how the session began: {problem} is missing") from problem
    session, setup, rate = make_session(*arguments, changes, recorded)
    for name, value in later.items():
        if name != "coloring" or (coloring is not None and coloring != session.settings["coloring"]):
            session.apply({"do": "set", "name": name, "value": value})
    session.begin()
    return session, setup, rate, saved["frames"]


def run_server(
    session: Session,
    setup: scenes.Setup,
    rate: float,
    host: str,
    port: int,
    token: str | None,
    say: Say,
    page_port: int | None = None,
    browser: bool = False,
    record: Path | None = None,
    frames: list[dict[str, Any]] | None = None,
    output: tuple[Path, float] | None = None,
    stop_after: int | None = None,
) -> None:
    """Serve until it is stopped. `page_port`: with a page beside it. `frames`: of a saved session, done again first.

    record: where the session is saved; output: a file for the last so many seconds.
    """
    if page_port is not None:
        extra("viser", "live")
    if record:
        check_writable(record)
    if host not in LOOPBACK and not token:
        token = secrets.token_urlsafe(16)
    server = LiveServer(session, setup.name, host, port, token, rate, setup.camera)
    page, ending = None, threading.Event()
    try:
        place = f"{host}:{server.port}"
        if page_port is None:
            seen = f"{socket.gethostname()}:{server.port}" if host in ("0.0.0.0", "::") else place
            hint = f" --token {token}" if token else ""
            query = f"?token={token}" if token else ""
            say(f"serving {setup.name} on {place}; watch it with: vivace view {seen}{hint}, or http://{seen}/{query}")
        else:
            page = _open_page(place, page_port, browser, say, ending)
        if frames:
            session.repeat(replay(session, frames))
        server.run(stop_after)
    finally:
        with ExitStack() as last:  # whatever fails, the others are done; from the last to the first
            last.callback(_finish_films, session, say)
            if output:
                last.callback(_write_last, session, *output, say)
            if record:
                last.callback(_save, session, record, say)
            if page:
                ending.set()
                last.callback(_end, page)
            last.callback(server.close)


def _save(session: Session, path: Path, say: Say) -> None:
    session.save(path)
    say(f"wrote {path.resolve()}")


def _write_last(session: Session, path: Path, seconds: float, say: Say) -> None:
    written = session.write_last(path, seconds)
    say(f"{'making' if session.filming else 'wrote'} {written['recorded']}, {written['seconds']:.1f} s")


def _finish_films(session: Session, say: Say) -> None:
    if session.filming:
        say("waiting for the film")
    session.close()


def _open_page(
    place: str, port: int, browser: bool, say: Say, ending: threading.Event | None = None
) -> subprocess.Popen[str]:
    """A page in a process of its own, which ends with the server; if it ends before, that is said."""
    command = [sys.executable, "-m", "vivace", "view", place, "--page-port", str(port)]
    command += [] if browser else ["--no-browser"]
    # Not of our group: an interrupt is for the server, and the page ends with that.
    pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    page = subprocess.Popen(command, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload]
    said: list[str] = []
    threading.Thread(target=lambda: said.extend(page.stderr), daemon=True).start()
    waiting = threading.Timer(PAGE_SECONDS, page.kill)
    waiting.start()
    line = page.stdout.readline().strip()
    waiting.cancel()
    if not line:
        page.wait()
        raise InputError(f"the page did not open: {said[-1].strip() if said else 'no reason is known'}")
    say(line)

    def watch() -> None:
        page.wait()
        if ending and not ending.is_set():
            say(f"the page has ended; vivace view {place} opens another")

    threading.Thread(target=watch, daemon=True).start()
    return page


def _end(page: subprocess.Popen[str]) -> None:
    try:
        page.wait(5)
    except subprocess.TimeoutExpired:
        page.kill()
        page.wait()


def run_viewer(place: str, token: str | None, page_port: int, browser: bool, say: Say) -> bool:
    """Show a server's simulation until one of the two ends; gives whether it was the server."""
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"{place!r}: expected HOST:PORT")
    extra("viser", "live")
    connection = Connection(host.strip("[]"), checks.whole("port", int(port), 1, 65535), token)
    page = Page(connection, page_port)
    try:
        address = f"http://127.0.0.1:{page.port}"
        say(f"{connection.hello.name} on {address}")
        if browser:
            webbrowser.open(address)
        page.run()
        return connection.closed
    finally:
        page.close()
        connection.close()


class Live:
    """A simulation that runs in the background of a program or notebook, with a page."""

    def __init__(self, simulation: Simulation, rate: float | None = None, port: int = 0, camera: Camera | None = None):
        rate = 1 / simulation.dt if rate is None else rate
        self.session = Session(simulation, None, default_budget(simulation, rate, "iterations"))
        self.server = LiveServer(self.session, "simulation", rate=rate, camera=camera)
        try:
            self._page = _open_page(f"127.0.0.1:{self.server.port}", port, False, self._told)
        except BaseException:
            self.server.close()
            raise
        self._thread = threading.Thread(target=self.server.run, daemon=True, name="vivace live")
        self._thread.start()

    def _told(self, line: str) -> None:
        self.url = line.rpartition(" ")[2]

    @property
    def simulation(self) -> Simulation:
        """The one that runs now: a change of solver makes another."""
        return self.session.simulation

    def stop(self) -> None:
        """End the page and its processes; the simulation stays as it is."""
        self.server.stop()
        self._thread.join()
        self.server.close()
        _end(self._page)

    def wait(self, seconds: float) -> None:
        """Let it run for a while."""
        time.sleep(checks.number("seconds", seconds, 0))

    def __enter__(self) -> "Live":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.url}" width="100%" height="600" style="border: 0"></iframe>'


def live(simulation: Simulation, rate: float | None = None, port: int = 0, camera: Camera | None = None) -> Live:
    """Run a simulation in the background and show it: in a notebook inline, else open `.url` in a browser.

    rate: steps a second, by default real time. `.stop()` ends it.
    """
    if not isinstance(simulation, Simulation):
        raise InputError(f"live: expected a vivace.Simulation, got {type(simulation).__name__}")
    return Live(simulation, rate, port, camera)

"""The page: a viewer of a server, drawn in a browser by viser."""

import contextlib
import io
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ..checks import extra
from ..io.picture import BODY_COLORS
from .client import Connection
from .protocol import Frame
from .session import MOST_ITERATIONS, MOST_SUBSTEPS

UPDATES = 30.0  # a second, at most
LONGEST_PAUSE = 0.5  # [s] between updates for a browser that takes its time
PLOTTED = 240  # steps
COMPILED = 3  # frames in which kernels are compiled: their times would hide all others
PALETTE = np.array(
    [
        *[(228, 88, 80), (66, 133, 180), (240, 180, 70), (96, 160, 96), (150, 106, 170), (240, 140, 110)],
        *[(90, 190, 190), (190, 120, 60), (130, 130, 200), (200, 100, 150), (120, 120, 120), (170, 200, 90)],
    ],
    np.uint8,
)
CURVES = ("#e67828", "#3a90d8", "#4caf6a", "#b06ac8", "#d8b030", "#888888", "#c85070", "#40b8b0")
AXIS = {"stroke": "#777", "grid": {"stroke": "#e4e4e4", "width": 1}, "ticks": {"stroke": "#e4e4e4"}}


class Page:
    """What a browser shows of a connection, and what it sends back."""

    def __init__(self, connection: Connection, port: int = 8080):
        viser = extra("viser", "live")
        self.connection, self._so3 = connection, extra("viser.transforms", "live").SO3
        with contextlib.redirect_stdout(io.StringIO()):  # it says where it is; so do we
            self.server = viser.ViserServer(host="127.0.0.1", port=port, label=connection.hello.name, verbose=False)
        self.port = self.server.get_port()
        self._asked: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._goals: dict[int, Any] = {}  # where each client's pointer is
        self._handles: dict[int, Any] = {}
        self._known: dict[str, Any] = {}  # settings, as the server has them
        self._shown: dict[str, Any] = {}
        self._wanted: dict[str, Any] = {}  # settings that wait to be sent
        self._round_trip = 0.0
        self._points: deque[dict[str, Any]] = deque(maxlen=PLOTTED)
        self._plotted_at = 0.0
        self._ended = threading.Event()
        self._make_scene()
        self._make_sidebar()
        for work in (self._obey, self._watch_browsers):
            threading.Thread(target=work, daemon=True, name=f"vivace {work.__name__}").start()

    # ---- the scene ----

    def _make_scene(self) -> None:
        scene, hello = self.server.scene, self.connection.hello
        theme = dict(dark_mode=False, show_logo=False, show_share_button=False, brand_color=(200, 90, 60))
        self.server.gui.configure_theme(**theme)
        self.server.gui.main_panel.dock_right()
        scene.set_up_direction("+y")
        low, high = (np.array(corner) for corner in hello.about["start"])
        span, middle = float(np.linalg.norm(high - low)), (low + high) / 2
        ground = hello.about["ground"]
        self._size = span
        camera = hello.about["camera"] or [middle + span * np.array([0.75, 0.5, 1.1]), middle]
        self.server.initial_camera.position, self.server.initial_camera.look_at = tuple(camera[0]), tuple(camera[1])
        self.server.initial_camera.fov = np.radians(35)
        scene.configure_default_lights(enabled=True, cast_shadow=True)
        height = low[1] - 0.9 * span if ground is None else ground
        floor = dict(plane="xz", cell_size=0.25 * span, section_size=span, plane_color=(236, 234, 228))
        floor |= dict(cell_color=(222, 219, 211), section_color=(205, 201, 192))
        at = float(middle[0]), float(height) - 1e-3 * span, float(middle[2])
        scene.add_grid("/ground", 8 * span, 8 * span, position=at, plane_opacity=1.0, shadow_opacity=0.4, **floor)
        self._colliders = {
            str(number): scene.add_mesh_simple(
                f"/colliders/{number}", vertices, triangles, color=(154, 160, 166), side="double"
            )
            for number, (vertices, triangles) in enumerate(hello.colliders)
            if len(triangles)
        }
        self._parts = list(self._make_parts())
        positions, size = np.zeros((hello.about["particles"], 3), np.float32), 0.45 * self._spacing()
        self._painted = scene.add_point_cloud(
            "/paint",
            positions,
            np.zeros(positions.shape, np.uint8),
            point_size=size,
            point_shape="circle",
            precision="float32",
            visible=False,
        )

    def _spacing(self) -> float:
        """About how far particles are apart, to draw them as dots."""
        low, high = (np.array(corner) for corner in self.connection.hello.about["start"])
        extents = np.sort(high - low)[::-1]
        bodies = max(len(self.connection.hello.about["bodies"]), 1)
        return float(
            np.sqrt(max(extents[0] * extents[1], 1e-12) / max(self.connection.hello.about["particles"], 1) * bodies)
        )

    def _make_parts(self) -> Any:
        """Bodies of one color are one mesh; each can be dragged."""
        hello = self.connection.hello
        owner = np.zeros(hello.about["particles"], np.int64)
        for number, (_, first, last) in enumerate(hello.about["bodies"]):
            owner[first:last] = number % len(BODY_COLORS)
        for number, color in enumerate(BODY_COLORS):
            particles = np.flatnonzero(owner == number)
            triangles = hello.triangles[owner[hello.triangles[:, 0]] == number]
            if not len(triangles):
                continue
            place = np.zeros(len(owner), np.int64)
            place[particles] = np.arange(len(particles))
            shown = tuple(int(255 * c) for c in color)
            start = np.zeros((len(particles), 3), np.float32)
            mesh = self.server.scene.add_mesh_simple(
                f"/bodies/{number}",
                start,
                place[triangles].astype(np.uint32),
                color=shown,
                side="double",
                receive_shadow=False,
            )
            mesh.on_drag("left")(self._on_drag)
            yield mesh, particles

    async def _on_drag(self, event: Any) -> None:
        """A ray picks what is grabbed; then the point follows the pointer on a plane that faces the camera."""
        client = event.client_id
        if event.phase == "start":
            camera, (x, y) = event.client.camera, event.start_screen_pos
            half = np.tan(camera.fov / 2)
            ahead = self._so3(camera.wxyz).as_matrix() @ [(2 * x - 1) * half * camera.aspect, (2 * y - 1) * half, 1.0]
            origin = [float(c) for c in camera.position]
            self._goals[client] = None
            self._asked.put(lambda: self._grab(client, origin, [float(c) for c in ahead]))
        elif event.phase == "update":
            waiting = self._goals.get(client) is not None
            self._goals[client] = [float(c) for c in event.end_position]
            if not waiting:  # else what waits will take this one
                self._asked.put(lambda: self._move(client))
        else:
            self._goals[client] = [float(c) for c in event.end_position]
            self._asked.put(lambda: self._move(client))
            self._asked.put(lambda: self._release(client))

    def _grab(self, client: int, origin: list[float], direction: list[float]) -> None:
        place = self.connection.ask("grab", origin=origin, direction=direction, id=client)["grabbed"]
        if place is not None:
            self._handles[client] = self.server.scene.add_icosphere(
                f"/handles/{client}", 0.012 * self._size, (255, 210, 60), position=tuple(place), cast_shadow=False
            )

    def _move(self, client: int) -> None:
        goal, self._goals[client] = self._goals.get(client), None
        if goal is not None and client in self._handles:
            self.connection.ask("move", id=client, to=goal)
            self._handles[client].position = tuple(goal)

    def _release(self, client: int) -> None:
        if client in self._handles:
            self.connection.ask("release", id=client)
            self._handles.pop(client).remove()

    # ---- the sidebar ----

    def _make_sidebar(self) -> None:
        gui, about = self.server.gui, self.connection.hello.about
        self._status = gui.add_markdown("connecting ...")
        buttons = gui.add_button_group("", ("Play", "Pause", "Step", "Reset"))
        buttons.on_click(lambda event: self._ask(event.target.value.lower()))
        with gui.add_folder("Solver"):
            self._controls = {
                "solver": gui.add_dropdown("Solver", about["solvers"]),
                "coloring": gui.add_dropdown(
                    "Coloring", ["-", *about["colorings"]], hint="Of the solvers that have one"
                ),
                "iterations": gui.add_number("Iterations", 8, min=1, max=MOST_ITERATIONS, step=1),
                "substeps": gui.add_number("Substeps", 1, min=1, max=MOST_SUBSTEPS, step=1),
                "budget_ms": gui.add_number(
                    "Budget ms", 0.0, min=0.0, step=0.5, hint="0: no budget, what is set is done"
                ),
            }
        with gui.add_folder("Physics"):
            self._controls |= {
                "stiffness": gui.add_slider("Stiffness", -3.0, 3.0, 0.1, 0.0, hint="A factor of ten for each 1"),
                "damping": gui.add_slider("Damping", 0.0, 10.0, 0.1, 0.0, hint="1/s"),
                "gravity": gui.add_vector3("Gravity", (0.0, 0.0, 0.0), step=0.01, hint="m/s²"),
            }
        with gui.add_folder("View"):
            self._controls["paint"] = gui.add_dropdown("Paint by", about["paints"])
        for name, control in self._controls.items():
            control.on_update(lambda _, name=name: self._changed(name))
        with gui.add_folder("Record", expand_by_default=False):
            seconds, name = gui.add_number("Last seconds", 5.0, min=0.1), gui.add_text("File", "live.mp4")
            gui.add_button("Write").on_click(lambda _: self._ask("record", seconds=seconds.value, path=name.value))
        with gui.add_folder("Plots"):
            self._plots = {
                "residual": self._plot("Residual, RMS", about["groups"][:3], {"y": {"distr": 3}}),
                "milliseconds": self._plot("Milliseconds a step", ["total", "budget", *about["stages"][:6]]),
                "iterations": self._plot("Iterations x substeps", ["in all"]),
                "contacts": self._plot("Contacts", ["contacts"]),
            }

    def _plot(self, title: str, names: list[str], scales: dict[str, Any] | None = None) -> Any:
        empty = tuple(np.zeros(2) for _ in range(len(names) + 1))
        curves = [{"label": name, "stroke": color, "width": 1.5} for name, color in zip(names, CURVES)]
        settings = dict(height=190, scales={"x": {"time": False}, **(scales or {})}, axes=(AXIS, AXIS))
        return self.server.gui.add_uplot(empty, ({"label": "frame"}, *curves), title=title, **settings)

    def _ask(self, do: str, **arguments: Any) -> None:
        self._asked.put(lambda: self._told(self.connection.ask(do, **arguments)))

    def _told(self, answer: dict[str, Any]) -> None:
        if "recorded" in answer:
            self._say(f"writing {answer['recorded']}, {answer['seconds']:.1f} s")

    def _changed(self, name: str) -> None:
        """A control was changed, by a user, or by us to show what the server has."""
        value = self._read(name, self._controls[name].value)
        if value == self._shown.get(name) or (name == "coloring" and value == "-"):
            return
        self._shown[name] = value
        waiting, self._wanted[name] = name in self._wanted, value
        if not waiting:  # else what waits will take this one
            self._asked.put(lambda: self._set(name))

    def _set(self, name: str) -> None:
        self.connection.ask("set", name=name, value=self._wanted.pop(name))

    @staticmethod
    def _read(name: str, value: Any) -> Any:
        """What a control's value says to the server."""
        if name == "budget_ms":
            return value or None
        if name == "stiffness":
            return 10.0**value
        return [float(c) for c in value] if name == "gravity" else value

    def _show_settings(self, settings: dict[str, Any]) -> None:
        for name, value in settings.items():
            if name in self._controls and self._known.get(name, self) != value:
                self._known[name] = value
                self._shown[name] = self._read(name, _as_shown(name, value))
                self._controls[name].value = _as_shown(name, value)

    def _say(self, text: str) -> None:
        for client in self.server.get_clients().values():
            client.add_notification("vivace", text, auto_close_seconds=6.0)

    def _obey(self) -> None:
        """What the browser asks, one after the other; the server answers between two steps."""
        while (work := self._asked.get()) is not None:
            try:
                work()
            except Exception as problem:  # whatever it was, the next is obeyed
                self._say(str(problem))
                self._known.clear()  # show again what the server has

    # ---- frames ----

    def run(self) -> None:
        """Draw what comes until the connection is over or the page is closed."""
        while not self._ended.is_set():
            began = time.perf_counter()
            frame = self.connection.next_frame(timeout=0.5)
            if frame is not None:
                self._draw(frame)
                pause = min(max(1 / UPDATES, self._round_trip), LONGEST_PAUSE)
                self._ended.wait(max(began + pause - time.perf_counter(), 0))
            elif self.connection.closed:
                break

    def close(self) -> None:
        self._ended.set()
        self._asked.put(None)
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()

    def _draw(self, frame: Frame) -> None:
        report = frame.report
        with self.server.atomic():
            for mesh, particles in self._parts:
                mesh.vertices = frame.positions[particles]
                mesh.opacity = None if frame.paint is None else 0.0  # it is not seen, but can still be dragged
            self._painted.visible = frame.paint is not None
            if frame.paint is not None:
                self._painted.points, self._painted.colors = frame.positions, _colors(frame.paint, report["settings"])
            for number, pose in report["poses"].items():
                if number in self._colliders:
                    pose = np.array(pose)
                    self._colliders[number].position = tuple(pose[:, 3])
                    self._colliders[number].wxyz = tuple(self._so3.from_matrix(pose[:, :3]).wxyz)
        self._show_settings(report["settings"])
        if report["step"] and report["step"]["frame"] > COMPILED:
            self._points.append({**report["step"], "budget": report["settings"]["budget_ms"]})
        if time.perf_counter() - self._plotted_at > 0.25:
            self._plotted_at = time.perf_counter()
            self._show_report(report)

    def _show_report(self, report: dict[str, Any]) -> None:
        state = "playing" if report["playing"] else "paused"
        text = f"**{state}**, {report['time']:.2f} s, frame {report['frame']}, {report['steps_a_second']:.0f} a second"
        step = report["step"]
        if step:
            total = step["milliseconds"]["total"]
            text += f"\n\n{total:.1f} ms a step, {step['substeps']} x {step['iterations']}, {step['threads']} threads"
            text += f" on each of {step['ranks']} ranks" if step["ranks"] > 1 else ""
        if report["problem"]:
            text += f"\n\n**{report['problem']}**"
        self._status.content = text
        points = list(self._points)
        if len(points) < 2:
            return
        frames = np.array([point["frame"] for point in points], float)
        if (np.diff(frames) <= 0).any():  # it was reset
            self._points.clear()
            return
        groups = self.connection.hello.about["groups"][:3]
        residuals = [[max(point["residual"][name]["rms"], 1e-9) for point in points] for name in groups]
        self._plots["residual"].data = (frames, *np.array(residuals))
        names = ["total", *self.connection.hello.about["stages"][:6]]
        times = np.array([[point["milliseconds"].get(name, 0.0) for point in points] for name in names])
        times = np.minimum(times, 4 * np.median(times[0]))  # a rare long step would hide all others
        budgets = np.array([point["budget"] or 0.0 for point in points])
        self._plots["milliseconds"].data = (frames, times[0], budgets, *times[1:])
        self._plots["iterations"].data = frames, np.array([p["iterations"] * p["substeps"] for p in points], float)
        self._plots["contacts"].data = (
            frames,
            np.array([(point["touches"] or {"contacts": 0})["contacts"] for point in points], float),
        )

    def _watch_browsers(self) -> None:
        """How long a browser takes to answer: one that is behind gets fewer updates, or they would pile up in it."""
        while not self._ended.is_set():
            longest = 0.0
            for client in list(self.server.get_clients().values()):
                asked = time.perf_counter()
                with contextlib.suppress(RuntimeError, TimeoutError, OSError):
                    client.local_storage.get_item("vivace", timeout=1.0)
                longest = max(longest, time.perf_counter() - asked)
            self._round_trip = longest
            self._ended.wait(0.2)


def _as_shown(name: str, value: Any) -> Any:
    """A setting as its control shows it."""
    if name == "stiffness":
        return round(float(np.log10(value)), 3)
    if value is None:
        return "-" if name == "coloring" else 0.0
    return tuple(value) if name == "gravity" else value


def _colors(paint: np.ndarray, settings: dict[str, Any]) -> np.ndarray:
    """RGB of each particle: one of some for its partition, else from blue over yellow to red."""
    if settings["paint"] == "partition":
        return PALETTE[paint % len(PALETTE)]
    share = paint[:, None] / 255
    low, middle, high = np.array([60, 110, 190]), np.array([245, 225, 130]), np.array([215, 50, 45])
    first, second = low + 2 * share * (middle - low), middle + (2 * share - 1) * (high - middle)
    return np.where(share < 0.5, first, second).astype(np.uint8)

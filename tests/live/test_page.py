"""The page in a real browser, against a real server: what a user sees, drags and clicks."""

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers import SOURCE
from vivace.live.client import Connection
from vivace.picking import hit_by_ray

from .conftest import until

pytest.importorskip("viser", reason="the page needs viser: pip install 'vivace[live]'")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser; it comes with [dev]")
image = pytest.importorskip("imageio.v3", reason="pictures are read by imageio: pip install 'vivace[render]'")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser: apt-get install chromium")
GL = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
EYE, TARGET, FOV = (0.0, 1.2, 2.2), (0.0, 0.0, 0.0), np.radians(35)
SCENE = f"""
import vivace as vv

CAMERA = vv.Camera({EYE}, {TARGET})
SETTINGS = vv.Settings(iterations=10, damping=3.0)


def scene():
    made = vv.Scene(gravity=(0, 0, 0))
    made.add_cloth(vv.Mesh.grid(16, 16, size=(1, 1)))
    return made
"""


def started(command, pattern, folder):
    """A command of vivace that runs on, and what it says of its address."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "vivace", *command], stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
    )
    line = process.stdout.readline()
    found = re.search(pattern, line)
    assert found, line
    return process, found[1]


def newest(connection, condition=lambda frame: True, seconds=20):
    return until(lambda: (frame := connection.next_frame(1)) and condition(frame) and frame, seconds)


def keep(page, folder, name):
    """A screenshot as numbers, which is also kept where VIVACE_SCREENSHOTS says."""
    picture = page.screenshot()
    kept = Path(os.environ.get("VIVACE_SCREENSHOTS", folder))
    kept.mkdir(exist_ok=True)
    (kept / f"{name}.png").write_bytes(picture)
    return image.imread(io.BytesIO(picture))[:, :, :3].astype(int)


def red(picture):
    """Where the cloth is, to look at its color."""
    return (
        (picture[..., 0] > 120) & (picture[..., 0] > 1.3 * picture[..., 1]) & (picture[..., 0] > 1.3 * picture[..., 2])
    )


class Lens:
    """The camera that the page begins with."""

    def __init__(self, box):
        self.box = box
        forward = np.subtract(TARGET, EYE) / np.linalg.norm(np.subtract(TARGET, EYE))
        right = np.cross(forward, (0, 1, 0))
        right /= np.linalg.norm(right)
        self.axes = right, np.cross(forward, right), forward  # right, down, ahead

    def ray(self, x, y):
        half = np.tan(FOV / 2)
        u = (2 * (x - self.box["x"]) / self.box["width"] - 1) * half * self.box["width"] / self.box["height"]
        v = (2 * (y - self.box["y"]) / self.box["height"] - 1) * half
        return u * self.axes[0] + v * self.axes[1] + self.axes[2]

    def on_plane(self, point, x, y):
        """Where a pixel's ray meets the plane through a point that faces the camera."""
        ray = self.ray(x, y)
        return np.array(EYE) + ray * np.dot(np.subtract(point, EYE), self.axes[2])


@pytest.fixture
def served(tmp_path):
    """A server, a page and a viewer of the same simulation; all end with the test."""
    (tmp_path / "cloth.py").write_text(SCENE)
    processes = []
    try:
        server, place = started(["serve", "cloth.py", "--port", "0"], r"on (\S+);", tmp_path)
        processes.append(server)
        viewer, url = started(["view", place, "--no-browser", "--page-port", "0"], r"on (http\S+)", tmp_path)
        processes.append(viewer)
        host, _, port = place.rpartition(":")
        connection = Connection(host, int(port), quantized=False)
        yield url, connection, processes
        connection.close()
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_user_watches_drags_pauses_resets_and_changes_the_solver(served, tmp_path):
    url, connection, _ = served
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=GL)
        try:
            page = browser.new_page(viewport={"width": 900, "height": 560})
            empty = keep(page, tmp_path, "empty")
            page.goto(url)
            canvas = page.locator("canvas").first
            canvas.wait_for(timeout=30_000)
            page.get_by_text("Solver").first.wait_for(timeout=30_000)
            until(lambda: red(keep(page, tmp_path, "loaded")).sum() > 5_000, seconds=60)
            shown = keep(page, tmp_path, "loaded")
            assert (np.abs(shown - empty).max(axis=2) > 20).mean() > 0.2 and red(empty).sum() == 0

            drag(page, connection, canvas, tmp_path)

            page.get_by_role("button", name="Pause").click()
            paused = newest(connection, lambda frame: not frame.report["playing"])
            page.wait_for_timeout(500)
            connection.ask("step", frames=1)  # a frame to look at: time has stood still until then
            later = newest(connection, lambda frame: frame.report["frame"] > paused.report["frame"])
            assert later.report["frame"] == paused.report["frame"] + 1

            page.get_by_role("button", name="Reset").click()
            start = newest(connection, lambda frame: frame.report["frame"] == 0)
            assert np.abs(start.positions[:, 1]).max() == 0  # flat again

            page.get_by_role("combobox").first.click()
            page.get_by_role("option", name="averaged-jacobi").click()
            newest(connection, lambda frame: frame.report["settings"]["solver"] == "averaged-jacobi")
            page.get_by_role("button", name="Play").click()
            later = newest(connection, lambda frame: frame.report["frame"] > 3)
            assert later.report["step"]["colors"]["stretch"] == 1
            keep(page, tmp_path, "changed")
        finally:
            browser.close()


def drag(page, connection, canvas, folder):
    """From the middle of the cloth aside: the point under the pointer goes along, and the cloth with it."""
    lens, before = Lens(canvas.bounding_box()), newest(connection)
    x, y = lens.box["x"] + 0.5 * lens.box["width"], lens.box["y"] + 0.5 * lens.box["height"]
    hit = hit_by_ray(EYE, lens.ray(x, y), before.positions, connection.hello.triangles)
    to_x, to_y = x + 90, y - 50
    goal = lens.on_plane(hit.point, to_x, to_y)
    page.mouse.move(x, y)
    page.mouse.down()
    for share in np.linspace(0, 1, 12)[1:]:
        page.mouse.move(x + share * 90, y - share * 50)
        page.wait_for_timeout(100)
    held = lambda frame: np.array(hit.shares) @ frame.positions[list(hit.particles)]  # noqa: E731
    distance = np.linalg.norm(goal - hit.point)
    moved = newest(connection, lambda frame: np.linalg.norm(held(frame) - goal) < 0.1 * distance, seconds=30)
    keep(page, folder, "dragged")
    page.mouse.up()
    followed = moved.positions.mean(axis=0) - before.positions.mean(axis=0)
    assert distance > 0.1 and np.dot(followed, goal - hit.point) > 0.3 * distance**2


def test_the_server_has_a_page_of_its_own_for_large_meshes(served, tmp_path):
    """Frames go to the graphics card as they come; drag and keys as on the other."""
    _, connection, _ = served
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=GL)
        try:
            page, problems = browser.new_page(viewport={"width": 700, "height": 440}), []
            page.on("pageerror", lambda problem: problems.append(str(problem)))
            page.goto(f"http://{connection.address}/")
            canvas = page.locator("canvas").first
            until(lambda: red(keep(page, tmp_path, "own")).sum() > 5_000, seconds=60)
            frames = page.evaluate("window.vivace.frames")
            until(lambda: page.evaluate("window.vivace.frames") > frames + 5, seconds=60)

            drag(page, connection, canvas, tmp_path)
            page.keyboard.press(" ")
            newest(connection, lambda frame: not frame.report["playing"])
            page.keyboard.press("r")
            start = newest(connection, lambda frame: frame.report["frame"] == 0)
            assert np.abs(start.positions[:, 1]).max() == 0

            before = keep(page, tmp_path, "own-reset")
            page.mouse.move(30, 200)  # the background: orbit
            page.mouse.down()
            page.mouse.move(130, 240, steps=5)
            page.mouse.up()
            until(lambda: (np.abs(keep(page, tmp_path, "own-turned") - before) > 20).mean() > 0.02)
            assert page.evaluate("window.vivace.grabbed") is None and not problems
        finally:
            browser.close()


def test_the_server_goes_on_without_its_page_and_the_page_ends_with_its_server(served):
    _, connection, (server, viewer) = served
    frame = newest(connection).report["frame"]
    viewer.kill()
    viewer.wait()
    assert newest(connection, lambda later: later.report["frame"] > frame + 10)

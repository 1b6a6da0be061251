"""A server with a small scene, in this process; viewers and attackers connect to it."""

import threading
import time

import pytest

import vivace as vv
from vivace.live.client import Connection
from vivace.live.server import LiveServer
from vivace.live.session import Session


def until(condition, seconds=20.0):
    """Waits until it holds, and gives what it gave."""
    end = time.perf_counter() + seconds
    while not (value := condition()):
        assert time.perf_counter() < end, "waited in vain"
        time.sleep(0.01)
    return value


class Running:
    """A server that steps in a thread."""

    def __init__(self, side=20, **options):
        pytest.importorskip("websockets")
        scene = vv.Scene()
        scene.add_cloth(vv.Mesh.grid(side, side, size=(1, 1))).pin([0, side - 1])
        scene.add_collider(vv.Sphere(0.2, center=(0, -0.6, 0)))
        self.session = Session(vv.Simulation(scene, iterations=4, threads=1, damping=1.0))
        self.server = LiveServer(self.session, "cloth", **options)
        self.connections, self.failure = [], None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            self.server.run()
        except vv.SimulationError as problem:
            self.failure = problem

    def connect(self, **options):
        self.connections.append(Connection("127.0.0.1", self.server.port, **options))
        return self.connections[-1]

    @property
    def frame(self):
        return self.session.simulation.frame

    def close(self):
        for connection in self.connections:
            connection.close()
        self.server.stop()
        self.thread.join(10)
        self.server.close()
        assert not self.thread.is_alive()


@pytest.fixture
def running():
    made = []

    def run(**options):
        made.append(Running(**options))
        return made[-1]

    yield run
    for one in made:
        one.close()

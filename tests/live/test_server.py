"""Viewers come, go, stop and talk nonsense; the simulation goes on."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import psutil
import pytest

import vivace as vv
from helpers import SOURCE
from vivace.live import protocol
from vivace.live.client import Connection
from vivace.live.server import LiveServer

from .conftest import until

websockets = pytest.importorskip("websockets.sync.client")


def raw(running, **options):
    return websockets.connect(f"ws://127.0.0.1:{running.server.port}", max_size=None, compression=None, **options)


def frame_with(connection, condition, seconds=10.0):
    return until(lambda: (frame := connection.next_frame(1)) and condition(frame) and frame, seconds)


def test_a_viewer_sees_what_is_simulated(running):
    one = running(port=0)
    connection = one.connect()
    hello, model = connection.hello, one.session.simulation.model
    assert hello.name == "cloth" and (hello.triangles == model.triangles).all()
    assert hello.about["particles"] == 400 and len(hello.colliders) == 1 and len(hello.colliders[0][1]) > 50
    connection.ask("pause")
    frame = frame_with(connection, lambda frame: not frame.report["playing"])
    while (newer := connection.next_frame(0.3)) is not None:
        frame = newer
    positions = one.session.simulation.positions
    assert frame.report["frame"] == one.frame and frame.normals is None
    np.testing.assert_allclose(frame.positions, positions, atol=np.ptp(positions, axis=0).max() / 65535)


def test_a_viewer_gets_what_it_wants(running):
    one = running()
    connection = one.connect(normals=True, quantized=False)
    connection.next_frame(10)
    connection.ask("pause")
    connection.ask("set", name="paint", value="stretch")
    frame = frame_with(connection, lambda frame: frame.paint is not None)
    assert (frame.positions == one.session.simulation.positions).all()
    np.testing.assert_allclose(np.linalg.norm(frame.normals, axis=1), 1, atol=0.02)


def test_commands_are_done_and_answered(running):
    one = running()
    connection = one.connect()
    assert connection.ask("pause") == {}
    frame = one.frame
    time.sleep(0.1)
    assert one.frame == frame
    connection.ask("step", frames=3)
    until(lambda: one.frame == frame + 3)
    assert connection.ask("grab", vertex=50)["grabbed"] is not None
    with pytest.raises(vv.InputError, match="unknown solver"):
        connection.ask("set", name="solver", value="magic")
    connection.ask("reset")
    assert one.frame == 0
    connection.close()
    until(lambda: not one.session.simulation.control.holds)


def test_a_slow_viewer_gets_the_newest_frame_and_a_quick_one_every_one(running):
    one = running()
    slow, quick = one.connect(), one.connect()
    counts, ended = [], threading.Event()

    def watch():
        while not ended.is_set():
            frame = quick.next_frame(0.5)
            counts.append(frame.number)

    thread = threading.Thread(target=watch)
    thread.start()
    numbers = []
    for _ in range(5):
        numbers.append(slow.next_frame(5).number)
        time.sleep(0.3)
    ended.set()
    thread.join()
    assert np.diff(numbers).min() > 5
    assert len(counts) > 0.5 * (counts[-1] - counts[0])  # it does not wait for the slow one


STOPPABLE = """
import sys, time
from vivace.live.client import Connection
connection = Connection("127.0.0.1", int(sys.argv[1]))
while (frame := connection.next_frame(30)) is not None:
    print(frame.number, flush=True)
"""


def test_a_viewer_that_is_stopped_slows_nobody_down(running):
    one = running(side=60)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", STOPPABLE, str(one.server.port)]
    viewer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    seen = []
    threading.Thread(target=lambda: seen.extend(map(int, viewer.stdout)), daemon=True).start()
    other = one.connect()
    try:
        until(lambda: len(seen) > 30)

        def steps_and_frames(seconds):
            """Steps of the simulation, and frames that the other viewer saw, in a while."""
            end, first, frames = time.perf_counter() + seconds, one.frame, 0
            while time.perf_counter() < end:
                frames += other.next_frame(1) is not None
            return one.frame - first, frames

        for _ in range(5):  # others on this machine may have their own share of it
            steps_and_frames(0.5)
            both, _ = steps_and_frames(2)
            viewer.send_signal(signal.SIGSTOP)
            alone, frames = steps_and_frames(2)
            count, resumed = len(seen), time.perf_counter()
            viewer.send_signal(signal.SIGCONT)
            until(lambda count=count: len(seen) > count + 2 and one.server.broadcaster._number - seen[-1] < 10)
            late = time.perf_counter() - resumed
            if abs(alone - both) <= 0.05 * both + 1 and frames >= 0.95 * alone - 1 and late < 1:
                return
        pytest.fail(f"{both} steps with it, {alone} while it was stopped, {frames} seen; back after {late:.2f} s")
    finally:
        viewer.kill()
        viewer.wait()


def test_viewers_that_are_killed_leave_nothing_behind(running):
    one = running()
    process = psutil.Process(one.server.broadcaster.pid)

    def come_and_go():
        connection = Connection("127.0.0.1", one.server.port)
        connection.next_frame(5)
        connection._socket.socket.shutdown(socket.SHUT_RDWR)  # as if it had been killed: no farewell

    for _ in range(5):
        come_and_go()
    time.sleep(0.5)
    before = process.num_fds(), process.num_threads(), process.memory_info().rss, psutil.Process().num_threads()
    for _ in range(20):
        come_and_go()
    until(lambda: process.num_fds() <= before[0])
    assert process.num_threads() <= before[1]
    assert process.memory_info().rss < before[2] + 20e6
    assert psutil.Process().num_threads() <= before[3] + 3  # viewers' own threads may still be ending


def nonsense(generator, count):
    """Random bytes, cut off messages, messages with a byte changed, and valid ones at the wrong time."""
    valid = [
        protocol.encode_ack(3, {}),
        protocol.encode_ack(10**8, {"normals": True}),
        protocol.encode_command({"do": "grab", "origin": [0, 1, 0], "direction": [0, -1, 0], "id": 1}),
        protocol.encode_command({"do": "set", "name": "damping", "value": 1.0}),
        protocol.encode_command({"do": "move", "id": 7, "to": [0, 0, 1e8]}),
    ]
    for i in range(count):
        message = bytearray(valid[int(generator.integers(len(valid)))])
        kind = i % 4
        if kind == 0:
            yield generator.bytes(int(generator.integers(0, 300)))
        elif kind == 1:
            yield bytes(message[: int(generator.integers(0, len(message)))])
        elif kind == 2:
            message[int(generator.integers(len(message)))] = int(generator.integers(256))
            yield bytes(message)
        else:
            yield "text" if i % 8 == 3 else bytes(message)


def test_nonsense_is_answered_or_refused_and_the_simulation_goes_on(running):
    from websockets.exceptions import ConnectionClosed

    one = running()
    process = psutil.Process(one.server.broadcaster.pid)
    messages, sent, memory, first = nonsense(np.random.default_rng(1), 10_000), 0, 0, one.frame
    while sent < 10_000:
        with raw(one, close_timeout=0.1) as connection, contextlib.suppress(ConnectionClosed):
            for message in messages:
                sent += 1
                connection.send(message)
        if sent > 2000 and not memory:
            memory = process.memory_info().rss
    assert one.frame > first and one.server.broadcaster.alive
    assert process.memory_info().rss < memory + 30e6
    fresh = one.connect()
    assert fresh.next_frame(5) is not None and fresh.ask("pause") == {}


def test_a_crowd_that_asks_for_new_solvers_does_not_stop_the_steps(running):
    one = running()
    crowd, ended = [one.connect() for _ in range(8)], threading.Event()

    def ask(connection):
        while not ended.is_set():
            connection.ask("set", name="solver", value="gauss-seidel")

    threads = [threading.Thread(target=ask, args=(connection,)) for connection in crowd]
    for thread in threads:
        thread.start()
    first = one.frame
    until(lambda: one.frame > first + 20, seconds=20)
    ended.set()
    for thread in threads:
        thread.join()


def test_what_is_malformed_is_not_even_sent(running):
    connection = running().connect()
    for command in (dict(name="gravity", value=[0, -2e10, 0]), dict(name="gravity\n", value=1)):
        with pytest.raises(vv.InputError, match="set: "):
            connection.ask("set", **command)
    assert connection.ask("pause") == {}


def test_a_message_that_is_too_long_or_malformed_gets_an_error_and_the_end(running):
    one = running()
    from websockets.exceptions import ConnectionClosed

    with raw(one) as connection:
        connection.recv()
        connection.send(b"\x01\x06nonsense")
        with pytest.raises(ConnectionClosed):
            while True:
                heard = protocol.decode_from_server(connection.recv(timeout=5))
                if isinstance(heard, dict):
                    assert "error" in heard
                    message = heard["error"]
        assert message
    with raw(one) as connection:
        connection.send(b"\x01\x06" + bytes(protocol.MOST_COMMAND_BYTES))
        with pytest.raises(ConnectionClosed):
            while True:
                connection.recv(timeout=5)


def test_a_page_from_elsewhere_and_a_wrong_token_are_refused(running):
    one = running(token="sesame")
    with pytest.raises(vv.InputError, match="wants a token"):
        Connection("127.0.0.1", one.server.port)
    with pytest.raises(vv.InputError, match="wrong token"):
        Connection("127.0.0.1", one.server.port, "other")
    assert one.connect(token="sesame").next_frame(5) is not None
    from websockets.exceptions import InvalidStatus

    with pytest.raises(InvalidStatus) as caught:
        raw(one, origin="http://example.org", additional_headers={"Authorization": "Bearer sesame"})
    assert caught.value.response.status_code == 403
    with pytest.raises(HTTPError) as refused:
        urlopen(f"http://127.0.0.1:{one.server.port}/")
    assert refused.value.code == 401
    assert b"<canvas" in urlopen(f"http://127.0.0.1:{one.server.port}/?token=sesame").read()


def test_a_browser_is_let_in_from_our_own_page_alone(running):
    one = running()
    from websockets.exceptions import InvalidStatus

    place = f"127.0.0.1:{one.server.port}"
    with raw(one, origin=f"http://{place}") as connection:
        assert connection.recv()
    for origin, host in (
        (f"http://127.0.0.1:{one.server.port + 1}", place),
        ("http://evil:80", "evil:80"),
        ("null", place),
    ):
        with pytest.raises(InvalidStatus) as caught:
            address = f"ws://{host}"
            websockets.connect(address, sock=socket.create_connection(("127.0.0.1", one.server.port)), origin=origin)
        assert caught.value.response.status_code == 403
    with pytest.raises(HTTPError):
        urlopen(f"http://{place}/other")


def test_only_loopback_goes_without_a_token(running):
    one = running()
    with pytest.raises(vv.InputError, match=r"0\.0\.0\.0 can be reached by others"):
        LiveServer(one.session, "cloth", host="0.0.0.0")


def test_a_port_in_use_and_a_host_that_does_not_answer_are_named(running):
    one = running()
    with pytest.raises(vv.InputError, match=f"cannot listen on 127.0.0.1:{one.server.port}"):
        LiveServer(one.session, "cloth", port=one.server.port)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(vv.InputError, match=f"cannot connect to 127.0.0.1:{port}"):
        Connection("127.0.0.1", port)


def test_a_server_of_something_else_is_no_vivace_server():
    from websockets.sync.server import serve

    with serve(lambda connection: connection.send(b"hello"), "127.0.0.1", 0) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(vv.InputError, match="no vivace server"):
            Connection("127.0.0.1", other.socket.getsockname()[1])
        other.shutdown()


def test_the_end_of_the_process_for_viewers_ends_the_run(running):
    one = running()
    one.server.broadcaster._process.kill()
    one.thread.join(10)
    assert "has ended" in str(one.failure)


def test_ten_thousand_vertices_take_a_small_part_of_a_core_to_send(running):
    """The cost of encoding and sending; how fast it is in detail is a matter of benchmarks."""
    one = running(side=100, rate=30)
    connection = one.connect(normals=True)
    process = psutil.Process(one.server.broadcaster.pid)
    for _ in range(30):
        connection.next_frame(5)
    used, frames = sum(process.cpu_times()[:2]), 0
    for _ in range(90):
        frames += connection.next_frame(5) is not None
    assert frames == 90
    assert (sum(process.cpu_times()[:2]) - used) / 3 < 0.3

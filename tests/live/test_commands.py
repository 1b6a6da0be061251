"""The commands live, serve and view: what they say, how they end, and that nothing of them stays behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from helpers import SOURCE

from .conftest import until

pytest.importorskip("viser")
SMALL = """
import vivace as vv

def scene():
    made = vv.Scene()
    made.add_cloth(vv.Mesh.grid(8, 8)).pin([0])
    return made
"""


def vivace(folder, *arguments, **options):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
    environment.pop("VIVACE_TOKEN", None)
    command = [sys.executable, "-m", "vivace", *map(str, arguments)]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen(command, env=environment, cwd=folder, **pipes, **options)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "small.py").write_text(SMALL)
    (tmp_path / "raises.py").write_text("def scene():\n    return 1 / 0\n")
    return tmp_path


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["serve", "raises.py"], "raises.py: scene() raised ZeroDivisionError in line 2"),
        (["serve", "nothing"], "unknown scene 'nothing'"),
        (["serve", "small.py", "--rate", "0"], "rate"),
        (["serve", "small.py", "--solver", "magic"], "unknown solver 'magic'"),
        (["serve", "small.py", "--recordings", "nowhere"], "there is no folder nowhere"),
        (["serve", "small.py", "--replay", "none.json"], "cannot read none.json"),
        (["serve", "small.py", "--record", "nowhere/s.json"], "there is no folder nowhere"),
        (["serve", "small.py", "--out", "nowhere/s.npz"], "there is no folder nowhere"),
        (["serve", "small.py", "--host", "203.0.113.7", "--port", "0"], "cannot listen on 203.0.113.7:0"),
        (["live", "raises.py", "--no-browser"], "scene() raised ZeroDivisionError"),
        (["view", "nonsense"], "expected HOST:PORT"),
        (["view", "127.0.0.1:1"], "cannot connect to 127.0.0.1:1"),
        (["view", "127.0.0.1:99999"], "port"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(folder, arguments, message):
    process = vivace(folder, *arguments)
    out, complaint = process.communicate(timeout=100)
    assert process.returncode == 2, complaint
    lines = [line for line in complaint.splitlines() if "compiling kernels" not in line]
    assert len(lines) == 1 and message in lines[0] and not out


def test_a_port_in_use_and_a_wrong_token(folder):
    server = vivace(folder, "serve", "small.py", "--port", "0", "--token", "sesame")
    try:
        line = server.stdout.readline()
        place = line.split(" on ")[1].split(";")[0]
        assert "--token sesame" in line
        for arguments, message in (
            (["serve", "small.py", "--port", place.split(":")[1]], f"cannot listen on {place}"),
            (["view", place], "it wants a token"),
            (["view", place, "--token", "other"], "wrong token"),
        ):
            process = vivace(folder, *arguments)
            complaint = process.communicate(timeout=100)[1]
            assert process.returncode == 2 and message in complaint.splitlines()[-1]
    finally:
        server.kill()
        server.communicate()


def test_another_address_than_loopback_gets_a_token_that_is_printed(folder):
    server = vivace(folder, "serve", "small.py", "--host", "0.0.0.0", "--port", "0", "--frames", "3")
    out, _ = server.communicate(timeout=100)
    token = out.split("--token ")[1].split()[0]
    assert server.returncode == 0 and len(token) > 15


def test_an_interrupt_ends_all_processes_and_saves_what_was_done(folder):
    process = vivace(folder, "live", "small.py", "--no-browser", "--page-port", "0", "--record", "session.json")
    assert "small.py on http://127.0.0.1:" in process.stdout.readline()
    children = until(lambda: len(found := psutil.Process(process.pid).children(recursive=True)) >= 2 and found)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, complaint = process.communicate(timeout=30)
    assert process.returncode == 130
    assert [line for line in complaint.splitlines() if "compiling" not in line] == ["vivace: stopped"]
    assert "session.json" in out
    assert len(json.loads((folder / "session.json").read_text())["frames"]) > 10
    until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children), 10)


def test_a_killed_server_leaves_no_process_behind(folder):
    process = vivace(folder, "live", "small.py", "--no-browser", "--page-port", "0")
    process.stdout.readline()
    children = until(lambda: len(found := psutil.Process(process.pid).children(recursive=True)) >= 2 and found)
    process.kill()
    process.communicate()
    until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children), 20)


def test_a_recorded_session_is_replayed_by_the_command_to_the_same_bits(folder):
    first = [
        "serve",
        "small.py",
        "--port",
        "0",
        "--frames",
        "30",
        "--record",
        "s.json",
        "--out",
        "a.npz",
        "--last",
        "0.2",
    ]
    again = [
        "serve",
        "small.py",
        "--port",
        "0",
        "--frames",
        "30",
        "--replay",
        "s.json",
        "--out",
        "b.npz",
        "--last",
        "0.2",
    ]
    for arguments in (first, again):
        process = vivace(folder, *arguments)
        _, complaint = process.communicate(timeout=100)
        assert process.returncode == 0, complaint
    with np.load(folder / "a.npz") as a, np.load(folder / "b.npz") as b:
        assert len(a["positions"]) == 12 and (a["positions"] == b["positions"]).all()
    process = vivace(folder, "serve", "small.py", "--port", "0", "--frames", "99", "--replay", "s.json")
    assert process.communicate(timeout=100) and process.returncode == 0  # it ends with what was saved
    process = vivace(folder, "serve", "small.py", "--replay", "s.json", "--solver", "xpbd")
    assert "leave out --solver" in process.communicate(timeout=100)[1] and process.returncode == 2
    (folder / "other.py").write_text(SMALL)
    process = vivace(folder, "serve", "other.py", "--replay", "s.json")
    assert "session of small.py, not of other.py" in process.communicate(timeout=100)[1]


def test_a_viewer_that_is_interrupted_says_so(folder):
    server = vivace(folder, "serve", "small.py", "--port", "0")
    try:
        place = server.stdout.readline().split(" on ")[1].split(";")[0]
        viewer = vivace(folder, "view", place, "--no-browser", "--page-port", "0")
        viewer.stdout.readline()
        viewer.send_signal(signal.SIGINT)
        assert viewer.communicate(timeout=30)[1].splitlines()[-1] == "vivace: stopped" and viewer.returncode == 130
        viewer = vivace(folder, "view", place, "--no-browser", "--page-port", "0")
        viewer.stdout.readline()
        server.send_signal(signal.SIGINT)
        assert "has closed the connection" in viewer.communicate(timeout=30)[1] and viewer.returncode == 0
    finally:
        server.kill()
        server.communicate()


def test_a_host_that_accepts_and_says_nothing_is_given_up(folder, monkeypatch):
    import vivace as vv
    from vivace.live import client

    monkeypatch.setattr(client, "PATIENCE", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(vv.InputError, match="it does not answer"):
            client.Connection("127.0.0.1", silent.getsockname()[1])

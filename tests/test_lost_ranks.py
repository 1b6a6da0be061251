"""Ranks that are killed, stopped or cut off: the job ends or goes on, and nothing is lost."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from jobs import MPIEXEC, SCENE, frame_of, kill_a_rank, needs_mpiexec, ranks_of, started, vivace
from vivace.cluster import launch
from vivace.cluster.launch import mpiexec_command, supervise
from vivace.cluster.watchdog import Pulse, Watch

pytest.importorskip("mpi4py", reason="needs pip install 'vivace[mpi]'")


@needs_mpiexec
def test_runs_killed_at_any_frame_go_on_on_another_number_of_ranks_to_the_same_bits(tmp_path):
    frames, generator, resumed = 60, np.random.default_rng(7), 0
    whole = vivace("run", *SCENE, "--frames", frames, "--out", "whole.npz", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    expected = np.load(tmp_path / "whole.npz")["positions"][-1]
    for _ in range(10):
        for file in tmp_path.glob("run.ckpt*"):
            file.unlink()
        ranks, others = [int(number) for number in generator.choice([1, 2, 3], 2, replace=False)]
        command = ["run", *SCENE, "--frames", 10**7, "--ranks", ranks, "--checkpoint", "run.ckpt", "--every", 1]
        job = started(tmp_path, command)
        wanted, deadline = int(generator.integers(1, 50)), time.monotonic() + 120
        while frame_of(tmp_path / "run.ckpt") < wanted and time.monotonic() < deadline:
            time.sleep(0.002)
        kill_a_rank(tmp_path, generator)
        _, text = job.communicate(timeout=60)
        assert job.returncode == 1 and b"has ended without a word" in text and b"vivace resume run.ckpt" in text
        done = frame_of(tmp_path / "run.ckpt")
        if done >= frames:  # it was faster than this test
            continue
        rest = vivace("resume", "run.ckpt", "--frames", frames, "--ranks", others, "--out", "rest.npz", cwd=tmp_path)
        assert rest.returncode == 0, rest.stderr
        np.testing.assert_array_equal(np.load(tmp_path / "rest.npz")["positions"][-1], expected)
        resumed += 1
    assert resumed >= 5


@needs_mpiexec
def test_a_job_restarts_by_itself_and_ends_as_it_would_have(tmp_path):
    whole = vivace("run", *SCENE, "--frames", 2000, "--out", "whole.npz", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    command = ["run", *SCENE, "--frames", 2000, "--ranks", 2, "--restart", 1, "--checkpoint", "run.ckpt", "--every", 20]
    command += ["--out", "film.npz"]
    job = started(tmp_path, command)
    deadline = time.monotonic() + 120
    while not frame_of(tmp_path / "run.ckpt") and time.monotonic() < deadline:
        time.sleep(0.002)
    kill_a_rank(tmp_path, np.random.default_rng(0))
    _, text = job.communicate(timeout=200)
    assert job.returncode == 0 and b"the job starts again from run.ckpt on 2 ranks" in text
    ends = [np.load(tmp_path / name)["positions"][-1] for name in ("film.npz", "whole.npz")]
    np.testing.assert_array_equal(*ends)


@needs_mpiexec
def test_an_interrupt_ends_a_job_with_all_that_it_made(tmp_path):
    command = [
        "run",
        *SCENE,
        "--frames",
        10**7,
        "--ranks",
        2,
        "--checkpoint",
        "run.ckpt",
        "--every",
        5,
        "--out",
        "a.npz",
    ]
    job = started(tmp_path, command)
    deadline = time.monotonic() + 120
    while not frame_of(tmp_path / "run.ckpt") and time.monotonic() < deadline:
        time.sleep(0.01)
    job.send_signal(signal.SIGINT)
    _, text = job.communicate(timeout=60)
    assert job.returncode == 130 and b"stopped" in text
    assert len(np.load(tmp_path / "a.npz")["positions"]) == frame_of(tmp_path / "run.ckpt")
    left = {file.name for file in tmp_path.iterdir()} - {"run.ckpt.previous"}  # which it may have come to
    assert left == {"a.npz", "run.ckpt"}


@needs_mpiexec
def test_a_rank_that_is_stopped_is_missed_within_30_seconds(tmp_path):
    command = ["run", *SCENE, "--frames", 10**7, "--ranks", 2, "--checkpoint", "run.ckpt", "--every", 5]
    job = started(tmp_path, command)
    deadline = time.monotonic() + 120
    while not frame_of(tmp_path / "run.ckpt") and time.monotonic() < deadline:
        time.sleep(0.01)
    victim = max(ranks_of(tmp_path))
    os.kill(victim, signal.SIGSTOP)
    since = time.monotonic()
    _, text = job.communicate(timeout=60)
    assert time.monotonic() - since < 30
    assert job.returncode == 1 and b"has given no sign" in text and b"vivace resume run.ckpt" in text
    deadline = time.monotonic() + 10
    while Path(f"/proc/{victim}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not ranks_of(tmp_path)


@needs_mpiexec
def test_under_an_mpiexec_of_ones_own_the_first_rank_says_who_was_lost_and_how_to_go_on(tmp_path):
    run = [*SCENE, "--frames", 10**7, "--checkpoint", "run.ckpt", "--every", 5]
    command = [*mpiexec_command(MPIEXEC, 2), sys.executable, "-m", "vivace", "run", *map(str, run)]
    job = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while not frame_of(tmp_path / "run.ckpt") and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(max(ranks_of(tmp_path, b"")), signal.SIGSTOP)
        _, text = job.communicate(timeout=60)
    finally:
        os.killpg(job.pid, signal.SIGKILL) if job.poll() is None else None
    assert job.returncode != 0
    assert b"has given no sign" in text and b"go on with: vivace resume run.ckpt, under" in text
    assert not ranks_of(tmp_path, b"")


@pytest.mark.parametrize("code", [9, 137, 255])  # of MPICH, of shells, of an mpiexec that cannot start
def test_ranks_that_end_before_they_have_joined_are_told_too(tmp_path, monkeypatch, code):
    mpiexec, said = tmp_path / "mpiexec", []
    mpiexec.write_text(f"#!/bin/sh\n[ $1 = --version ] || exit {code}\n")
    mpiexec.chmod(0o755)
    monkeypatch.setattr(launch, "find_mpiexec", lambda: mpiexec)
    assert supervise(["run"], 2, ["a", "b"], tmp_path / "run.ckpt", 1, said.append) == 1
    assert len(said) == 2 and all(
        f"2 of 2 ranks had not joined when mpiexec ended, with code {code}" in s for s in said
    )
    assert "starts again from the start on 2 ranks" in said[0] and "there is no checkpoint yet" in said[1]
    (tmp_path / "run.ckpt").touch()
    assert supervise(["run"], 2, ["a", "b"], tmp_path / "run.ckpt", 0, said.append) == 1
    assert said[2].endswith("run.ckpt --ranks 2 --hosts a,b")
    assert supervise(["run"], 2, [], None, 0, said.append) == 1 and "--checkpoint writes them" in said[3]


def can_make_namespaces():
    if not (shutil.which("ip") and shutil.which("unshare")):
        return False
    made = subprocess.run(["ip", "netns", "add", "vivace-trial"], capture_output=True).returncode == 0
    subprocess.run(["ip", "netns", "del", "vivace-trial"], capture_output=True)
    return made


HOSTS = [f"10.77.3.{i}" for i in (1, 2, 3, 4)]


# Stands for ssh: HOST COMMAND..., in the network of that host.
SSH = """#!/bin/bash
while [[ "$1" == -* ]]; do case "$1" in -x|-q|-n|-T|-f) shift;; *) shift 2;; esac; done
host=$1; shift
exec ip netns exec vv${host##*.} unshare --uts bash -c "hostname $host; exec sh -c \\"\\$0\\"" "$*"
"""


@pytest.fixture
def four_hosts(tmp_path):
    """Four network namespaces with their own addresses, joined by a bridge."""

    def ip(*arguments, check=True):
        subprocess.run(["ip", *arguments], check=check, capture_output=True)

    names = [f"vv{i}" for i in (1, 2, 3, 4)]
    for name in ("vvs", *names):
        ip("netns", "add", name)
    try:
        ip("-n", "vvs", "link", "add", "br0", "type", "bridge")
        ip("-n", "vvs", "link", "set", "br0", "up")
        for i, name in enumerate(names, 1):
            ip("link", "add", f"v{i}", "netns", name, "type", "veth", "peer", "name", f"p{i}", "netns", "vvs")
            ip("-n", "vvs", "link", "set", f"p{i}", "master", "br0", "up")
            ip("-n", name, "addr", "add", f"{HOSTS[i - 1]}/24", "dev", f"v{i}")
            ip("-n", name, "link", "set", f"v{i}", "up")
            ip("-n", name, "link", "set", "lo", "up")
        (tmp_path / "ssh").write_text(SSH)
        (tmp_path / "ssh").chmod(0o755)
        yield lambda i: ip("-n", "vvs", "link", "set", f"p{i}", "down")
    finally:
        for name in ("vvs", *names):
            for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except OSError:
                    pass
            ip("netns", "del", name, check=False)


@needs_mpiexec
@pytest.mark.skipif(not can_make_namespaces(), reason="no network namespaces can be made here")
def test_four_hosts_of_which_one_is_cut_off(tmp_path, four_hosts):
    cut = four_hosts
    names = "HYDRA_LAUNCHER_EXEC", "PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent"  # MPICH, Open MPI 5 and 4
    environment = {**os.environ, "HYDRA_LAUNCHER": "ssh", **dict.fromkeys(names, str(tmp_path / "ssh"))}

    def command(*arguments):
        return ["ip", "netns", "exec", "vv1", sys.executable, "-m", "vivace", *map(str, arguments)]

    whole = vivace("run", *SCENE, "--frames", 300, "--out", "whole.npz", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    hosts = ["--ranks", 4, "--hosts", ",".join(HOSTS)]
    short = command("run", *SCENE, "--frames", 20, *hosts, "--out", "short.npz")
    done = subprocess.run(short, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    expected = np.load(tmp_path / "whole.npz")["positions"]
    np.testing.assert_array_equal(np.load(tmp_path / "short.npz")["positions"], expected[:20])

    long = command("run", *SCENE, "--frames", 10**7, *hosts, "--checkpoint", "run.ckpt", "--every", 2)
    job = subprocess.Popen(long, cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not frame_of(tmp_path / "run.ckpt") and time.monotonic() < deadline:
        time.sleep(0.01)
    cut(4)
    since = time.monotonic()
    _, text = job.communicate(timeout=60)
    assert time.monotonic() - since < 30
    assert job.returncode == 1 and b"rank 3 on 10.77.3.4 has given no sign" in text, text
    assert b"vivace resume run.ckpt" in text
    frame = frame_of(tmp_path / "run.ckpt")
    until = frame + 10
    three = ["--ranks", 3, "--hosts", ",".join(HOSTS[:3])]
    rest = command("resume", "run.ckpt", "--frames", until, *three, "--out", "rest.npz")
    done = subprocess.run(rest, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    if until <= 300:
        np.testing.assert_array_equal(np.load(tmp_path / "rest.npz")["positions"], expected[frame:until])


def test_a_watch_tells_who_was_lost_and_lets_go_who_says_farewell():
    watch = Watch(1)
    Pulse(watch.place, 0).end()
    time.sleep(0.5)
    assert watch.lost is None
    watch.close()
    told = []
    stranger = Watch(1, say=told.append)
    place = stranger.place.rsplit(":", 1)[0] + ":wrong"
    program = "import sys; from vivace.cluster.watchdog import Pulse; Pulse(sys.argv[1], 3); import os; os._exit(0)"
    subprocess.run([sys.executable, "-c", program, place], timeout=60)
    time.sleep(0.5)
    assert stranger.lost is None  # nobody of ours
    subprocess.run([sys.executable, "-c", program, stranger.place], timeout=60)
    time.sleep(0.5)
    assert re.match(r"rank 3 on \S+ has ended without a word", stranger.lost) and told == [stranger.lost]
    stranger.close()

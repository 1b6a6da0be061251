"""Several ranks: the same bits as one process, blocks that move, ranks that are lost, jobs that go on."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import vivace as vv
from vivace import checkpoint
from vivace.backends import mpi_join
from vivace.cluster import RANK_NAMES, SIZE_NAMES, in_job, launch, told_size
from vivace.cluster.launch import mpiexec_command, supervise
from vivace.cluster.watchdog import Pulse, Watch
from vivace.net_parts import NetCut, part_of
from vivace.parts import Blocks, assign

pytest.importorskip("mpi4py", reason="needs pip install 'vivace[mpi]'")
MPIEXEC = Path(sys.executable).parent / "mpiexec"
needs_mpiexec = pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec beside this interpreter")
SCENE = ("corner-cloth", "--particles", 1600, "--solver", "implicit", "--iterations", 5, "--substeps", 1)

# A cloth that swings against a sphere, in wind, with pins that travel; blocks change their ranks in the middle.
PROGRAM = """
import sys, numpy as np, vivace as vv
frames, name, backend = int(sys.argv[1]), sys.argv[2], sys.argv[3]
scene = vv.Scene()
cloth = scene.add_cloth(vv.Mesh.grid(30, 30), material=vv.MassSpring(100.0, damping=0.01))
cloth.pin([0, 29])
scene.add_collider(vv.Sphere(0.3, (0, -0.4, 0)))
scene.add_collider(vv.Box((0.2, 0.2, 0.2)), motion=lambda t: (0.0, -0.8 + 0.3 * np.sin(t), 0.2))
scene.blow(0.1, (0.5, 0.0, 0.3))
solver = vv.ImplicitEuler(blocks=20, decomposition=sys.argv[4])
simulation = vv.Simulation(scene, solver, iterations=5, dt=0.01, backend=backend)
start = simulation.positions
for frame in range(frames):
    if frame < 50:
        simulation.move_pins([0, 29], start[[0, 29]] + [0, 0.004 * (frame + 1), 0])
    left = simulation.step().residual["stretch"]
    if backend == "mpi" and frame == frames // 2:
        sweeps = simulation._sweeps
        sweeps.migrate((sweeps.owners + np.arange(len(sweeps.owners)) % 2).astype(np.int32) % sweeps.comm.size)
np.savez(name, positions=simulation.positions, velocities=simulation.velocities, residual=[left.rms, left.largest])
"""


def run_program(folder, ranks, frames, name, mpiexec=MPIEXEC, decomposition="halves", **options):
    (folder / "program.py").write_text(PROGRAM)
    start = [] if ranks is None else mpiexec_command(mpiexec, ranks)
    backend = "cpu" if ranks is None else "mpi"
    command = [*start, sys.executable, "program.py", str(frames), name, backend, decomposition]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stderr
    return np.load(folder / f"{name}.npz")


@needs_mpiexec
def test_same_bits_on_one_process_and_on_one_to_four_ranks_with_blocks_that_move(tmp_path):
    expected = run_program(tmp_path, None, 400, "alone")
    for ranks in (1, 2, 3, 4):
        found = run_program(tmp_path, ranks, 400, f"on{ranks}")
        for name in ("positions", "velocities"):
            np.testing.assert_array_equal(found[name], expected[name])
        np.testing.assert_allclose(found["residual"], expected["residual"], rtol=1e-6)


MEMORY = """
import os, sys, threading, time

def watch():
    most = 0
    while True:
        with open("/proc/self/smaps_rollup") as file:
            now = next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        if now > most:
            most = now
            with open(f"{os.getpid()}.most.new", "w") as file:
                file.write(str(1024 * most))
            os.replace(file.name, f"{os.getpid()}.most")
        time.sleep(0.01)

threading.Thread(target=watch, daemon=True).start()
from vivace.bench.ranks import Case, main
import json
main(json.dumps([dict(particles=int(sys.argv[1]), frames=3)]))
"""


@needs_mpiexec
def test_same_bits_in_blocks_that_metis_made(tmp_path):
    pytest.importorskip("pymetis")
    runs = [run_program(tmp_path, ranks, 60, f"metis{ranks}", decomposition="metis") for ranks in (None, 3)]
    for name in ("positions", "velocities"):
        np.testing.assert_array_equal(runs[1][name], runs[0][name])


@needs_mpiexec
def test_a_checkpoint_of_blocks_that_metis_made_goes_on_on_two_ranks(tmp_path):
    pytest.importorskip("pymetis")
    options = *SCENE, "--blocks", 9, "--decomposition", "metis"
    for done in (
        vivace("run", *options, "--frames", 8, "--out", "whole.npz", cwd=tmp_path),
        vivace("run", *options, "--frames", 4, "--checkpoint", "a.ckpt", cwd=tmp_path),
        vivace("resume", "a.ckpt", "--frames", 8, "--ranks", 2, "--out", "rest.npz", cwd=tmp_path),
    ):
        assert done.returncode == 0, done.stderr
    whole, rest = (np.load(tmp_path / name)["positions"][-1] for name in ("whole.npz", "rest.npz"))
    np.testing.assert_array_equal(rest, whole)


@needs_mpiexec
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_million_particles_on_two_ranks_fit_into_two_gigabytes(tmp_path):
    (tmp_path / "memory.py").write_text(MEMORY)
    for particles in (2500, 1_000_000):  # a compiler needs memory too
        for old in tmp_path.glob("*.most"):
            old.unlink()
        command = [*mpiexec_command(MPIEXEC, 2), sys.executable, "memory.py", str(particles)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    peaks = [int(file.read_text()) for file in tmp_path.glob("*.most")]
    assert len(peaks) == 2 and sum(peaks) < 2e9, peaks


def vivace(*arguments, cwd, **options):
    command = [sys.executable, "-m", "vivace", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, **options)


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


def started(folder, command):
    whole = [sys.executable, "-m", "vivace", *map(str, command)]
    return subprocess.Popen(whole, cwd=folder, stderr=subprocess.PIPE)


def frame_of(path):
    try:
        return checkpoint.read_header(path)["frame"]
    except vv.InputError:
        return 0


def ranks_of(folder, watched=b"VIVACE_WATCH="):
    """Ranks of the job that was started in a folder; other jobs may run beside it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
                here = (entry / "cwd").samefile(folder)
            except OSError:
                continue
            of_job = any(f"{name}=".encode() in environment for name in RANK_NAMES)
            if here and watched in environment and of_job and b"vivace" in arguments:
                found.append(int(entry.name))
    return found


def kill_a_rank(folder, generator):
    deadline = time.monotonic() + 60
    while not (ranks := ranks_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(int(generator.choice(ranks)), signal.SIGKILL)


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
def test_bad_input_is_told_once_and_ends_all_ranks(tmp_path):
    def error_of(*arguments):
        answer = vivace(*arguments, cwd=tmp_path)
        assert answer.returncode == 2, answer.stderr
        lines = [line for line in answer.stderr.splitlines() if line.startswith("vivace:")]  # Open MPI adds its own
        told = [line for line in lines if "compiling kernels" not in line]
        assert len(told) == 1, answer.stderr
        return told[0]

    assert "ranks is 0" in error_of("run", *SCENE, "--ranks", 0)
    assert "--hosts is for --ranks" in error_of("run", *SCENE, "--hosts", "a,b")
    assert "--restart goes on from a checkpoint" in error_of("run", *SCENE, "--ranks", 2, "--restart", 1)
    serial = "tablecloth", "--scale", 0.05, "--frames", 2, "--solver", "serial"
    assert "solver 'serial'" in error_of("run", *serial, "--ranks", 2)
    assert "is for one process" in error_of("run", touching_scene(tmp_path), "--solver", "implicit", "--ranks", 2)


def touching_scene(folder):
    (folder / "scene.py").write_text(
        "import vivace as vv\ndef scene():\n    s = vv.Scene()\n"
        "    s.add_cloth(vv.Mesh.grid(5, 5), material=vv.MassSpring(100.0))\n    s.self_collision(0.01)\n    return s\n"
    )
    return "scene.py"


@needs_mpiexec
def test_the_program_of_the_guide_runs_on_two_ranks(tmp_path):
    guide = (Path(__file__).parents[1] / "docs" / "cluster.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "program.py").write_text(program)
    command = [*mpiexec_command(MPIEXEC, 2), sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.count("Solve(iterations=40") == 3, done.stderr


@needs_mpiexec
def test_ranks_of_different_versions_refuse_to_work_together(tmp_path):
    program = """
from mpi4py import MPI
import vivace.backends.mpi_join as mpi
if MPI.COMM_WORLD.rank == 1:
    mpi._sources = lambda: "another"
mpi.join()
"""
    (tmp_path / "program.py").write_text(program)
    command = [*mpiexec_command(MPIEXEC, 2), sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and re.search(r"rank 1 on \S+ has vivace .*another.*, rank 0 has", done.stderr)


@pytest.mark.parametrize("name", ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"])
def test_an_mpiexec_of_another_mpi_is_refused(name, monkeypatch):
    alone = SimpleNamespace(COMM_WORLD=SimpleNamespace(size=1), get_vendor=lambda: ("Open MPI", (5, 0, 11)))
    monkeypatch.setattr(mpi_join, "extra", lambda *_: alone)
    monkeypatch.setenv(name, "3")
    monkeypatch.setenv(name.replace("SIZE", "RANK"), "0")
    with pytest.raises(vv.InputError, match=r"has started 3 processes, but Open MPI 5\.0\.11, .* knows of 1"):
        mpi_join.join.__wrapped__()
    monkeypatch.setenv(name.replace("SIZE", "RANK"), "1")
    with pytest.raises(SystemExit):  # it is said once
        mpi_join.join.__wrapped__()


def test_an_srun_without_mpi_is_told_what_is_missing(tmp_path):
    started = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2"}
    for rank, message in (("0", "srun has started 2 processes, but .* knows of 1: add --mpi=pmi2"), ("1", "^$")):
        environment = {**os.environ, **started, "SLURM_PROCID": rank}
        done = vivace("run", *SCENE, "--frames", 1, "--out", "a.npz", cwd=tmp_path, env=environment)
        assert done.returncode == 2 and re.search(message, done.stderr), done.stderr
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("tasks", [None, "1"])
def test_a_script_of_sbatch_is_a_process_like_any_other(monkeypatch, tasks):
    for name in (*RANK_NAMES, *SIZE_NAMES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "16")
    if tasks:
        monkeypatch.setenv("SLURM_STEP_NUM_TASKS", tasks)
    assert not in_job() and told_size() == 1


def mpiexec_that_says(folder, version):
    path = folder / "mpiexec"
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_each_mpiexec_is_spoken_to_in_its_own_words(tmp_path, monkeypatch):
    hosts, environment = ["a", "b"], {"VIVACE_WATCH": "here", "NUMBA_NUM_THREADS": "4", "HOME": "/"}
    hydra = mpiexec_that_says(tmp_path, "HYDRA build details:")
    assert mpiexec_command(hydra, 2) == [str(hydra), "-n", "2"]
    assert mpiexec_command(hydra, 2, hosts, environment) == [str(hydra), "-hosts", "a,b", "-n", "2"]
    for version in ("mpiexec (Open MPI) 5.0.11", "mpiexec (OpenRTE) 4.1.4"):
        open_mpi = mpiexec_that_says(tmp_path, version)
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        alone = [str(open_mpi), "--oversubscribe", "--bind-to", "none"]
        assert mpiexec_command(open_mpi, 2, [], environment) == [*alone, "-n", "2"]
        told = ["-x", "NUMBA_NUM_THREADS", "-x", "VIVACE_WATCH"]
        found = mpiexec_command(open_mpi, 3, hosts, environment)
        assert found == [*alone, "--host", "a:2,b:2", *told, "-n", "3"]
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        assert mpiexec_command(open_mpi, 2) == [*alone, "--allow-run-as-root", "-n", "2"]


def open_mpi():
    """An mpiexec of Open MPI on the path."""
    for name in ("mpiexec.openmpi", "mpiexec"):
        found = shutil.which(name)
        if found and "--oversubscribe" in mpiexec_command(Path(found), 1):
            return Path(found)
    return None


@pytest.mark.skipif(open_mpi() is None, reason="no Open MPI on the path")
def test_same_bits_under_open_mpi(tmp_path):
    environment = {**os.environ, "MPI4PY_LIBMPI": "libmpi.so.40"}
    trial = [sys.executable, "-c", "from mpi4py import MPI; assert MPI.get_vendor()[0] == 'Open MPI'"]
    if subprocess.run(trial, env=environment, capture_output=True).returncode:
        pytest.skip("mpi4py does not find the library of this Open MPI")
    expected = run_program(tmp_path, None, 100, "alone")
    for ranks in (2, 3):
        found = run_program(tmp_path, ranks, 100, f"on{ranks}", open_mpi(), env=environment)
        np.testing.assert_array_equal(found["positions"], expected["positions"])


BOUND = """
import os, warnings
from mpi4py import MPI
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cores[MPI.COMM_WORLD.rank]})
from vivace.backends import mpi_join
warnings.simplefilter("error")
mpi_join.join()
print(mpi_join.most_threads())
"""


@needs_mpiexec
@pytest.mark.skipif(len(getattr(os, "sched_getaffinity", lambda _: ())(0)) < 2, reason="needs two cores")
def test_ranks_with_a_core_each_do_not_crowd(tmp_path):
    (tmp_path / "bound.py").write_text(BOUND)
    command = [*mpiexec_command(MPIEXEC, 2), sys.executable, "bound.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout == "1\n", done.stderr


def test_without_mpi4py_it_says_what_to_install(tmp_path):
    (tmp_path / "mpi4py.py").write_text("raise ImportError('none here')")
    answer = vivace("run", *SCENE, "--ranks", 2, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert answer.returncode == 2 and "pip install 'vivace[mpi]'" in answer.stderr


@needs_mpiexec
def test_under_an_mpiexec_of_ones_own_the_command_joins(tmp_path):
    run = [sys.executable, "-m", "vivace", "run", *map(str, SCENE), "--frames", "5"]
    command = [*mpiexec_command(MPIEXEC, 2), *run]
    done = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["frames"] == 5
    many = len(os.sched_getaffinity(0)) + 1
    crowded = [*mpiexec_command(MPIEXEC, many), *run]
    crowd = subprocess.run(crowded, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert crowd.returncode == 0 and f"warning: {many} ranks share" in crowd.stderr
    threads = ["--threads", str(many)]
    crowd = subprocess.run([*command, *threads], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert crowd.returncode == 0 and f"warning: 2 ranks of {many} threads share" in crowd.stderr
    wrong = subprocess.run([*command, "--ranks", "3"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert wrong.returncode != 0 and "--ranks is 3, but 2 ranks were started" in wrong.stderr


@needs_mpiexec
def test_ranks_that_have_nothing_to_do_are_told_of(tmp_path):
    run = "run", "corner-cloth", "--particles", 200, "--solver", "implicit", "--frames", 1, "--ranks", 2
    answer = vivace(*run, cwd=tmp_path)
    assert answer.returncode == 0 and "warning: blocks of particles: 1, ranks: 2; those without" in answer.stderr


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


UNEVEN = """
import sys, numpy as np, vivace as vv
from dataclasses import replace
from vivace.backends import mpi_rank as mpi
run = mpi.Rank.run

def slower(self, *arguments):
    outcome = run(self, *arguments)
    factor = 3 if self.comm.rank == 1 else 1
    return replace(outcome, milliseconds={name: factor for name in ("solve",)})

mpi.Rank.run = slower
scene = vv.Scene()
scene.add_cloth(vv.Mesh.grid(30, 30), material=vv.MassSpring(100.0)).pin(0)
simulation = vv.Simulation(scene, vv.ImplicitEuler(blocks=40), iterations=5, dt=0.01, backend=sys.argv[1])
for _ in simulation.run(25):
    pass
other = vv.Simulation(scene, vv.ImplicitEuler(blocks=40), iterations=6, dt=0.01, backend=sys.argv[1])
other.take_over(simulation)
for _ in other.run(5):
    pass
moved = simulation._sweeps.migrations if sys.argv[1] == "mpi" else 0
shares = np.bincount(simulation._sweeps.owners) if sys.argv[1] == "mpi" else [0, 0]
np.savez(sys.argv[2], positions=other.positions, moved=moved, shares=shares)
"""


@needs_mpiexec
def test_blocks_leave_a_rank_that_has_more_to_do_and_another_simulation_takes_the_ranks_over(tmp_path):
    (tmp_path / "uneven.py").write_text(UNEVEN)
    for start, backend in (([], "cpu"), (mpiexec_command(MPIEXEC, 2), "mpi")):
        command = [*start, sys.executable, "uneven.py", backend, backend]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
    alone, together = np.load(tmp_path / "cpu.npz"), np.load(tmp_path / "mpi.npz")
    np.testing.assert_array_equal(together["positions"], alone["positions"])
    assert together["moved"] == 1 and together["shares"][1] < 0.4 * together["shares"].sum()


RETURNING = """
import numpy as np, vivace as vv
scene = vv.Scene()
scene.add_cloth(vv.Mesh.grid(20, 20), material=vv.MassSpring(300.0)).pin(0)
simulation = vv.Simulation(scene, vv.ImplicitEuler(blocks=9), iterations=5, dt=0.02, backend="mpi")

def on():
    for _ in simulation.run(20):
        pass
    return simulation.positions

on()
simulation.save("a.ckpt")
first = on()
simulation.load("a.ckpt")
assert simulation.frame == 20 and (on() == first).all()
try:
    simulation.grab(50)
except vv.InputError as problem:
    print(problem)
simulation.step()
"""


@needs_mpiexec
def test_a_simulation_on_ranks_returns_to_its_checkpoint_and_refuses_to_be_held(tmp_path):
    (tmp_path / "returning.py").write_text(RETURNING)
    command = [*mpiexec_command(MPIEXEC, 2), sys.executable, "returning.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "grab: points cannot be held on several ranks, so far\n"


@needs_mpiexec
@pytest.mark.parametrize(
    "scene",
    [[*SCENE[:1], *SCENE[3:], "--budget-ms", 0], ["tablecloth", "--budget-ms", 20]],
    ids=["implicit", "colored"],
)
def test_a_job_can_be_served_and_seen(tmp_path, scene):
    from vivace.live.client import Connection

    command = ["serve", *scene, "--scale", 0.05, "--ranks", 2, "--port", 0]
    job = subprocess.Popen(
        [sys.executable, "-m", "vivace", *map(str, command)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        address = None
        while address is None:
            line = job.stdout.readline()
            assert line, "the server has ended"
            found = re.search(r"on 127\.0\.0\.1:(\d+)", line)
            address = found and int(found[1])
        connection = Connection("127.0.0.1", address)
        frames = [connection.next_frame(timeout=60) for _ in range(3)]
        assert frames[-1] is not None
        connection.close()
    finally:
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=60)
    assert not ranks_of(tmp_path)


def cloth_plan(side=40, blocks=20):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(side, side), material=vv.MassSpring(100.0)).pin(0)
    return vv.ImplicitEuler(blocks=blocks).prepare(scene.build(), 5, 0)


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_parts_share_the_rows_and_know_whose_copies_they_have(ranks):
    plan = cloth_plan()
    owners = assign(NetCut(plan).blocks, np.ones(plan.net.total), ranks)
    parts = [part_of(plan, owners, rank) for rank in range(ranks)]
    own = [part.rows[part.rows >= 0] for part in parts]
    np.testing.assert_array_equal(np.sort(np.concatenate(own)), np.arange(len(plan.order)))
    assert sum(part.plan.sizes["stretch"] for part in parts) == len(plan.groups[0].vertices)
    for rank, part in enumerate(parts):
        local = np.concatenate([part.rows, part.copies])
        np.testing.assert_array_equal(part.plan.order, np.arange(len(local)))
        for other, first, last in part.copied.senders:
            lent = dict(parts[other].copied.receivers)[rank]
            np.testing.assert_array_equal(local[first:last], parts[other].rows[lent])
        # A row has its springs in the order of the whole.
        net, whole = part.plan.net, plan.net
        for eight in (0, len(part.rows) // 16):
            before = part.rows[8 * eight] // 8
            slots, of_whole = slice(*net.bounds[eight : eight + 2]), slice(*whole.bounds[before : before + 2])
            np.testing.assert_array_equal(local[net.neighbors[slots]], whole.neighbors[of_whole])
            np.testing.assert_array_equal(net.kinds[slots], whole.kinds[of_whole])
        inner = net.neighbors[: net.bounds[net.starts[part.interior] // 8]]
        assert (inner < len(part.rows)).all()


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_ranks_pay_what_their_springs_do_to_rows_of_others(ranks):
    """Numbers that stand for dues come to the rows that the whole net has them for, in the same order."""
    plan = cloth_plan()
    whole = plan.net
    parts = [part_of(plan, assign(NetCut(plan).blocks, np.ones(whole.total), ranks), rank) for rank in range(ranks)]
    tables = []
    for part in parts:
        own, dues = part.plan.net, whole.dues
        tables.append(np.full(own.rows + own.dues.count, -1))
        for i, block in enumerate(own.ids):
            numbers = np.arange(dues.starts[block], dues.starts[block + 1])
            tables[-1][own.dues.starts[i] : own.dues.starts[i + 1]] = numbers
    for rank, part in enumerate(parts):
        assert (ranks == 1) == (not part.due.senders and not part.due.receivers)
        for other, first, last in part.due.senders:
            tables[rank][first:last] = tables[other][dict(parts[other].due.receivers)[rank]]
    paying = np.repeat(np.arange(whole.total), np.diff(whole.dues.starts))
    for part, table in zip(parts, tables):
        own, local = part.plan.net.dues, np.concatenate([part.rows, part.copies])
        places = {block: place for place, block in enumerate(part.plan.net.ids)}
        debtors, starts = own.debtors()
        for i, block in enumerate(part.plan.net.ids):
            claims = own.claims[own.claim_starts[i] : own.claim_starts[i + 1]]
            expected = whole.dues.claims[whole.dues.claim_starts[block] : whole.dues.claim_starts[block + 1]]
            np.testing.assert_array_equal(np.stack([local[claims[:, 0]], table[claims[:, 1]]], axis=1), expected)
            owing = {places.get(paying[due - whole.rows], len(places)) for due in expected[:, 1]}
            assert set(debtors[starts[i] : starts[i + 1]]) == owing


@pytest.mark.parametrize("ranks", [12, 30])
def test_each_block_has_a_rank_of_its_own_where_there_are_enough(ranks):
    blocks = NetCut(cloth_plan(blocks=12)).blocks
    assert len(np.unique(assign(blocks, blocks.costs, ranks))) == blocks.total == 12


def test_blocks_that_nothing_joins_are_shared_out_by_their_costs_too():
    none = np.zeros(0, np.int64)
    blocks = Blocks(np.arange(64), np.arange(0, 65, 8), np.ones(8), np.zeros(9, np.int64), none, none)
    assert list(assign(blocks, np.array([6.0, 1, 1, 1, 1, 1, 1, 1]), 2)) == [0, 1, 1, 1, 1, 1, 1, 1]


def test_blocks_go_to_ranks_by_their_costs():
    blocks = NetCut(cloth_plan()).blocks
    costs = np.ones(blocks.total)
    costs[:5] = 6.0
    owners = assign(blocks, costs, 2)
    loads = np.bincount(owners, costs)
    assert loads.max() / loads.mean() < 1.15
    assert len(blocks.offsets) == blocks.total + 1 and (blocks.joints > 0).all()
    assert len(blocks.neighbors) == blocks.offsets[-1]


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

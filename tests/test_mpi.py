"""Several ranks: the same bits as one process, blocks that move, and how jobs are started."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import vivace as vv
from jobs import MPIEXEC, SCENE, needs_mpiexec, ranks_of, run_program, vivace
from vivace.backends import mpi_join
from vivace.cluster import RANK_NAMES, SIZE_NAMES, in_job, told_size
from vivace.cluster.launch import mpiexec_command

pytest.importorskip("mpi4py", reason="needs pip install 'vivace[mpi]'")
affinity = getattr(os, "sched_getaffinity", lambda _: ())
needs_two_cores = pytest.mark.skipif(len(affinity(0)) < 2, reason="needs two cores")


@needs_mpiexec
def test_same_bits_on_one_process_and_on_one_to_four_ranks_with_blocks_that_move(tmp_path):
    expected = run_program(tmp_path, None, 400, "alone")
    for ranks in (1, 2, 3, 4):
        found = run_program(tmp_path, ranks, 400, f"on{ranks}")
        for name in ("positions", "velocities", "free_positions"):
            np.testing.assert_array_equal(found[name], expected[name])
        for name in ("residual", "free"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)


@needs_mpiexec
@needs_two_cores
def test_same_bits_on_ranks_of_two_threads_of_which_any_may_talk(tmp_path):
    """On two cores they take turns, which shows what does not wait for what it needs."""
    expected = run_program(tmp_path, 1, 40, "alone")
    found = run_program(tmp_path, 2, 40, "threads", threads=2)
    assert found["threads"] == 2
    for name in ("positions", "velocities", "free_positions"):
        np.testing.assert_array_equal(found[name], expected[name])


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
        done = subprocess.run(command, input="measure 0", cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    peaks = [int(file.read_text()) for file in tmp_path.glob("*.most")]
    assert len(peaks) == 2 and sum(peaks) < 2e9, peaks


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
    assert all("compiling kernels" in line for line in done.stderr.splitlines()), done.stderr  # MPI has no complaints


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


def test_an_mpi_that_serves_one_thread_alone_is_refused_for_several(monkeypatch):
    levels = SimpleNamespace(THREAD_SERIALIZED=2, Query_thread=lambda: level)
    monkeypatch.setattr(mpi_join, "extra", lambda *_: levels)
    level = 2
    mpi_join.check_that_threads_may_talk()
    level = 1
    with pytest.raises(vv.InputError, match="give each rank one thread"):
        mpi_join.check_that_threads_may_talk()


TWO = """
import vivace as vv

def made():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(30, 30), material=vv.MassSpring(200.0)).pin(0)
    return vv.Simulation(scene, vv.ImplicitEuler(blocks=4), iterations=3, backend="mpi")

earlier = made()
earlier.step()
later = made()
later.step()
assert (earlier.positions == later.positions).all()
before = earlier.positions
try:
    earlier.step()
    assert (earlier.positions != before).any()
except vv.InputError as problem:
    print(problem)
later.step()
later.step()
assert (earlier.positions != later.positions).any()
earlier.save("earlier.ckpt")
later.load("earlier.ckpt")
assert (earlier.positions == later.positions).all()
"""


@needs_mpiexec
def test_a_simulation_whose_ranks_have_another_one_can_be_read_and_says_so(tmp_path):
    (tmp_path / "two.py").write_text(TWO)
    for ranks in (1, 2):  # one rank has room for both
        command = [*mpiexec_command(MPIEXEC, ranks), sys.executable, "two.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert ("made later; this one can only be read" in done.stdout) == (ranks == 2)


LEFT = """
import gc, weakref
import vivace as vv
scene = vv.Scene()
scene.add_cloth(vv.Mesh.grid(30, 30), material=vv.MassSpring(200.0)).pin(0)
simulation = vv.Simulation(scene, vv.ImplicitEuler(blocks=4), iterations=3, backend="mpi")
simulation.step()
table = weakref.ref(simulation._sweeps.rank.sweeps.implicit.direction.base)  # which messages are sent from
del simulation
gc.collect()
assert table() is None
"""


@needs_mpiexec
def test_messages_that_are_ready_do_not_keep_a_simulation_in_memory(tmp_path):
    (tmp_path / "left.py").write_text(LEFT)
    command = [*mpiexec_command(MPIEXEC, 2), sys.executable, "left.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


FAILING = """
import numpy as np, vivace as vv
from mpi4py import MPI
from vivace.backends.mpi_talk import ROWS
scene = vv.Scene()
scene.add_cloth(vv.Mesh.grid(30, 30), material=vv.MassSpring(200.0)).pin(0)
simulation = vv.Simulation(scene, vv.ImplicitEuler(blocks=4), iterations=3, backend="mpi")
simulation.step()
too_long = np.zeros(100_000)
MPI.COMM_WORLD.Isend(too_long, 1, ROWS)
simulation.step()
"""


@needs_mpiexec
def test_what_fails_within_mpi_ends_the_job_and_is_named(tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    command = [*mpiexec_command(MPIEXEC, 2), sys.executable, "failing.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and re.search("(?i)vivace: rank 1: Exception: .*truncat", done.stderr), done.stderr


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
@needs_two_cores
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

"""Jobs of several ranks, for tests: started, looked into, and killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import vivace as vv
from vivace import checkpoint
from vivace.cluster import RANK_NAMES
from vivace.cluster.launch import mpiexec_command

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
options = dict(iterations=5, dt=0.01, backend=backend, threads=int(sys.argv[5]) or None)
simulation = vv.Simulation(scene, solver, **options)
start, most_threads = simulation.positions, 0
for frame in range(frames):
    if frame < 50:
        simulation.move_pins([0, 29], start[[0, 29]] + [0, 0.004 * (frame + 1), 0])
    report = simulation.step()
    left, most_threads = report.residual["stretch"], max(most_threads, report.threads)
    if backend == "mpi" and frame == frames // 2:
        sweeps = simulation._sweeps
        sweeps.migrate((sweeps.owners + np.arange(len(sweeps.owners)) % 2).astype(np.int32) % sweeps.comm.size)
results = dict(positions=simulation.positions, velocities=simulation.velocities, residual=[left.rms, left.largest])
scene = vv.Scene()  # where nothing is in the way of a cloth, springs are measured with their energy
scene.add_cloth(vv.Mesh.grid(30, 30), material=vv.MassSpring(100.0, damping=0.01)).pin([0, 29])
simulation = vv.Simulation(scene, solver, **options)
free = list(simulation.run(10))[-1].residual["stretch"]
np.savez(name, **results, threads=most_threads, free=[free.rms, free.largest], free_positions=simulation.positions)
"""


def run_program(folder, ranks, frames, name, mpiexec=MPIEXEC, decomposition="halves", threads=0, **options):
    (folder / "program.py").write_text(PROGRAM)
    start = [] if ranks is None else mpiexec_command(mpiexec, ranks)
    backend = "cpu" if ranks is None else "mpi"
    command = [*start, sys.executable, "program.py", str(frames), name, backend, decomposition, str(threads)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stderr
    return np.load(folder / f"{name}.npz")


def vivace(*arguments, cwd, **options):
    command = [sys.executable, "-m", "vivace", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, **options)


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

"""The same work in hand-written AVX2 C++ and in ours, in one process: how much of the hardware's speed is left.

W1: cloth of 100 x 100, stretch. W2: 91K particles, stretch and volume. W4: cloth of 100 x 100, stretch and bend.
Eight iterations each. The C++ (limit.cpp) does what our sweeps do, on the same batches; `whole step` adds what ours
does besides: keeping the last good state, residuals, the check for NaN, the report.
"""

import ctypes
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..backends.cpu import CpuSweeps
from ..errors import InputError
from ..kernels.region import core_count
from ..materials import Ratios
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Simulation
from ..state import aligned
from .timing import race

NAME = "limit"
KINDS = {"stretch": 0, "volume": 1, "bend": 2}
ITERATIONS, DT, DAMPING = 8, 1 / 60, 0.6
STEPS_COMPARED = 5


def cloth(material: Ratios) -> Scene:
    """A crumpled cloth of 10K particles, hung by two corners."""
    scene = Scene()
    mesh = Mesh.grid(100, 100)
    body = scene.add_cloth(mesh, material=material)
    body.pin([0, 99])
    body.set_positions(slice(None), _shaken(mesh, 0.2 / 99))
    return scene


def cube() -> Scene:
    """A jittered cube of 45 x 45 x 45 particles, one face pinned."""
    scene = Scene()
    mesh = Mesh.box((44, 44, 44))
    body = scene.add_solid(mesh, material=Ratios(stretch=0.9, volume=0.9))
    body.pin(np.flatnonzero(mesh.vertices[:, 0] < -0.499))
    body.set_positions(slice(None), _shaken(mesh, 0.05 / 44))
    return scene


WORKS: dict[str, Callable[[], Scene]] = {
    "W1": lambda: cloth(Ratios(stretch=0.9)),
    "W2": cube,
    "W4": lambda: cloth(Ratios(stretch=0.9, bend=0.3)),
}


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    """Ratio of C++ time to ours for each work and number of threads, best of many steps taken in turns."""
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        rows = []
        for name, scene in WORKS.items():
            for threads in sorted({1, core_count()}):
                progress(f"{name} on {threads} threads")
                rows.append(compare(name, scene(), threads, library, 0.3 if quick else 3.0))
        return rows


def compare(name: str, scene: Scene, threads: int, library: ctypes.CDLL, seconds: float) -> dict[str, Any]:
    simulation = Simulation(scene, iterations=ITERATIONS, dt=DT, damping=DAMPING, threads=threads)
    sweeps = cast(CpuSweeps, simulation._sweeps)
    work = _Hand(simulation, sweeps)
    bare = np.array([t for t in simulation.solver.schedule(sweeps, ITERATIONS, 1) if t is not None], np.int64)

    def hand() -> None:
        library.limit_threads(threads)  # each time: Numba sets it too
        library.limit_step(ctypes.byref(work.work))

    for _ in range(STEPS_COMPARED):
        hand()
        report = simulation.step()
    difference = float(np.abs(work.positions[:, :3] - simulation.state.positions[:, :3]).max())
    ours = lambda: sweeps.run_bare(bare)  # noqa: E731
    theirs_best, ours_best, whole_best = race(hand, ours, simulation.step, seconds=seconds)
    return {
        "work": name,
        "threads": threads,
        "constraints": sum(len(group) for group in simulation.model.groups),
        "C++ ms": theirs_best * 1e3,
        "ours ms": ours_best * 1e3,
        "C++/ours": theirs_best / ours_best,
        "whole step ms": whole_best * 1e3,
        "largest difference m": difference,
        **{f"residual {group}": residual.rms for group, residual in report.residual.items()},
    }


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    axes = figure.subplots()
    labels = [f"{row['work']}\n{row['threads']} thread{'s' * (row['threads'] > 1)}" for row in rows]
    bars = axes.bar(labels, [row["C++/ours"] for row in rows], color="#4477aa")
    axes.bar_label(bars, fmt="%.2f")
    axes.axhline(1, color="black", linewidth=1)
    axes.set_ylabel("C++ time / our time")
    axes.set_title("Our sweeps against hand-written AVX2 (1 = equal, more is better)")


def build(folder: Path) -> ctypes.CDLL:
    """Compile limit.cpp for this machine."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None or platform.machine() not in ("x86_64", "AMD64"):
        raise InputError(
            "bench limit needs an x86-64 machine and a C++ compiler with OpenMP (on Debian: apt-get install g++)"
        )
    library = folder / "liblimit.so"
    source = Path(__file__).with_name("limit.cpp")
    made = subprocess.run(
        [
            compiler,
            "-O3",
            "-march=native",
            "-ffast-math",
            "-fopenmp",
            "-shared",
            "-fPIC",
            str(source),
            "-o",
            str(library),
        ],
        capture_output=True,
        text=True,
    )
    if made.returncode:
        raise InputError(f"bench limit: {compiler} failed: {made.stderr.strip().splitlines()[-1]}")
    return ctypes.CDLL(str(library))


class _Group(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("batches", ctypes.c_int),
        ("offsets", ctypes.c_void_p),
        ("vertices", ctypes.c_void_p),
        ("rest", ctypes.c_void_p),
        ("ratio", ctypes.c_float),
    ]


class _Work(ctypes.Structure):
    _fields_ = [
        ("particles", ctypes.c_int),
        ("groups", ctypes.c_int),
        ("iterations", ctypes.c_int),
        ("step", ctypes.c_float),
        ("kept", ctypes.c_float),
        ("gravity", ctypes.c_float),
        ("positions", ctypes.c_void_p),
        ("predicted", ctypes.c_void_p),
        ("velocities", ctypes.c_void_p),
        ("group", ctypes.POINTER(_Group)),
    ]


class _Hand:
    """A simulation's data, copied for the C++."""

    def __init__(self, simulation: Simulation, sweeps: CpuSweeps):
        state = simulation.state
        self.positions, self.predicted, self.velocities = (aligned(state.positions.shape) for _ in range(3))
        self.positions[:], self.velocities[:] = state.positions, state.velocities
        self.alive = []
        groups = (_Group * len(simulation.plan.groups))()
        for i, (planned, blocked) in enumerate(zip(simulation.plan.groups, sweeps.blocked_groups)):
            offsets, vertices, rest = (
                blocked.first_block.astype(np.int32),
                aligned(blocked.vertices.shape, np.int32),
                aligned(blocked.rest.shape),
            )
            vertices[:], rest[:] = blocked.vertices, blocked.rest
            self.alive += [offsets, vertices, rest]
            groups[i] = _Group(
                KINDS[planned.group.name],
                planned.batch_count,
                offsets.ctypes.data,
                vertices.ctypes.data,
                rest.ctypes.data,
                float(blocked.ratios[0]),
            )
        self.work = _Work(
            len(self.positions),
            len(groups),
            ITERATIONS,
            DT,
            np.exp(-DAMPING * DT),
            -9.81,
            self.positions.ctypes.data,
            self.predicted.ctypes.data,
            self.velocities.ctypes.data,
            groups,
        )


def _shaken(mesh: Mesh, amount: float) -> np.ndarray:
    return mesh.vertices + np.random.default_rng(0).normal(0, amount, mesh.vertices.shape)

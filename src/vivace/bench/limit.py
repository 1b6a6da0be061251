"""The same work in hand-written C++ and in ours, in one process: how much of the hardware's speed is left.

W1: cloth of 100 x 100, stretch. W2: 91K particles, stretch and volume. W4: cloth of 100 x 100, stretch and bend.
W3: cloths of 100 x 100 and 300 x 300, springs: the relaxing sweeps of Projective Dynamics, vertex by vertex, alone.
Eight iterations each. The C++ (limit.cpp) does what our sweeps do, on the same batches; `whole step` adds what ours
does besides: keeping the last good state, residuals, the check for NaN, the report.

The C++ of W3 is made for this work: one stiffness for all springs, particles renumbered by color. Ours takes a mass,
a stiffness and a rest length for each, and leaves particles in their rows, so that a new coloring moves no data.
The C++ reads neighbors in two ways: `gathers` by that instruction, AVX-512 if there is any; `rows` as ours does.
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
from ..coloring import Coloring
from ..errors import InputError
from ..kernels.region import core_count
from ..materials import Material, Ratios, Springs
from ..mesh import Mesh
from ..scene import Scene
from ..simulation import Report, Simulation
from ..solvers.vivace import Vivace
from ..state import aligned
from ..system import System
from .timing import race

NAME = "limit"
KINDS = {"stretch": 0, "volume": 1, "bend": 2}
ITERATIONS, DT, DAMPING = 8, 1 / 60, 0.6
STEPS_COMPARED = 5


def cloth(side: int, material: Material) -> Scene:
    """A crumpled cloth of side x side particles, hung by two corners."""
    scene = Scene()
    mesh = Mesh.grid(side, side)
    body = scene.add_cloth(mesh, material=material)
    body.pin([0, side - 1])
    body.set_positions(slice(None), _shaken(mesh, 0.2 / (side - 1)))
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
    "W1": lambda: cloth(100, Ratios(stretch=0.9)),
    "W2": cube,
    "W3, 100 x 100": lambda: cloth(100, Springs(stretch=100)),
    "W3, 300 x 300": lambda: cloth(300, Springs(stretch=100)),
    "W4": lambda: cloth(100, Ratios(stretch=0.9, bend=0.3)),
}


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    """Ratio of C++ time to ours for each work and number of threads, best of many steps taken in turns."""
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        rows = []
        for name, scene in WORKS.items():
            vertex_by_vertex = name.startswith("W3")
            solver = Vivace(extrapolation=1.0) if vertex_by_vertex else "gauss-seidel"
            for reads in ("gathers", "rows") if vertex_by_vertex else ("rows",):
                for threads in sorted({1, core_count()}):
                    progress(f"{name} by {reads} on {threads} threads")
                    simulation = Simulation(scene(), solver, ITERATIONS, dt=DT, damping=DAMPING, threads=threads)
                    rows.append({"work": name, "C++ by": reads, **compare(simulation, reads, library, quick)})
        return rows


def compare(simulation: Simulation, reads: str, library: ctypes.CDLL, quick: bool) -> dict[str, Any]:
    work = (_Steps if simulation.plan.system is None else _Visits)(simulation, reads, library)

    def hand() -> None:
        library.limit_threads(simulation.threads)  # each time: Numba sets it too
        work.hand()

    difference, report = work.difference(hand)
    theirs_best, ours_best, whole_best = race(hand, work.ours, simulation.step, seconds=0.3 if quick else 3.0)
    return {
        "threads": simulation.threads,
        "constraints": sum(len(group) for group in simulation.model.groups),
        "C++ ms": theirs_best * 1e3,
        "ours ms": ours_best * 1e3,
        "C++/ours": theirs_best / ours_best,
        "whole step ms": whole_best * 1e3,
        "largest difference m": difference,
        **{f"residual {group}": residual.rms for group, residual in report.residual.items()},
    }


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    figure.set_size_inches(12, 4.8)
    axes = figure.subplots()
    labels = [
        f"{row['work']}\n{row['C++ by']}\n{row['threads']} thread{'s' * (row['threads'] > 1)}".replace(", ", "\n")
        for row in rows
    ]
    bars = axes.bar(labels, [row["C++/ours"] for row in rows], color="#4477aa")
    axes.bar_label(bars, fmt="%.2f")
    axes.axhline(1, color="black", linewidth=1)
    axes.set_ylabel("C++ time / our time")
    axes.set_title("Our sweeps against hand-written C++ (1 = equal, more is better)")


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


class _Steps:
    """Whole steps of PBD; the C++ has its own copy of the data."""

    def __init__(self, simulation: Simulation, reads: str, library: ctypes.CDLL):
        self.simulation, self.sweeps = simulation, cast(CpuSweeps, simulation._sweeps)
        schedule = simulation.solver.schedule(self.sweeps, ITERATIONS, 1)
        self._bare = np.array([token for token in schedule if token is not None], np.int64)
        state = simulation.state
        self.positions, self.predicted, self.velocities = (aligned(state.positions.shape) for _ in range(3))
        self.positions[:], self.velocities[:] = state.positions, state.velocities
        self._alive = []
        groups = (_Group * len(simulation.plan.groups))()
        for i, (planned, blocked) in enumerate(zip(simulation.plan.groups, self.sweeps.blocked_groups)):
            columns = [_aligned(blocked.first_block, np.int32), _aligned(blocked.vertices, np.int32)]
            columns.append(_aligned(blocked.rest, np.float32))
            self._alive += columns
            groups[i] = _Group(
                KINDS[planned.group.name],
                planned.batch_count,
                *(column.ctypes.data for column in columns),
                float(blocked.ratios[0]),
            )
        self._work = _Work(
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
        self._step = library.limit_step

    def hand(self) -> None:
        self._step(ctypes.byref(self._work))

    def ours(self) -> None:
        self.sweeps.run_bare(self._bare)

    def difference(self, hand: Callable[[], None]) -> tuple[float, Report]:
        """Largest difference of positions [m] after some steps, and our report."""
        for _ in range(STEPS_COMPARED):
            hand()
            report = self.simulation.step()
        return float(np.abs(self.positions[:, :3] - self.simulation.state.positions[:, :3]).max()), report


class _VisitsData(ctypes.Structure):
    _fields_ = [
        ("colors", ctypes.c_int),
        ("iterations", ctypes.c_int),
        ("particles", ctypes.c_int),
        ("stiffness", ctypes.c_float),
        ("blocks", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("neighbors", ctypes.c_void_p),
        ("rest", ctypes.c_void_p),
        ("inertia", ctypes.c_void_p),
        ("share", ctypes.c_void_p),
        ("aims", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
    ]


class _Visits:
    """The relaxing sweeps of a step of Projective Dynamics on springs, all of one stiffness."""

    def __init__(self, simulation: Simulation, reads: str, library: ctypes.CDLL):
        self.simulation, self.sweeps, self.by_rows = simulation, cast(CpuSweeps, simulation._sweeps), reads == "rows"
        self._relax = library.limit_visits_by_rows if self.by_rows else library.limit_visits_by_gathers
        self._report = simulation.step()
        ours, system, solver = self.sweeps.system, self.sweeps.system.system, cast(Vivace, simulation.solver)
        self.sweeps.predicted[:] = ours.aims  # where the iterations of that step began
        self._bare = np.array(
            [ours.relax(color, solver.omega) for color in range(ours.coloring.count)] * ITERATIONS, np.int64
        )

        width = 8 if self.by_rows else library.limit_lanes()
        blocks, self._new = _by_color(ours.coloring, width)
        particles = blocks[-1] * width
        degree, inertia = np.zeros(particles, np.int64), np.zeros(particles)
        degree[self._new] = np.diff(system.offsets)
        free = simulation.plan.inverse_masses > 0
        inertia[self._new[free]] = 1 / simulation.plan.inverse_masses[free] / DT**2
        share = np.zeros(particles)
        share[inertia > 0] = solver.omega / (inertia + system.stiffness[0] * degree)[inertia > 0]
        slots, neighbors, rest = _side_by_side(system, degree.reshape(-1, width), self._new)
        rows = np.zeros((2, particles, 4), np.float32)
        rows[:, self._new] = ours.aims[: len(self._new)], self.sweeps.predicted[: len(self._new)]
        aims, positions = rows if self.by_rows else rows.swapaxes(1, 2)
        self._columns = [_aligned(column, np.int32) for column in (blocks, slots, neighbors)]
        self._columns += [_aligned(column, np.float32) for column in (rest, inertia, share, aims, positions)]
        self._work = _VisitsData(
            ours.coloring.count,
            ITERATIONS,
            particles,
            system.stiffness[0],
            *(column.ctypes.data for column in self._columns),
        )

    def hand(self) -> None:
        self._relax(ctypes.byref(self._work))

    def ours(self) -> None:
        self.sweeps.run_bare(self._bare)

    def difference(self, hand: Callable[[], None]) -> tuple[float, Report]:
        """Largest difference of positions [m] after the sweeps, and the report of the step that they are from."""
        hand()
        self.ours()
        positions = self._columns[-1] if self.by_rows else self._columns[-1].T
        theirs, ours = positions[self._new, :3], self.sweeps.predicted[: len(self._new), :3]
        return float(np.abs(theirs - ours).max()), self._report


def _by_color(coloring: Coloring, width: int) -> tuple[np.ndarray, np.ndarray]:
    """First block of each color, and the place of each particle if those of one color lie together in whole blocks."""
    order = np.argsort(coloring.colors, kind="stable")
    blocks = np.append(0, np.cumsum(-(-coloring.sizes // width)))
    before = np.cumsum(coloring.sizes) - coloring.sizes  # particles of earlier colors
    new = np.empty_like(order)
    new[order] = np.arange(len(order)) + (blocks[:-1] * width - before)[coloring.colors[order]]
    return blocks, new


def _side_by_side(system: System, degree: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First slot of each block, and its neighbors and rest lengths, filled up with the particle itself (sliced ELL)."""
    blocks, width = degree.shape
    slots = np.append(0, np.cumsum(degree.max(axis=1)))
    own = np.arange(blocks * width).reshape(blocks, width)
    neighbors = own[np.repeat(np.arange(blocks), np.diff(slots))]
    rest = np.zeros(neighbors.shape)
    particle = np.repeat(np.arange(len(new)), np.diff(system.offsets))
    block, lane = np.divmod(new[particle], width)
    slot = slots[block] + np.arange(len(particle)) - system.offsets[particle]
    neighbors[slot, lane], rest[slot, lane] = new[system.neighbors], system.rest
    return slots, neighbors, rest


def _aligned(values: np.ndarray, dtype: type) -> np.ndarray:
    copy = aligned(values.shape, dtype)
    copy[:] = values
    return copy


def _shaken(mesh: Mesh, amount: float) -> np.ndarray:
    return mesh.vertices + np.random.default_rng(0).normal(0, amount, mesh.vertices.shape)

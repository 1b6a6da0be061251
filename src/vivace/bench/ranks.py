"""Frames of `corner-cloth` measured in processes of their own, on one rank or several: for the benches of clusters.

    for row in measured([Case(10_000, 40)], ranks=2):

Each row has `particles`, `blocks`, `rows of a block`, `frames`, milliseconds of a step (`step ms`, the best), the
same with reading the positions (`best ms`, `median ms`). With the solver implicit it has the relative `residual` of the
solves, their median; with others, on several ranks, the `messages` that the first one sends in a frame, and the rows of
`a message`, their mean. `apart`: each rank has a simulation of its own, with its share of the particles, and they only
begin frames together, which shows what the cores of this machine do where nobody needs anything of another.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .. import solvers
from ..checks import extra
from ..cluster.launch import find_mpiexec, mpiexec_command
from ..scene import Scene
from ..scenes import find
from ..simulation import Simulation

ITERATIONS, DT, DAMPING = 5, 1 / 25, 0.5
FIRST_FRAMES = 2  # not timed


@dataclass(frozen=True)
class Case:
    """What is measured."""

    particles: int
    blocks: int | None = None
    preconditioner: str = "block-jacobi"
    frames: int = 100
    threads: int = 1
    backend: str = "mpi"
    solver: str = "implicit"
    iterations: int = ITERATIONS


def measured(cases: Sequence[Case], ranks: int | None, apart: bool = False) -> Iterator[dict[str, Any]]:
    """A row for each case, in turn; all of them in one job of so many ranks, or in one process if that is None."""
    command = [sys.executable, "-m", __name__, json.dumps([asdict(case) for case in cases]), str(int(apart))]
    if ranks is not None:
        extra("mpi4py", "mpi")
        command = [*mpiexec_command(find_mpiexec(), ranks, []), *command]
    with tempfile.TemporaryFile("w+") as complaints:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True) as job:
            assert job.stdout is not None
            try:
                for line in job.stdout:
                    yield json.loads(line)
                job.wait()
            finally:
                job.kill()
        if job.returncode:
            complaints.seek(0)
            raise RuntimeError(f"{ranks or 1} ranks ended with {job.returncode}: {complaints.read()}")


def measure(case: Case, scene: Scene, comm: Any = None) -> dict[str, Any]:
    """A row of one case, measured here; frames on fewer threads than asked for do not count, unless all were.

    comm: of processes with a simulation each; a frame lasts from the first that begins to the last that ends.
    """
    options = {"preconditioner": case.preconditioner, "blocks": case.blocks} if case.solver == "implicit" else {}
    simulation = Simulation(
        scene,
        solvers.find(case.solver, **options),
        case.iterations,
        dt=DT,
        damping=DAMPING,
        threads=case.threads,
        backend=case.backend,
    )
    for _ in range(FIRST_FRAMES):
        simulation.step()
    times, residuals = [], []
    for _ in range(case.frames):
        if comm:
            comm.Barrier()
        start = time.perf_counter()
        report = simulation.step()
        stepped = time.perf_counter()
        _positions = simulation.positions  # fetched from all ranks only when somebody looks
        times.append((start, stepped, time.perf_counter(), report.threads))
        residuals += [report.solve.residual] if report.solve else []
    if comm:  # one clock for all processes of a machine
        everyones = np.array(comm.allgather(times))
        times = np.column_stack([everyones[:, :, 0].min(axis=0), everyones[:, :, 1:].max(axis=0)]).tolist()
    kept = [one[:3] for one in times if one[3] == case.threads] or [one[:3] for one in times]
    start_times, step_times, whole_times = 1e3 * np.array(kept).T
    step, whole = step_times - start_times, whole_times - start_times
    row = {
        "particles": simulation.model.particle_count,
        "frames": len(kept),
        "step ms": float(step.min()),
        "best ms": float(whole.min()),
        "median ms": float(np.median(whole)),
    }
    net = simulation.plan.net
    if net is not None:
        sizes = {"blocks": net.total, "rows of a block": int(np.diff(net.starts).max())}
        return {**row, **sizes, "residual": float(np.median(residuals))}
    sweeps: Any = simulation._sweeps
    messages = sweeps.rank.part.messages(case.iterations) if case.backend == "mpi" else []
    return {**row, "messages": len(messages), "a message": float(np.mean(messages)) if messages else 0.0}


def main(text: str, apart: bool = False) -> None:
    cases = [Case(**case) for case in json.loads(text)]
    if apart:
        measure_apart(cases)
        return
    if any(case.backend == "mpi" for case in cases):
        from ..backends.mpi_join import join

        join()
    setup, scenes = find("corner-cloth"), {}
    for case in cases:
        if case.particles not in scenes:
            scenes = {case.particles: setup.make(setup.scale_for(case.particles))}
        print(json.dumps(measure(case, scenes[case.particles])), flush=True)


def measure_apart(cases: Sequence[Case]) -> None:
    comm, setup = extra("mpi4py.MPI", "mpi").COMM_WORLD, find("corner-cloth")
    try:
        for case in cases:
            row = measure(case, setup.make(setup.scale_for(case.particles // comm.size)), comm)
            if comm.rank == 0:
                print(json.dumps({**row, "particles": row["particles"] * comm.size}), flush=True)
    except Exception as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
        comm.Abort(1)  # else the others would wait


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "1")

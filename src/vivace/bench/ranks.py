"""Frames of `corner-cloth` measured in processes of their own, on one rank or several: for the benches of clusters.

    for row in measured([Case(10_000, 40)], ranks=2):

or several jobs in turns, so that none has a better hour of the machine than another:

    with Job([Case(10_000)], 1) as one, Job([Case(10_000)], 2) as two:
        rows = [(one.measure(), two.measure()) for turn in range(20)]

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
from collections.abc import Iterable, Iterator, Sequence
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
NAP, PATIENCE = 5e-3, 60  # [s] between looks for a question; for a job to end


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


class Job:
    """Processes that measure cases when they are told to, and wait in between: several jobs can take turns.

    ranks: so many, or one process without MPI if that is None.
    """

    def __init__(self, cases: Sequence[Case], ranks: int | None, apart: bool = False):
        command = [sys.executable, "-m", __name__, json.dumps([asdict(case) for case in cases]), str(int(apart))]
        if ranks is not None:
            extra("mpi4py", "mpi")
            command = [*mpiexec_command(find_mpiexec(), ranks, []), *command]
        self.ranks, self._complaints = ranks, tempfile.TemporaryFile("w+")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._complaints, text=True)

    def make_ready(self, case: int = 0) -> None:
        """Have the simulation of a case made, and let go of that of another."""
        self._ask("ready", case)

    def measure(self, case: int = 0) -> dict[str, Any]:
        """A row of a case, whose simulation goes on from where it was."""
        return self._ask("measure", case)

    def _ask(self, what: str, case: int) -> dict[str, Any]:
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None and answers is not None
        try:
            print(what, case, file=questions, flush=True)
        except BrokenPipeError:
            pass  # it has ended, and says why
        line = answers.readline()
        if not line:
            raise self._problem()
        return json.loads(line)

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        with self._complaints, self._process as process:
            try:
                if failed:
                    process.terminate()
                process.communicate(timeout=PATIENCE)  # which ends what it reads from
            finally:
                process.kill()
            if process.returncode and not failed:
                raise self._problem()

    def _problem(self) -> RuntimeError:
        self._complaints.seek(0)
        return RuntimeError(f"{self.ranks or 1} ranks ended with {self._process.wait()}: {self._complaints.read()}")


def measured(cases: Sequence[Case], ranks: int | None) -> Iterator[dict[str, Any]]:
    """A row for each case, in turn; all of them in one job."""
    with Job(cases, ranks) as job:
        for number in range(len(cases)):
            yield job.measure(number)


def prepared(case: Case, scene: Scene) -> Simulation:
    """The simulation of a case, after its first frames."""
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
    return simulation


def measure(case: Case, simulation: Simulation, comm: Any = None) -> dict[str, Any]:
    """A row of one case, measured here; frames on fewer threads than asked for do not count, unless all were.

    comm: of processes with a simulation each; a frame lasts from the first that begins to the last that ends.
    """
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
        sizes = {"blocks": net.total, "rows of a block": net.rows_of_a_block}
        return {**row, **sizes, "residual": float(np.median(residuals))}
    sweeps: Any = simulation._sweeps
    messages = sweeps.rank.part.messages(case.iterations) if case.backend == "mpi" else []
    return {**row, "messages": len(messages), "a message": float(np.mean(messages)) if messages else 0.0}


def main(text: str, apart: bool = False) -> None:
    """Answer the questions of a `Job`."""
    cases = [Case(**case) for case in json.loads(text)]
    if apart:
        _answer_apart(cases)
        return
    if any(case.backend == "mpi" for case in cases):
        from ..backends.mpi_join import join

        join()
    _answer(cases, iter(sys.stdin))


def _answer(cases: Sequence[Case], questions: Iterable[str], comm: Any = None) -> None:
    setup, scenes = find("corner-cloth"), {}
    chosen, simulation = "", None
    for what, number in (question.split() for question in questions):
        case = cases[int(number)]
        if number != chosen:
            chosen, simulation = number, None  # the last one goes before the next comes
            particles = case.particles // (comm.size if comm else 1)
            if particles not in scenes:
                scenes = {particles: setup.make(setup.scale_for(particles))}
            simulation = prepared(case, scenes[particles])
        row = measure(case, simulation, comm) if simulation and what == "measure" else {}
        if row and comm:
            row["particles"] *= comm.size
        if not comm or comm.rank == 0:
            print(json.dumps(row), flush=True)


def _answer_apart(cases: Sequence[Case]) -> None:
    comm = extra("mpi4py.MPI", "mpi").COMM_WORLD
    try:
        _answer(cases, _told(comm), comm)
    except Exception as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
        comm.Abort(1)  # else the others would wait


def _told(comm: Any) -> Iterator[str]:
    """The questions, which only the first process hears. Who waits sleeps: it is the turn of others."""
    while True:
        if comm.rank == 0:
            question = sys.stdin.readline()
            for rank in range(1, comm.size):
                comm.send(question, rank)
        else:
            while not comm.Iprobe(source=0):
                time.sleep(NAP)
            question = comm.recv(source=0)
        if not question:
            return
        yield question


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "1")

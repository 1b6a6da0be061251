"""A job started from one command: mpiexec with the same command on every rank, and a watch over them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import InputError
from . import way_on
from .watchdog import VARIABLE, Watch, address_towards

GRACE = 5.0  # [s] for a job to end by itself
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130  # exit codes
# Options that a job which goes on has again; all else is in its checkpoint.
KEPT, KEPT_FLAGS = ("--frames", "--threads", "--every", "--out", "--report"), ("--json", "--check")
# What ranks on other hosts have of this environment under Open MPI, which tells them nothing else; MPICH tells all.
TOLD = ("VIVACE_", "NUMBA_", "OMP_", "PYTHON", "MPI4PY_")


def find_mpiexec() -> Path:
    """The mpiexec beside this interpreter, or else the first on the path."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise InputError("there is no mpiexec; it comes with: pip install 'vivace[mpi]'")
    return Path(found)


def mpiexec_command(
    mpiexec: Path, ranks: int, hosts: Sequence[str] = (), environment: Mapping[str, str] = os.environ
) -> list[str]:
    """How to start so many ranks; MPICH and Open MPI have different words for it."""
    version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True).stdout
    command = [str(mpiexec)]
    if "Open MPI" in version or "OpenRTE" in version or "prrte" in version.lower():
        command += ["--oversubscribe", "--bind-to", "none"]
        command += ["--allow-run-as-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        if hosts:
            told = sorted(name for name in environment if name.startswith(TOLD))
            each = -(-ranks // len(hosts))
            command += ["--host", ",".join(f"{host}:{each}" for host in hosts)]
            command += [part for name in told for part in ("-x", name)]
    elif hosts:
        command += ["-hosts", ",".join(hosts)]
    return [*command, "-n", str(ranks)]


def supervise(
    command: Sequence[str],
    ranks: int,
    hosts: Sequence[str],
    checkpoint: Path | None,
    restarts: int,
    say: Callable[[str], None],
) -> int:
    """Run the command `vivace ...` on all ranks until it ends, and gives its exit code.

    When a rank is lost, it says which, and where to go on from; up to `restarts` times it goes on by itself, without
    the host that was lost if there are others.
    """
    arguments, hosts = without(command, "--ranks", "--hosts", "--restart"), list(hosts)
    while True:
        code, lost = _run_once(arguments, ranks, hosts)
        if lost is None or code in (0, BAD_INPUT, INTERRUPTED):
            return code
        there = checkpoint is not None and checkpoint.exists()
        if restarts <= 0:
            listed = f" --hosts {','.join(hosts)}" if hosts else ""
            say(f"{lost}; the job is ended; {way_on(checkpoint, f' --ranks {ranks}{listed}')}")
            return FAILED
        restarts -= 1
        left = [host for host in hosts if f" on {host} " not in lost]
        if left and left != hosts:
            ranks, hosts = max(ranks * len(left) // len(hosts), 1), left
        start = f"from {checkpoint}" if there else "from the start"
        say(f"{lost}; the job starts again {start} on {ranks} ranks, {restarts} more times if need be")
        if there:
            kept = [part for name in KEPT for part in with_values(arguments, name)]
            arguments = ["resume", str(checkpoint), *kept, *(flag for flag in KEPT_FLAGS if flag in arguments)]


def without(arguments: Sequence[str], *names: str) -> list[str]:
    """Arguments of a command without some options, each with one value."""
    kept, skip = [], False
    for argument in arguments:
        if not skip and argument.split("=")[0] not in names:
            kept.append(argument)
        skip = not skip and argument in names
    return kept


def with_values(arguments: Sequence[str], name: str) -> list[str]:
    """An option of a command with its values, as often as it is given."""
    found: list[str] = []
    for place, argument in enumerate(arguments):
        if argument == name:
            found += arguments[place : place + 2]
        elif argument.startswith(f"{name}="):
            found.append(argument)
    return found


def _run_once(arguments: Sequence[str], ranks: int, hosts: Sequence[str]) -> tuple[int, str | None]:
    """Exit code of a job, and who was lost."""
    watch = Watch(ranks, address_towards(hosts[-1]) if hosts else "127.0.0.1")
    environment = {**os.environ, VARIABLE: watch.place}
    start = mpiexec_command(find_mpiexec(), ranks, hosts, environment)
    command = [*start, sys.executable, "-m", "vivace", *arguments]
    job = subprocess.Popen(command, env=environment, start_new_session=True)
    before = {which: signal.signal(which, lambda *_: watch.interrupt()) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        since = None
        while job.poll() is None:
            time.sleep(0.05)
            if watch.lost:
                since = since or time.monotonic()
                if time.monotonic() - since > GRACE:  # it waits for a host that is gone
                    _end(job.pid)
        time.sleep(0.3 if job.returncode else 0)  # who was lost may be known a moment later
        code, lost = _exit_code(job.returncode), watch.lost if job.returncode else None
        if lost is None and watch.met < ranks and code not in (0, FAILED, BAD_INPUT, INTERRUPTED):
            lost = f"{ranks - watch.met} of {ranks} ranks had not joined when mpiexec ended, with code {code}"
        return code, lost
    finally:
        if job.poll() is None:
            _end(job.pid)
        for which, handler in before.items():
            signal.signal(which, handler)
        watch.close()


def _end(session: int) -> None:
    """Kill an mpiexec and all that it has started here; Open MPI gives each ssh a process group of its own."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(entry.name)) == session:
                os.kill(int(entry.name), signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)


def _exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code

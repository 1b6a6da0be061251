"""How the processes of a job come together: all of one version, watched over, the first one leading."""

import atexit
import ctypes
import hashlib
import os
import platform
import signal
import socket
import sys
import threading
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..checks import extra
from ..cluster import started_by_srun, told_rank, told_size, way_on
from ..cluster.watchdog import VARIABLE, Pulse, Watch, address_towards
from ..errors import InputError
from ..kernels.region import core_count
from .mpi_rank import Rank
from .mpi_sweeps import close_channels
from .mpi_talk import COMMAND, send

ENDINGS = signal.SIGINT, signal.SIGTERM
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # as in malloc.h
_here: list[tuple[int, int]] = []  # how many ranks are on this host, and the cores that they have together
_asked: list[int] = []  # signals that want an end
_saved: list[Path] = []  # where the job's checkpoint is, if it has one


@cache
def join() -> Any:
    """All ranks of this job, or this process alone; on the first rank it returns, the others follow that one.

    They end with it: what comes after this in a program is the first rank's.
    """
    library = extra("mpi4py.MPI", "mpi")
    comm = library.COMM_WORLD
    if comm.size < told_size():
        if told_rank() not in (None, "0"):
            sys.exit(2)  # the first one says why
        name, release = library.get_vendor()
        who, way = "mpiexec", "take the mpiexec of that MPI"
        if started_by_srun():
            who, way = "srun", "add --mpi=pmi2, or what else of srun --mpi=list that MPI understands"
        raise InputError(
            f"{who} has started {told_size()} processes, but {name} {'.'.join(map(str, release))}, which mpi4py uses "
            f"here, knows of {comm.size}: {way}"
        )
    if comm.size == 1 and VARIABLE not in os.environ:
        return comm
    _keep_memory()
    pulse = _start_pulse(comm)
    _check_versions(comm, pulse)
    here = [cores for host, cores in comm.allgather((socket.gethostname(), _cores())) if host == socket.gethostname()]
    _here.append((len(here), len(set().union(*here))))
    if comm.rank:
        for ending in ENDINGS:
            signal.signal(ending, signal.SIG_IGN)  # the first rank is told too, and ends them
        Rank(comm).follow()
        close_channels()
        pulse.end()
        sys.exit(0)

    def stop() -> None:
        for rank in range(1, comm.size):
            send(comm, ("stop", ()), rank, COMMAND)
        close_channels()
        pulse.end()

    atexit.register(stop)
    if threading.current_thread() is threading.main_thread():
        for ending in ENDINGS:
            signal.signal(ending, _interrupt)
    warn_of_crowding(1)
    return comm


def _keep_memory() -> None:
    """Have arrays of up to 16 MB used again, not given back: fresh pages cost more than all else when blocks move."""
    kept, at_once = 256 << 20, 16 << 20  # bytes
    if platform.libc_ver()[0] == "glibc":
        library = ctypes.CDLL(None)
        library.mallopt(TRIM_THRESHOLD, kept)
        library.mallopt(MMAP_THRESHOLD, at_once)


def warn_of_crowding(threads: int) -> None:
    """Say when the ranks on this host, with so many threads each, are more than its cores."""
    ranks, cores = _shared()
    if ranks > 1 and ranks * threads > cores:
        of = f" of {threads} threads" if threads > 1 else ""
        warnings.warn(f"{ranks} ranks{of} share {cores} cores: those that wait keep them busy", stacklevel=2)


def check_that_threads_may_talk() -> None:
    """Where a rank has several threads, any of them may be the one that calls MPI."""
    mpi = extra("mpi4py.MPI", "mpi")
    if mpi.Query_thread() < mpi.THREAD_SERIALIZED:
        raise InputError("this MPI lets one thread of a process call it alone; give each rank one thread (--threads 1)")


def _shared() -> tuple[int, int]:
    """How many ranks are on this host, and the cores that they have together."""
    return _here[0] if _here else (1, core_count())


def _cores() -> set[int]:
    """The cores that this rank may use: a launcher may give each rank its own."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(core_count()))


def _interrupt(which: int, _: Any) -> None:
    """Whoever wants to interrupt waits until the next frame: no rank may miss what the others do together."""
    _asked.append(which)
    if len(_asked) > 1:
        raise KeyboardInterrupt


def _start_pulse(comm: Any) -> Pulse:
    """A sign of life for whoever watches: the command that has started this job, or else the first rank."""
    place = os.environ.get(VARIABLE)
    if comm.rank == 0 and place is None:
        others = [host for host in comm.gather(socket.gethostname()) if host != socket.gethostname()]
        address = address_towards(others[0]) if others else "127.0.0.1"
        place = Watch(comm.size, address, _complain).place
    elif place is None:
        comm.gather(socket.gethostname())
    return Pulse(comm.bcast(place), comm.rank)


def remember_checkpoint(path: Path) -> None:
    """Have it named when a rank is lost."""
    _saved[:] = [path]


def _complain(why: str) -> None:
    hint = way_on(_saved[0] if _saved else None, ", under the same launcher")
    print(f"vivace: {why}; the job is ended; {hint}", file=sys.stderr, flush=True)


def _check_versions(comm: Any, pulse: Pulse) -> None:
    """All ranks must run the same program, or they would not agree on what they send."""
    own = f"vivace {version('vivace')} ({_sources()}), Numba {version('numba')}, NumPy {version('numpy')}"
    found = comm.allgather((socket.gethostname(), own))
    for rank, (host, other) in enumerate(found):
        if other != found[0][1]:
            pulse.end()
            if comm.rank == 0:
                raise InputError(f"rank {rank} on {host} has {other}, rank 0 has {own}; all must be the same")
            sys.exit(2)


def _sources() -> str:
    """A number for the sources of this package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def most_threads() -> int:
    """The cores of this host are shared by the ranks on it."""
    join()
    ranks, cores = _shared()
    return max(cores // ranks, 1)


def obey_interrupts() -> None:
    """An interrupt, if somebody has asked for one: to be called where no rank misses what the others do together."""
    if _asked:
        raise KeyboardInterrupt

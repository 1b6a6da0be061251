"""Jobs of several processes: starting them, watching over them, starting them again."""

import os
from pathlib import Path

# What mpiexec and srun tell the processes that they start.
RANK_NAMES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
SIZE_NAMES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


def told_rank() -> str | None:
    """Which of the processes this is that an mpiexec or srun has started; None where none has."""
    return next((os.environ[name] for name in RANK_NAMES if name in os.environ), None)


def in_job() -> bool:
    """Whether this process is one of those that an mpiexec or srun has started."""
    return told_rank() is not None


def way_on(checkpoint: Path | None, options: str) -> str:
    """What to do after a job has lost a rank."""
    if checkpoint is None:
        return "it has no checkpoint: --checkpoint writes them"
    return f"go on with: vivace resume {checkpoint}{options}" if checkpoint.exists() else "there is no checkpoint yet"


def told_size() -> int:
    """How many processes an mpiexec says that it has started; 1 where none says so."""
    return max((int(os.environ[name]) for name in SIZE_NAMES if name in os.environ), default=1)

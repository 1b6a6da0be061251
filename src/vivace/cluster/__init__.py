"""Jobs of several processes: starting them, watching over them, starting them again."""

import os
from pathlib import Path

# What mpiexec and srun tell the processes that they start.
RANK_NAMES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
SIZE_NAMES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


def in_job() -> bool:
    """Whether this process is one of those that an mpiexec or srun has started."""
    return any(name in os.environ for name in RANK_NAMES)


def way_on(checkpoint: Path | None, ranks: int) -> str:
    """What to do after a job has lost a rank."""
    if checkpoint is None or not checkpoint.exists():
        return "there is no checkpoint yet"
    return f"go on with: vivace resume {checkpoint} --ranks {ranks}"


def told_size() -> int:
    """How many processes an mpiexec says that it has started; 1 where none says so."""
    return max((int(os.environ[name]) for name in SIZE_NAMES if name in os.environ), default=1)

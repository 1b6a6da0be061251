"""Jobs of several processes: starting them, watching over them, starting them again."""

import os

# What mpiexec and srun tell the processes that they start.
RANK_NAMES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
SIZE_NAMES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


def in_job() -> bool:
    """Whether this process is one of those that an mpiexec or srun has started."""
    return any(name in os.environ for name in RANK_NAMES)


def told_size() -> int:
    """How many processes an mpiexec says that it has started; 1 where none says so."""
    return max((int(os.environ[name]) for name in SIZE_NAMES if name in os.environ), default=1)

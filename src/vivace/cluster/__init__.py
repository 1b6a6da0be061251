"""Jobs of several processes: starting them, watching over them, starting them again."""

import os
from pathlib import Path

# What mpiexec and srun tell the processes that they start. The last ones are of an srun without MPI, too.
RANK_NAMES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
SIZE_NAMES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


def told_rank() -> str | None:
    """Which of the processes this is that an mpiexec or srun has started; None where none has."""
    names = RANK_NAMES if int(os.environ.get(SIZE_NAMES[-1], 1)) > 1 else RANK_NAMES[:-1]  # else a script of sbatch
    return next((os.environ[name] for name in names if name in os.environ), None)


def started_by_srun() -> bool:
    """Whether that was srun, and it has told nothing that MPI could go by."""
    return in_job() and not any(name in os.environ for name in RANK_NAMES[:-1])


def in_job() -> bool:
    """Whether this process is one of those that an mpiexec or srun has started."""
    return told_rank() is not None


def way_on(checkpoint: Path | None, options: str) -> str:
    """What to do after a job has lost a rank."""
    if checkpoint is None:
        return "it has no checkpoint: --checkpoint writes them"
    return f"go on with: vivace resume {checkpoint}{options}" if checkpoint.exists() else "there is no checkpoint yet"


def told_size() -> int:
    """How many processes an mpiexec or srun says that it has started; 1 where none says so."""
    return max((int(os.environ[name]) for name in SIZE_NAMES if name in os.environ), default=1)

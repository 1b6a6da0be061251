"""The system of Projective Dynamics factored once: Y = P^T L D L^T P for the particles that are free."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import diags_array
from scipy.sparse.linalg import splu

from .errors import InputError
from .system import System


@dataclass(frozen=True, eq=False)
class Factor:
    """Lower triangle without its diagonal of ones, by columns."""

    particles: np.ndarray  # (free,) int32, of each factor row
    starts: np.ndarray  # (free + 1,) int32
    rows: np.ndarray  # int32
    entries: np.ndarray  # float32
    inverse_diagonal: np.ndarray  # (free,) float32


def factored(system: System, inverse_masses: np.ndarray, step: float) -> Factor:
    """SuperLU without pivoting, which a positive definite matrix does not need: then U = D L^T."""
    free = np.flatnonzero(inverse_masses > 0)
    if not len(free):
        none = np.zeros(0, np.int32)
        return Factor(none, np.zeros(1, np.int32), none, none.astype(np.float32), none.astype(np.float32))
    inertia = 1 / inverse_masses[free].astype(np.float64) / step**2
    matrix = (system.matrix[free][:, free] + diags_array(inertia)).tocsc()
    made = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    if (made.perm_r != made.perm_c).any():
        raise InputError("pd-direct: the system is not positive definite to working precision; it is too stiff")
    lower = made.L.tocsc()
    lower.sort_indices()
    below = np.ones(lower.nnz, bool)
    below[lower.indptr[:-1]] = False  # the ones
    starts = lower.indptr - np.arange(len(lower.indptr))
    position = np.empty(len(free), np.int64)
    position[made.perm_r] = np.arange(len(free))
    return Factor(
        free[position].astype(np.int32),
        starts.astype(np.int32),
        lower.indices[below].astype(np.int32),
        lower.data[below].astype(np.float32),
        (1 / made.U.diagonal()).astype(np.float32),
    )

"""The one system Y q = b of Projective Dynamics (Bouaziz et al. 2014, eq. 10; paper 001, eq. 1), particle by particle.

Y = M / h^2 + L with L = sum of stiffness A^T A: a number for each pair of particles, since A acts alike on x, y and z.
b = M s / h^2 + pulls, the sum of stiffness A^T p. Inertia is left out here: it changes with h.

Everything is reckoned in differences of positions, so that nothing is lost far from the origin. Rows of A for several
corners sum to zero. A constraint on one corner is held in space: its pull is that on the particle where it is when
constraints are projected, stiffness A^T (p - A x), which holds until its visit in that iteration.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array

from .errors import InputError
from .kernels.lanes import WIDTH
from .model import ConstraintGroup


@dataclass(frozen=True, eq=False)
class System:
    """Row i has the entries offsets[i] to offsets[i + 1]; the first `springs[i]` of them are springs.

    A spring is projected anew at each visit: `stiffness` and `rest` are its own, and not part of `weights`.
    """

    offsets: np.ndarray  # (n + 1,) int64
    neighbors: np.ndarray  # int32
    weights: np.ndarray  # float32, -L_ij without the springs
    springs: np.ndarray  # (n,) int32
    stiffness: np.ndarray  # float32
    rest: np.ndarray  # float32
    diagonal: np.ndarray  # (n,) float32, L_ii with the springs
    folded: int | None  # the group of the springs
    projected: tuple[int, ...]  # groups with pulls, which are projected once an iteration
    by_differences: bool  # pulls are stiffness A^T (p - A x), all that acts on a particle; there are no entries
    pull_offsets: np.ndarray  # (n + 1,) int64
    pull_rows: np.ndarray  # int32, rows of the pulls; row 0 is none
    first_pulls: dict[int, int]  # of each projected group
    pull_count: int
    matrix: csr_array  # L, float64
    _radii: dict[float, float] = field(default_factory=dict)

    def pulls_by_difference(self, arity: int) -> bool:
        """Whether a pull is stiffness A^T (p - A x); a constraint on one corner, held in space, always is."""
        return self.by_differences or arity == 1

    @cached_property
    def weighted_springs(self) -> bool:
        """Whether any pair of particles with a spring has something else between them, too."""
        return bool(self.weights[self._of_springs].any())

    @cached_property
    def one_stiffness(self) -> float | None:
        """The stiffness of all springs, if it is the same."""
        own = self.stiffness[self._of_springs]
        return float(own[0]) if len(own) and (own == own[0]).all() else None

    @property
    def _of_springs(self) -> np.ndarray:
        return np.arange(len(self.neighbors)) < np.repeat(self.offsets[:-1] + self.springs, np.diff(self.offsets))

    def rayleigh(self, inverse_masses: np.ndarray, step: float) -> float:
        """An estimate of the spectral radius of Jacobi's iteration, from the motion as a whole: D / (M / h^2 + D).

        Two sums, so it may follow a step length that changes every frame. Pins make it a little too large.
        """
        free = inverse_masses > 0
        inertia, stiffness = (1 / inverse_masses[free].astype(float)).sum() / step**2, self.diagonal[free].sum()
        return float(stiffness / (inertia + stiffness)) if free.any() else 0.0

    def estimated_radius(self, inverse_masses: np.ndarray, step: float) -> float:
        """`spectral_radius`, made once for each step length, of which two digits count."""
        length = float(f"{step:.1e}")
        if length not in self._radii:
            self._radii[length] = self.spectral_radius(inverse_masses, length)
        return self._radii[length]

    def spectral_radius(self, inverse_masses: np.ndarray, step: float, rounds: int = 60) -> float:
        """The spectral radius of Jacobi's iteration matrix 1 - D^-1 Y, by power iteration."""
        free = inverse_masses > 0
        if not free.any():
            return 0.0
        inertia = 1 / inverse_masses[free].astype(float) / step**2
        matrix = self.matrix[free][:, free] + diags_array(inertia)
        diagonal = matrix.diagonal()
        # Symmetric form: eigenvalues of 1 - D^-1/2 Y D^-1/2. From smooth and rough together, so that both ends count.
        scale = diagonal**-0.5
        vector = scale**-1 * (1 + np.random.default_rng(0).normal(0, 1, len(scale)))
        radius = 0.0
        for _ in range(rounds):
            size = np.linalg.norm(vector)
            if size == 0:
                return 0.0
            vector = vector / size
            new = vector - scale * (matrix @ (scale * vector))
            vector, radius = new, float(np.linalg.norm(new))
        return min(radius, 0.99999)


def coefficients_of(group: ConstraintGroup, rest: np.ndarray) -> np.ndarray:
    """A of each constraint, (m, ROWS, ARITY) float64."""
    columns: Any = rest.astype(np.float64) if rest.ndim == 1 else tuple(rest.T.astype(np.float64))
    rows = group.constraint.coefficients(columns)
    made = np.stack([np.stack([np.broadcast_to(c, (len(rest),)) for c in row], axis=1) for row in rows], axis=1)
    made = made.astype(np.float64)
    if group.constraint.ARITY > 1 and np.abs(made.sum(axis=2)).max(initial=0) > 1e-4 * np.abs(made).max(initial=0):
        raise InputError(f"constraint {group.name!r}: each row of its coefficients must sum to zero")
    return made


def check_projectable(model_groups: Sequence[ConstraintGroup], solver: str) -> None:
    """An error that names the first group that Projective Dynamics cannot take."""
    for group in model_groups:
        if group.compliance is None:
            raise InputError(
                f"solver {solver!r}: group {group.name!r} has stiffness ratios, which are a matter of PBD; "
                f"give the body a material in physical units, such as vivace.Elastic"
            )
        if not is_projectable(group):
            raise InputError(
                f"solver {solver!r}: constraint {group.name!r} has no projection (coefficients and nearest); "
                f"use vivace.Elastic or Springs, or solver 'xpbd' or 'vivace'"
            )
        if (group.compliance == 0).any():
            first = int(np.argmin(group.compliance))
            raise InputError(
                f"solver {solver!r}: constraint {first} of group {group.name!r} has compliance 0, which is rigid; "
                f"Projective Dynamics needs a finite stiffness"
            )


def is_projectable(group: ConstraintGroup) -> bool:
    return all(hasattr(group.constraint, name) for name in ("coefficients", "nearest", "ROWS"))


def make_system(
    groups: Sequence[ConstraintGroup], vertices: Sequence[np.ndarray], particle_count: int, for_visits: bool = True
) -> System:
    """Assemble L; `vertices` are the groups' constraints as rows.

    For visits, the first group of springs is folded: visits project it themselves; all others are projected once an
    iteration. For a direct solve, which needs what is out of balance to the last digit, all forces are pulls.
    """
    folded = next((i for i, g in enumerate(groups) if for_visits and _is_spring(g)), None)
    stiffnesses = [1 / group.compliance.astype(np.float64) for group in groups]  # type: ignore[union-attr]
    parts = {i: _stencils(groups[i], vertices[i], stiffnesses[i]) for i in range(len(groups))}
    shape = (particle_count, particle_count)
    whole = _summed(list(parts.values()), shape)
    linear = _summed([part for i, part in parts.items() if i != folded and for_visits], shape)
    entries = [] if folded is None else _spring_entries(groups[folded], vertices[folded], stiffnesses[folded])
    columns = _merged(linear, entries, particle_count)
    projected = tuple(
        i for i, group in enumerate(groups) if i != folded and (not for_visits or _needs_projection(group).any())
    )
    pulls: dict[str, Any] = _pulls([(i, vertices[i]) for i in projected], particle_count)
    return System(
        **columns,
        diagonal=whole.diagonal().astype(np.float32),
        folded=folded,
        projected=projected,
        by_differences=not for_visits,
        **pulls,
        matrix=whole,
    )


def part_of_system(
    system: System, rows: np.ndarray, place_of: np.ndarray, vertices: Sequence[np.ndarray], count: int
) -> System:
    """The system of some rows, which come first among `count`; row i of the whole is now at place_of[i].

    `vertices` are the groups' constraints on the new rows, those of these rows among them, in their order.
    """
    lengths = np.diff(system.offsets)[rows]
    ends = np.cumsum(lengths)
    chosen = np.arange(ends[-1] if len(ends) else 0) + np.repeat(system.offsets[rows] - (ends - lengths), lengths)
    others = count - len(rows)
    pulls: dict[str, Any] = _pulls([(group, vertices[group]) for group in system.projected], count)
    return System(
        offsets=np.concatenate([[0], ends, np.full(others, ends[-1] if len(ends) else 0)]),
        neighbors=place_of[system.neighbors[chosen]],
        weights=system.weights[chosen],
        springs=np.append(system.springs[rows], np.zeros(others, np.int32)),
        stiffness=system.stiffness[chosen],
        rest=system.rest[chosen],
        diagonal=np.append(system.diagonal[rows], np.zeros(others, np.float32)),
        folded=system.folded,
        projected=system.projected,
        by_differences=system.by_differences,
        **pulls,
        matrix=csr_array((count, count)),
    )


def _is_spring(group: ConstraintGroup) -> bool:
    """Whether it pulls both its ends alike: A is their difference, and p turns round with it."""
    if group.constraint.ARITY != 2 or group.constraint.ROWS != 1 or group.rest.ndim != 1 or not len(group):
        return False
    there, back = (
        np.array(group.constraint.nearest(((sign * 0.3, sign * 0.5, sign * 0.7),), np.float64(group.rest[0]))[0], float)
        for sign in (1.0, -1.0)
    )
    return bool((coefficients_of(group, group.rest) == [1.0, -1.0]).all() and np.allclose(there, -back))


def _needs_projection(group: ConstraintGroup) -> np.ndarray:
    asked = getattr(group.constraint, "needs_projection", None)
    return asked(group.rest) if asked else np.ones(len(group), bool)


Entries = tuple[np.ndarray, np.ndarray, np.ndarray]


def _stencils(group: ConstraintGroup, vertices: np.ndarray, stiffness: np.ndarray) -> Entries:
    """Rows, columns and values of stiffness A^T A."""
    a = coefficients_of(group, group.rest)
    values = np.einsum("m,mrc,mrd->mcd", stiffness, a, a)
    if a.shape[2] > 1:  # the last digits, so that rows sum to zero
        diagonal = np.arange(a.shape[2])
        values[:, diagonal, diagonal] -= values.sum(axis=2)
    rows = np.broadcast_to(vertices[:, :, None], values.shape)
    return rows.ravel(), rows.swapaxes(1, 2).ravel(), values.ravel()


def _summed(parts: list[Entries], shape: tuple[int, int]) -> csr_array:
    if not parts:
        return csr_array(shape)
    rows, columns, values = (np.concatenate(column) for column in zip(*parts))
    made = coo_array((values, (rows, columns)), shape=shape).tocsr()
    made.sum_duplicates()
    return made


def _spring_entries(group: ConstraintGroup, vertices: np.ndarray, stiffness: np.ndarray) -> list[np.ndarray]:
    """Row, neighbor, stiffness and rest of each spring, seen from both its ends."""
    here, there = vertices.T
    return [np.concatenate(pair) for pair in ((here, there), (there, here), (stiffness,) * 2, (group.rest,) * 2)]


def _merged(linear: csr_array, springs: list[np.ndarray], count: int) -> dict[str, Any]:
    """Entries of each row, springs first; where a pair has both a spring and a weight, one entry holds both."""
    off = linear.tocoo()
    keep = (off.row != off.col) & (off.data != 0)
    keys, weights = off.row[keep].astype(np.int64) * count + off.col[keep], -off.data[keep]
    own = np.zeros((4, 0)) if not springs else np.stack([column.astype(np.float64) for column in springs])
    spring_keys = own[0].astype(np.int64) * count + own[1].astype(np.int64)
    order = np.argsort(spring_keys, kind="stable")
    spring_keys, own = spring_keys[order], own[:, order]
    first = np.ones(len(spring_keys), bool)
    first[1:] = spring_keys[1:] != spring_keys[:-1]  # of several springs between two particles
    place = np.searchsorted(spring_keys[first], keys)
    place = np.minimum(place, max(first.sum() - 1, 0))
    shared = spring_keys[first][place] == keys if first.any() else np.zeros(len(keys), bool)
    beside = np.zeros(len(spring_keys))
    beside[np.flatnonzero(first)[place[shared]]] = weights[shared]
    all_keys = np.concatenate([spring_keys, keys[~shared]])
    kind = np.repeat([0, 1], [len(spring_keys), (~shared).sum()])
    rows = all_keys // count
    order = np.lexsort((all_keys, kind, rows))
    none = np.zeros((~shared).sum())
    columns = {
        "neighbors": (all_keys % count).astype(np.int32),
        "weights": np.concatenate([beside, weights[~shared]]).astype(np.float32),
        "stiffness": np.concatenate([own[2], none]).astype(np.float32),
        "rest": np.concatenate([own[3], none]).astype(np.float32),
    }
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    return {
        "offsets": offsets,
        "springs": np.bincount(rows[kind == 0], minlength=count).astype(np.int32),
        **{name: column[order] for name, column in columns.items()},
    }


def _pulls(groups: list[tuple[int, np.ndarray]], count: int) -> dict[str, Any]:
    """Where the pulls of each projected group lie, corner by corner within blocks of eight, and who gathers which."""
    members, rows, first_pulls, first = [], [], {}, WIDTH
    for group, vertices in groups:
        size, arity = vertices.shape
        block, lane = np.divmod(np.arange(size)[:, None], WIDTH)
        members.append(vertices.ravel())
        rows.append((first + (block * arity + np.arange(arity)) * WIDTH + lane).ravel())
        first_pulls[group] = first
        first += -(-size // WIDTH) * WIDTH * arity
    particles = np.concatenate(members) if members else np.zeros(0, np.int64)
    order = np.argsort(particles, kind="stable")
    return {
        "pull_offsets": np.concatenate([[0], np.cumsum(np.bincount(particles, minlength=count))]),
        "pull_rows": (np.concatenate(rows) if rows else np.zeros(0, np.int64))[order].astype(np.int32),
        "first_pulls": first_pulls,
        "pull_count": first,
    }

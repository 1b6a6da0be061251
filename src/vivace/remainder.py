"""Where the corrections of constraints that share particles are kept until they are averaged."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .plan import PlannedGroup


@dataclass(frozen=True, eq=False)
class Remainder:
    """The corners of all remainders, sorted by the row that they are at: its corrections lie side by side."""

    rows: np.ndarray  # (r,) int32, ascending: rows that some remainder holds
    begins: np.ndarray  # (r + 1,) int32: those of row rows[i] are begins[i] to begins[i + 1]
    places: tuple[np.ndarray, ...]  # for each group (remaining, arity) int32: of each corner's correction
    counts: tuple[np.ndarray, ...]  # likewise, float32: how many corrections its row gets in all


def find_remainder(groups: Sequence[PlannedGroup]) -> Remainder:
    """Of a plan's groups; a group without one has empty arrays."""
    return sorted_corners([planned.vertices[planned.partition.remainder] for planned in groups])


def sorted_corners(corners: Sequence[np.ndarray]) -> Remainder:
    """Of constraints given by their corners, (m, arity) for each group."""
    flat = np.concatenate([np.zeros(0, np.int32), *(vertices.ravel() for vertices in corners)])
    rows, back, counts = np.unique(flat, return_inverse=True, return_counts=True)
    places = np.empty(len(flat), np.int32)
    places[np.argsort(flat, kind="stable")] = np.arange(len(flat))
    ends = np.cumsum([vertices.size for vertices in corners])[:-1]

    def by_group(column: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(part.reshape(own.shape) for part, own in zip(np.split(column, ends), corners))

    begins = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return Remainder(rows.astype(np.int32), begins, by_group(places), by_group(counts[back].astype(np.float32)))

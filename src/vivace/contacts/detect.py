"""Contacts between soft things on their ways: points against triangles, edges against edges, or point against point.

All that moves does so in a straight line from where it is to where it is predicted. Blocks of eight neighbors whose
boxes overlap are found by a hash grid; of them, members that come near each other; of these, those that touch.
"""

from dataclasses import dataclass

import numpy as np
from numba import prange

from ..errors import InputError
from ..kernels.compile import compiled_parallel
from ..kernels.region import threads_set
from .cells import CHUNKS, into_cells
from .clusters import Clusters, make_clusters
from .describe import EDGE, END, MOST_ROWS, POINT, TRIANGLE, Described, describe
from .edges import Hinges, find_hinges
from .pairs import DATA, LONGEST_WAY, SLACK, Chunks


@dataclass(frozen=True, eq=False)
class Surfaces:
    """What may touch, in rows: points, edges and triangles, and what they were like without forces."""

    points: np.ndarray  # (p, 1) int32
    edges: np.ndarray  # (e, 2) int32
    triangles: np.ndarray  # (t, 3) int32
    bodies: np.ndarray  # (rows,) int32, the body of each row
    rest: np.ndarray  # (rows, 3) float32
    hinges: Hinges
    ends: np.ndarray  # (k, 3) int32, edges at which a surface ends, and what is opposite

    def clusters(self, kind: int) -> Clusters:
        """What lies side by side, of a kind; edges that are not between two triangles always count: by themselves."""
        things = {POINT: self.points, EDGE: self.edges, TRIANGLE: self.triangles, END: self.ends}[kind]
        labels = 2 * self.bodies[things[:, 0]].astype(np.int64)
        if kind == EDGE:
            labels[self.hinges.ends] += 1
        return make_clusters(things, self.rest, labels)


def make_surfaces(
    points: np.ndarray, triangles: np.ndarray, bodies: np.ndarray, rest: np.ndarray, thickness: float
) -> Surfaces:
    """Of points (p,), triangles (t, 3), and the body and place at rest of every row."""
    triangles = triangles.astype(np.int32)
    edges = np.unique(np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
    hinges, ends = find_hinges(edges, triangles, rest, thickness)
    return Surfaces(points.astype(np.int32)[:, None], edges, triangles, bodies, rest, hinges, ends)


@dataclass(frozen=True, eq=False)
class Found:
    """Contacts, always in the same order. gap = n . (sum of share_i x_i) is to stay at least the thickness."""

    corners: np.ndarray  # (m, 4) int32, rows
    data: np.ndarray  # (m, 8) float32: shares (4), direction n (3), thickness [m]

    def __len__(self) -> int:
        return len(self.corners)


class Detector:
    """Finds contacts; memory for them is used again, and grows."""

    def __init__(self, surfaces: Surfaces, thickness: float, by_particles: bool):
        if len(surfaces.bodies) > MOST_ROWS:
            raise InputError(f"self-collision takes less than {MOST_ROWS:,} particles")
        self.surfaces, self.thickness = surfaces, np.float32(thickness)
        self.distance = np.float32((1 + SLACK) * 1.02 * thickness)  # a little more, for rounding
        self.kinds = [POINT] if by_particles else [TRIANGLE, END, EDGE]
        self._touching = {kind: Chunks() for kind in self.kinds}
        self._clusters = {kind: surfaces.clusters(kind) for kind in {POINT, *self.kinds}}
        self._lanes = {kind: clusters.lanes() for kind, clusters in self._clusters.items()}

    @property
    def times_grown(self) -> int:
        """How often there was not room enough for all contacts."""
        return sum(touching.times_grown for touching in self._touching.values())

    def find(self, start: np.ndarray, end: np.ndarray, threads: int = 1, ahead: int = 1) -> Found:
        """Contacts of rows that go from `start` to `end`, both (rows, 4) float32; none if a number is not finite.

        `ahead`: in that many such substeps.
        """
        with threads_set(threads):
            if ahead > 1:
                end = _far_end(start, end, np.float32(ahead))
            means = _means(self.surfaces.points, start, end)
            if not np.isfinite(means).all():
                return Found(np.zeros((0, 4), np.int32), np.zeros((0, DATA), np.float32))
            rows = _ways(start, end, means[1] - means[0], np.float32(LONGEST_WAY) * self.thickness)
            points = self._described(POINT, self._lanes[POINT], rows)
            cells = into_cells(points.boxes)
            for kind in self.kinds:
                if kind == EDGE:
                    chosen = self._edges_that_count(start, end)
                    asking = stored = self._described(EDGE, self._clusters[EDGE].lanes(chosen), rows)
                    cells = into_cells(stored.boxes)
                else:
                    stored = points
                    asking = points if kind == POINT else self._described(kind, self._lanes[kind], rows)
                of_rows = self.surfaces.bodies, self.surfaces.rest, start, end
                self._touching[kind].find(kind, asking, stored, cells, *of_rows, self.distance, self.thickness)
            return self._together()

    def _described(self, kind: int, lanes: np.ndarray, rows: tuple[np.ndarray, np.ndarray]) -> Described:
        return describe(kind, self._clusters[kind], lanes, *rows, self.distance)

    def _edges_that_count(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        surfaces, touching = self.surfaces, self._touching[TRIANGLE]
        of_points = touching.counts, touching.corners, touching.data
        return surfaces.hinges.counting(surfaces.edges, *of_points, start, end, self.thickness)

    def _together(self) -> Found:
        count, place = sum(int(touching.counts.sum()) for touching in self._touching.values()), 0
        found = Found(np.empty((count, 4), np.int32), np.empty((count, DATA), np.float32))
        for touching in self._touching.values():
            place = touching.write(found.corners, found.data, place)
        return found


@compiled_parallel
def _means(points, start, end):
    """Of all points, at the start and at the end."""
    sums, count = np.zeros((CHUNKS, 2, 3)), len(points)
    for chunk in prange(CHUNKS):
        for i in range(chunk * count // CHUNKS, (chunk + 1) * count // CHUNKS):
            for axis in range(3):
                sums[chunk, 0, axis] += start[points[i, 0], axis]
                sums[chunk, 1, axis] += end[points[i, 0], axis]
    return sums.sum(axis=0) / max(count, 1)


@compiled_parallel
def _far_end(start, end, ahead):
    far = end.copy()
    for row in prange(len(start)):
        for axis in range(3):
            far[row, axis] = start[row, axis] + ahead * (end[row, axis] - start[row, axis])
    return far


@compiled_parallel
def _ways(start, end, mean_way, longest):
    """Middles of the ways of all rows and half ways, as `describe` wants them."""
    middles, ways = np.zeros((len(start), 4), np.float32), np.zeros((len(start), 4), np.float32)
    for row in prange(len(start)):
        whole = np.float32(0)
        for axis in range(3):
            way = end[row, axis] - start[row, axis]
            whole += way * way
            ways[row, axis] = np.float32(0.5) * np.float32(way - mean_way[axis])
            middles[row, axis] = start[row, axis] + ways[row, axis]
        middles[row, 3], ways[row, 3] = min(np.sqrt(whole), longest), row
    return middles, ways

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
from .cells import CHUNKS
from .clusters import Clusters, make_clusters
from .describe import EDGE, END, MOST_ROWS, POINT, TRIANGLE, Rows
from .edges import Hinges, find_hinges
from .lists import Lists
from .outlook import Ahead
from .pairs import LONGEST_WAY, SLACK
from .rooms import Rooms
from .touching import DATA, Touching

# Thicknesses that pairs may come nearer than their ways lead, if they are looked at again in later substeps.
MARGIN = 0.2


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
        clusters = {kind: surfaces.clusters(kind) for kind in {POINT, *self.kinds}}
        of_all = self.kinds, clusters, surfaces.bodies, surfaces.rest, self.thickness
        self._on_ways, self._in_rooms = Lists(*of_all), Lists(*of_all)
        self._rooms = Rooms(surfaces.points, len(surfaces.bodies), thickness, LONGEST_WAY * thickness)
        self._no_rooms = np.zeros(len(surfaces.bodies), np.float32)
        self._touching = {kind: Touching() for kind in self.kinds}

    @property
    def times_grown(self) -> int:
        """How often there was not room enough for all contacts."""
        return self._on_ways.times_grown + self._in_rooms.times_grown

    def find_for(self, ahead: Ahead, start: np.ndarray, end: np.ndarray, threads: int = 1) -> Found:
        """Contacts for as long as the outlook says."""
        if ahead.still:
            return self.find_in_rooms(start, end, threads, ahead.contacts)
        if ahead.pairs:
            self.list_pairs(start, end, threads, ahead.pairs, MARGIN if ahead.pairs > ahead.contacts else 0.0)
        return self.look(start, end, threads, ahead.contacts)

    def find(self, start: np.ndarray, end: np.ndarray, threads: int = 1, ahead: int = 1) -> Found:
        """Contacts of rows that go from `start` to `end`, both (rows, 4) float32; none if a number is not finite.

        `ahead`: in that many such substeps. All is looked up anew: other ways to find them are held against this one.
        """
        self.list_pairs(start, end, threads, ahead)
        return self.look(start, end, threads, ahead)

    def list_pairs(
        self, start: np.ndarray, end: np.ndarray, threads: int = 1, ahead: int = 1, margin: float = 0.0
    ) -> None:
        """Note what comes near in so many substeps, and a margin in thicknesses, for looks at it in any of them."""
        with threads_set(threads):
            end = _far_end(start, end, np.float32(ahead))
            means = _means(self.surfaces.points, start, end)
            if not np.isfinite(means).all():
                self._on_ways.clear()
                return
            rows, distance = self._rows(start, end, means), self.distance + np.float32(1.02 * margin) * self.thickness
            self._on_ways.list_points(rows, distance)
            if EDGE in self.kinds:
                self._look_at(self._on_ways, [TRIANGLE], start, end)
                self._on_ways.list_edges(self._edges_that_count(start, end), rows, distance)

    def look(self, start: np.ndarray, end: np.ndarray, threads: int = 1, ahead: int = 1) -> Found:
        """Those of the pairs that touch on ways from `start` to `end` and on, in so many such substeps."""
        with threads_set(threads):
            self._look_at(self._on_ways, self.kinds, start, _far_end(start, end, np.float32(ahead)))
            return self._together()

    def find_in_rooms(self, start: np.ndarray, end: np.ndarray, threads: int = 1, ahead: int = 1) -> Found:
        """As `find`, where hardly anything moves: points are looked up again only where they have left their rooms."""
        with threads_set(threads):
            end = _far_end(start, end, np.float32(ahead))
            means, lists, rooms = _means(self.surfaces.points, start, end), self._in_rooms, self._rooms
            if not np.isfinite(means).all():
                lists.clear()
                rooms.leave()
                self._look_at(lists, self.kinds, start, end)
                return self._together()
            moved = rooms.follow(start, end)
            if moved == len(self.surfaces.points):
                lists.list_points(rooms.rows, self.distance)
            elif moved:
                lists.list_points_again(rooms.rows, self.distance, rooms.moved)
            if EDGE in self.kinds:
                self._look_at(lists, [TRIANGLE], start, end)
                lists.list_edges(self._edges_that_count(start, end), self._rows(start, end, means), self.distance)
                self._look_at(lists, [END, EDGE], start, end)
            else:
                self._look_at(lists, [POINT], start, end)
            return self._together()

    def _rows(self, start: np.ndarray, end: np.ndarray, means: np.ndarray) -> Rows:
        """On their ways, as seen by who goes along with the mean of all."""
        middles, ways = _ways(start, end, means[1] - means[0], np.float32(LONGEST_WAY) * self.thickness)
        return Rows(middles, ways, self._no_rooms)

    def _look_at(self, lists: Lists, kinds: list[int], start: np.ndarray, end: np.ndarray) -> None:
        for kind in kinds:
            self._touching[kind].look(kind, lists.pairs[kind], start, end, self.thickness)

    def _edges_that_count(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """By what was found of points and triangles."""
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

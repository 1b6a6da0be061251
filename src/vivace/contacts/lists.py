"""Lists of all pairs that come near: of points with triangles and ends, of edges with edges, or of points with points.

They are made for ways of rows, or for rooms that rows stay in; then what is near rows that moved is listed again.
"""

import numpy as np

from .cells import Cells, into_cells
from .clusters import Clusters
from .describe import EDGE, POINT, TRIANGLE, Described, Rows, describe, describe_again
from .pairs import Pairs
from .rooms import add_near, have_moved


class Lists:
    """A list of pairs of each kind; memory for them is used again, and grows."""

    def __init__(
        self,
        kinds: list[int],
        clusters: dict[int, Clusters],
        bodies: np.ndarray,
        rest: np.ndarray,
        thickness: np.float32,
    ):
        self.pairs = {kind: Pairs() for kind in kinds}
        self.clusters, self.bodies, self.rest, self.thickness = clusters, bodies, rest, thickness
        self._by_points = [kind for kind in kinds if kind != EDGE]
        self._lanes = {kind: clusters[kind].lanes() for kind in {POINT, *self._by_points}}
        self._described: dict[int, Described] = {}

    @property
    def times_grown(self) -> int:
        return sum(pairs.times_grown for pairs in self.pairs.values())

    def clear(self) -> None:
        for pairs in self.pairs.values():
            pairs.clear()

    def list_points(self, rows: Rows, distance: np.float32) -> None:
        """All pairs of points and others that come so near."""
        self._described = {
            kind: describe(kind, self.clusters[kind], lanes, rows, distance) for kind, lanes in self._lanes.items()
        }
        cells = into_cells(self._described[POINT].boxes)
        for kind in self._by_points:
            self._find(kind, self._described[kind], self._described[POINT], cells, distance)

    def list_points_again(self, rows: Rows, distance: np.float32, moved: np.ndarray) -> None:
        """The same, where only some rows (rows,) have moved since."""
        again = {kind: have_moved(described, moved) for kind, described in self._described.items()}
        for kind, described in self._described.items():
            describe_again(kind, described, np.flatnonzero(again[kind]), rows, distance)
        points = self._described[POINT]
        others, cells = points.boxes[again[POINT]], into_cells(points.boxes)
        for kind in self._by_points:
            reach = np.float32(0) if kind == TRIANGLE else distance  # a triangle's box has it
            add_near(self._described[kind], others, reach, again[kind])
            self._find(kind, self._described[kind], points, cells, distance, again[kind])

    def list_edges(self, chosen: np.ndarray, rows: Rows, distance: np.float32) -> None:
        """All pairs of chosen edges (e,) that come so near."""
        clusters = self.clusters[EDGE]
        edges = describe(EDGE, clusters, clusters.lanes(chosen), rows, distance)
        self._find(EDGE, edges, edges, into_cells(edges.boxes), distance)

    def _find(
        self,
        kind: int,
        asking: Described,
        stored: Described,
        cells: Cells,
        distance: np.float32,
        again: np.ndarray | None = None,
    ) -> None:
        of_rows = self.bodies, self.rest
        self.pairs[kind].find(kind, asking, stored, cells, *of_rows, distance, self.thickness, again)

"""Meshes: vertices, triangles and tetrahedra, the makers of simple ones, and their topology."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np

from . import checks
from .errors import InputError

TRIANGLE_EDGES = ((0, 1), (1, 2), (2, 0))
TET_EDGES = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
# Seen from outside a tetrahedron of positive volume, each of these goes counterclockwise.
TET_FACES = ((1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1))


@dataclass(frozen=True, eq=False)
class Mesh:
    """Vertices (n, 3) float32 [m]; triangles (t, 3) and tets (k, 4) int32. A solid's triangles are its surface.

    Without triangles, a mesh of tets takes the faces that belong to one tet only.
    """

    vertices: np.ndarray
    triangles: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.int32))
    tets: np.ndarray = field(default_factory=lambda: np.zeros((0, 4), np.int32))

    def __post_init__(self) -> None:
        vertices = checks.array("mesh vertices", self.vertices, 3)
        if not len(vertices):
            raise InputError("mesh vertices: the mesh is empty")
        triangles = checks.indices("mesh triangles", self.triangles, len(vertices), 3)
        tets = checks.indices("mesh tets", self.tets, len(vertices), 4)
        for name, corners in (("triangle", triangles), ("tet", tets)):
            in_order = np.sort(corners, axis=1)
            doubled = (in_order[:, 1:] == in_order[:, :-1]).any(axis=1)
            if doubled.any():
                first = int(np.argmax(doubled))
                raise InputError(
                    f"mesh {name}s: {name} {first} names a vertex twice ({', '.join(map(str, corners[first]))})"
                )
            _, first_of, counts = np.unique(in_order, axis=0, return_index=True, return_counts=True)
            if (counts > 1).any():
                first = int(first_of[np.argmax(counts > 1)])
                raise InputError(
                    f"mesh {name}s: {name} {first} is there {counts[np.argmax(counts > 1)]} times "
                    f"(vertices {', '.join(map(str, corners[first]))})"
                )
        if len(tets) and not len(triangles):
            triangles = _surface(tets)
        for name, value in (("vertices", vertices), ("triangles", triangles), ("tets", tets)):
            value = value.copy()
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    @classmethod
    def grid(cls, columns: int, rows: int, size: Sequence[float] = (1.0, 1.0), diagonals: str = "alternate") -> "Mesh":
        """A flat sheet of columns x rows vertices in the xz plane, centered at the origin.

        Vertex = row * columns + column.

        `diagonals`: "alternate" has no preferred direction (valences 4 and 8), "same" has (valence 6).
        """
        columns, rows = checks.whole("columns", columns, 2), checks.whole("rows", rows, 2)
        checks.choice("diagonals", diagonals, ("alternate", "same"))
        width, depth = _sizes("size", size, 2)
        z, x = np.meshgrid(
            np.linspace(-depth / 2, depth / 2, rows), np.linspace(-width / 2, width / 2, columns), indexing="ij"
        )
        ids = np.arange(rows * columns).reshape(rows, columns)
        a, b, c, d = ids[:-1, :-1], ids[:-1, 1:], ids[1:, :-1], ids[1:, 1:]
        crossed = (np.add.outer(np.arange(rows - 1), np.arange(columns - 1)) % 2 == 1) & (diagonals == "alternate")
        one = np.where(crossed[..., None], np.stack([a, c, b], -1), np.stack([a, c, d], -1))
        two = np.where(crossed[..., None], np.stack([b, c, d], -1), np.stack([a, d, b], -1))
        triangles = np.stack([one, two], axis=2).reshape(-1, 3)
        return cls(np.stack([x.ravel(), np.zeros(x.size), z.ravel()], axis=1), triangles)

    @classmethod
    def strip(cls, segments: int, length: float = 1.0, width: float = 0.05) -> "Mesh":
        """A ribbon along x, two vertices wide: a noodle, a strap."""
        return cls.grid(checks.whole("segments", segments, 1) + 1, 2, size=(length, width))

    @classmethod
    def box(cls, cells: Sequence[int] = (4, 4, 4), size: Sequence[float] = (1.0, 1.0, 1.0)) -> "Mesh":
        """A solid box of cells[0] x cells[1] x cells[2] cells of six tets each, centered at the origin."""
        if np.shape(cells) != (3,):
            raise InputError(f"cells is {cells!r}; it must be 3 whole numbers")
        nx, ny, nz = (checks.whole("cells", n, 1) for n in cells)
        ids = np.arange((nx + 1) * (ny + 1) * (nz + 1)).reshape(nx + 1, ny + 1, nz + 1)
        points = np.stack(
            np.meshgrid(
                *(np.linspace(-s / 2, s / 2, n + 1) for s, n in zip(_sizes("size", size, 3), (nx, ny, nz))),
                indexing="ij",
            ),
            -1,
        ).reshape(-1, 3)
        cell = np.stack(np.meshgrid(*(np.arange(n) for n in (nx, ny, nz)), indexing="ij"), -1).reshape(-1, 3)
        tets = np.concatenate(
            [np.stack([ids[tuple((cell + corner).T)] for corner in path], 1) for path in _kuhn_paths()]
        )
        return cls(points, tets=_right_side_out(points, tets[np.lexsort((tets[:, 0],))]))

    @classmethod
    def ball(cls, layers: int = 6, radius: float = 1.0) -> "Mesh":
        """A solid ball of 20 * layers^3 tets around the origin: shells of a subdivided icosahedron."""
        layers, radius = checks.whole("layers", layers, 1), checks.number("radius", radius, 0, open_below=True)
        corners, faces = _icosahedron()
        steps = np.array([p for p in np.ndindex(*(layers + 1,) * 3) if p[0] >= p[1] >= p[2]])
        cell = np.array([p for p in np.ndindex(*(layers,) * 3) if p[0] >= p[1] >= p[2]])
        small = np.concatenate([np.stack([cell + corner for corner in path], 1) for path in _kuhn_paths()])
        small = small[((small[..., 0] >= small[..., 1]) & (small[..., 1] >= small[..., 2])).all(1)]
        place = {tuple(p): i for i, p in enumerate(steps)}
        local = np.array([[place[tuple(p)] for p in tet] for tet in small])
        points: list[np.ndarray] = []
        tets: list[np.ndarray] = []
        for face in np.sort(faces, axis=1):
            first, second, third = corners[face]
            # Layer a of the pyramid over a face lies on the sphere of radius a / layers.
            spoke = steps[:, :1] * first + steps[:, 1:2] * (second - first) + steps[:, 2:] * (third - second)
            length = np.linalg.norm(spoke, axis=1, keepdims=True)
            points.append(spoke / np.where(length > 0, length, 1) * steps[:, :1] * radius / layers)
            tets.append(local + len(tets) * len(steps))
        keys, first, back = np.unique(
            np.round(np.concatenate(points) / radius, 6) + 0.0, axis=0, return_index=True, return_inverse=True
        )
        merged = np.concatenate(points)[first]
        return cls(merged, tets=_right_side_out(merged, back.ravel()[np.concatenate(tets)]))

    @classmethod
    def torus(cls, radius: float = 1.0, thickness: float = 0.4, around: int = 46, rings: int = 2) -> "Mesh":
        """A solid ring around the y axis: a disc of triangles, carried around in steps, three tets a prism.

        `around` steps, `rings` rings of triangles in the disc.
        `radius` [m] runs to the middle of the tube, `thickness` [m] is the tube's radius.
        """
        around, rings = checks.whole("around", around, 3), checks.whole("rings", rings, 1)
        radius, thickness = (
            checks.number("radius", radius, 0, open_below=True),
            checks.number("thickness", thickness, 0, open_below=True),
        )
        if thickness >= radius:
            raise InputError(
                f"thickness is {thickness:g}; it must be below the radius, {radius:g}, or the tube meets itself"
            )
        disc, triangles = _disc(rings)
        angle = np.arange(around)[:, None] * 2 * np.pi / around
        out = radius + thickness * disc[:, 0]
        points = np.stack(
            [np.cos(angle) * out, np.broadcast_to(thickness * disc[:, 1], (around, len(disc))), np.sin(angle) * out], -1
        )
        a, b, c = np.sort(triangles, axis=1).T
        here, there = np.arange(around)[:, None] * len(disc), (np.arange(around)[:, None] + 1) % around * len(disc)
        # Corners in the order of their numbers: two prisms that share a side cut it along the same diagonal.
        tets = np.stack(
            [
                np.stack([a + here, b + here, c + here, c + there], -1),
                np.stack([a + here, b + here, b + there, c + there], -1),
                np.stack([a + here, a + there, b + there, c + there], -1),
            ],
            axis=2,
        ).reshape(-1, 4)
        points = points.reshape(-1, 3)
        return cls(points, tets=_right_side_out(points, tets))

    @cached_property
    def edges(self) -> np.ndarray:
        """Every edge once, (m, 2), of triangles and tets."""
        sides = [self.triangles[:, list(side)] for side in TRIANGLE_EDGES] + [
            self.tets[:, list(side)] for side in TET_EDGES
        ]
        count = max(len(self.vertices), 1)
        keys = np.unique(pair_keys(np.sort(np.concatenate(sides), axis=1), count))
        return np.stack([keys // count, keys % count], axis=1).astype(np.int32)

    @cached_property
    def hinges(self) -> np.ndarray:
        """Pairs of triangles with a common edge: (h, 4), the edge's two vertices and the two wings.

        An edge of k triangles gives k - 1 hinges, between each triangle and the next.
        """
        edges, wings, start = self._sides()
        same = (edges[1:] == edges[:-1]).all(axis=1)
        first = np.flatnonzero(same)
        # Edge and first wing keep the winding of their triangle, so that the sign of the fold is the same all over.
        along = np.where(start[first, None], edges[first], edges[first][:, ::-1])
        return np.column_stack([along, wings[first], wings[first + 1]]).astype(np.int32)

    @cached_property
    def boundary(self) -> np.ndarray:
        """Edges of one triangle only, (b, 2)."""
        sides, _, _ = self._sides()
        _, first, counts = np.unique(pair_keys(sides, len(self.vertices)), return_index=True, return_counts=True)
        return sides[first[counts == 1]].astype(np.int32)

    @cached_property
    def volumes(self) -> np.ndarray:
        """Signed volume of each tet [m^3]."""
        p = self.vertices.astype(np.float64)[self.tets]
        return np.einsum("ij,ij->i", np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]), p[:, 3] - p[:, 0]) / 6

    @cached_property
    def areas(self) -> np.ndarray:
        """Area of each triangle [m^2]."""
        p = self.vertices.astype(np.float64)[self.triangles]
        return np.linalg.norm(np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]), axis=1) / 2

    def moved(self, offset: Any = (0.0, 0.0, 0.0), scale: float = 1.0) -> "Mesh":
        """The mesh scaled about the origin, then moved by `offset` [m]."""
        vertices = self.vertices * np.float32(checks.number("scale", scale, 0, open_below=True)) + np.array(
            checks.vector("offset", offset)
        )
        return Mesh(vertices, self.triangles, self.tets)

    def _sides(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sides of all triangles, sorted: their vertices ascending, opposite vertex, whether they ascended before."""
        sides = np.concatenate([self.triangles[:, list(side)] for side in TRIANGLE_EDGES])
        wings = np.concatenate([self.triangles[:, 2], self.triangles[:, 0], self.triangles[:, 1]])
        ascending = np.sort(sides, axis=1)
        order = np.argsort(pair_keys(ascending, len(self.vertices)), kind="stable")
        return ascending[order], wings[order], (sides[:, 0] < sides[:, 1])[order]


def pair_keys(pairs: np.ndarray, count: int) -> np.ndarray:
    """A number for each pair of vertices, of `count`, that sorts as the pairs do."""
    return pairs[:, 0].astype(np.int64) * count + pairs[:, 1]


def _sizes(name: str, values: Sequence[float], count: int) -> list[float]:
    if np.shape(values) != (count,):
        raise InputError(f"{name} is {values!r}; it must be {count} numbers")
    return [checks.number(name, value, 0, open_below=True) for value in values]


def _surface(tets: np.ndarray) -> np.ndarray:
    faces = np.concatenate([tets[:, list(face)] for face in TET_FACES])
    _, first, counts = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    return faces[np.sort(first[counts == 1])]


def _right_side_out(points: np.ndarray, tets: np.ndarray) -> np.ndarray:
    """The same tets, each with positive volume."""
    p = points[tets]
    inverted = np.einsum("ij,ij->i", np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]), p[:, 3] - p[:, 0]) < 0
    return np.where(inverted[:, None], tets[:, [0, 1, 3, 2]], tets)


def _kuhn_paths() -> list[list[tuple[int, int, int]]]:
    """The six tets of a unit cube, each a path from corner 000 to corner 111 along one axis after the other."""
    paths = []
    for axes in permutations(range(3)):
        corner, path = [0, 0, 0], [(0, 0, 0)]
        for axis in axes:
            corner[axis] = 1
            path.append((corner[0], corner[1], corner[2]))
        paths.append(path)
    return paths


def _icosahedron() -> tuple[np.ndarray, np.ndarray]:
    golden = (1 + 5**0.5) / 2
    corners = np.array([p for a in (-1, 1) for b in (-golden, golden) for p in ((0, a, b), (a, b, 0), (b, 0, a))])
    corners /= np.linalg.norm(corners[0])
    near = np.linalg.norm(corners[:, None] - corners, axis=2) < 1.1
    faces = [
        (i, j, k) for i in range(12) for j in range(i) for k in range(j) if near[i, j] and near[j, k] and near[i, k]
    ]
    return corners, np.array(faces)


def _disc(rings: int) -> tuple[np.ndarray, np.ndarray]:
    """A unit disc of concentric hexagons pulled round: points (1 + 3 rings (rings + 1), 2) and 6 rings^2 triangles."""
    points = [np.zeros((1, 2))]
    for ring in range(1, rings + 1):
        angle = np.arange(6 * ring) * 2 * np.pi / (6 * ring)
        points.append(np.stack([np.cos(angle), np.sin(angle)], 1) * ring / rings)
    begin = lambda ring: 0 if ring == 0 else 1 + 3 * ring * (ring - 1)  # noqa: E731
    at = lambda ring, i: begin(ring) + (i % (6 * ring) if ring else 0)  # noqa: E731
    triangles = []
    for ring in range(rings):
        for sector in range(6):
            for i in range(ring + 1):
                outer, inner = sector * (ring + 1) + i, sector * ring + i
                triangles.append((at(ring + 1, outer), at(ring + 1, outer + 1), at(ring, inner)))
                if i < ring:
                    triangles.append((at(ring + 1, outer + 1), at(ring, inner + 1), at(ring, inner)))
    return np.concatenate(points), np.array(triangles)

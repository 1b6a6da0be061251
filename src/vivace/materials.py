"""Materials: which constraints a cloth or a solid gets, and how stiff each one is.

`Ratios` are PBD's, without units. The others are physical and mean the same to every solver: XPBD reads them as
compliances, Projective Dynamics as weights, which are their inverse.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array, triu

from . import checks
from .errors import InputError
from .mesh import Mesh, pair_keys

# Constraint name, vertices (m, arity), options of Scene.add_constraints.
Share = tuple[str, np.ndarray, dict[str, Any]]
NO_VOLUME = "a cloth has no tetrahedra to keep the volume of; leave volume=... out"


@dataclass(frozen=True)
class Ratios:
    """PBD stiffness ratios in 0..1: what share of its error a constraint corrects at each visit; 0 leaves it out.

    How stiff a ratio looks depends on iterations, substeps and dt.
    """

    stretch: float = 1.0
    bend: float = 0.0
    volume: float = 0.0

    def __post_init__(self) -> None:
        for name in ("stretch", "bend", "volume"):
            checks.number(f"Ratios {name}", getattr(self, name), 0, 1)

    def cloth(self, mesh: Mesh) -> Iterator[Share]:
        if self.volume:
            raise InputError(NO_VOLUME)
        yield from _present(mesh_edges(mesh), mesh.hinges, None, self._options)

    def solid(self, mesh: Mesh) -> Iterator[Share]:
        yield from _present(mesh.edges, mesh.hinges, mesh.tets, self._options)

    def _options(self, name: str) -> dict[str, float] | None:
        return {"stiffness_ratio": getattr(self, name)} if getattr(self, name) else None


@dataclass(frozen=True)
class Compliances:
    """XPBD compliances, the inverse of stiffness: independent of iterations and dt once converged.

    0 is rigid, None leaves a constraint out.

    Energy = C^2 / (2 compliance), so the units are m/N for stretch, 1/(N m) for bend and m^5/N for volume.
    """

    stretch: float | None = 0.0
    bend: float | None = None
    volume: float | None = None

    def __post_init__(self) -> None:
        for name in ("stretch", "bend", "volume"):
            if getattr(self, name) is not None:
                checks.number(f"Compliances {name}", getattr(self, name), 0)

    def cloth(self, mesh: Mesh) -> Iterator[Share]:
        if self.volume is not None:
            raise InputError(NO_VOLUME)
        yield from _present(mesh_edges(mesh), mesh.hinges, None, self._options)

    def solid(self, mesh: Mesh) -> Iterator[Share]:
        yield from _present(mesh.edges, mesh.hinges, mesh.tets, self._options)

    def _options(self, name: str) -> dict[str, float] | None:
        return None if getattr(self, name) is None else {"compliance": getattr(self, name)}


@dataclass(frozen=True)
class Springs:
    """Cloth as a net of equal springs: `stretch` [N/m] along every edge, `bend` [N m] over every hinge; 0: none.

    What papers on solvers use. How stiff the cloth is as a whole depends on the mesh; for that, see `Elastic`.
    """

    stretch: float
    bend: float = 0.0

    def __post_init__(self) -> None:
        checks.number("Springs stretch", self.stretch, 0, open_below=True)
        checks.number("Springs bend", self.bend, 0)

    def cloth(self, mesh: Mesh) -> Iterator[Share]:
        _check_areas(mesh)
        yield "stretch", mesh_edges(mesh), {"compliance": 1 / self.stretch}
        if self.bend and len(mesh.hinges):
            yield "quadratic_bend", mesh.hinges, {"compliance": 1 / self.bend}

    def solid(self, mesh: Mesh) -> Iterator[Share]:
        raise InputError("Springs are a material of cloth; a solid takes Elastic, Compliances or Ratios")


@dataclass(frozen=True)
class Elastic:
    """A material in SI units, which looks the same on a finer mesh.

    young [Pa]: Young's modulus; poisson: 0 to below 0.5.
    thickness [m]: of a cloth; a solid ignores it.
    bend [N m]: bending rigidity of a cloth; that of a plate, young thickness^3 / (12 (1 - poisson^2)), by default.
        Woven cloth is far softer than a plate, since its threads slide.

    Cloth: each edge becomes a spring of young * thickness * (area of its triangles) / length^2 (Van Gelder 1998). On
    equilateral triangles that is a sheet with a Poisson's ratio of 1/3, whatever `poisson` is; on a grid it is stiffer
    along some directions than along others (docs/theory.md). Each hinge has the rigidity `bend`.
    Solid: tet_strain with 2 mu volume and, unless poisson is 0, tet_volume with 3 lambda volume [J], mu and lambda
    being Lamé's: for small strains this is Hooke's law.
    """

    young: float
    poisson: float = 0.3
    thickness: float = 5e-4
    bend: float | None = None

    def __post_init__(self) -> None:
        checks.number("Elastic young", self.young, 0, open_below=True)
        checks.number("Elastic thickness", self.thickness, 0, open_below=True)
        if not checks.number("Elastic poisson", self.poisson, 0) < 0.5:
            raise InputError(f"Elastic poisson is {self.poisson}; it must be below 0.5, where nothing can be squeezed")
        if self.bend is not None:
            checks.number("Elastic bend", self.bend, 0)

    @property
    def rigidity(self) -> float:
        """Bending rigidity of a cloth [N m]."""
        plate = self.young * self.thickness**3 / (12 * (1 - self.poisson**2))
        return plate if self.bend is None else self.bend

    def cloth(self, mesh: Mesh) -> Iterator[Share]:
        _check_areas(mesh)
        edges = mesh_edges(mesh)
        points = mesh.vertices.astype(np.float64)
        squared = ((points[edges[:, 0]] - points[edges[:, 1]]) ** 2).sum(axis=1)
        stiffness = self.young * self.thickness * _areas_at(edges, mesh) / squared
        yield "stretch", edges, {"compliance": 1 / stiffness}
        if self.rigidity and len(mesh.hinges):
            yield "quadratic_bend", mesh.hinges, {"compliance": 1 / self.rigidity}

    def solid(self, mesh: Mesh) -> Iterator[Share]:
        shear = self.young / (2 * (1 + self.poisson))
        first = self.young * self.poisson / ((1 + self.poisson) * (1 - 2 * self.poisson))
        yield "tet_strain", mesh.tets, {"compliance": 1 / (2 * shear * mesh.volumes)}
        if first:
            yield "tet_volume", mesh.tets, {"compliance": 1 / (3 * first * mesh.volumes)}


@dataclass(frozen=True)
class MassSpring:
    """A net of springs [N/m] that also keeps angles: what the solver `implicit` takes, and the others too.

    Where triangles come in pairs that make quads, as in a grid, `structural` springs are the sides of the quads,
    `shear` both diagonals of each, and `bend` springs span two sides in a row. On other meshes `structural` springs
    are the edges, and `bend` springs join the corners opposite each inner edge; there is nothing for `shear`.
    A solid has structural springs along all edges. None takes the structural stiffness, or a hundredth of it to bend; 0
    leaves such springs out.
    damping [N s/m]: along each spring, against its change of length; only `implicit` reads it.
    """

    structural: float
    shear: float | None = None
    bend: float | None = None
    damping: float = 0.0

    def __post_init__(self) -> None:
        checks.number("MassSpring structural", self.structural, 0, open_below=True)
        checks.number("MassSpring damping", self.damping, 0)
        for name in ("shear", "bend"):
            if getattr(self, name) is not None:
                checks.number(f"MassSpring {name}", getattr(self, name), 0)

    def cloth(self, mesh: Mesh) -> Iterator[Share]:
        sides, diagonals, spans = spring_net(mesh)
        shear = self.structural if self.shear is None else self.shear
        bend = self.structural / 100 if self.bend is None else self.bend
        kinds = [kind for kind in ((sides, self.structural), (diagonals, shear), (spans, bend)) if kind[1]]
        compliance = np.concatenate([np.full(len(pairs), 1 / stiffness, np.float32) for pairs, stiffness in kinds])
        options = {"compliance": compliance, "damping": self.damping}
        yield "stretch", np.concatenate([pairs for pairs, _ in kinds]), options

    def solid(self, mesh: Mesh) -> Iterator[Share]:
        yield "stretch", mesh.edges, {"compliance": 1 / self.structural, "damping": self.damping}


Material = Ratios | Compliances | Springs | MassSpring | Elastic


def spring_net(mesh: Mesh) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of vertices for springs: sides, diagonals, and spans that resist bending (see `MassSpring`)."""
    edges, hinges = mesh_edges(mesh), mesh.hinges
    points, count = mesh.vertices.astype(np.float64), len(mesh.vertices)

    def squared(i: int, j: int) -> np.ndarray:
        return ((points[hinges[:, i]] - points[hinges[:, j]]) ** 2).sum(axis=1)

    # A quad is two triangles with a common edge that is the longest of either.
    common = squared(0, 1) * (1 - 1e-5)
    quads = hinges[np.all([common > squared(i, j) for i in (0, 1) for j in (2, 3)], axis=0)]
    if 2 * len(quads) < len(mesh.triangles):
        return edges, edges[:0], hinges[:, 2:]
    diagonals = np.sort(np.concatenate([quads[:, :2], quads[:, 2:]]), axis=1)
    across = pair_keys(diagonals, count)
    sides = edges[~np.isin(pair_keys(edges, count), across)]
    # Two sides in a row join vertices that have a common neighbor along sides, and are no diagonal.
    beside = coo_array((np.ones(len(sides), np.int32), sides.T), shape=(count, count)).tocsr()
    beside = beside + beside.T
    spans = np.stack(triu(beside @ beside, 1).nonzero(), axis=1).astype(np.int32)
    return sides, diagonals, spans[~np.isin(pair_keys(spans, count), across)]


def mesh_edges(mesh: Mesh) -> np.ndarray:
    """Edges of the triangles alone: a cloth may be the skin of a mesh with tets."""
    return Mesh(mesh.vertices, mesh.triangles).edges


def _present(edges: np.ndarray, hinges: np.ndarray, tets: np.ndarray | None, options: Any) -> Iterator[Share]:
    """Those of stretch, volume and bend that the material has options for and the mesh has members of."""
    for name, vertices in (("stretch", edges), ("volume", tets), ("bend", hinges)):
        if vertices is not None and len(vertices) and (chosen := options(name)):
            yield name, vertices, chosen


def _check_areas(mesh: Mesh) -> None:
    flat = mesh.areas <= 1e-12 * mesh.areas.max(initial=0)
    if flat.any():
        first = int(np.argmax(flat))
        raise InputError(
            f"{checks.count(flat.sum(), 'triangle')} without area, which cannot bend "
            f"(first: triangle {first}, vertices {', '.join(map(str, mesh.triangles[first]))})"
        )


def _areas_at(edges: np.ndarray, mesh: Mesh) -> np.ndarray:
    """The area of the triangles at each edge [m^2]."""
    sides = np.sort(mesh.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1).astype(np.int64)
    count = len(mesh.vertices)
    keys = edges.min(axis=1).astype(np.int64) * count + edges.max(axis=1)
    order = np.argsort(keys)
    place = order[np.searchsorted(keys, sides[:, 0] * count + sides[:, 1], sorter=order)]
    return np.bincount(place, weights=np.repeat(mesh.areas, 3), minlength=len(edges))

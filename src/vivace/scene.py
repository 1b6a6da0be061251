"""Scenes: bodies made of meshes and materials, pins and colliders. `build()` turns one into a Model."""

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from . import checks
from .collision.motion import pose_at, surface_name
from .collision.shape import is_collider
from .constraints import find
from .errors import InputError
from .materials import Material, Ratios, Share, mesh_edges
from .mesh import Mesh
from .model import Air, Constraint, ConstraintGroup, Model, Surface, Touching, measure

if TYPE_CHECKING:
    from .simulation import Simulation

SMALLEST_LENGTH = 1e-9  # relative to the size of the mesh
MOST_PASSES = 100


CLOTH, SOLID = Ratios(stretch=1.0, bend=0.1), Ratios(stretch=1.0, volume=1.0)


class Body:
    """A part of a scene: a contiguous range of its particles."""

    def __init__(self, scene: "Scene", name: str, mesh: Mesh, first: int, masses: np.ndarray):
        self.name, self.mesh, self.first = name, mesh, first
        self.masses = masses  # (n,) [kg]
        self.pinned = np.zeros(len(mesh.vertices), bool)
        self.positions = mesh.vertices.copy()  # where it starts
        self._scene = scene

    def __len__(self) -> int:
        return len(self.mesh.vertices)

    def __repr__(self) -> str:
        return f"<Body {self.name!r}: {len(self)} particles>"

    @property
    def rows(self) -> slice:
        """This body's slice of the simulation's positions."""
        return slice(self.first, self.first + len(self))

    def pin(self, vertices: Any) -> None:
        """Hold these vertices of the body where they are; they move only when the user moves them."""
        if self._running() is not None:
            raise InputError(f"{self.name!r}: pin before the Simulation is made; it has taken over the pins already")
        self.pinned[checks.indices(f"pins of {self.name!r}", checks.listed(vertices), len(self))] = True

    def attach(self, vertices: Any, stiffness: Any, points: Any = None) -> None:
        """Tie vertices to points in space (k, 3) [m], where they are by default, by springs of `stiffness` [N/m]."""
        if self._running() is not None:
            raise InputError(f"{self.name!r}: attach before the Simulation is made")
        rows = checks.indices(f"attached vertices of {self.name!r}", checks.listed(vertices), len(self))
        points = self.positions[rows] if points is None else checks.array(f"points of {self.name!r}", points, 3)
        if len(points) != len(rows):
            raise InputError(f"{self.name!r}: {len(rows)} vertices are attached, but {len(points)} points are given")
        stiffness = _one_each(f"stiffness of {self.name!r}", stiffness, (len(rows),))
        stiffness = checks.array(f"stiffness of {self.name!r}", stiffness, None)
        if not (stiffness > 0).all():
            raise InputError(f"{self.name!r}: stiffness {stiffness.min()} of an attachment must be above 0")
        self._scene.add_constraints(self, "attach", rows[:, None], rest=points, compliance=1 / stiffness)

    def set_positions(self, rows: Any, positions: Any) -> None:
        """Put these vertices of the body at other positions, (k, 3) [m]: before the simulation, where they start.

        Rest shapes come from the mesh and stay.
        """
        rows = checks.indices(f"rows of {self.name!r}", _rows(f"rows of {self.name!r}", rows, len(self)), len(self))
        positions = checks.array(f"positions of {self.name!r}", positions, 3)
        if len(positions) != len(rows):
            raise InputError(
                f"positions of {self.name!r}: {len(rows)} rows are named, but {len(positions)} positions are given"
            )
        simulation = self._running()
        if simulation is None:
            self.positions[rows] = positions
        else:
            simulation.set_positions(rows + self.first, positions)

    def move_pins(self, vertices: Any, targets: Any) -> None:
        """Let pinned vertices travel to `targets` (k, 3) [m] during the next step, evenly over its substeps."""
        simulation = self._running()
        if simulation is None:
            raise InputError(
                f"{self.name!r}: pins move while a simulation runs; use set_positions to change where they start"
            )
        rows = checks.indices(f"pins of {self.name!r}", checks.listed(vertices), len(self))
        simulation.move_pins(rows + self.first, targets)

    def _running(self) -> "Simulation | None":
        running = [simulation for simulation in (link() for link in self._scene.simulations) if simulation is not None]
        if len(running) > 1:
            raise InputError(
                f"{self.name!r} runs in {len(running)} simulations; say which: simulation.set_positions(...)"
            )
        return running[0] if running else None


class Scene:
    """Bodies, colliders and gravity [m/s^2]. y points up."""

    def __init__(self, gravity: Any = (0.0, -9.81, 0.0)):
        self.gravity = checks.vector("gravity", gravity)
        self.bodies: list[Body] = []
        self.surfaces: list[Surface] = []
        self.touching: Touching | None = None
        self.air: Air | None = None
        self.simulations: list[ref[Simulation]] = []
        self.stiffness = 1.0  # a factor on that of all constraints, for simulations that are made from now on
        self._groups: list[ConstraintGroup] = []

    @property
    def particle_count(self) -> int:
        return sum(len(body) for body in self.bodies)

    def add_cloth(self, mesh: Mesh, density: float = 0.2, material: Material = CLOTH, name: str | None = None) -> Body:
        """Cloth from the triangles of a mesh; `density` in kg/m^2 (cotton shirt: 0.1 to 0.2)."""
        name = self._new_name(name, "cloth")
        self._check_mesh(name, mesh, material)
        if not len(mesh.triangles):
            raise InputError(f"{name!r}: a cloth needs a mesh with triangles")
        density = checks.number(f"density of {name!r}", density, 0, open_below=True)
        _check_edges(name, mesh, mesh_edges(mesh))
        shares = _shares(name, material.cloth, mesh)
        body = self._add_body(name, mesh, mesh.triangles, mesh.areas * density, "triangle")
        return self._made_of(body, shares)

    def add_solid(
        self, mesh: Mesh, density: float = 1000.0, material: Material = SOLID, name: str | None = None
    ) -> Body:
        """A soft solid from the tets of a mesh; `density` in kg/m^3 (water: 1000). Bend acts on its surface."""
        name = self._new_name(name, "solid")
        self._check_mesh(name, mesh, material)
        if not len(mesh.tets):
            raise InputError(f"{name!r}: a solid needs a mesh with tets")
        density = checks.number(f"density of {name!r}", density, 0, open_below=True)
        flat = mesh.volumes <= 1e-7 * np.abs(mesh.volumes).max()
        if flat.any():
            first = int(np.argmax(flat))
            kind = "inverted" if mesh.volumes[first] < 0 else "flat"
            raise InputError(
                f"volume group {name!r}: {checks.count(flat.sum(), 'tet')} inverted or flat "
                f"(first: tet {first}, {kind}, "
                f"vertices {_list(mesh.tets[first])}, volume {mesh.volumes[first]:.3g} m^3)"
            )
        _check_edges(name, mesh, mesh.edges)
        shares = _shares(name, material.solid, mesh)
        body = self._add_body(name, mesh, mesh.tets, mesh.volumes * density, "tet")
        return self._made_of(body, shares)

    def add_constraints(
        self,
        body: Body,
        constraint: str | Constraint,
        vertices: Any,
        rest: Any = None,
        stiffness_ratio: Any = 1.0,
        compliance: Any = None,
        damping: Any = None,
    ) -> None:
        """Constraints of any kind on a body's vertices (m, arity).

        `constraint` is a built-in name or anything with ARITY and value_gradient (docs/extending.md).
        `rest` (m,) is what they measure on the mesh, unless given; `stiffness_ratio` (for PBD) and `compliance` (for
        XPBD, instead of a ratio) are one number or one for each. `damping` [N s/m for lengths] works against the change
        of what they measure; only the solver `implicit` reads it.
        """
        if body not in self.bodies:
            raise InputError(f"{getattr(body, 'name', body)!r} is not a body of this scene")
        name, kind = find(constraint)
        label = f"{name} group {body.name!r}"
        vertices = checks.indices(label, vertices, len(body), kind.ARITY)
        doubled = (np.diff(np.sort(vertices, axis=1), axis=1) == 0).any(axis=1)
        if doubled.any():
            first = int(np.argmax(doubled))
            raise InputError(f"{label}: constraint {first} names a vertex twice ({_list(vertices[first])})")
        _check_function(name, kind)
        columns = getattr(kind, "REST_VALUES", 1)
        if rest is not None:
            rest = _one_each(f"{label} rest", rest, (len(vertices),) if columns == 1 else (len(vertices), columns))
        elif hasattr(kind, "rest_shape"):
            rest = kind.rest_shape(body.mesh.vertices[vertices])
        elif columns == 1:
            rest = measure(kind, body.mesh.vertices[vertices])
        else:
            raise InputError(f"{label}: rest must be given, (m, {columns})")
        ratio = _one_each(f"{label} stiffness_ratio", stiffness_ratio, (len(vertices),))
        if not ((ratio >= 0) & (ratio <= 1)).all():
            first = int(np.argmin((ratio >= 0) & (ratio <= 1)))
            raise InputError(f"{label}: stiffness_ratio {ratio[first]} of constraint {first} is not between 0 and 1")
        if compliance is not None:
            compliance = _one_each(f"{label} compliance", compliance, (len(vertices),)).astype(np.float32)
            bad = ~(np.isfinite(compliance) & (compliance >= 0))
            if bad.any():
                first = int(np.argmax(bad))
                raise InputError(f"{label}: compliance {compliance[first]} of constraint {first} is not 0 or more")
        if damping is not None:
            damping = _one_each(f"{label} damping", damping, (len(vertices),)).astype(np.float32)
            if not (np.isfinite(damping) & (damping >= 0)).all():
                raise InputError(f"{label}: damping must be 0 or more")
        group = ConstraintGroup(
            name,
            kind,
            vertices + np.int32(body.first),
            checks.array(f"{label} rest", rest, None if columns == 1 else columns),
            ratio.astype(np.float32),
            compliance,
            damping,
        )
        self._groups.append(group)

    def add_collider(
        self,
        collider: Any,
        friction: float = 0.3,
        margin: float = 0.0,
        motion: Callable[[float], Any] | None = None,
    ) -> None:
        """Something solid; particles are kept `margin` [m] outside, with Coulomb friction, static and dynamic.

        collider: Plane, Sphere, Box, Capsule, Cylinder, Torus, what | & - and .moved() make of them, or a MeshCollider.
        motion: where it is at time t [s]; motion(t) gives a translation [m] or a rigid matrix, 3x4 or 4x4, from the
            place where it was defined. It carries along what touches it.
        """
        if not is_collider(collider):
            raise InputError(
                f"collider {collider!r}: expected Plane, Sphere, Cylinder, or parameters() and distance_normal()"
            )
        friction, margin = checks.number("friction", friction, 0), checks.number("margin", margin, 0)
        if margin > getattr(collider, "band", math.inf):
            raise InputError(f"margin is {margin:g}, but {collider!r} knows distances up to {collider.band:g} only")
        if motion is not None:
            if not callable(motion):
                raise InputError(f"motion is {motion!r}; it must be a function of the time")
            pose_at(surface_name(len(self.surfaces), collider), motion, 0.0)
        self.surfaces.append(Surface(collider, friction, margin, motion))

    def self_collision(self, thickness: float, friction: float = 0.3, by: str = "surfaces", passes: int = 1) -> None:
        """Let all bodies touch each other and themselves, and keep `thickness` [m] between their surfaces.

        by: "surfaces" keeps points off triangles and edges off edges; "particles" only keeps particles off each other,
            which is faster, and holds where particles are no farther apart than the thickness.
        passes: how often in each iteration contacts and colliders push things apart; 2 or 3 hold many layers that are
            pressed together better than as many more iterations, and cost less.
        Within a body, what is nearer than that without forces may stay so.
        """
        thickness = checks.number("thickness", thickness, 0, open_below=True)
        checks.choice("by", by, ("surfaces", "particles"))
        friction, passes = checks.number("friction", friction, 0), checks.whole("passes", passes, 1, MOST_PASSES)
        self.touching = Touching(thickness, friction, by == "particles", passes)

    def blow(self, drag: float, wind: Any = (0.0, 0.0, 0.0)) -> None:
        """Fill the scene with air that moves with `wind` [m/s], for the solver `implicit`.

        drag [kg / (m^2 s)]: the force on a piece of cloth is drag * area * (wind - its velocity), from whatever side.
        `simulation.control.wind` changes the wind while it runs.
        """
        self.air = Air(checks.number("drag", drag, 0), checks.vector("wind", wind))

    def build(self) -> Model:
        """The frozen model: constraints of one kind, of all bodies, become one group."""
        if not self.bodies:
            raise InputError("the scene is empty: add a cloth or a solid first")
        inverse = np.concatenate([np.where(body.pinned, 0, 1 / body.masses) for body in self.bodies]).astype(np.float32)
        kinds: dict[Any, list[ConstraintGroup]] = {}
        for group in self._groups:
            if len(group):
                kinds.setdefault((group.name, id(group.constraint), group.compliance is None), []).append(group)
        factor = checks.number("scene.stiffness", self.stiffness, 0, open_below=True)
        groups = _named_apart([_stiffened(_joined(parts), factor) for parts in kinds.values()])
        self._warn_of_thickness()
        positions = np.concatenate([body.positions for body in self.bodies])
        triangles = np.concatenate([body.mesh.triangles + np.int32(body.first) for body in self.bodies])
        return Model(
            positions,
            np.zeros_like(positions),
            inverse,
            groups,
            tuple(self.surfaces),
            self.gravity,
            triangles,
            tuple((body.name, body.rows) for body in self.bodies),
            np.concatenate([body.mesh.vertices for body in self.bodies]),
            self.touching,
            self.air,
        )

    def _warn_of_thickness(self) -> None:
        if self.touching is None:
            return
        for body in self.bodies:
            a, b = body.mesh.vertices[body.mesh.edges].swapaxes(0, 1)
            edge = float(np.median(np.linalg.norm(a - b, axis=1)))
            if self.touching.thickness > edge:
                warnings.warn(
                    f"self_collision: a thickness of {self.touching.thickness:g} m is more than most edges of "
                    f"{body.name!r} have ({edge:.3g} m). Parts of it that are nearer than that without forces do not "
                    f"push each other, so tight folds may pass through themselves; choose {edge / 2:.2g} m or less",
                    stacklevel=3,
                )

    def _new_name(self, name: str | None, kind: str) -> str:
        taken = {body.name for body in self.bodies}
        if name is not None and not isinstance(name, str):
            raise InputError(f"name is {name!r}; it must be a text")
        if name is None:
            return next(f"{kind}-{number}" for number in itertools.count(1) if f"{kind}-{number}" not in taken)
        if name in taken:
            raise InputError(f"there is a body called {name!r} already")
        return name

    def _check_mesh(self, name: str, mesh: Mesh, material: Material) -> None:
        if not isinstance(mesh, Mesh):
            raise InputError(f"{name!r}: expected a vivace.Mesh, got {type(mesh).__name__}")
        if not isinstance(material, Material):
            raise InputError(
                f"{name!r}: expected Ratios, Compliances, Springs, MassSpring or Elastic as material, "
                f"got {type(material).__name__}"
            )

    def _add_body(self, name: str, mesh: Mesh, elements: np.ndarray, masses: np.ndarray, noun: str) -> Body:
        """Each element's mass is shared by its corners."""
        shares = np.repeat(masses / elements.shape[1], elements.shape[1])
        lumped = np.bincount(elements.ravel(), weights=shares, minlength=len(mesh.vertices))
        loose = lumped <= 0
        if loose.any():
            raise InputError(
                f"{name!r}: {checks.count(loose.sum(), 'vertex', 'vertices')} without mass, in no {noun} with a size "
                f"(first: vertex {int(np.argmax(loose))})"
            )
        if not (1e-30 < lumped.min() and lumped.max() < 1e30):
            raise InputError(
                f"{name!r}: masses of {lumped.min():.3g} to {lumped.max():.3g} kg do not fit single precision"
            )
        body = Body(self, name, mesh, self.particle_count, lumped)
        self.bodies.append(body)
        return body

    def _made_of(self, body: Body, shares: list[Share]) -> Body:
        for name, members, stiffness in shares:
            self.add_constraints(body, name, members, **stiffness)
        return body


def _named_apart(groups: list[ConstraintGroup]) -> tuple[ConstraintGroup, ...]:
    """The groups; where a second one has the same name, it becomes name-2."""
    seen: dict[str, int] = {}
    named = []
    for group in groups:
        seen[group.name] = seen.get(group.name, 0) + 1
        number = seen[group.name]
        named.append(group if number == 1 else replace(group, name=f"{group.name}-{number}"))
    return tuple(named)


def _joined(parts: list[ConstraintGroup]) -> ConstraintGroup:
    """Constraints of one kind as one group."""
    if len(parts) == 1:
        return parts[0]
    first, names = (
        parts[0],
        ["vertices", "rest", "stiffness_ratio"] + ["compliance"] * (parts[0].compliance is not None),
    )
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    if any(part.damping is not None for part in parts):
        dampings = [np.zeros(len(part), np.float32) if part.damping is None else part.damping for part in parts]
        columns["damping"] = np.concatenate(dampings)
    return ConstraintGroup(first.name, first.constraint, **columns)


def _stiffened(group: ConstraintGroup, factor: float) -> ConstraintGroup:
    """What a factor makes of a group: of k, a ratio, as if it had acted `factor` times, 1 - (1 - k)^factor."""
    if factor == 1:
        return group
    if group.compliance is not None:
        return replace(group, compliance=(group.compliance / factor).astype(np.float32))
    left = (1 - group.stiffness_ratio.astype(np.float64)) ** factor
    return replace(group, stiffness_ratio=(1 - left).astype(np.float32))


def _shares(name: str, shares: Callable[[Mesh], Iterator[Share]], mesh: Mesh) -> list[Share]:
    """What a material gives a body; its complaints name the body."""
    try:
        return list(shares(mesh))
    except InputError as problem:
        raise InputError(f"{name!r}: {problem}") from problem


def _check_edges(name: str, mesh: Mesh, edges: np.ndarray) -> None:
    points = mesh.vertices.astype(np.float64)
    lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
    short = lengths <= SMALLEST_LENGTH * np.ptp(points, axis=0).max()
    if short.any():
        first, noun = int(np.argmax(short)), "edge has" if short.sum() == 1 else "edges have"
        raise InputError(
            f"stretch group {name!r}: {short.sum()} {noun} zero length "
            f"(first: edge {first}, vertices {edges[first, 0]} and {edges[first, 1]})"
        )


def _check_function(name: str, constraint: Constraint) -> None:
    """An error if value_gradient does not give a value, a gradient of three for each corner, and a factor."""
    corners = tuple(tuple(np.full(1, 0.1 * (3 * i + j) ** 2) for j in range(3)) for i in range(constraint.ARITY))
    columns = getattr(constraint, "REST_VALUES", 1)
    rest = np.ones(1) if columns == 1 else tuple(np.ones(1) for _ in range(columns))
    try:
        with np.errstate(all="ignore"):
            _, gradients, _ = constraint.value_gradient(corners, rest)
        shape = len(gradients), {len(gradient) for gradient in gradients}
    except Exception as problem:
        raise InputError(f"constraint {name!r}: value_gradient raised {type(problem).__name__}: {problem}") from problem
    if shape != (constraint.ARITY, {3}):
        raise InputError(f"constraint {name!r}: value_gradient must give {constraint.ARITY} gradients of 3 each")


def _rows(name: str, rows: Any, count: int) -> np.ndarray:
    """Row numbers from a slice, a mask or a list."""
    if isinstance(rows, slice):
        return np.arange(count)[rows]
    rows = checks.listed(rows)
    if not isinstance(rows, np.ndarray) or rows.dtype != bool:
        return rows
    if rows.shape != (count,):
        raise InputError(f"{name}: a mask of {count} is needed, got shape {rows.shape}")
    return np.flatnonzero(rows)


def _one_each(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return np.broadcast_to(np.asarray(values, np.float64), shape)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{name}: expected one number or shape {shape}, got {np.shape(values)}") from problem


def _list(vertices: Any) -> str:
    return ", ".join(str(int(v)) for v in vertices)

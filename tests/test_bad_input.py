"""Every kind of input that cannot be used is refused with a message that names it and its first offender."""

import numpy as np
import pytest
import scipy.sparse

import vivace as vv

POINTS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)
TRIANGLES, TETS = [[0, 1, 2], [0, 2, 3]], [[0, 1, 2, 3]]
GRID, BOX = vv.Mesh.grid(3, 3), vv.Mesh.box((1, 1, 1))
NAN, INFINITY = float("nan"), float("inf")


def points_with(row, value):
    points = POINTS.copy()
    points[row] = value
    return points


def mesh_with(row, value, **elements):
    return vv.Mesh(points_with(row, value), **elements)


def cloth(**settings):
    return vv.Scene().add_cloth(GRID, name="shirt", **settings)


def solid(mesh=BOX, **settings):
    return vv.Scene().add_solid(mesh, name="jelly", **settings)


def constrain(constraint="stretch", vertices=((0, 1), (2, 3)), **settings):
    scene = vv.Scene()
    scene.add_constraints(scene.add_cloth(GRID, name="shirt"), constraint, vertices, **settings)


def simulate(**settings):
    scene = vv.Scene()
    scene.add_cloth(GRID, name="shirt").pin([0])
    return vv.Simulation(scene, **settings)


def assign(name, values):
    setattr(simulate(), name, values)


def run(frames):
    list(simulate().run(frames))


def set_positions(rows, positions):
    cloth().set_positions(rows, positions)


def of_two_simulations(act):
    scene = vv.Scene()
    body = scene.add_cloth(GRID, name="shirt")
    body.pin(0)
    running = vv.Simulation(scene), vv.Simulation(scene)
    act(body)
    return running


def constraints_on_a_body_of_another_scene():
    other = vv.Scene().add_cloth(GRID, name="stranger")
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]))
    scene.add_constraints(other, "stretch", [[0, 8]])


class WithoutArity:
    @staticmethod
    def value_gradient(corners, rest):
        return None


MESH = {
    "index out of range": (
        lambda: vv.Mesh(POINTS, [[0, 1, 2], [1, 2, 4]]),
        r"mesh triangles: row 1 names vertex 4, but there are 4 \(0 to 3\)",
    ),
    "negative index": (lambda: vv.Mesh(POINTS, [[0, 1, -1]]), "mesh triangles: row 0 names vertex -1"),
    "tet out of range": (lambda: vv.Mesh(POINTS, tets=[[0, 1, 2, 9]]), "mesh tets: row 0 names vertex 9"),
    "NaN vertex": (
        lambda: vv.Mesh(points_with(2, NAN), TRIANGLES),
        r"mesh vertices: 1 row is not finite \(first: row 2",
    ),
    "infinite vertex": (lambda: vv.Mesh(points_with(1, INFINITY), TRIANGLES), r"mesh vertices: .*first: row 1"),
    "huge coordinates": (
        lambda: vv.Mesh(points_with(3, 1e30), TRIANGLES),
        "mesh vertices: row 3, .*1e.30.*, is too large",
    ),
    "empty mesh": (lambda: vv.Mesh(np.zeros((0, 3))), "mesh vertices: the mesh is empty"),
    "empty list": (lambda: vv.Mesh([]), "mesh vertices"),
    "no numbers": (lambda: vv.Mesh([["a", "b", "c"]]), "mesh vertices: expected numbers"),
    "complex vertices": (
        lambda: vv.Mesh(POINTS * (1 + 1j), TRIANGLES),
        "mesh vertices: expected numbers, got dtype complex128",
    ),
    "texts of numbers": (
        lambda: vv.Mesh(POINTS.astype(str), TRIANGLES),
        "mesh vertices: expected numbers, got dtype <U",
    ),
    "fractional indices": (
        lambda: vv.Mesh(POINTS, np.array(TRIANGLES, float)),
        "mesh triangles: expected whole numbers, got dtype float64",
    ),
    "boolean indices": (lambda: vv.Mesh(POINTS, [[True, False, True]]), "mesh triangles: expected whole numbers"),
    "flat vertices": (
        lambda: vv.Mesh(POINTS[:, :2], TRIANGLES),
        r"mesh vertices: expected shape \(n, 3\), got \(4, 2\)",
    ),
    "one row": (lambda: vv.Mesh(POINTS[0]), r"mesh vertices: expected shape \(n, 3\), got \(3,\)"),
    "quads": (lambda: vv.Mesh(POINTS, [[0, 1, 2, 3]]), r"mesh triangles: expected shape \(n, 3\), got \(1, 4\)"),
    "ragged vertices": (lambda: vv.Mesh([[0, 0, 0], [1, 1]]), "mesh vertices"),
    "ragged triangles": (lambda: vv.Mesh(POINTS, [[0, 1, 2], [0, 1]]), "mesh triangles"),
    "triangle with a vertex twice": (
        lambda: vv.Mesh(POINTS, [[0, 1, 2], [3, 1, 3]]),
        r"triangle 1 names a vertex twice \(3, 1, 3\)",
    ),
    "tet with a vertex twice": (lambda: vv.Mesh(POINTS, tets=[[0, 1, 2, 0]]), "tet 0 names a vertex twice"),
    "duplicate triangle": (lambda: vv.Mesh(POINTS, [[0, 2, 3], [0, 1, 2], [2, 0, 1]]), "triangle 1 is there 2 times"),
    "duplicate tet": (lambda: vv.Mesh(POINTS, tets=[[0, 1, 2, 3], [1, 0, 3, 2]]), "tet 0 is there 2 times"),
    "grid of one column": (lambda: vv.Mesh.grid(1, 5), "columns is 1; it must be a whole number, at least 2"),
    "grid of half a row": (lambda: vv.Mesh.grid(3, 2.5), "rows is 2.5"),
    "grid of a negative size": (lambda: vv.Mesh.grid(3, 3, (1.0, -2.0)), "size is -2.0"),
    "grid of three sizes": (lambda: vv.Mesh.grid(3, 3, (1.0, 2.0, 3.0)), "size is .* must be 2 numbers"),
    "grid of one size": (lambda: vv.Mesh.grid(3, 3, 1.0), "size is 1.0"),
    "unknown diagonals": (
        lambda: vv.Mesh.grid(3, 3, diagonals="alternating"),
        "unknown diagonals 'alternating'; did you mean 'alternate'",
    ),
    "strip without segments": (lambda: vv.Mesh.strip(0), "segments is 0"),
    "box without cells": (lambda: vv.Mesh.box((2, 0, 2)), "cells is 0"),
    "box of two cell counts": (lambda: vv.Mesh.box((2, 2)), "cells"),
    "ball without layers": (lambda: vv.Mesh.ball(0), "layers is 0"),
    "ball without radius": (lambda: vv.Mesh.ball(2, 0.0), "radius is 0.0"),
    "torus that meets itself": (lambda: vv.Mesh.torus(1.0, 1.5), "thickness is 1.5"),
    "torus of two corners": (lambda: vv.Mesh.torus(around=2), "around is 2"),
    "mesh scaled to nothing": (lambda: GRID.moved(scale=0.0), "scale is 0.0"),
    "mesh moved in a plane": (lambda: GRID.moved((1.0, 2.0)), "offset is"),
}
SCENE = {
    "gravity of two numbers": (lambda: vv.Scene(gravity=(0, -9.81)), "gravity is .*three finite numbers"),
    "NaN gravity": (lambda: vv.Scene(gravity=(0, NAN, 0)), "gravity is"),
    "gravity in words": (lambda: vv.Scene(gravity="down"), "gravity: expected three numbers, got 'down'"),
    "zero-length edge": (
        lambda: vv.Scene().add_cloth(mesh_with(1, 0.0, triangles=TRIANGLES), name="shirt"),
        r"stretch group 'shirt': 1 edge has zero length \(first: edge 0, vertices 0 and 1\)",
    ),
    "inverted tet": (
        lambda: solid(vv.Mesh(POINTS, tets=[[0, 2, 1, 3]])),
        r"'jelly': 1 tet is inverted or flat \(first: tet 0, inverted, vertices 0, 2, 1, 3",
    ),
    "flat tet": (
        lambda: solid(vv.Mesh([*POINTS, [1, 1, 0]], tets=[*TETS, [0, 1, 4, 2]])),
        r"'jelly': .*first: tet 1, flat, vertices 0, 1, 4, 2",
    ),
    "only flat tets": (lambda: solid(mesh_with(3, [1, 1, 0], tets=TETS)), "'jelly': .*first: tet 0, flat"),
    "unreferenced vertex": (
        lambda: vv.Scene().add_cloth(vv.Mesh(POINTS, [[0, 1, 2]]), name="shirt"),
        r"'shirt': 1 vertex is without mass.*first: vertex 3",
    ),
    "vertex of a solid in no tet": (
        lambda: solid(vv.Mesh([*POINTS, [5, 5, 5]], tets=TETS)),
        "'jelly': .*first: vertex 4",
    ),
    "negative density": (lambda: cloth(density=-0.1), "density of 'shirt' is -0.1; it must be above 0"),
    "zero density": (lambda: cloth(density=0.0), "density of 'shirt' is 0.0; it must be above 0"),
    "NaN density": (lambda: solid(density=NAN), "density of 'jelly' is nan"),
    "infinite density": (lambda: solid(density=INFINITY), "density of 'jelly' is inf"),
    "density too large for single precision": (lambda: cloth(density=1e60), "density of 'shirt'|'shirt'.*mass"),
    "density too small for single precision": (lambda: cloth(density=1e-60), "density of 'shirt'|'shirt'.*mass"),
    "density in words": (lambda: cloth(density="cotton"), "density of 'shirt': expected a number, got 'cotton'"),
    "pin that does not exist": (
        lambda: cloth().pin([0, 9]),
        r"pins of 'shirt': row 1 names vertex 9, but there are 9 \(0 to 8\)",
    ),
    "negative pin": (lambda: cloth().pin(-1), "pins of 'shirt': row 0 names vertex -1"),
    "fractional pin": (lambda: cloth().pin(1.5), "pins of 'shirt': expected whole numbers"),
    "ratio above one": (lambda: vv.Ratios(stretch=1.5), "Ratios stretch is 1.5; it must be between 0 and 1"),
    "negative ratio": (lambda: vv.Ratios(bend=-0.1), "Ratios bend is -0.1"),
    "NaN ratio": (lambda: vv.Ratios(volume=NAN), "Ratios volume is nan"),
    "cloth with a volume": (lambda: cloth(material=vv.Ratios(volume=1.0)), "'shirt': a cloth has no tetrahedra"),
    "cloth without triangles": (
        lambda: vv.Scene().add_cloth(vv.Mesh(POINTS), name="shirt"),
        "'shirt': a cloth needs a mesh with triangles",
    ),
    "solid without tets": (lambda: solid(GRID), "'jelly': a solid needs a mesh with tets"),
    "cloth of an array": (
        lambda: vv.Scene().add_cloth(POINTS, name="shirt"),
        "'shirt': expected a vivace.Mesh, got ndarray",
    ),
    "material in words": (lambda: cloth(material="silk"), "'shirt': expected Ratios, Compliances, .* as material"),
    "name that is taken": (
        lambda: [scene.add_cloth(GRID, name="shirt") for scene in [vv.Scene()] * 2],
        "a body called 'shirt' already",
    ),
    "unknown constraint": (lambda: constrain("strech"), "unknown constraint 'strech'; did you mean 'stretch'"),
    "constraint without arity": (lambda: constrain(WithoutArity), "constraint 'WithoutArity' needs ARITY"),
    "constraint on too many vertices": (
        lambda: constrain(vertices=[[0, 1, 2]]),
        r"stretch group 'shirt': expected shape \(n, 2\), got \(1, 3\)",
    ),
    "constraint out of range": (
        lambda: constrain(vertices=[[0, 1], [2, 9]]),
        "stretch group 'shirt': row 1 names vertex 9",
    ),
    "constraint with a vertex twice": (
        lambda: constrain(vertices=[[0, 1], [2, 2]]),
        r"stretch group 'shirt': constraint 1 names a vertex twice \(2, 2\)",
    ),
    "ratio of one constraint": (
        lambda: constrain(stiffness_ratio=[0.5, 1.5]),
        "stretch group 'shirt': stiffness_ratio 1.5 of constraint 1",
    ),
    "NaN ratio of one constraint": (
        lambda: constrain(stiffness_ratio=[0.5, NAN]),
        "stretch group 'shirt': stiffness_ratio nan of constraint 1",
    ),
    "wrong number of ratios": (
        lambda: constrain(stiffness_ratio=[0.5, 0.5, 0.5]),
        "stretch group 'shirt'.*stiffness_ratio",
    ),
    "NaN rest": (lambda: constrain(rest=[1.0, NAN]), "stretch group 'shirt' rest: 1 row is not finite"),
    "wrong number of rests": (lambda: constrain(rest=[1.0, 1.0, 1.0]), "stretch group 'shirt'.*rest"),
    "body of another scene": (constraints_on_a_body_of_another_scene, "'stranger'"),
    "collider that is none": (
        lambda: vv.Scene().add_collider("floor"),
        "collider 'floor': expected Plane, Sphere, Cylinder",
    ),
    "collider class": (lambda: vv.Scene().add_collider(vv.Plane), "collider .*Plane.*: expected"),
    "negative friction": (lambda: vv.Scene().add_collider(vv.Plane(), friction=-0.1), "friction is -0.1"),
    "negative margin": (lambda: vv.Scene().add_collider(vv.Plane(), margin=-0.1), "margin is -0.1"),
    "sphere without radius": (lambda: vv.Sphere(0.0), "Sphere radius is 0.0"),
    "sphere nowhere": (lambda: vv.Sphere(1.0, (0, 0, NAN)), "Sphere center is"),
    "cylinder without radius": (lambda: vv.Cylinder(-1.0), "Cylinder radius is -1.0"),
    "cylinder without direction": (lambda: vv.Cylinder(1.0, axis=(0, 0, 0)), "Cylinder axis has zero length"),
    "cylinder without length": (lambda: vv.Cylinder(1.0, length=0.0), "Cylinder length is 0.0"),
    "plane without direction": (lambda: vv.Plane(normal=(0, 0, 0)), "Plane normal has zero length"),
    "positions of fewer rows": (
        lambda: set_positions([0, 1], [[0, 0, 0]]),
        "positions of 'shirt': 2 rows are named, but 1 positions? ",
    ),
    "positions of rows out of range": (
        lambda: set_positions([9], [[0, 0, 0]]),
        "rows of 'shirt': row 0 names vertex 9",
    ),
    "NaN positions of a body": (lambda: set_positions([0], [[0, 0, NAN]]), "positions of 'shirt': 1 row is not finite"),
    "mask of another length": (lambda: set_positions(np.ones(4, bool), np.zeros((4, 3))), "rows of 'shirt'"),
    "pins moved before the simulation": (
        lambda: cloth().move_pins([0], [[0, 0, 0]]),
        "'shirt': pins move while a simulation runs",
    ),
    "empty scene": (lambda: vv.Scene().build(), "the scene is empty"),
}
SIMULATION = {
    "no scene": (lambda: vv.Simulation(GRID), "scene: expected a vivace.Scene, got Mesh"),
    "empty scene": (lambda: vv.Simulation(vv.Scene()), "the scene is empty"),
    "unknown solver": (
        lambda: simulate(solver="gaus-seidel"),
        "unknown solver 'gaus-seidel'; did you mean 'gauss-seidel'",
    ),
    "solver class": (
        lambda: simulate(solver=vv.SerialGaussSeidel),
        "solver .*SerialGaussSeidel.*: expected a name or a solver object",
    ),
    "no solver": (lambda: simulate(solver=None), "solver None: expected a name or a solver object"),
    "unknown backend": (lambda: simulate(backend="gpu"), "unknown backend 'gpu'; .*known: .*cpu.*reference"),
    "unknown coloring": (
        lambda: simulate(solver=vv.ColoredGaussSeidel(coloring="smalest-last")),
        "unknown coloring 'smalest-last'; did you mean 'smallest-last'",
    ),
    "zero iterations": (lambda: simulate(iterations=0), "iterations is 0; it must be a whole number, at least 1"),
    "boolean iterations": (lambda: simulate(iterations=True), "iterations is True"),
    "fractional iterations": (lambda: simulate(iterations=2.0), "iterations is 2.0"),
    "iterations in words": (lambda: simulate(iterations="8"), "iterations is '8'"),
    "zero substeps": (lambda: simulate(substeps=0), "substeps is 0"),
    "zero dt": (lambda: simulate(dt=0), "dt is 0; it must be above 0"),
    "negative dt": (lambda: simulate(dt=-1 / 60), "dt is -0.016"),
    "NaN dt": (lambda: simulate(dt=NAN), "dt is nan"),
    "negative damping": (lambda: simulate(damping=-0.1), "damping is -0.1"),
    "zero threads": (lambda: simulate(threads=0), "threads is 0"),
    "negative seed": (lambda: simulate(seed=-1), "seed is -1"),
    "negative frames": (lambda: run(-1), "frames is -1"),
    "fewer positions": (lambda: assign("positions", np.zeros((4, 3))), "positions: expected 9 rows, got 4"),
    "flat positions": (
        lambda: assign("positions", np.zeros((9, 2))),
        r"positions: expected shape \(n, 3\), got \(9, 2\)",
    ),
    "NaN velocities": (lambda: assign("velocities", np.full((9, 3), NAN)), "velocities: 9 rows are not finite"),
    "positions of a particle that does not exist": (
        lambda: simulate().set_positions([9], [[0, 0, 0]]),
        "particles: row 0 names particle 9",
    ),
    "more particles than positions": (
        lambda: simulate().set_positions([1, 2], [[0, 0, 0]]),
        "2 particles are named, but 1 positions? ",
    ),
    "moving what is not pinned": (lambda: simulate().move_pins([0, 3], np.zeros((2, 3))), "particle 3 is not pinned"),
    "moving a pin that does not exist": (
        lambda: simulate().move_pins([9], np.zeros((1, 3))),
        "pins: row 0 names particle 9",
    ),
    "moving a pin nowhere": (
        lambda: simulate().move_pins([0], [[NAN, 0, 0]]),
        "positions of pins: 1 row is not finite",
    ),
    "body in two simulations": (
        lambda: of_two_simulations(lambda body: body.set_positions([0], [[0, 0, 0]])),
        "'shirt' runs in 2 simulations",
    ),
    "pin in two simulations": (
        lambda: of_two_simulations(lambda body: body.move_pins([0], [[0, 0, 0]])),
        "'shirt' runs in 2 simulations",
    ),
}
GRAPH = {
    "loop": (lambda: vv.Graph.from_edges(3, [[0, 1], [2, 2]]), "edges: edge 1 joins node 2 with itself"),
    "edge out of range": (lambda: vv.Graph.from_edges(3, [[0, 3]]), "edges: row 0 names node 3, but there are 3"),
    "edge of an empty graph": (lambda: vv.Graph.from_edges(0, [[0, 1]]), "edges: row 0 names node 0, but there are 0"),
    "fractional edges": (lambda: vv.Graph.from_edges(3, [[0.0, 1.0]]), "edges: expected whole numbers"),
    "edges of three nodes": (lambda: vv.Graph.from_edges(3, [[0, 1, 2]]), "edges: expected shape"),
    "negative number of nodes": (lambda: vv.Graph.from_edges(-1, []), "node_count is -1"),
    "oblong matrix": (
        lambda: vv.Graph.from_scipy(scipy.sparse.eye_array(2, 3)),
        r"matrix: expected a square .* of shape \(2, 3\)",
    ),
    "dense matrix": (
        lambda: vv.Graph.from_scipy(np.eye(3)),
        "matrix: expected a square scipy.sparse matrix, got ndarray",
    ),
    "unknown coloring": (
        lambda: vv.color(vv.Graph.from_edges(2, [[0, 1]]), "largest-last"),
        "unknown coloring 'largest-last'; did you mean 'largest-first'|'smallest-last'",
    ),
    "negative seed": (lambda: vv.color(vv.Graph.from_edges(2, [[0, 1]]), seed=-1), "seed is -1"),
    "boolean seed": (lambda: vv.color(vv.Graph.from_edges(2, [[0, 1]]), seed=True), "seed is True"),
}
CASES = [
    pytest.param(*case, id=f"{part}: {name}")
    for part, cases in (("mesh", MESH), ("scene", SCENE), ("simulation", SIMULATION), ("graph", GRAPH))
    for name, case in cases.items()
]


@pytest.mark.parametrize(("mistake", "message"), CASES)
@pytest.mark.filterwarnings("error")
def test_bad_input_is_refused_and_named(mistake, message):
    with pytest.raises(vv.InputError, match=message):
        mistake()


def test_refused_body_is_not_left_in_the_scene():
    scene = vv.Scene()
    with pytest.raises(vv.InputError):
        scene.add_cloth(vv.Mesh(POINTS, [[0, 1, 2]]))
    with pytest.raises(vv.InputError):
        scene.add_solid(vv.Mesh(POINTS, tets=[[0, 2, 1, 3]]))
    assert scene.bodies == [] and scene.particle_count == 0


def test_refused_assignment_leaves_the_positions():
    simulation = simulate()
    with pytest.raises(vv.InputError):
        simulation.positions = np.full((9, 3), NAN)
    np.testing.assert_array_equal(simulation.positions, GRID.vertices)


def test_refused_targets_do_not_move_any_pin():
    simulation = simulate()
    with pytest.raises(vv.InputError):
        simulation.move_pins([0, 3], np.ones((2, 3)))
    simulation.step()
    np.testing.assert_array_equal(simulation.positions[0], GRID.vertices[0])


def test_errors_are_ordinary_value_and_runtime_errors():
    assert issubclass(vv.InputError, ValueError) and issubclass(vv.SimulationError, RuntimeError)

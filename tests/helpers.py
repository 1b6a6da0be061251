"""Small scenes and measures that several tests share."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

import vivace as vv
from vivace import backends, solvers
from vivace.model import ConstraintGroup, Model, measure
from vivace.state import State

SOURCE = Path(vv.__file__).parents[1]
WEIGHTLESS = (0.0, 0.0, 0.0)
NOTHING = vv.Compliances(stretch=None)  # a material that leaves all constraints to the test


def materials_of(solver):
    """The kinds of materials that a solver takes: "ratios", "physical"."""
    return getattr(solvers.solvers()[solver], "MATERIALS", ("ratios",))


# Those that run every solver, in one process; several ranks are in test_mpi.py.
BACKENDS = [name for name in backends.backends() if name != "mpi"]
PHYSICAL = [name for name in solvers.solvers() if "physical" in materials_of(name)]


def corner_cloth(side=50, stiffness=100.0, damping=0.01, **options):
    """A square net of springs that hangs by a corner."""
    scene = vv.Scene()
    cloth = scene.add_cloth(vv.Mesh.grid(side, side), material=vv.MassSpring(stiffness, damping=damping, **options))
    cloth.pin(0)
    return scene


def rotation(x, y, z):
    """A rotation by a vector [rad], as a matrix."""
    return Rotation.from_rotvec((x, y, z)).as_matrix()


# At least one of each kind: test_colliders.py asks for it.
COLLIDERS = {
    "Plane": [vv.Plane(), vv.Plane((0.1, -0.2, 0.3), (1.0, 2.0, -0.5))],
    "Sphere": [vv.Sphere(0.3), vv.Sphere(0.5, (0.1, 0.2, -0.3))],
    "Cylinder": [
        vv.Cylinder(0.3),
        vv.Cylinder(0.4, (0.1, 0.0, 0.2), (1.0, 1.0, 0.5)),
        vv.Cylinder(0.4, axis=(0.0, 2.0, 0.0), length=0.5),
    ],
    "Box": [
        vv.Box((0.8, 0.6, 0.7)),
        vv.Box((0.6, 0.9, 0.7), (0.1, -0.1, 0.2)).rounded(0.1),
    ],
    "Capsule": [
        vv.Capsule((-0.4, 0.0, 0.1), (0.5, 0.1, -0.2), 0.3),
        vv.Capsule((0.1, 0.2, 0.3), (0.1, 0.2, 0.3), 0.4),
    ],
    "Torus": [vv.Torus(0.5, 0.2), vv.Torus(0.4, 0.25, (0.1, 0.0, 0.2), (1.0, 0.5, -2.0))],
    "Union": [vv.Sphere(0.3, (-0.35, 0.0, 0.0)) | vv.Box((0.5, 0.5, 0.5), (0.35, 0.0, 0.0)).rounded(0.05)],
    "Intersection": [
        vv.Sphere(0.6) & vv.Plane((0.0, 0.2, 0.0)),
        vv.Box((0.9, 0.9, 0.9)) & (vv.Sphere(0.6) & vv.Cylinder(0.5)),
    ],
    "Difference": [vv.Box((1.0, 0.8, 1.0)) - vv.Cylinder(0.2, axis=(0.0, 1.0, 0.0))],
    "Moved": [
        vv.Box((0.8, 0.6, 0.7)).moved((0.1, 0.0, -0.1), rotation(0.3, -0.4, 0.5)),
        (vv.Plane() & vv.Sphere(0.7)).moved(rotation=rotation(1.0, 2.0, 3.0)),
    ],
}


def random_rotation(generator):
    """Any rotation, as a matrix."""
    rotation, _ = np.linalg.qr(generator.normal(size=(3, 3)))
    return rotation * np.linalg.det(rotation)


def noise(mesh, share, seed=0):
    """Random displacements, `share` of the shortest edge in size."""
    ends = mesh.vertices[mesh.edges]
    shortest = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).min()
    return np.random.default_rng(seed).normal(size=mesh.vertices.shape) * share * shortest


def strain(positions, mesh):
    """Relative change of length of each edge."""
    now, rest = (
        np.linalg.norm(points[mesh.edges[:, 0]] - points[mesh.edges[:, 1]], axis=1)
        for points in (positions, mesh.vertices)
    )
    return now / rest - 1


def violations(model, positions):
    """C of every constraint in float64, by the name of its group."""
    result = {}
    for group in model.groups:
        rest = group.rest.astype(float)
        rest = rest if rest.ndim == 1 else tuple(rest.T)
        result[group.name] = measure(group.constraint, positions[group.vertices], rest)
    return result


def elastic_energy(model, positions):
    """The sum of C^2 / (2 compliance) [J], which is stiffness / 2 |A x - p|^2 where p is nearest to A x."""
    values = violations(model, positions.astype(float))
    return sum((values[group.name] ** 2 / (2 * group.compliance)).sum() for group in model.groups)


def momentum(scene, simulation):
    """[kg m/s]"""
    return np.concatenate([body.masses for body in scene.bodies]) @ simulation.velocities.astype(float)


def bits(values):
    """Single precision numbers as they are stored: what is the same to the bit is equal."""
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def advance(scene, frames, threads=1, **settings):
    """A simulation of the scene after some frames."""
    simulation = vv.Simulation(scene, threads=threads, **settings)
    for _ in simulation.run(frames):
        pass
    return simulation


def settled(scene, solver="pd-direct", iterations=20, frames=150, dt=1 / 30):
    """A simulation of the scene that has come to rest."""
    simulation = advance(scene, frames, solver=solver, iterations=iterations, dt=dt, damping=5.0)
    assert abs(simulation.velocities).max() < 1e-3
    return simulation


def bare_model(constraint, points, rest, inverse_masses, surfaces=()):
    """A model of constraints that share no particle, past the checks of a scene; `points` is (m, arity, 3)."""
    points = np.asarray(points, np.float32)
    count, arity, _ = points.shape
    positions = points.reshape(-1, 3)
    vertices = np.arange(count * arity, dtype=np.int32).reshape(count, arity)
    group = ConstraintGroup("bare", constraint, vertices, np.asarray(rest, np.float32), np.ones(count, np.float32))
    inverse_masses = np.broadcast_to(inverse_masses, (len(positions),)).astype(np.float32)
    return Model(
        positions=positions,
        velocities=np.zeros_like(positions),
        inverse_masses=inverse_masses,
        groups=(group,),
        surfaces=tuple(surfaces),
        gravity=WEIGHTLESS,
        triangles=np.zeros((0, 3), np.int32),
        bodies=(("bare", slice(0, len(positions))),),
    )


def relaxed(model, backend, iterations=1, solver="gauss-seidel", threads=1):
    """Positions (n, 3) after some iterations of one step without gravity, and what the run left behind."""
    solver = solvers.find(solver)
    plan = solver.prepare(model, iterations, 0)
    state = State(plan)
    sweeps = backends.load(backend, plan, state, threads)
    outcome = sweeps.run(sweeps.prepare(solver.schedule(sweeps, iterations, 1)), 1.0, 0.0, WEIGHTLESS)
    return state.get("positions"), outcome


def fresh_python(code, *arguments, source=SOURCE, **environment):
    """What a new Python process prints that imports vivace from `source`."""
    run = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code, *map(str, arguments)],
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(source), **environment},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


PROJECTIVE = ("vivace", "pd-jacobi", "pd-chebyshev", "pd-direct")
SOFT = {
    "cloth": (vv.Mesh.grid(24, 24), "add_cloth", vv.Springs(300.0, bend=1e-3)),
    "solid": (vv.Mesh.box((6, 4, 4), (1.5, 1.0, 1.0)), "add_solid", vv.Elastic(5e4, poisson=0.3)),
}


def soft_scene(body, gravity=(0.0, -9.81, 0.0)):
    """A body held at two particles, and its mesh."""
    mesh, add, material = SOFT[body]
    scene = vv.Scene(gravity=gravity)
    getattr(scene, add)(mesh, material=material).pin([0, 1])
    return scene, mesh

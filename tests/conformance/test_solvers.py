"""What every solver must hold, against the physics. A new file in vivace/solvers is collected by itself.

A solver says what bodies it takes (MATERIALS: "ratios", "physical") and what its method cannot promise:
PROMISES_RESIDUAL = False, the residual of `test_noise_is_relaxed`; KEEPS_MOMENTUM = False, momentum before it has
converged, which stiffness ratios never do; BEARS_BLOCKS = False, friction under a body whose weight reaches the ground
through its springs.
"""

import numpy as np
import pytest

import vivace as vv
from helpers import BACKENDS, COLLIDERS, NOTHING, WEIGHTLESS, advance, materials_of, momentum, noise, strain, violations
from vivace.solvers import solvers

G = 9.81
# A solver with each kind of material that it takes.
SOLVERS = [(solver, kind) for solver in solvers() for kind in materials_of(solver)]
METHODS = [(*solver, backend) for solver in SOLVERS for backend in BACKENDS]
KEEPING = [name for name, solver in solvers().items() if getattr(solver, "KEEPS_MOMENTUM", True)]
PROMISING = [name for name, solver in solvers().items() if getattr(solver, "PROMISES_RESIDUAL", True)]


def each_of(methods):
    columns = ("solver", "kind", "backend")[: len(methods[0])]
    return pytest.mark.parametrize(columns, methods, ids=[" ".join(method) for method in methods])


each_solver, each_method = each_of(SOLVERS), each_of(METHODS)
each_solver_of_volumes = each_of([method for method in SOLVERS if method[1] != "springs"])
each_solver_that_bears_blocks = each_of(
    [
        (solver, kind)
        for solver, kind in SOLVERS
        if (solver in KEEPING or kind == "physical") and getattr(solvers()[solver], "BEARS_BLOCKS", True)
    ]
)
each_solver_of_ratios = each_of([method for method in SOLVERS if method[1] == "ratios"])
# Before they have converged, or never with ratios, the others push a free body about.
each_solver_that_moves_bodies_truly = each_of(
    [(solver, kind) for solver, kind in SOLVERS if solver in KEEPING or kind == "physical"]
)
BODIES = {
    "cloth": (vv.Mesh.grid(4, 4, (0.6, 0.6)), "add_cloth"),
    "solid": (vv.Mesh.box((2, 1, 1), (0.6, 0.3, 0.3)), "add_solid"),
}
STIFF = {
    ("cloth", "ratios"): vv.Ratios(stretch=1.0, bend=0.2),
    ("solid", "ratios"): vv.Ratios(stretch=1.0, volume=1.0, bend=0.1),
    ("cloth", "physical"): vv.Springs(2e4, bend=0.01),
    ("solid", "physical"): vv.Elastic(1e6, poisson=0.3),
    ("cloth", "springs"): vv.MassSpring(2e4),
    ("solid", "springs"): vv.MassSpring(2e4),
}
SOFT = {
    **STIFF,
    ("cloth", "physical"): vv.Springs(200.0, bend=0.01),
    ("solid", "physical"): vv.Elastic(2e4, poisson=0.3),
    ("cloth", "springs"): vv.MassSpring(200.0),
    ("solid", "springs"): vv.MassSpring(2000.0),
}
each_body = pytest.mark.parametrize("body", BODIES)


def frames_on(backend, frames):
    """Of the slow backend a quarter: it has no threads, lanes or blocks that could go wrong later on."""
    return frames // 4 if backend == "reference" else frames


def scene_of(body, kind, gravity=(0.0, -G, 0.0), materials=STIFF):
    mesh, add = BODIES[body]
    scene = vv.Scene(gravity=gravity)
    return scene, mesh, getattr(scene, add)(mesh, material=materials[body, kind])


@each_method
@each_body
def test_rest_stays_at_rest(solver, kind, backend, body):
    scene, mesh, _ = scene_of(body, kind, WEIGHTLESS)
    simulation = advance(scene, 5, solver=solver, backend=backend)
    rounding = 1e-6 if kind == "ratios" else 5e-6  # that of a stiffness of thousands of newtons a meter
    np.testing.assert_allclose(simulation.positions, mesh.vertices, atol=rounding)
    np.testing.assert_allclose(simulation.velocities, 0, atol=60 * rounding)


@each_method
@each_body
@pytest.mark.parametrize("substeps", [1, 3])
def test_free_fall_is_exact(solver, kind, backend, body, substeps):
    """x0 + n h v0 + g h^2 n (n + 1) / 2, as the symplectic Euler step has it."""
    scene, mesh, _ = scene_of(body, kind, (0.5, -G, 2.0))
    simulation = vv.Simulation(
        scene, threads=1, solver=solver, backend=backend, substeps=substeps, iterations=2, dt=1 / 60, damping=0.0
    )
    start_velocity = np.array([1.0, 2.0, -0.5])
    simulation.velocities = np.tile(start_velocity, (len(mesh.vertices), 1))
    frames = frames_on(backend, 20)
    for _ in simulation.run(frames):
        pass
    h, n = 1 / 60 / substeps, frames * substeps
    travelled = n * h * start_velocity + np.array(scene.gravity) * h * h * n * (n + 1) / 2
    np.testing.assert_allclose(simulation.positions, mesh.vertices + travelled, atol=2e-5)
    np.testing.assert_allclose(simulation.velocities - (start_velocity + np.array(scene.gravity) * n * h), 0, atol=1e-3)


@each_method
@pytest.mark.parametrize("substeps", [1, 4])
def test_damping_lets_velocity_decay_exponentially(solver, kind, backend, substeps):
    scene, mesh, _ = scene_of("cloth", kind, WEIGHTLESS)
    simulation = vv.Simulation(
        scene, threads=1, solver=solver, backend=backend, substeps=substeps, iterations=1, dt=1 / 30, damping=1.5
    )
    simulation.velocities = np.tile([1.0, -2.0, 0.5], (len(mesh.vertices), 1))
    for _ in simulation.run(15):
        pass
    np.testing.assert_allclose(
        simulation.velocities, np.exp(-1.5 * 0.5) * np.tile([1.0, -2.0, 0.5], (len(mesh.vertices), 1)), rtol=1e-3
    )


@each_method
def test_damping_acts_before_gravity_so_a_fall_ends_at_a_steady_speed(solver, kind, backend):
    """v = k v + g h settles at g h / (1 - k), k = exp(-damping h)."""
    scene, _, _ = scene_of("cloth", kind)
    simulation = advance(scene, 60, solver=solver, backend=backend, iterations=1, dt=1 / 30, damping=8.0)
    assert simulation.velocities[:, 1] == pytest.approx(-G / 30 / (1 - np.exp(-8 / 30)), rel=1e-3)


@each_method
@each_body
def test_pinned_particle_never_moves(solver, kind, backend, body):
    """Not by gravity, not by constraints that are torn, not by a collider around it."""
    scene, mesh, added = scene_of(body, kind)
    pins = [0, len(mesh.vertices) - 1]
    added.pin(pins)
    scene.add_collider(vv.Sphere(0.2, tuple(map(float, mesh.vertices[0]))))
    simulation = vv.Simulation(scene, threads=1, solver=solver, backend=backend)
    stirred = simulation.positions + np.random.default_rng(0).normal(size=mesh.vertices.shape)
    stirred[pins] = mesh.vertices[pins]
    simulation.positions = stirred
    for _ in simulation.run(frames_on(backend, 12)):
        np.testing.assert_array_equal(simulation.positions[pins], mesh.vertices[pins])
    np.testing.assert_array_equal(simulation.velocities[pins], 0)


def drift(body, kind, iterations, **options):
    """How much faster a free body is as a whole after five frames of random motion within it [m/s]."""
    scene, mesh, added = scene_of(body, kind, WEIGHTLESS, SOFT)
    simulation = vv.Simulation(scene, threads=1, iterations=iterations, damping=0.0, **options)
    simulation.velocities = np.random.default_rng(0).normal(size=mesh.vertices.shape)
    before = momentum(scene, simulation)
    for _ in simulation.run(5):
        pass
    return abs(momentum(scene, simulation) - before).max() / added.masses.sum()


@each_of([method for method in METHODS if method[0] in KEEPING])
@each_body
def test_momentum_of_a_free_body_is_kept(solver, kind, backend, body):
    assert drift(body, kind, 8, solver=solver, backend=backend) < 3e-5


DRIFTING = [(solver, kind) for solver, kind in SOLVERS if solver not in KEEPING and kind == "physical"]


@each_of(DRIFTING)
@each_body
def test_momentum_of_a_free_body_is_kept_once_iterations_have_converged(solver, kind, body):
    few, more, converged = (drift(body, kind, iterations, solver=solver) for iterations in (2, 30, 500))
    assert few > 2 * max(more, converged)
    assert converged < 3e-5


NOISY = {
    "cloth": (vv.Mesh.grid(8, 8), "add_cloth", vv.Ratios(stretch=1.0)),
    "solid": (vv.Mesh.box((3, 3, 3)), "add_solid", vv.Ratios(stretch=1.0, volume=1.0)),
}


@each_of([(solver, kind) for solver, kind in SOLVERS if solver in PROMISING and kind == "ratios"])
@pytest.mark.parametrize(("mesh", "add", "material"), NOISY.values(), ids=NOISY)
def test_noise_is_relaxed(solver, kind, mesh, add, material):
    """From 5 % noise, the residual falls below a tenth within 16 iterations."""
    scene = vv.Scene(gravity=WEIGHTLESS)
    getattr(scene, add)(mesh, material=material)
    simulation = vv.Simulation(scene, threads=1, solver=solver, iterations=16, damping=0.0)
    simulation.positions = mesh.vertices + noise(mesh, 0.05)
    before = violations(simulation.model, simulation.positions)
    report = simulation.step()
    for name, values in before.items():
        assert report.residual[name].rms < 0.1 * np.sqrt(np.mean(values**2))
        assert report.residual[name].largest < 0.1 * abs(values).max()


@each_solver
def test_triangle_hung_by_its_tip_swings_with_the_period_of_a_pendulum(solver, kind):
    """Both lower corners swing at distance `height` from the axis through the tip, like a mathematical pendulum."""
    height, angle, dt = 0.7, 0.1, 1 / 120
    mesh = vv.Mesh([[0, 0, 0], [0, -height, -0.1], [0, -height, 0.1]], [[0, 1, 2]])
    scene = vv.Scene()
    triangle = scene.add_cloth(mesh, material=STIFF["cloth", kind])
    triangle.pin(0)
    aside = height * np.array([np.sin(angle), -np.cos(angle), 0])
    triangle.set_positions([1, 2], [aside - [0, 0, 0.1], aside + [0, 0, 0.1]])
    simulation = vv.Simulation(scene, threads=1, solver=solver, iterations=4, substeps=8, dt=dt, damping=0.0)
    x = np.array([simulation.positions[1, 0] for _ in simulation.run(600)])
    crossing = np.flatnonzero((x[:-1] > 0) & (x[1:] <= 0))
    times = dt * (crossing + x[crossing] / (x[crossing] - x[crossing + 1]))
    assert len(times) == 3
    assert np.diff(times) == pytest.approx(2 * np.pi * np.sqrt(height / G) * (1 + angle**2 / 16), rel=0.02)


@each_solver_of_ratios
def test_substeps_reduce_the_strain_of_a_hanging_cloth(solver, kind):
    """Eight substeps of one iteration cost what one step of eight costs, and the cloth is far less like rubber."""
    strains = []
    for substeps, iterations in ((1, 8), (8, 1), (32, 1)):
        mesh = vv.Mesh.grid(12, 12)
        scene = vv.Scene()
        scene.add_cloth(mesh, material=vv.Ratios(stretch=1.0)).pin([0, 11])
        simulation = advance(scene, 60, solver=solver, substeps=substeps, iterations=iterations, dt=1 / 30, damping=1.0)
        strains.append(abs(strain(simulation.positions, mesh)).mean())
    assert strains[0] > 2 * strains[1] > 4 * strains[2] > 0


# Without and with what keeps the volume.
HUNG = {
    "ratios": (vv.Ratios(stretch=0.02), vv.Ratios(stretch=0.02, volume=1.0)),
    "physical": (vv.Elastic(2e4, poisson=0.0), vv.Elastic(2e4, poisson=0.49)),
}


@each_solver_of_volumes
def test_soft_solid_hung_from_its_top_keeps_its_volume_by_the_volume_constraint(solver, kind):
    mesh = vv.Mesh.box((4, 2, 2), (1.0, 0.4, 0.4))
    growth = []
    for material in HUNG[kind]:
        scene = vv.Scene()
        scene.add_solid(mesh, material=material).pin(np.flatnonzero(mesh.vertices[:, 1] > 0.19))
        simulation = advance(scene, 60, solver=solver, iterations=8 if kind == "ratios" else 40, damping=2.0)
        growth.append(vv.Mesh(simulation.positions, tets=mesh.tets).volumes.sum() / mesh.volumes.sum() - 1)
    assert growth[0] > 0.05
    assert abs(growth[1]) < 0.01


def slid(solver, kind, degrees, friction, frames=60, substeps=4):
    """How far a block on an incline gets, and how far the law of Coulomb would let it slide."""
    angle = np.radians(degrees)
    down, out = np.array([np.cos(angle), -np.sin(angle), 0]), np.array([np.sin(angle), np.cos(angle), 0])
    block = vv.Mesh.box((2, 2, 2), (0.2, 0.2, 0.2)).moved((0.0, 0.1, 0.0))
    mesh = vv.Mesh(block.vertices @ np.stack([down, out, [0, 0, 1]]), tets=block.tets)
    scene = vv.Scene()
    # Those that push a body about until they have converged get a softer one, so that 40 iterations do.
    physical = vv.Elastic(1e6 if solver in KEEPING else 3e5)
    iterations = 8 if solver in KEEPING and solver in PROMISING else 40
    scene.add_solid(mesh, material=vv.Ratios(stretch=1.0, volume=1.0) if kind == "ratios" else physical)
    scene.add_collider(vv.Plane(normal=tuple(out)), friction=friction)
    simulation = advance(scene, frames, solver=solver, iterations=iterations, substeps=substeps, dt=1 / 60, damping=0.0)
    h, n = 1 / 60 / substeps, frames * substeps
    return (simulation.positions - mesh.vertices).mean(axis=0) @ down, G * (
        np.sin(angle) - friction * np.cos(angle)
    ) * h * h * n * (n + 1) / 2


@each_solver_that_bears_blocks
@pytest.mark.parametrize(("degrees", "friction"), [(20, 0.5), (30, 0.7)])
def test_block_sticks_to_an_incline_less_steep_than_its_friction(solver, kind, degrees, friction):
    assert np.tan(np.radians(degrees)) < friction
    way, _ = slid(solver, kind, degrees, friction)
    assert abs(way) < 0.005


@each_solver_that_bears_blocks
@pytest.mark.parametrize(("degrees", "friction"), [(20, 0.0), (30, 0.3), (40, 0.5)])
def test_block_slides_down_a_steeper_incline_by_the_law_of_coulomb(solver, kind, degrees, friction):
    way, expected = slid(solver, kind, degrees, friction)
    assert way == pytest.approx(expected, rel=0.02)


# Every solver on every backend, every collider on every backend; on the slow one, not every solver on every collider.
FALLS = [
    pytest.param(*method, examples[0], id=f"{name}-{' '.join(method)}")
    for name, examples in COLLIDERS.items()
    for method in METHODS
    if method[2] != "reference" or name == "Sphere" or method[:2] == ("gauss-seidel", "ratios")
]


@pytest.mark.parametrize(("solver", "kind", "backend", "collider"), FALLS)
def test_falling_cloth_is_kept_outside_a_collider_and_comes_to_lie_on_it(solver, kind, backend, collider):
    mesh = vv.Mesh.grid(4, 4, (0.4, 0.4)).moved((0.03, 0.4, 0.02))
    scene = vv.Scene()
    scene.add_cloth(mesh, material=STIFF["cloth", kind])
    scene.add_collider(collider, margin=0.01)
    nearest = []
    simulation = vv.Simulation(scene, threads=1, solver=solver, backend=backend, iterations=4)
    for _ in simulation.run(20):
        distance, _ = collider.distance_normal(tuple(simulation.positions.T.astype(float)), collider.parameters())
        nearest.append(distance.min())
    assert min(nearest) > 0.01 - 1e-5
    assert min(nearest) < 0.01 + 1e-4


@each_method
def test_scene_without_constraints_still_falls(solver, kind, backend):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(3, 3), material=vv.Ratios(stretch=0.0) if kind == "ratios" else NOTHING)
    simulation = advance(scene, 6, solver=solver, backend=backend, damping=0.0)
    assert simulation.velocities[:, 1] == pytest.approx(-G * 0.1, rel=1e-5)

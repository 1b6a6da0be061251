"""What every backend must hold: each sweep equals that of `reference`.

A new file in vivace/backends is collected by itself. Sweeps are compared through what the protocol promises, a run of
a schedule on a state; what lies between is the backend's own.
"""

import numpy as np
import pytest

import vivace as vv
from helpers import BACKENDS, COLLIDERS, advance, materials_of, noise, violations
from vivace.backends import load
from vivace.kernels import region
from vivace.solvers import find, solvers
from vivace.state import State

FAST = [name for name in BACKENDS if name != "reference"]
each_backend = pytest.mark.parametrize("backend", BACKENDS)
each_fast_backend = pytest.mark.parametrize("backend", FAST)
GRAVITY = (0.3, -9.81, 0.1)
SURFACES = [example for examples in COLLIDERS.values() for example in examples]
SOLVERS = [(solver, kind) for solver in solvers() for kind in materials_of(solver)]
each_solver = pytest.mark.parametrize(("solver", "kind"), SOLVERS, ids=[" ".join(method) for method in SOLVERS])
# Of cloth and solid.
MATERIALS = {
    "ratios": (vv.Ratios(stretch=0.9, bend=0.3), vv.Ratios(stretch=0.7, bend=0.2, volume=0.8)),
    "compliances": (vv.Compliances(stretch=1e-3, bend=0.1), vv.Compliances(stretch=1e-4, bend=1.0, volume=1e-6)),
    "physical": (vv.Springs(500.0, bend=0.05), vv.Elastic(2e4, poisson=0.3)),
    "springs": (vv.MassSpring(500.0, damping=0.3), vv.MassSpring(2000.0, damping=0.1)),
}


def busy_scene(kind="ratios"):
    """Cloth that is curved and solid with every kind of constraint, materials that differ, pins and every collider."""
    scene = vv.Scene()
    flat = vv.Mesh.grid(6, 5)
    curved = vv.Mesh(flat.vertices + [[0, 0.4, 0]] * flat.vertices[:, :1] ** 2, flat.triangles)
    cloth = scene.add_cloth(curved, material=MATERIALS[kind][0])
    solid = scene.add_solid(vv.Mesh.box((2, 2, 2), (0.6, 0.6, 0.6)), material=MATERIALS[kind][1])
    if kind == "physical":
        cloth.attach([7, 8], [30.0, 60.0])
        solid.attach([1], 200.0, [[1.0, 2.0, 3.0]])
    cloth.pin([0, 5])
    solid.pin(3)
    for collider in SURFACES:
        scene.add_collider(collider, friction=0.4, margin=0.02)
    return scene


def stirred_state(plan, seed=0):
    """Everything off its place and on its way; pins travel too."""
    generator = np.random.default_rng(seed)
    state = State(plan)
    count = plan.model.particle_count
    state.set("positions", slice(None), plan.model.positions + generator.normal(size=(count, 3)) * 0.05)
    state.set("velocities", slice(None), generator.normal(size=(count, 3)))
    return state


def after_sweeps(backend, solver, sweeps_of, kind="ratios", threads=2):
    """Positions, velocities and outcome after a step whose projections are `sweeps_of(sweeps)`."""
    plan = find(solver).prepare(busy_scene(kind).build(), 1, 0)
    state = stirred_state(plan)
    sweeps = load(backend, plan, state, threads)
    schedule = sweeps.prepare([sweeps.predict, *sweeps_of(sweeps), sweeps.update_velocities])
    outcome = sweeps.run(schedule, 1 / 60, 0.5, GRAVITY)
    return state.get("positions"), state.get("velocities"), outcome


def assert_equal_to_reference(backend, solver, sweeps_of, kind="ratios"):
    """Returns how far the sweeps moved particles beyond their flight."""
    expected, expected_velocities, expected_outcome = after_sweeps("reference", solver, sweeps_of, kind)
    positions, velocities, outcome = after_sweeps(backend, solver, sweeps_of, kind)
    np.testing.assert_allclose(positions, expected, rtol=1e-5, atol=1e-5)
    # A velocity is a difference of positions over 1/60 s.
    np.testing.assert_allclose(velocities, expected_velocities, rtol=1e-5, atol=60e-5)
    for name, residual in expected_outcome.residual.items():
        assert outcome.residual[name].rms == pytest.approx(residual.rms, rel=1e-4)
        assert outcome.residual[name].largest == pytest.approx(residual.largest, rel=1e-4)
    flight, _, _ = after_sweeps("reference", solver, lambda sweeps: [], kind)
    return abs(expected - flight).max()


@each_fast_backend
def test_flight_equals_reference(backend):
    assert assert_equal_to_reference(backend, "gauss-seidel", lambda sweeps: []) == 0


@each_backend
def test_flight_is_damped_then_pulled_by_gravity_and_pins_go_as_told(backend):
    positions, velocities, _ = after_sweeps(backend, "gauss-seidel", lambda sweeps: [])
    plan = find("gauss-seidel").prepare(busy_scene().build(), 1, 0)
    start = stirred_state(plan)
    flight = np.exp(-0.5 / 60) * start.get("velocities") + np.array(GRAVITY) / 60
    flight[plan.model.inverse_masses == 0] = start.get("velocities")[plan.model.inverse_masses == 0]
    np.testing.assert_allclose(velocities, flight, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(positions, start.get("positions") + flight / 60, rtol=1e-6, atol=1e-6)


@each_fast_backend
@pytest.mark.parametrize("group", range(3))
def test_every_batch_equals_reference(backend, group):
    plan = find("gauss-seidel").prepare(busy_scene().build(), 1, 0)
    for batch in range(plan.groups[group].batch_count):
        assert (
            assert_equal_to_reference(
                backend, "gauss-seidel", lambda sweeps, batch=batch: [sweeps.project(group, batch)]
            )
            > 1e-4
        )


def compliant_scene():
    """Every kind of constraint with a compliance, soft and rigid."""
    scene = vv.Scene()
    cloth = scene.add_cloth(vv.Mesh.grid(6, 5), material=vv.Compliances(stretch=1e-3, bend=0.1))
    scene.add_solid(vv.Mesh.box((2, 2, 2)), material=vv.Compliances(stretch=0.0, bend=1.0, volume=1e-6))
    cloth.pin([0, 5])
    return scene


@each_fast_backend
@pytest.mark.parametrize("group", range(3))
def test_compliant_sweep_equals_reference_and_multipliers_add_up(backend, group):
    results = []
    for name in (backend, "reference"):
        plan = find("gauss-seidel").prepare(compliant_scene().build(), 1, 0)
        state = stirred_state(plan)
        sweeps = load(name, plan, state, 2)
        once = [sweeps.project_compliant(group, batch) for batch in range(plan.groups[group].batch_count)]
        schedule = [sweeps.predict, sweeps.forget_multipliers(group), *once, *once, sweeps.update_velocities]
        sweeps.run(sweeps.prepare(schedule), 1 / 60, 0.5, GRAVITY)
        results.append(state.get("positions"))
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


@each_fast_backend
@pytest.mark.parametrize("group", range(3))
def test_serial_sweep_equals_reference(backend, group):
    assert assert_equal_to_reference(backend, "serial", lambda sweeps: [sweeps.project_in_order(group)]) > 1e-3


@each_fast_backend
@pytest.mark.parametrize(
    "surface", range(len(SURFACES)), ids=lambda surface: f"{type(SURFACES[surface]).__name__} {surface}"
)
def test_collision_equals_reference(backend, surface):
    assert assert_equal_to_reference(backend, "gauss-seidel", lambda sweeps: [sweeps.collide(surface)]) > 1e-3


def local(sweeps):
    """Every nearest shape that visits do not find themselves."""
    return [sweeps.system.project(group) for group in sweeps.plan.system.projected]


def visited(sweeps, omega=1.0):
    """Every particle once, color by color."""
    return [*local(sweeps), *(sweeps.system.relax(color, omega) for color in range(sweeps.system.coloring.count))]


SYSTEM_SWEEPS = {
    "visits": lambda sweeps: visited(sweeps),
    "over-relaxed visits": lambda sweeps: [*visited(sweeps, 1.4), *visited(sweeps, 1.4)],
    "all at once, blended": lambda sweeps: [
        sweeps.system.remember(),
        *(2 * [*local(sweeps), sweeps.system.relax_apart(), sweeps.system.blend(1.2, 0.9)]),
    ],
    "sweeps prolonged": lambda sweeps: [
        sweeps.system.remember(),
        *(token for turn in (1, 2, 3) for token in (*visited(sweeps), sweeps.system.extrapolate(turn, 1 + turn / 9))),
    ],
    "solved": lambda sweeps: 2 * [*local(sweeps), *sweeps.system.solve()],
    "visits between collisions": lambda sweeps: [
        *visited(sweeps),
        *(sweeps.collide(surface, carry_aims=True) for surface in range(len(SURFACES))),
        *visited(sweeps),
    ],
}


ALL_AT_ONCE = ("all at once, blended", "solved")


@each_fast_backend
@pytest.mark.parametrize(
    ("solver", "sweeps_of"),
    [
        *(pytest.param("vivace", sweeps_of, id=f"vivace, {name}") for name, sweeps_of in SYSTEM_SWEEPS.items()),
        *(pytest.param("pd-jacobi", SYSTEM_SWEEPS[name], id=f"pd-jacobi, {name}") for name in ALL_AT_ONCE),
        *(pytest.param("pd-direct", SYSTEM_SWEEPS[name], id=f"pd-direct, {name}") for name in ALL_AT_ONCE),
    ],
)
def test_sweeps_of_projective_dynamics_equal_reference(backend, solver, sweeps_of):
    """With particles in colors or all in one, springs folded into the visits or not."""

    def from_the_aim(sweeps):
        return [sweeps.system.aim, *sweeps_of(sweeps)]

    assert assert_equal_to_reference(backend, solver, from_the_aim, "physical") > 1e-2


@each_fast_backend
@pytest.mark.parametrize("kind", ["ratios", "compliances"])
def test_position_based_visits_equal_reference(backend, kind):
    def sweeps_of(sweeps):
        visits, groups = sweeps.visits, range(len(sweeps.plan.groups))
        colors = [
            [*(visits.visit(group, color) for group in groups), visits.settle(color, 1.2)]
            for color in range(visits.coloring.count)
        ]
        return [visits.aim, *(2 * sum(colors, []))]

    assert assert_equal_to_reference(backend, "vivace", sweeps_of, kind) > 1e-2


@each_fast_backend
@each_solver
def test_whole_steps_equal_reference(backend, solver, kind):
    """From a start off the middle of colliders, where they would push to any side."""
    ends = []
    for name in ("reference", backend):
        simulation = vv.Simulation(busy_scene(kind), solver, iterations=2, substeps=2, threads=1, backend=name)
        start = simulation.positions + np.random.default_rng(0).normal(size=simulation.positions.shape) * 0.02
        simulation.positions = start
        for _ in simulation.run(2):
            pass
        ends.append(simulation.positions)
    assert abs(ends[0] - start).max() > 0.01
    np.testing.assert_allclose(*ends, atol=1e-3)


@each_backend
def test_residual_is_the_rms_and_the_largest_violation(backend):
    """Enough constraints for several chunks of the sum."""
    mesh = vv.Mesh.grid(40, 30)
    scene = vv.Scene(gravity=(0.0, 0.0, 0.0))
    scene.add_cloth(mesh)
    plan = find("gauss-seidel").prepare(scene.build(), 1, 0)
    state = State(plan)
    state.set("positions", slice(None), mesh.vertices + noise(mesh, 0.1))
    sweeps = load(backend, plan, state, 2)
    outcome = sweeps.run(sweeps.prepare([]), 1 / 60, 0.0, (0.0, 0.0, 0.0))
    for name, values in violations(plan.model, state.get("positions")).items():
        assert outcome.residual[name].rms == pytest.approx(np.sqrt(np.mean(values**2)), rel=1e-4)
        assert outcome.residual[name].largest == pytest.approx(abs(values).max(), rel=1e-4)


@each_backend
@pytest.mark.parametrize("name", ["positions", "velocities"])
@pytest.mark.parametrize("flaw", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("particle", [0, 31, -1])
def test_one_number_that_is_not_finite_is_noticed(backend, name, flaw, particle):
    plan = find("gauss-seidel").prepare(busy_scene().build(), 1, 0)
    state = State(plan)
    sweeps = load(backend, plan, state, 2)
    schedule = sweeps.prepare([])
    assert sweeps.run(schedule, 1 / 60, 0.0, GRAVITY).finite
    getattr(state, name)[plan.row_of[particle], 2] = flaw
    assert not sweeps.run(schedule, 1 / 60, 0.0, GRAVITY).finite


@each_backend
def test_taking_back_returns_to_the_state_before_the_run(backend):
    plan = find("gauss-seidel").prepare(busy_scene().build(), 1, 0)
    state = stirred_state(plan)
    before = state.positions.copy(), state.velocities.copy()
    sweeps = load(backend, plan, state, 2)
    sweeps.run(sweeps.prepare([sweeps.predict, sweeps.project(0, 0), sweeps.update_velocities]), 1 / 60, 0.0, GRAVITY)
    assert (state.positions != before[0]).any() and (state.velocities != before[1]).any()
    sweeps.take_back()
    np.testing.assert_array_equal(state.positions, before[0])
    np.testing.assert_array_equal(state.velocities, before[1])


@each_backend
@pytest.mark.parametrize("size", [1, 7, 8, 9])
def test_batch_of_any_size_projects_each_constraint_once_and_nothing_else(backend, size):
    """Ties across a strip, twice as long as they want to be and half as eager as they could be."""
    mesh = vv.Mesh.strip(20, 2.0, 0.1)
    scene = vv.Scene(gravity=(0.0, 0.0, 0.0))
    strip = scene.add_cloth(mesh, material=vv.Ratios(stretch=0.0))
    ties = np.stack([np.arange(size), np.arange(size) + 21], axis=1)
    scene.add_constraints(strip, "stretch", ties, rest=0.05, stiffness_ratio=0.5)
    simulation = advance(scene, 1, iterations=1, backend=backend, threads=2)
    lengths = np.linalg.norm(simulation.positions[:21] - simulation.positions[21:], axis=1)
    np.testing.assert_allclose(lengths, np.where(np.arange(21) < size, 0.075, 0.1), rtol=1e-5)


@each_fast_backend
@each_solver
@pytest.mark.parametrize("threads", [2, 3, 4, 7])
def test_same_bits_for_any_number_of_threads(backend, solver, kind, threads, monkeypatch):
    """Seven are more than can run at once here, which takes the way without a barrier."""
    monkeypatch.setattr(region, "LEAST_PORTION", 1)  # they help each other, however little there is to do
    alone, together = (
        advance(busy_scene(kind), 20, solver=solver, iterations=3, substeps=2, backend=backend, threads=count)
        for count in (1, threads)
    )
    assert np.isfinite(alone.positions).all() and abs(alone.positions - alone.model.positions).max() > 0.1
    for name in ("positions", "velocities"):
        assert (getattr(together, name).view(np.uint32) == getattr(alone, name).view(np.uint32)).all()


@each_fast_backend
def test_same_residual_to_the_bit_for_any_number_of_threads(backend):
    reports = []
    for threads in (1, 2, 3, 4, 7):
        scene = vv.Scene()
        scene.add_cloth(vv.Mesh.grid(40, 30)).pin([0, 39])
        reports.append(vv.Simulation(scene, threads=threads, iterations=2, backend=backend).step().residual)
    assert all(report == reports[0] for report in reports[1:]) and reports[0]["stretch"].largest > 0

"""Projective Dynamics: its one system, and its solvers against algebra, a serial sweep and their own energy."""

import gc
import weakref

import numpy as np
import pytest

import vivace as vv
from helpers import NOTHING, PHYSICAL, advance, elastic_energy, noise, settled
from vivace.backends.cpu import Team
from vivace.factor import factored
from vivace.kernels.lanes import select, sqrt
from vivace.kernels.vec3 import norm, scale, sub
from vivace.scenes import armadillo, tablecloth
from vivace.solvers.pd_chebyshev import PDChebyshev
from vivace.solvers.pd_direct import PDDirect
from vivace.solvers.pd_jacobi import PDJacobi
from vivace.solvers.vivace import Vivace
from vivace.system import make_system

G = 9.81
PLAIN = Vivace(omega=1, extrapolation=1)
PD = ("vivace", "pd-jacobi", "pd-chebyshev", "pd-direct")
each_projective_solver = pytest.mark.parametrize("solver", PD)
each_physical_solver = pytest.mark.parametrize("solver", PHYSICAL)


# The system


def every_kind():
    """Cloth that is curved at rest, a solid with springs along some of its edges, points tied to space."""
    grid = vv.Mesh.grid(3, 3)
    cloth_mesh = vv.Mesh(grid.vertices + [[0, 0.3, 0]] * (grid.vertices[:, :1] ** 2), grid.triangles)
    scene = vv.Scene()
    cloth = scene.add_cloth(cloth_mesh, material=vv.Springs(100.0, bend=0.2))
    solid = scene.add_solid(vv.Mesh.box((1, 1, 1)), material=vv.Elastic(900.0, poisson=0.3))
    scene.add_constraints(solid, "stretch", solid.mesh.edges[::2], compliance=1 / 70)
    cloth.attach([0, 4], [50.0, 80.0])
    cloth.pin(2)
    return scene


def system_of(scene, solver=PLAIN):
    """The system, and its matrix in the user's order."""
    plan = solver.prepare(scene.build(), 1, 0)
    return plan, plan.system.matrix.toarray()[np.ix_(plan.row_of, plan.row_of)]


def seen_by(group, rest_positions):
    """A of a group as a function of positions: (m, rows, 3)."""
    if group.name == "stretch":
        return lambda x: (x[group.vertices[:, 0]] - x[group.vertices[:, 1]])[:, None]
    if group.name == "attach":
        return lambda x: x[group.vertices]
    if group.name == "quadratic_bend":  # what its numbers mean is tested on a cylinder below
        return lambda x: np.einsum("mc,mcd->md", group.rest[:, :4].astype(float), x[group.vertices])[:, None]
    frame = lambda x: (x[group.vertices[:, 1:]] - x[group.vertices[:, :1]]).swapaxes(1, 2)  # noqa: E731
    inverse = np.linalg.inv(frame(rest_positions))
    return lambda x: (frame(x) @ inverse).swapaxes(1, 2)


@pytest.mark.parametrize("axis", range(3))
def test_the_matrix_is_the_hessian_of_the_energy_with_frozen_projections(axis):
    model, generator = every_kind().build(), np.random.default_rng(0)
    assert {group.name for group in model.groups} == {
        *("stretch", "quadratic_bend", "tet_strain", "tet_volume", "attach")
    }
    parts = [(seen_by(group, model.positions.astype(float)), group.compliance) for group in model.groups]
    count, aims = model.particle_count, [generator.normal(size=a(model.positions).shape) for a, _ in parts]

    def energy(x):
        each = [((a(x) - p) ** 2).sum(axis=(1, 2)) / (2 * compliance) for (a, compliance), p in zip(parts, aims)]
        return sum(values.sum() for values in each)

    x, steps = generator.normal(size=(count, 3)), np.zeros((count, count, 3))
    steps[np.arange(count), np.arange(count), axis] = 1.0
    # Of a quadratic function, differences are exact.
    alone = np.array([energy(x + step) for step in steps])
    both = np.array([[energy(x + one + other) for other in steps] for one in steps])
    hessian = both - alone[:, None] - alone[None] + energy(x)
    _, matrix = system_of(every_kind())
    np.testing.assert_allclose(matrix, hessian, atol=1e-6 * abs(hessian).max())


def written_out(system):
    """The matrix that the lists of a system stand for."""
    count = len(system.diagonal)
    matrix = np.diag(system.diagonal.astype(float))
    for i in range(count):
        for entry in range(*system.offsets[i : i + 2]):
            is_spring = entry < system.offsets[i] + system.springs[i]
            assert is_spring or system.stiffness[entry] == 0
            matrix[i, system.neighbors[entry]] -= system.weights[entry] + system.stiffness[entry]
    return matrix


def test_springs_folded_into_the_visits_or_not_give_the_same_matrix():
    plan, _ = system_of(every_kind())
    vertices, whole = [planned.vertices for planned in plan.groups], plan.system.matrix.toarray()
    folded, apart = (make_system(plan.model.groups, vertices, len(whole), for_visits) for for_visits in (True, False))
    assert folded.springs.sum() == 2 * len(plan.model.groups[0]) and folded.folded == 0
    assert apart.springs.sum() == 0 and apart.folded is None
    assert apart.projected == tuple(range(len(plan.groups)))  # a direct solve has all forces as pulls
    for system in (folded, apart):
        np.testing.assert_array_equal(system.matrix.toarray(), whole)
    np.testing.assert_allclose(written_out(folded), whole, atol=1e-6 * abs(whole).max())


def test_rows_sum_to_zero_but_for_attachments():
    _, matrix = system_of(every_kind())
    tied = np.zeros(len(matrix))
    tied[[0, 4]] = 50, 80
    np.testing.assert_allclose(matrix.sum(axis=1), tied, atol=1e-5)


def test_the_radius_of_jacobis_iteration_is_the_largest_eigenvalue_of_its_matrix():
    plan, _ = system_of(every_kind())
    free, step = plan.inverse_masses > 0, 1 / 60
    y = plan.system.matrix.toarray()[np.ix_(free, free)] + np.diag(1 / plan.inverse_masses[free] / step**2)
    eigenvalues = np.linalg.eigvals(np.eye(len(y)) - y / np.diag(y)[:, None])
    found = plan.system.spectral_radius(plan.inverse_masses, step, rounds=200)
    assert found == pytest.approx(abs(eigenvalues).max(), rel=0.01)


def test_the_factor_times_itself_is_the_matrix_of_the_free_particles():
    plan, _ = system_of(every_kind())
    factor = factored(plan.system, plan.inverse_masses, 1 / 60)
    count = len(factor.particles)
    lower = np.eye(count)
    lower[factor.rows, np.repeat(np.arange(count), np.diff(factor.starts))] = factor.entries
    wanted = plan.system.matrix.toarray()[np.ix_(factor.particles, factor.particles)] + np.diag(
        60**2 / plan.inverse_masses[factor.particles]
    )
    assert sorted(factor.particles) == np.flatnonzero(plan.inverse_masses).tolist()
    np.testing.assert_allclose(lower / factor.inverse_diagonal @ lower.T, wanted, atol=1e-6 * wanted.max())


# Linear springs: a step is one linear system


def linear_net(stiffness=300.0, side=5):
    """Springs without rest length, with the step's matrix Y, right-hand side b and solution, of all particles."""
    mesh, dt = vv.Mesh.grid(side, side), 1 / 60
    scene = vv.Scene()
    net = scene.add_cloth(mesh, material=NOTHING)
    net.pin([0, side - 1])
    scene.add_constraints(net, "stretch", mesh.edges, rest=0.0, compliance=1 / stiffness)
    velocities = np.where(net.pinned[:, None], 0, np.random.default_rng(0).normal(size=mesh.vertices.shape))
    i, j = mesh.edges.T
    y, inertia, free = np.zeros((len(net),) * 2), net.masses / dt**2, ~net.pinned
    for here, there in ((i, j), (j, i)):
        np.add.at(y, (here, here), stiffness)
        np.add.at(y, (here, there), -stiffness)
    y += np.diag(inertia)
    aim = mesh.vertices + dt * velocities + np.where(free[:, None], [[0, -G * dt**2, 0]], 0)
    b = inertia[:, None] * aim
    solution = mesh.vertices.astype(float)
    pull = y[np.ix_(free, ~free)] @ solution[~free]
    solution[free] = np.linalg.solve(y[np.ix_(free, free)], b[free] - pull)
    return scene, velocities, y, b, aim, solution


def one_step(scene, velocities, solver, iterations, **options):
    simulation = vv.Simulation(scene, solver, iterations=iterations, damping=0.0, threads=1, **options)
    simulation.velocities = velocities
    simulation.step()
    return simulation


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize(
    "solver, iterations",
    [(Vivace(), 400), (PLAIN, 300), (PDJacobi(), 800), (PDChebyshev(), 200), (PDDirect(), 1)],
    ids=["vivace", "plain Gauss-Seidel", "pd-jacobi", "pd-chebyshev", "pd-direct"],
)
def test_converged_solver_equals_the_solution_of_the_linear_system(solver, iterations, backend):
    scene, velocities, y, _, aim, solution = linear_net()
    free = ~scene.bodies[0].pinned
    assert np.linalg.cond(y[np.ix_(free, free)]) < 100
    assert abs(solution - aim).max() > 0.1
    found = one_step(scene, velocities, solver, iterations, backend=backend).positions
    np.testing.assert_allclose(found, solution, atol=1e-5)


@pytest.mark.parametrize("omega", [0.7, 1.0, 1.35])
def test_a_sweep_of_vivace_is_a_sweep_of_sor_from_the_textbook(omega):
    scene, velocities, y, b, aim, _ = linear_net()
    simulation = one_step(scene, velocities, Vivace(omega, extrapolation=1), 1)
    colors, x = simulation.plan.coloring.colors[simulation.plan.row_of], aim.copy()
    for i in np.lexsort((simulation.plan.row_of, colors)):
        if not scene.bodies[0].pinned[i]:
            x[i] += omega * (b[i] - y[i] @ x) / y[i, i]
    np.testing.assert_allclose(simulation.positions, x, atol=1e-6)


@pytest.mark.parametrize("relaxation", [0.6, 1.0])
def test_an_iteration_of_pd_jacobi_is_one_from_the_textbook(relaxation):
    scene, velocities, y, b, aim, _ = linear_net()
    x, free = aim.copy(), ~scene.bodies[0].pinned
    for _ in range(3):
        x[free] += relaxation * ((b - y @ x) / np.diag(y)[:, None])[free]
    found = one_step(scene, velocities, PDJacobi(relaxation), 3).positions
    np.testing.assert_allclose(found, x, atol=1e-6)


# Colors and threads


SOFT = {
    "cloth": (vv.Mesh.grid(24, 24), "add_cloth", vv.Springs(300.0, bend=1e-3)),
    "solid": (vv.Mesh.box((6, 4, 4), (1.5, 1.0, 1.0)), "add_solid", vv.Elastic(5e4, poisson=0.3)),
}
each_soft_body = pytest.mark.parametrize("body", SOFT)


def soft_scene(body, gravity=(0.0, -G, 0.0)):
    mesh, add, material = SOFT[body]
    scene = vv.Scene(gravity=gravity)
    getattr(scene, add)(mesh, material=material).pin([0, 1])
    return scene, mesh


def one_by_one(colors):
    """A coloring that gives every particle a color of its own, in the order of another coloring's sweep."""
    order = np.lexsort((np.arange(len(colors)), colors))
    alone = np.empty(len(colors), np.int32)
    alone[order] = np.arange(len(colors))
    return lambda graph, generator: alone


@each_soft_body
@pytest.mark.parametrize("options", [(1.0, 1.0), (1.35, 1.0), (1.35, 1.55)])
def test_a_parallel_sweep_equals_a_serial_one_in_color_order_to_the_bit(body, options):
    scene, mesh = soft_scene(body)
    together = vv.Simulation(scene, Vivace(*options), iterations=4, threads=2)
    serial = one_by_one(together.plan.coloring.colors)
    alone = vv.Simulation(scene, Vivace(*options, coloring=serial), iterations=4, threads=1)
    assert together.colors["particles"] < 40 and alone.colors["particles"] == len(mesh.vertices)
    for simulation in (together, alone):
        simulation.positions = mesh.vertices + noise(mesh, 0.2)
        for _ in simulation.run(5):
            pass
    assert (together.positions.view(np.uint32) == alone.positions.view(np.uint32)).all()


@each_soft_body
@pytest.mark.parametrize("solver", [*PD, Vivace(fresh=True)], ids=[*PD, "vivace in fresh orders"])
def test_same_bits_for_any_number_of_threads(solver, body, monkeypatch):
    monkeypatch.setattr(Team, "BEARABLE", np.inf)  # all threads take part, however long they wait
    runs = []
    for threads in (1, 2, 3, 4):
        scene, mesh = soft_scene(body)
        simulation = vv.Simulation(scene, solver, iterations=4, threads=threads)
        simulation.positions = mesh.vertices + noise(mesh, 0.2)
        assert {report.threads for report in simulation.run(8)} == {threads}
        runs.append(np.concatenate([simulation.positions, simulation.velocities]).view(np.uint32))
    assert all((run == runs[0]).all() for run in runs)


@each_soft_body
def test_a_fresh_order_every_frame_is_another_one_and_ends_at_the_same_solution(body):
    scene, _ = soft_scene(body)
    orders, ends = set(), []
    for fresh in (True, False):
        simulation = vv.Simulation(scene, Vivace(1.2, 1.3, fresh=fresh), iterations=300, dt=1 / 120)
        for _ in simulation.run(3):
            orders.add(simulation._sweeps.system.coloring.colors.tobytes())
        ends.append(simulation.positions)
    assert len(orders) == 3  # the first one is that of a simulation without
    np.testing.assert_allclose(*ends, atol=2e-5)
    few = [advance(scene, 3, solver=Vivace(fresh=fresh), iterations=2).positions for fresh in (True, False)]
    assert abs(few[0] - few[1]).max() > 1e-6


# Energy


@each_soft_body
@pytest.mark.parametrize("solver", [PDDirect(), PLAIN, Vivace(1.35, 1)], ids=["pd-direct", "Gauss-Seidel", "SOR"])
def test_no_iteration_increases_the_energy_of_the_step(solver, body):
    scene, mesh = soft_scene(body)
    masses, dt = scene.bodies[0].masses, 1 / 60
    start = (mesh.vertices + noise(mesh, 0.3)).astype(np.float32)
    start[:2] = mesh.vertices[:2]
    energies = []
    for iterations in range(1, 11):
        simulation = vv.Simulation(scene, solver, iterations=iterations, damping=0.0, threads=1, dt=dt)
        simulation.positions = start
        simulation.step()
        away = simulation.positions - (start + np.float32([0, -G * dt**2, 0]))
        inertia = masses[2:] @ (away[2:].astype(float) ** 2).sum(axis=1) / (2 * dt**2)
        energies.append(inertia + elastic_energy(simulation.model, simulation.positions))
    assert elastic_energy(simulation.model, start) > energies[0] > 1.01 * energies[-1]
    assert (np.diff(energies) <= 1e-6 * energies[0]).all()


# Stability


def kinetic(simulation, masses):
    """[J/kg]"""
    return masses @ (simulation.velocities.astype(float) ** 2).sum(axis=1) / 2 / masses.sum()


def kinetic_energies(scene, iterations, scramble):
    """Of 120 frames, from a start where every particle is thrown about."""
    body = scene.bodies[0]
    simulation = vv.Simulation(scene, "vivace", iterations=iterations, dt=1 / 30, damping=0.5, threads=1)
    thrown = np.random.default_rng(0).normal(size=(len(body), 3)) * scramble
    simulation.positions = simulation.positions + np.where(body.pinned[:, None], 0, thrown)
    return [kinetic(simulation, np.where(body.pinned, 0, body.masses)) for _ in simulation.run(120)]


def assert_calms_down(energies):
    """After the first frames no more than a fall from 3 m gives, in the end less than one from 0.5 m does."""
    assert max(energies[10:]) < 3 * G
    assert np.mean(energies[-30:]) < 0.5 * G


@pytest.mark.parametrize("iterations", [2, 4, 8])
@pytest.mark.parametrize("ratio", [1, 30, 1000])
@pytest.mark.parametrize("scramble", [0.0, 0.3])
def test_a_scrambled_tablecloth_calms_down_at_any_stiffness(ratio, iterations, scramble):
    scene = tablecloth.scene(0.05, tablecloth.springs(ratio, 0.05))
    assert_calms_down(kinetic_energies(scene, iterations, scramble))


@pytest.mark.parametrize("young", [3e3, 3e4, 3e6])
def test_a_scrambled_armadillo_calms_down_at_any_stiffness(young):
    scene = armadillo.scene(0.05, vv.Elastic(young, poisson=0.0))
    for iterations in (2, 4, 8):
        assert_calms_down(kinetic_energies(scene, iterations, 0.2))


@pytest.mark.parametrize("body", ["cloth", "bar"])
def test_more_iterations_of_vivace_do_not_keep_a_body_from_coming_to_rest(body):
    """Over-relaxation that diverges is held back by the projections, and shows as a body that never rests."""
    scene = vv.Scene()
    if body == "cloth":
        scene.add_cloth(vv.Mesh.grid(12, 12), material=vv.Springs(1000.0)).pin([0, 11])
    else:
        mesh = vv.Mesh.box((3, 12, 3), (0.25, 1.0, 0.25))
        bar = scene.add_solid(mesh, density=1000.0, material=vv.Elastic(5e5, poisson=0.0))
        bar.pin(np.flatnonzero(mesh.vertices[:, 1] > 0.49))
    for iterations in (30, 100):
        simulation = advance(scene, 100, solver="vivace", iterations=iterations, dt=1 / 30, damping=5.0)
        assert abs(simulation.velocities).max() < 0.05


# What cannot be used is named


class Tilted:
    """A row that does not sum to zero would tie a pair of particles to the origin."""

    ARITY, ROWS = 2, 1
    coefficients = staticmethod(lambda rest: ((np.float32(1), np.float32(-0.5)),))
    nearest = staticmethod(lambda projected, rest: projected)

    @staticmethod
    def value_gradient(corners, rest):
        edge = sub(corners[0], corners[1])
        return norm(edge) - rest, (edge, scale(np.float32(-1), edge)), norm(edge)


@pytest.mark.parametrize(
    "mistake, message",
    [
        (lambda: Vivace(omega=0), "omega is 0"),
        (lambda: Vivace(omega=2), "omega is 2; .*between 0 and 2"),
        (lambda: Vivace(omega=-1), "omega is -1"),
        (lambda: Vivace(omega=np.nan), "omega is nan"),
        (lambda: Vivace(omega="fast"), "omega: expected a number, got 'fast'"),
        (lambda: Vivace(extrapolation=0.5), "extrapolation is 0.5; it must be at least 1"),
        (lambda: Vivace(extrapolation=2), "extrapolation is 2; .*below 2"),
        (lambda: Vivace(extrapolation=np.nan), "extrapolation is nan"),
        (lambda: PDJacobi(relaxation=0), "relaxation is 0"),
        (lambda: PDJacobi(relaxation=2.5), "relaxation is 2.5"),
        (lambda: PDChebyshev(radius=1), "radius is 1; "),
        (lambda: PDChebyshev(radius=-0.1), "radius is -0.1"),
        (lambda: PDChebyshev(start=0), "start is 0"),
        (lambda: PDChebyshev(start=1.5), "start is 1.5"),
        (lambda: PDChebyshev(relaxation=0), "relaxation is 0"),
    ],
)
def test_bad_options_are_named(mistake, message):
    with pytest.raises(vv.InputError, match=message):
        mistake()


def cloth_of(solver, material):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(3, 3), material=material)
    vv.Simulation(scene, solver)


def solid_of(solver, material):
    scene = vv.Scene()
    scene.add_solid(vv.Mesh.box((1, 1, 1)), material=material)
    vv.Simulation(scene, solver)


def constrained_by(solver, constraint):
    scene = vv.Scene()
    scene.add_constraints(scene.add_cloth(vv.Mesh.grid(3, 3), material=NOTHING), constraint, [[0, 1]], compliance=1.0)
    vv.Simulation(scene, solver)


@pytest.mark.parametrize("solver", ["pd-jacobi", "pd-chebyshev", "pd-direct"])
@pytest.mark.parametrize(
    "make, material, message",
    [
        (cloth_of, vv.Ratios(), "group 'stretch' has stiffness ratios.*vivace.Elastic"),
        (cloth_of, vv.Compliances(stretch=None, bend=1.0), "'bend' has no projection.*Elastic or Springs.*'xpbd'"),
        (solid_of, vv.Compliances(stretch=1.0, volume=1.0), "'volume' has no projection.*Elastic.*'xpbd' or 'vivace'"),
        (cloth_of, vv.Compliances(stretch=0.0), "constraint 0 of group 'stretch' has compliance 0.*finite stiffness"),
        (constrained_by, Tilted, "'Tilted': each row of its coefficients must sum to zero"),
    ],
    ids=["ratios", "bend", "volume", "rigid", "rows that do not sum to zero"],
)
def test_what_has_no_projection_is_named_with_what_to_use_instead(solver, make, material, message):
    with pytest.raises(vv.InputError, match=message) as problem:
        make(solver, material)
    assert make is constrained_by or f"solver '{solver}'" in str(problem.value)


# A constraint of one's own


class Doubled:
    """Twice the distance of two particles, in any number of meters."""

    ARITY, ROWS = 2, 1
    ONE, TWO, ZERO = np.float32(1), np.float32(2), np.float32(0)

    @staticmethod
    def coefficients(rest):
        return ((np.float32(2), np.float32(-2)),)

    @staticmethod
    def nearest(projected, rest):
        length = norm(projected[0])
        return (scale(rest / select(length > np.float32(0), length, np.float32(1)), projected[0]),)

    @staticmethod
    def value_gradient(corners, rest):
        edge = sub(corners[0], corners[1])
        length, two = norm(edge), np.float32(2)
        return length * (two * length - rest), (scale(two, edge), scale(-two, edge)), length


@each_physical_solver
def test_a_constraint_of_ones_own_is_a_spring_of_its_own_coefficients(solver):
    """Energy k / 2 (2 l - rest)^2 is that of a spring of 4 k."""
    scene = vv.Scene()
    body = scene.add_cloth(vv.Mesh([[-0.1, 0, 0], [0.1, 0, 0], [0, -1, 0]], [[0, 1, 2]]), material=NOTHING)
    body.pin([0, 1])
    body.set_positions([2], [[-0.1, -1, 0]])
    body.masses[:] = 0.5
    scene.add_constraints(body, Doubled, [[0, 2]], rest=2.0, compliance=1 / 100)
    assert -1 - settled(scene, solver).positions[2, 1] == pytest.approx(0.5 * G / 400, rel=0.01)


# Steps of changing length


@each_projective_solver
def test_a_step_of_another_length_equals_that_of_a_simulation_made_for_it(solver):
    """A factor, a radius and the schedule hold for one length."""
    scene, mesh = soft_scene("cloth")
    changing = vv.Simulation(scene, solver, iterations=3, threads=1)
    for substeps in (1, 4, 1, 2):
        made_for_it = vv.Simulation(soft_scene("cloth")[0], solver, iterations=3, substeps=substeps, threads=1)
        made_for_it.positions, made_for_it.velocities = changing.positions, changing.velocities
        made_for_it.step()
        changing.step(work=((substeps, 1 / 60 / substeps, 3),))
        assert (changing.positions.view(np.uint32) == made_for_it.positions.view(np.uint32)).all()
    assert abs(changing.positions - mesh.vertices).max() > 1e-3


@each_projective_solver
@pytest.mark.parametrize("spend", ["iterations", "substeps"])
def test_a_budget_can_be_repeated_to_the_bit(solver, spend):
    first, again = (vv.Simulation(soft_scene("cloth")[0], solver, iterations=3, threads=count) for count in (2, 1))
    for _ in range(3):
        report = first.step(budget_ms=4.0, spend=spend)
        again.step(work=report.work)
    assert (first.positions.view(np.uint32) == again.positions.view(np.uint32)).all()


@each_projective_solver
def test_steps_of_ever_new_lengths_do_not_fill_the_memory(solver):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(6, 6), material=vv.Springs(20.0)).pin(0)
    simulation = vv.Simulation(scene, solver, iterations=14, threads=1)
    for frame in range(200):  # which would be ten thousand sweeps, were each omega another one
        length = (0.4 + 0.001 * frame) / 60
        simulation.step(work=((1, length, 14), (1, 1 / 60 - length, 14)))
    assert len(simulation._sweeps._rows) < 1000


@each_projective_solver
def test_a_simulation_that_is_dropped_leaves_nothing_behind(solver):
    simulation = vv.Simulation(soft_scene("cloth")[0], solver)
    simulation.step()
    plan = weakref.ref(simulation.plan)
    del simulation
    gc.collect()
    assert plan() is None


class OverGround:
    """Has no nearest point below height 0."""

    ARITY = ROWS = 1

    @staticmethod
    def coefficients(rest):
        return ((np.float32(1),),)

    @staticmethod
    def nearest(projected, rest):
        x, y, z = projected[0][0], projected[0][1], projected[0][2]
        return ((x, y + np.float32(0) * sqrt(y), z),)

    @staticmethod
    def value_gradient(corners, rest):
        x, y, z = corners[0][0], corners[0][1], corners[0][2]
        return y * y, ((x, y, z),), np.float32(0) * y + np.float32(1)


@each_projective_solver
def test_after_a_step_that_failed_a_simulation_goes_on_from_where_it_is_put(solver):
    mesh = vv.Mesh.grid(3, 3).moved((0.0, 1.0, 0.0))
    scene = vv.Scene(gravity=(0.0, 0.0, 0.0))
    body = scene.add_cloth(mesh, material=vv.Springs(100.0))
    scene.add_constraints(body, OverGround, [[4]], compliance=1.0)
    simulation = vv.Simulation(scene, solver, iterations=12, threads=1)
    simulation.positions = mesh.vertices - [0, 5, 0]
    with pytest.raises(vv.SimulationError, match="not finite"):
        simulation.step()
    simulation.positions = mesh.vertices
    simulation.step()
    np.testing.assert_allclose(simulation.positions, mesh.vertices, atol=1e-5)

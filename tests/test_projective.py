"""Projective Dynamics: its solvers against algebra, a serial sweep and their own energy."""

import numpy as np
import pytest

import vivace as vv
from helpers import NOTHING, PHYSICAL, PROJECTIVE, SOFT, advance, elastic_energy, noise, settled, soft_scene
from vivace.backends.cpu import Team
from vivace.kernels.lanes import select
from vivace.kernels.vec3 import norm, scale, sub
from vivace.solvers.pd_chebyshev import PDChebyshev
from vivace.solvers.pd_direct import PDDirect
from vivace.solvers.pd_jacobi import PDJacobi
from vivace.solvers.vivace import Vivace

G = 9.81
PLAIN = Vivace(omega=1, extrapolation=1)
each_projective_solver = pytest.mark.parametrize("solver", PROJECTIVE)
each_soft_body = pytest.mark.parametrize("body", SOFT)
each_physical_solver = pytest.mark.parametrize("solver", PHYSICAL)


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
@pytest.mark.parametrize("solver", [*PROJECTIVE, Vivace(fresh=True)], ids=[*PROJECTIVE, "vivace in fresh orders"])
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

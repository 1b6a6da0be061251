"""Projective Dynamics: its one system, its solvers against algebra and mechanics, and the materials that feed it."""

import gc
import weakref

import numpy as np
import pytest
from numba import cfunc

import vivace as vv
from helpers import WEIGHTLESS, advance, noise, random_rotation
from vivace.backends.cpu import Team
from vivace.constraints import tet_strain, tet_volume
from vivace.factor import factored
from vivace.kernels.compile import OPTIONS, SIGNATURE, floats_at
from vivace.kernels.lanes import select
from vivace.kernels.rows import in_blocks, load_block, store_block
from vivace.kernels.svd3 import composed, singular_values
from vivace.kernels.vec3 import norm, scale, sub
from vivace.model import measure
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
# The same materials mean the same to XPBD.
each_physical_solver = pytest.mark.parametrize("solver", [*PD, "gauss-seidel"])
NOTHING = vv.Compliances(stretch=None)


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
    folded, apart = (make_system(plan.model.groups, vertices, len(whole), fold) for fold in (True, False))
    assert folded.springs.sum() == 2 * len(plan.model.groups[0]) and folded.folded == 0
    assert apart.springs.sum() == 0 and apart.folded is None
    assert set(apart.projected) == {0, *folded.projected}
    for system in (folded, apart):
        np.testing.assert_array_equal(system.matrix.toarray(), whole)
        np.testing.assert_allclose(written_out(system), whole, atol=1e-6 * abs(whole).max())


def test_rows_sum_to_zero_but_for_attachments():
    plan, matrix = system_of(every_kind())
    tied = np.zeros(len(matrix))
    tied[[0, 4]] = 50, 80
    np.testing.assert_allclose(matrix.sum(axis=1), tied, atol=1e-5)
    np.testing.assert_allclose(plan.system.anchors[plan.row_of], tied, rtol=1e-6)


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
    assert len(orders) == 4
    np.testing.assert_allclose(*ends, atol=2e-5)
    few = [advance(scene, 3, solver=Vivace(fresh=fresh), iterations=2).positions for fresh in (True, False)]
    assert abs(few[0] - few[1]).max() > 1e-6


# Energy


def elastic_energy(model, positions):
    """The sum of stiffness / 2 |A x - p|^2 with p nearest to A x [J]."""
    total = 0.0
    for group in model.groups:
        rest = group.rest.astype(float)
        rest = rest if rest.ndim == 1 else tuple(rest.T)
        total += (measure(group.constraint, positions[group.vertices], rest) ** 2 / (2 * group.compliance)).sum()
    return total


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
        energies.append(inertia + elastic_energy(simulation.model, simulation.positions.astype(float)))
    assert elastic_energy(simulation.model, start.astype(float)) > energies[0] > 1.01 * energies[-1]
    assert (np.diff(energies) <= 1e-6 * energies[0]).all()


# Mechanics


def settled(scene, solver="pd-direct", iterations=20, frames=150, **options):
    simulation = advance(scene, frames, solver=solver, iterations=iterations, dt=1 / 30, damping=5.0, **options)
    assert abs(simulation.velocities).max() < 1e-3
    return simulation


@each_physical_solver
def test_a_hanging_spring_extends_by_weight_over_stiffness(solver):
    mass, stiffness = 0.5, 100.0
    scene = vv.Scene()
    # Two springs side by side.
    mesh = vv.Mesh([[-1e-3, 0, 0], [1e-3, 0, 0], [0, -1, 0]], [[0, 1, 2]])
    body = scene.add_cloth(mesh, material=vv.Springs(stiffness / 2))
    body.pin([0, 1])
    body.masses[:] = mass
    end = settled(scene, solver).positions[2]
    assert -1 - end[1] == pytest.approx(mass * G / stiffness, rel=1e-3)


LONG, DENSITY = 1.0, 1000.0
YOUNG = DENSITY * G * LONG / 2 / 0.01  # so that a bar gets longer by 1 %


@pytest.mark.parametrize("cells", [(1, 4, 1), (2, 8, 2)])
def test_a_hanging_bar_gets_longer_by_its_weight_on_half_its_length(cells):
    """rho g L^2 / (2 E), on a coarse mesh as on a finer one."""
    mesh = vv.Mesh.box(cells, (0.25, LONG, 0.25))
    scene = vv.Scene()
    bar = scene.add_solid(mesh, density=DENSITY, material=vv.Elastic(YOUNG, poisson=0.0))
    bar.pin(np.flatnonzero(mesh.vertices[:, 1] > LONG / 2 - 1e-4))
    low = mesh.vertices[:, 1] < -LONG / 2 + 1e-4
    extension = (mesh.vertices - settled(scene).positions)[low, 1].mean()
    assert extension == pytest.approx(DENSITY * G * LONG**2 / (2 * YOUNG), rel=0.01)


@pytest.mark.parametrize("poisson", [0.0, 0.3, 0.45])
def test_a_stretched_bar_gets_thinner_by_poissons_ratio(poisson):
    mesh = vv.Mesh.box((12, 3, 3), (1.2, 0.3, 0.3))
    scene = vv.Scene(gravity=WEIGHTLESS)
    bar = scene.add_solid(mesh, material=vv.Elastic(1e5, poisson))
    bar.pin(np.flatnonzero(abs(mesh.vertices[:, 0]) > 0.599))
    bar.set_positions(slice(None), mesh.vertices * [1.04, 1, 1])
    middle = abs(mesh.vertices[:, 0]) < 0.31
    found = settled(scene).positions
    strain = np.diag(np.linalg.lstsq(mesh.vertices[middle], found[middle], rcond=None)[0]) - 1
    assert strain[0] == pytest.approx(0.04, rel=0.12)
    assert -strain[1:] / strain[0] == pytest.approx(poisson, rel=0.05, abs=1e-4)


def upright(mesh):
    """A grid turned from lying in the xz plane to hanging down."""
    return vv.Mesh(mesh.vertices[:, [0, 2, 1]] * [1, -1, 1], mesh.triangles)


def of_equal_triangles(columns, rows, spacing):
    """A hanging strip of equilateral triangles: rows of points, every other one moved by half a spacing."""
    x, y = np.meshgrid(np.arange(columns) * spacing, -np.arange(rows) * spacing * 3**0.5 / 2)
    x = x + spacing / 2 * (np.arange(rows) % 2)[:, None]
    ids = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = ids[:-1, :-1], ids[:-1, 1:], ids[1:, :-1], ids[1:, 1:]
    odd = (np.arange(rows - 1) % 2 == 1)[:, None, None]
    one = np.where(odd, np.stack([a, d, b], -1), np.stack([a, c, b], -1))
    two = np.where(odd, np.stack([a, c, d], -1), np.stack([b, c, d], -1))
    return vv.Mesh(np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], 1), np.concatenate([one, two]).reshape(-1, 3))


def pulled(mesh, material, strain=0.02):
    """How much longer a hanging strip gets by a weight, as a share of F L / (young thickness width)."""
    height = mesh.vertices[:, 1]
    length = np.ptp(height)
    force = strain * material.young * material.thickness * mesh.areas.sum() / length
    scene = vv.Scene()
    strip = scene.add_cloth(mesh, density=1e-4, material=material)
    low = height < height.min() + 1e-4 * length
    strip.pin(np.flatnonzero(height > height.max() - 1e-4 * length))
    strip.masses[low] += force / G / low.sum()
    return (mesh.vertices - settled(scene, iterations=30).positions)[low, 1].mean() / (strain * length)


CANVAS = vv.Elastic(young=1e6, thickness=5e-4, bend=0.0)


def test_a_strip_of_equal_triangles_extends_by_hookes_law():
    """Force times length over young thickness width: there the net of springs is an isotropic sheet."""
    assert pulled(of_equal_triangles(13, 61, 0.02), CANVAS) == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("diagonals, share", [("alternate", 1 / 1.2), ("same", 1.0)])
def test_a_strip_of_squares_extends_by_hookes_law_as_far_as_its_net_is_a_sheet(diagonals, share):
    """Crossed diagonals take no shear, so that they stiffen the sheet: C11 = 1.25, C12 = 0.25 of young thickness."""
    extensions = [
        pulled(upright(vv.Mesh.grid(columns, 10 * (columns - 1) + 1, (0.1, 1.0), diagonals)), CANVAS)
        for columns in (3, 5)
    ]
    assert extensions == pytest.approx([share] * 2, rel=0.03)


def test_a_finer_solid_or_cloth_of_springs_would_be_another_one_but_of_elastic_it_is_the_same():
    coarse, fine = (upright(vv.Mesh.grid(n, 10 * (n - 1) + 1, (0.1, 1.0))) for n in (2, 4))
    assert pulled(fine, CANVAS) == pytest.approx(pulled(coarse, CANVAS), rel=0.05)


@pytest.mark.parametrize("diagonals", ["alternate", "same"])
@pytest.mark.parametrize("around", [0, 2], ids=["x", "z"])
def test_a_grid_rolled_onto_a_cylinder_has_the_bending_energy_of_a_plate(diagonals, around):
    """rigidity / 2 * area / radius^2; hinges at the boundary are missing."""
    rigidity, radius, mesh = 0.01, 0.5, vv.Mesh.grid(41, 41, diagonals=diagonals)
    scene = vv.Scene()
    scene.add_cloth(mesh, material=vv.Elastic(1e5, bend=rigidity))
    bend = next(group for group in scene.build().groups if group.name == "quadratic_bend")
    rolled = mesh.vertices.astype(float)
    angle = rolled[:, around] / radius
    rolled[:, around], rolled[:, 1] = radius * np.sin(angle), radius * np.cos(angle)
    curvature = measure(bend.constraint, rolled[bend.vertices], tuple(bend.rest.T.astype(float)))
    energy = (curvature**2 / (2 * bend.compliance)).sum()
    assert energy == pytest.approx(rigidity / 2 * mesh.areas.sum() / radius**2, rel=0.05)


def test_a_curved_rest_shape_has_no_bending_energy_and_a_rigid_motion_leaves_it_so():
    grid, generator = vv.Mesh.grid(9, 9), np.random.default_rng(0)
    mesh = vv.Mesh(grid.vertices + [[0, 1, 0]] * (grid.vertices[:, :1] ** 2), grid.triangles)
    scene = vv.Scene()
    scene.add_cloth(mesh, material=vv.Springs(100.0, bend=1.0))
    model = scene.build()
    carried = mesh.vertices.astype(float) @ random_rotation(generator) + generator.normal(size=3)
    assert elastic_energy(model, carried) < 1e-8
    assert elastic_energy(model, grid.vertices.astype(float)) > 1e-2


@each_physical_solver
def test_an_attached_particle_is_pulled_softly_to_its_point(solver):
    """It hangs below by weight over stiffness, like the others below theirs."""
    scene, stiffness = vv.Scene(), np.array([20.0, 50.0, 400.0])
    body = scene.add_cloth(vv.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), material=NOTHING)
    body.masses[:] = 0.1, 0.2, 0.3
    points = np.array([[0, 2, 0], [1, 0, 1], [-1, 0, 0.5]])
    body.attach([0, 1, 2], stiffness, points)
    sagged = points - np.outer(body.masses * G / stiffness, [0, 1, 0])
    np.testing.assert_allclose(settled(scene, solver).positions, sagged, atol=1e-3)


@each_physical_solver
def test_a_body_attached_where_it_is_stays_there_however_weak_the_threads_and_far_the_place(solver):
    mesh = vv.Mesh.grid(4, 4).moved((100.0, 0.0, 0.0))
    scene = vv.Scene(gravity=WEIGHTLESS)
    scene.add_cloth(mesh, material=vv.Springs(1e5)).attach([5, 6], 0.01)
    np.testing.assert_allclose(advance(scene, 60, solver=solver).positions, mesh.vertices, atol=1e-3)


# Singular values and nearest shapes


@cfunc(SIGNATURE, **OPTIONS)
def decompose(addresses, first, last):
    matrices, results = floats_at(addresses[0]), floats_at(addresses[1])
    for block in range(first, last):
        f = load_block(matrices, block, 9)
        u, s, v = singular_values((f[0], f[1], f[2]), (f[3], f[4], f[5]), (f[6], f[7], f[8]))
        for i in range(3):
            store_block(results, block * 21 + 18 + i, s[i])
            for j in range(3):
                store_block(results, block * 21 + 3 * i + j, u[i][j])
                store_block(results, block * 21 + 9 + 3 * i + j, v[i][j])


def decomposed_on_lanes(matrices):
    count = len(matrices)
    columns = np.zeros((-(-count // 8) * 8, 9), np.float32)
    columns[:count] = matrices.swapaxes(1, 2).reshape(-1, 9)
    blocks, results = in_blocks(columns), np.zeros((len(columns) // 8, 21, 8), np.float32)
    addresses = np.array([blocks.ctypes.data, results.ctypes.data], np.int64)
    decompose.ctypes(addresses.ctypes.data_as(decompose.ctypes.argtypes[0]), 0, len(results))
    found = results.swapaxes(1, 2).reshape(-1, 21)[:count]
    u, v = (found[:, start : start + 9].reshape(-1, 3, 3).swapaxes(1, 2) for start in (0, 9))
    return u, found[:, 18:], v


def decomposed_in_numpy(matrices):
    u, s, v = singular_values(*(tuple(matrices[:, :, column].T.astype(np.float32)) for column in range(3)))
    shaped = lambda columns: np.stack([np.stack(column, -1) for column in columns], -1)  # noqa: E731
    return shaped(u), np.stack(s, -1), shaped(v)


def matrices_of(kind):
    generator = np.random.default_rng(0)
    random = generator.normal(size=(500, 3, 3))
    orthogonal, other = np.linalg.qr(random)[0], np.linalg.qr(generator.normal(size=(500, 3, 3)))[0]
    return {
        "random": random,
        "huge": 1e8 * random,
        "small": 1e-8 * random,
        "near a rotation": orthogonal + 1e-5 * random,
        "stretched beyond measure": orthogonal * 10 ** generator.uniform(-4, 4, (500, 1, 3)) @ other,
        "flat": random[:, :, :2] @ generator.normal(size=(500, 2, 3)),
        "a line": random[:, :, :1] * random[:, :1],
        "along the axes": np.array([np.diag(d) for d in ((1, 1, 1), (0, 1, 1), (1, 0, 0), (-1, 1, 1), (2, -2, 2.0))]),
        "minus one": -np.eye(3)[None],
        "nothing": np.zeros((1, 3, 3)),
    }[kind].astype(np.float32)


@pytest.mark.parametrize("decomposed", [decomposed_on_lanes, decomposed_in_numpy])
@pytest.mark.parametrize(
    "kind",
    [
        *("random", "huge", "small", "near a rotation", "stretched beyond measure"),
        *("flat", "a line", "along the axes", "minus one", "nothing"),
    ],
)
def test_singular_values_are_those_of_numpy_between_two_rotations(kind, decomposed):
    matrices = matrices_of(kind)
    u, s, v = (found.astype(float) for found in decomposed(matrices))
    expected = np.linalg.svd(matrices.astype(float), compute_uv=False)
    size = np.maximum(expected[:, :1], 1e-30)
    # Of an element that is inside out, the smallest one is negative.
    expected[:, 2] *= np.where(np.linalg.det(matrices.astype(float) / size[:, :, None]) < 0, -1, 1)
    np.testing.assert_allclose(s / size, expected / size, atol=2e-6)
    np.testing.assert_allclose(np.einsum("nij,nj,nkj->nik", u, s / size, v), matrices / size[:, :, None], atol=4e-6)
    for rotation in (u, v):
        np.testing.assert_allclose(np.linalg.det(rotation), 1, atol=4e-6)
        np.testing.assert_allclose(np.einsum("nij,nik->njk", rotation, rotation) - np.eye(3), 0, atol=4e-6)


def test_a_matrix_comes_back_from_its_parts():
    matrices = matrices_of("random")
    columns = tuple(tuple(matrices[:, :, column].T) for column in range(3))
    back = composed(*singular_values(*columns))
    np.testing.assert_allclose(back, columns, atol=1e-5)


@each_physical_solver
def test_a_tet_turned_inside_out_comes_back(solver):
    mesh = vv.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], tets=[[0, 1, 2, 3]])
    scene = vv.Scene(gravity=WEIGHTLESS)
    tet = scene.add_solid(mesh, density=10.0, material=vv.Elastic(1e4, poisson=0.0))
    tet.set_positions([3], [[0.1, 0.2, -0.8]])
    found = settled(scene, solver).positions
    assert vv.Mesh(found, tets=mesh.tets).volumes == pytest.approx(1 / 6, rel=1e-3)
    edges = np.linalg.norm(found[mesh.edges[:, 0]] - found[mesh.edges[:, 1]], axis=1)
    at_rest = np.linalg.norm(mesh.vertices[mesh.edges[:, 0]] - mesh.vertices[mesh.edges[:, 1]], axis=1)
    np.testing.assert_allclose(edges, at_rest, rtol=1e-3)


@each_physical_solver
@pytest.mark.parametrize("stretch, stays_at", [(0.95, 0.95), (1.15, 1.15), (0.5, 0.9), (1.6, 1.2)])
def test_strain_between_its_bounds_costs_nothing_and_beyond_them_goes_back_to_the_bound(solver, stretch, stays_at):
    mesh = vv.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], tets=[[0, 1, 2, 3]])
    scene = vv.Scene(gravity=WEIGHTLESS)
    tet = scene.add_solid(mesh, density=10.0, material=NOTHING)
    rest = tet_strain.rest_shape(mesh.vertices[mesh.tets], smallest=0.9, largest=1.2)
    scene.add_constraints(tet, "tet_strain", mesh.tets, rest=rest, compliance=1e-4)
    tet.set_positions(slice(None), mesh.vertices * [stretch, 1, 1])
    found = advance(scene, 20, solver=solver, iterations=50, damping=20.0).positions
    assert found[1, 0] - found[0, 0] == pytest.approx(stays_at, abs=2e-3)
    assert np.ptp(found[:, 1]) == pytest.approx(1, abs=2e-3)


def distance_to_unit_product(s):
    """How near numbers of product one get, found by trying all on a grid, ever finer around the best."""
    x, y, width = 0.0, 0.0, 2.5
    for _ in range(12):
        a, b = np.meshgrid(*(middle + width * np.linspace(-1, 1, 61) for middle in (x, y)))
        gaps = (np.exp(a) - s[0]) ** 2 + (np.exp(b) - s[1]) ** 2 + (np.exp(-a - b) - s[2]) ** 2
        best = np.unravel_index(gaps.argmin(), gaps.shape)
        x, y, width = a[best], b[best], width / 4
    return gaps[best] ** 0.5


def test_volume_is_kept_by_the_nearest_numbers_whose_product_is_one():
    singular = np.sort(np.random.default_rng(0).uniform(0.4, 1.5, (60, 3)))[:, ::-1].astype(np.float32)
    found = np.stack(tet_volume.of_unit_product(*singular.T), axis=1).astype(float)
    np.testing.assert_allclose(found.prod(axis=1), 1, atol=1e-5)
    gaps = np.linalg.norm(found - singular, axis=1)
    np.testing.assert_allclose(gaps, [distance_to_unit_product(s) for s in singular.astype(float)], atol=1e-4)


@pytest.mark.parametrize(
    "singular",
    [(0, 0, 0), (0.01, 0.01, 0.01), (0.2, 0.2, -0.2), (1, 0, 0), (1, 0.1, -0.1), (1, 1, -1), (3, 0.3, -0.2), (3, 3, 2)],
    ids=str,
)
def test_volume_of_a_collapsed_inverted_or_swollen_tet_gets_a_product_of_one_too(singular):
    found = np.array(tet_volume.of_unit_product(*map(np.float32, singular)), float)
    assert found.prod() == pytest.approx(1, rel=0.01)
    assert np.linalg.norm(found - singular) == pytest.approx(distance_to_unit_product(singular), rel=0.02)


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
    """After the explosion of the first frames, no more than a fall from 3 m gives; and in the end less than from 0.5 m."""
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
        bar = scene.add_solid(mesh, density=DENSITY, material=vv.Elastic(YOUNG, poisson=0.0))
        bar.pin(np.flatnonzero(mesh.vertices[:, 1] > 0.49))
    for iterations in (30, 100):
        simulation = advance(scene, 100, solver="vivace", iterations=iterations, dt=1 / 30, damping=5.0)
        assert abs(simulation.velocities).max() < 0.05


# Materials


@pytest.mark.parametrize(
    "mistake, message",
    [
        (lambda: vv.Elastic(0.0), "Elastic young is 0.0; it must be above 0"),
        (lambda: vv.Elastic(np.nan), "Elastic young is nan"),
        (lambda: vv.Elastic(1e5, poisson=0.5), "Elastic poisson is 0.5; it must be below 0.5"),
        (lambda: vv.Elastic(1e5, poisson=-0.1), "Elastic poisson is -0.1"),
        (lambda: vv.Elastic(1e5, thickness=0.0), "Elastic thickness is 0.0"),
        (lambda: vv.Elastic(1e5, bend=-1e-6), "Elastic bend is -1e-06"),
        (lambda: vv.Springs(0.0), "Springs stretch is 0.0; it must be above 0"),
        (lambda: vv.Springs(1.0, bend=-1.0), "Springs bend is -1.0"),
        (
            lambda: vv.Scene().add_solid(vv.Mesh.box((1, 1, 1)), material=vv.Springs(1.0), name="jelly"),
            "'jelly': Springs are a material of cloth; a solid takes Elastic, Compliances or Ratios",
        ),
    ],
)
def test_bad_materials_are_named(mistake, message):
    with pytest.raises(vv.InputError, match=message):
        mistake()


def test_stiffness_of_elastic_cloth_is_its_triangles_area_over_the_squared_edge():
    """Van Gelder 1998: young thickness area / length^2, the area of both triangles at the edge."""
    mesh = vv.Mesh([[0, 0, 0], [3, 0, 0], [0, 4, 0], [3, 4, 0]], [[0, 1, 2], [1, 3, 2]])
    scene = vv.Scene()
    scene.add_cloth(mesh, material=vv.Elastic(2e3, poisson=0.25, thickness=0.1))
    stretch, bend = scene.build().groups
    expected = {(0, 1): 6 / 9, (0, 2): 6 / 16, (1, 2): 12 / 25, (1, 3): 6 / 16, (2, 3): 6 / 9}
    stiffness = {tuple(sorted(edge)): 1 / c for edge, c in zip(stretch.vertices.tolist(), stretch.compliance)}
    assert stiffness == pytest.approx({edge: 200 * share for edge, share in expected.items()}, rel=1e-6)
    assert 1 / bend.compliance == pytest.approx(2e3 * 0.1**3 / (12 * (1 - 0.25**2)), rel=1e-6)


def test_stiffness_of_an_elastic_solid_is_lames_times_its_volume():
    mesh = vv.Mesh.box((1, 1, 1), (1.0, 2.0, 3.0))
    scene = vv.Scene()
    scene.add_solid(mesh, material=vv.Elastic(1000.0, poisson=0.25))
    strain, volume = scene.build().groups
    assert (strain.name, volume.name) == ("tet_strain", "tet_volume")
    assert 1 / strain.compliance == pytest.approx(2 * 400.0 * mesh.volumes, rel=1e-6)
    assert 1 / volume.compliance == pytest.approx(3 * 400.0 * mesh.volumes, rel=1e-6)


def test_small_strains_of_an_elastic_solid_cost_what_hookes_law_says():
    """mu |e|^2 + lambda / 2 trace(e)^2 for each cubic meter."""
    young, poisson, mesh = 1000.0, 0.25, vv.Mesh.box((1, 1, 1))
    scene = vv.Scene()
    scene.add_solid(mesh, material=vv.Elastic(young, poisson))
    strain = 1e-3 * np.array([[2.0, 0.5, 0.0], [0.5, -1.0, 0.3], [0.0, 0.3, 1.0]])
    energy = elastic_energy(scene.build(), mesh.vertices.astype(float) @ (np.eye(3) + strain))
    assert energy == pytest.approx(400 * (strain**2).sum() + 400 / 2 * np.trace(strain) ** 2, rel=0.01)


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


@pytest.mark.parametrize(
    "vertices, options, message",
    [
        ([9], {"stiffness": 1.0}, "attached vertices of 'shirt': row 0 names vertex 9"),
        ([0], {"stiffness": 0.0}, "'shirt': stiffness 0.0 of an attachment must be above 0"),
        ([0], {"stiffness": np.nan}, "stiffness of 'shirt'"),
        ([0, 1], {"stiffness": [1.0, 2.0, 3.0]}, "'shirt'"),
        ([0, 1], {"stiffness": 1.0, "points": [[0, 0, 0]]}, "'shirt': 2 vertices are attached, but 1 points are"),
        ([0], {"stiffness": 1.0, "points": [[0, np.nan, 0]]}, "points of 'shirt': 1 row is not finite"),
    ],
    ids=["vertex", "no stiffness", "NaN stiffness", "too many stiffnesses", "too few points", "NaN point"],
)
def test_bad_attachments_are_named(vertices, options, message):
    body = vv.Scene().add_cloth(vv.Mesh.grid(3, 3), material=vv.Springs(1.0), name="shirt")
    with pytest.raises(vv.InputError, match=message):
        body.attach(vertices, **options)


def test_attaching_a_body_that_runs_is_refused():
    scene = vv.Scene()
    body = scene.add_cloth(vv.Mesh.grid(3, 3), material=vv.Springs(1.0), name="shirt")
    running = vv.Simulation(scene, "pd-direct")
    with pytest.raises(vv.InputError, match="'shirt': attach before the Simulation"):
        body.attach([0], 1.0)
    assert running.step().frame == 1


@pytest.mark.filterwarnings("error")
def test_a_triangle_without_area_is_named():
    mesh = vv.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0.5, 0, 0], [0.5, -1, 0]], [[0, 1, 2], [0, 3, 1], [0, 4, 3]])
    for material in (vv.Elastic(1e5), vv.Springs(1e3, bend=1.0)):
        with pytest.raises(vv.InputError, match="'shirt'"):
            vv.Scene().add_cloth(mesh, material=material, name="shirt")


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


@pytest.mark.parametrize("solver", PD)
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


@pytest.mark.parametrize("solver", PD)
@pytest.mark.parametrize("spend", ["iterations", "substeps"])
def test_a_budget_can_be_repeated_to_the_bit(solver, spend):
    first, again = (vv.Simulation(soft_scene("cloth")[0], solver, iterations=3, threads=count) for count in (2, 1))
    for _ in range(3):
        report = first.step(budget_ms=4.0, spend=spend)
        again.step(work=report.work)
    assert (first.positions.view(np.uint32) == again.positions.view(np.uint32)).all()


@pytest.mark.parametrize("solver", PD)
def test_steps_of_ever_new_lengths_do_not_fill_the_memory(solver):
    simulation = vv.Simulation(soft_scene("cloth")[0], solver, iterations=8, threads=1)
    sizes = []
    for frame in range(30):
        length = (0.4 + 0.01 * frame) / 60
        simulation.step(work=((1, length, 8), (1, 1 / 60 - length, 8)))
        sizes.append(len(simulation._sweeps._rows))
    assert sizes[-1] == sizes[1]


@pytest.mark.parametrize("solver", PD)
def test_a_simulation_that_is_dropped_leaves_nothing_behind(solver):
    simulation = vv.Simulation(soft_scene("cloth")[0], solver)
    simulation.step()
    plan = weakref.ref(simulation.plan)
    del simulation
    gc.collect()
    assert plan() is None

"""Implicit Euler on springs, against SciPy and against physics."""

import gc
import sys
import weakref
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import coo_array, diags_array, eye_array
from scipy.sparse.linalg import LinearOperator, cg, spsolve

import vivace as vv
from helpers import NOTHING, WEIGHTLESS, corner_cloth, momentum
from vivace.kernels.conjugate import NEXT
from vivace.kernels.implicit import COUNT, DONE, FIRST
from vivace.model import measure

G = 9.81


class Textbook:
    """Baraff and Witkin's step with an assembled matrix, in double precision; nothing of ours but the model."""

    def __init__(self, model, dt):
        self.model, self.h = model, np.float64(np.float32(dt))
        group = model.groups[0]
        self.i, self.j = group.vertices.T
        self.k, self.rest = 1 / group.compliance.astype(float), group.rest.astype(float)
        self.k = self.k.astype(np.float32).astype(float)
        self.damping = np.zeros(len(group)) if group.damping is None else group.damping.astype(float)
        self.free = model.inverse_masses > 0
        self.mass = np.where(self.free, 1 / np.where(self.free, model.inverse_masses.astype(float), 1), 0)
        self.x, self.v = model.positions.astype(float), model.velocities.astype(float)

    def laplacian(self, blocks):
        """The matrix with these 3x3 blocks on its diagonal at both ends of each spring, and less them between."""
        i, j, n = self.i, self.j, len(self.x)
        rows, columns = np.concatenate([i, j, i, j]), np.concatenate([i, j, j, i])
        data = np.concatenate([blocks, blocks, -blocks, -blocks])
        r = 3 * rows[:, None, None] + np.arange(3)[None, :, None] + 0 * data.astype(int)
        c = 3 * columns[:, None, None] + np.arange(3)[None, None, :] + 0 * data.astype(int)
        return coo_array((data.ravel(), (r.ravel(), c.ravel())), shape=(3 * n, 3 * n)).tocsr()

    def step(self, solve):
        h, n = self.h, len(self.x)
        d = self.x[self.j] - self.x[self.i]
        length = np.linalg.norm(d, axis=1)
        d = d / length[:, None]
        outer = d[:, :, None] * d[:, None, :]
        c = np.maximum(0, 1 - self.rest / length)[:, None, None]
        stiff = self.laplacian(self.k[:, None, None] * (c * np.eye(3) + (1 - c) * outer))
        damp = self.laplacian(self.damping[:, None, None] * outer)
        tension = self.k * (length - self.rest)
        f = np.zeros((n, 3))
        np.add.at(f, self.i, tension[:, None] * d)
        np.add.at(f, self.j, -tension[:, None] * d)
        fall = np.tile((np.array([0, -G, 0]) * float(h)).astype(np.float32).astype(float), (n, 1))
        masses = np.repeat(self.mass, 3)
        b = h * (f.ravel() - damp @ self.v.ravel() - h * (stiff @ self.v.ravel())) + masses * fall.ravel()
        a = diags_array(masses) + h * damp + h * h * stiff
        keep = np.repeat(self.free, 3)
        a, b = a.tocsr()[keep][:, keep], b[keep]
        fall = fall.ravel()[keep]
        dv = np.zeros(3 * n)
        dv[keep] = solve(a, b, fall * (fall @ b) / (fall @ (a @ fall)), masses[keep])
        self.v += dv.reshape(-1, 3)
        self.x += h * self.v


def by_conjugate_gradients(iterations):
    def solve(a, b, start, masses):
        divide = LinearOperator(a.shape, matvec=lambda r: r / masses)
        return cg(a, b, x0=start, rtol=0, atol=0, maxiter=iterations, M=divide)[0]

    return solve


def apart(simulation, textbook):
    """How far positions are from the textbook's, relative to their size."""
    return np.linalg.norm(simulation.state.fine_positions[simulation.plan.row_of, :3] - textbook.x) / np.linalg.norm(
        textbook.x
    )


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_2500_particles_go_with_scipys_conjugate_gradients_for_50_frames(backend):
    scene = corner_cloth()
    solver = vv.ImplicitEuler(preconditioner="mass", guarded=False)
    simulation = vv.Simulation(scene, solver, iterations=5, dt=0.01, damping=0.0, backend=backend)
    textbook = Textbook(simulation.model, 0.01)
    for _ in simulation.run(50):
        textbook.step(by_conjugate_gradients(5))
    assert apart(simulation, textbook) < 1e-6
    assert np.abs(textbook.x - simulation.model.positions).max() > 0.1  # it has moved


def test_solved_to_the_end_it_goes_with_a_direct_solve():
    scene = corner_cloth(20)
    solver = vv.ImplicitEuler(tolerance=1e-13, guarded=False)
    simulation = vv.Simulation(scene, solver, iterations=5000, dt=0.01, damping=0.0)
    textbook = Textbook(simulation.model, 0.01)
    for _ in simulation.run(10):
        textbook.step(lambda a, b, start, masses: spsolve(a.tocsc(), b))
    assert apart(simulation, textbook) < 1e-8


@pytest.mark.parametrize("preconditioner", ["mass", "block-jacobi"])
def test_the_residual_falls_to_the_tolerance_and_no_further(preconditioner):
    scene = corner_cloth(30, stiffness=1e3)
    residuals = {}
    for tolerance in (1e-2, 1e-4, 1e-8):
        solver = vv.ImplicitEuler(tolerance, preconditioner)
        simulation = vv.Simulation(scene, solver, iterations=3000, dt=0.01)
        reports = list(simulation.run(3))
        residuals[tolerance] = reports[-1].solve
    assert all(tolerance / 100 < solve.residual <= tolerance for tolerance, solve in residuals.items())
    counts = [solve.iterations for solve in residuals.values()]
    assert counts == sorted(counts) and counts[0] < counts[-1] < 3000


@pytest.mark.parametrize("iterations", [1, 2, 7, 40])
def test_what_is_foretold_of_the_residual_is_what_becomes_of_it(iterations):
    """The reference computes it when the step is taken."""
    solves = []
    for backend in ("cpu", "reference"):
        solver = vv.ImplicitEuler(preconditioner="mass", guarded=False)
        simulation = vv.Simulation(corner_cloth(20), solver, iterations, dt=0.01, backend=backend)
        solves.append(simulation.step().solve)
    ours, theirs = solves
    assert ours.iterations == theirs.iterations == iterations
    assert ours.residual == pytest.approx(theirs.residual, rel=1e-6)


def test_a_residual_that_is_foretold_by_rounding_alone_does_not_end_the_search():
    """One step along one direction seems to solve all: the sums are 1, 1, 1 and 1, so that nothing is left."""
    simulation = vv.Simulation(corner_cloth(4), vv.ImplicitEuler(tolerance=1e-13, blocks=1), iterations=1)
    simulation.step()
    implicit = simulation._sweeps.implicit
    implicit.partial[:4], implicit.numbers[[FIRST, DONE, COUNT]] = 1.0, (1.0, 0.0, 0.0)
    simulation._sweeps.advance(implicit.reduce(NEXT, 4))
    assert implicit.numbers[DONE] == 0 and implicit.solve.iterations == 1 and 1e-8 < implicit.solve.residual < 1e-6


def test_both_preconditioners_lead_to_the_same_place_and_blocks_get_there_sooner():
    scene, ends, counts = corner_cloth(20, stiffness=1e4), [], []
    for preconditioner in ("mass", "block-jacobi"):
        simulation = vv.Simulation(scene, vv.ImplicitEuler(1e-12, preconditioner), iterations=5000, dt=0.01)
        reports = list(simulation.run(5))
        ends.append(simulation.positions)
        counts.append(sum(report.solve.iterations for report in reports))
    np.testing.assert_allclose(*ends, atol=1e-6)
    assert counts[1] < counts[0]


@pytest.mark.parametrize("preconditioner", ["mass", "block-jacobi"])
def test_backends_agree(preconditioner):
    scene = corner_cloth(17, stiffness=300.0, damping=0.1)
    scene.add_collider(vv.Sphere(0.3, (0.0, -0.35, 0.0)))
    scene.blow(0.2, (1.0, 0.5, 0.0))
    solver = vv.ImplicitEuler(preconditioner=preconditioner)
    ends = []
    for backend in ("cpu", "reference"):
        simulation = vv.Simulation(scene, solver, iterations=6, dt=0.01, backend=backend, substeps=2)
        for _ in simulation.run(8):
            pass
        ends.append(simulation.positions)
    np.testing.assert_allclose(*ends, atol=1e-6)


@pytest.mark.parametrize("blocks", [None, 7])
def test_same_bits_for_any_number_of_threads(blocks):
    def run(threads):
        scene = corner_cloth(45)
        scene.add_collider(vv.Sphere(0.2, (0.1, -0.3, 0.0)))
        simulation = vv.Simulation(scene, vv.ImplicitEuler(blocks=blocks), iterations=5, dt=0.01, threads=threads)
        for _ in simulation.run(20):
            pass
        return simulation.positions

    one = run(1)
    for threads in (2, 3, 4):
        np.testing.assert_array_equal(run(threads), one)


def test_a_hanging_spring_comes_to_rest_where_its_force_balances_the_weight():
    scene = vv.Scene()
    mesh = vv.Mesh([(0, 0, 0), (0.1, 0, 0), (0, -0.1, 0)], [(0, 1, 2)])
    body = scene.add_cloth(mesh, density=100.0, material=vv.MassSpring(50.0, shear=0.0, bend=0.0, damping=0.5))
    body.pin([0, 1])
    simulation = vv.Simulation(scene, "implicit", iterations=20, dt=0.01, damping=2.0)
    for _ in simulation.run(1000):
        pass
    x = simulation.positions.astype(float)
    force = np.array([0, -G * body.masses[2], 0])
    for end in (0, 1):
        edge = x[end] - x[2]
        rest = np.linalg.norm(mesh.vertices[end] - mesh.vertices[2])
        force += 50 * (np.linalg.norm(edge) - rest) * edge / np.linalg.norm(edge)
    np.testing.assert_allclose(force, 0, atol=1e-4 * G * body.masses[2])
    assert simulation.positions[2, 1] < -0.11


def test_what_hangs_at_rest_stays_there_however_few_iterations_there_are():
    """Local solvers sag with fewer iterations; here equilibrium is equilibrium."""
    scene = corner_cloth(12, stiffness=200.0, damping=1.0)
    simulation = vv.Simulation(scene, vv.ImplicitEuler(1e-10), iterations=2000, dt=0.02, damping=3.0)
    for _ in simulation.run(1500):
        pass
    few = vv.Simulation(scene, "implicit", iterations=2, dt=0.02, damping=3.0)
    few.positions, few.velocities = simulation.positions, simulation.velocities
    for _ in few.run(200):
        pass
    np.testing.assert_allclose(few.positions, simulation.positions, atol=2e-3)


@pytest.mark.parametrize("iterations", [2, 5])
def test_a_stiff_cloth_falls_freely_however_few_iterations_there_are(iterations):
    scene = vv.Scene()
    mesh = vv.Mesh.grid(20, 20)
    scene.add_cloth(mesh, material=vv.MassSpring(1e5))
    simulation = vv.Simulation(scene, "implicit", iterations=iterations, dt=1 / 25, damping=0.0)
    for _ in simulation.run(25):
        pass
    h, n = 1 / 25, 25
    np.testing.assert_allclose(simulation.positions[:, 1], -G * h * h * n * (n + 1) / 2, rtol=1e-3)


def test_a_search_that_ends_before_its_first_step_leaves_the_fall_as_it_is():
    """However often it turns then; what lay where the change of velocity is kept must not come out."""
    fallen = []
    for iterations in (1, 2, 5):
        solver = vv.ImplicitEuler(tolerance=1.0)
        simulation = vv.Simulation(corner_cloth(20), solver, iterations=iterations, dt=1 / 25)
        fallen.append([(report.solve.iterations, *simulation.positions.ravel()) for report in simulation.run(3)])
    assert all(frame[0] == 0 for frames in fallen for frame in frames)
    assert fallen[0] == fallen[1] == fallen[2]
    assert np.ptp(simulation.positions[:, 1]) > 0.01  # the pin stays, the rest falls


def energy(simulation):
    """Kinetic, of springs and of height [J]."""
    model, group = simulation.model, simulation.model.groups[0]
    x, v = simulation.positions.astype(float), simulation.velocities.astype(float)
    mass = np.where(model.inverse_masses > 0, 1 / np.maximum(model.inverse_masses, 1e-30), 0)
    i, j = group.vertices.T
    stretch = np.linalg.norm(x[j] - x[i], axis=1) - group.rest
    return mass @ (v * v).sum(axis=1) / 2 + (stretch**2 / group.compliance).sum() / 2 + G * mass @ x[:, 1]


@pytest.mark.parametrize("stiffness", [1e2, 1e5])
@pytest.mark.parametrize("iterations", [5, 50])
def test_a_thousand_frames_of_a_25th_of_a_second_never_gain_energy(stiffness, iterations):
    scene = corner_cloth(20, stiffness, damping=0.0)
    simulation = vv.Simulation(scene, "implicit", iterations=iterations, dt=1 / 25, damping=0.0)
    before = energy(simulation)
    weight = G * 0.2
    for _ in simulation.run(1000):
        now = energy(simulation)
        assert now < before + 1e-7 * weight  # times a meter; positions are rounded to single precision here
        before = now
    assert before < -0.3 * weight and np.abs(simulation.positions).max() < 2.0


def test_without_the_guard_long_steps_of_stiff_springs_do_gain_energy():
    simulation = vv.Simulation(
        corner_cloth(20, 1e5, damping=0.0), vv.ImplicitEuler(guarded=False), iterations=500, dt=1 / 25, damping=0.0
    )
    energies = [energy(simulation) for _ in simulation.run(5)]
    assert max(energies) > 1.0


def test_the_guard_does_not_stop_a_fine_cloth_in_the_air():
    """Its edges are far shorter than a step: near the pin the solve fails, and all is shortened for it."""
    scene = vv.Scene()
    mesh = vv.Mesh.grid(150, 150, size=(0.3, 0.3))
    scene.add_cloth(mesh, material=vv.MassSpring(200.0, 100.0, bend=1.0, damping=0.01)).pin(0)
    simulation = vv.Simulation(scene, "implicit", iterations=5, dt=1 / 25, damping=0.5)
    heights = [simulation.positions[:, 1].mean() for _ in simulation.run(15)]
    assert heights[4] - heights[14] > 0.01


@pytest.mark.parametrize("substeps", [1, 3])
@pytest.mark.parametrize("pushed", [False, True])
@pytest.mark.parametrize("guarded", [False, True])
def test_what_is_left_of_springs_is_measured(guarded, pushed, substeps):
    """Where they end up: with the energy if nothing pushes them after that, else at the end."""
    scene = corner_cloth(21)
    if pushed:
        scene.add_collider(vv.Sphere(0.3, (0.0, -0.25, 0.0)))
    solver = vv.ImplicitEuler(blocks=5, guarded=guarded)
    simulation = vv.Simulation(scene, solver, iterations=20, dt=1 / 25, substeps=substeps)
    report, group = list(simulation.run(3))[-1], simulation.model.groups[0]
    left = np.abs(measure(group.constraint, simulation.positions[group.vertices], group.rest))
    found = report.residual["stretch"]
    assert simulation.plan.sizes == {"stretch": len(group)}
    np.testing.assert_allclose([found.rms, found.largest], [np.sqrt(np.mean(left**2)), left.max()], rtol=1e-4)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_the_guard_lets_pins_and_wind_do_their_work(backend):
    """Both would be in vain if a step were allowed no more energy than there was before."""
    scene = vv.Scene()
    cloth = scene.add_cloth(vv.Mesh.grid(8, 8), material=vv.MassSpring(2e3, damping=0.5))
    cloth.pin([0, 7])
    scene.blow(0.5, (0.0, 0.0, 8.0))
    simulation = vv.Simulation(scene, vv.ImplicitEuler(1e-6), iterations=500, dt=1 / 50, backend=backend)
    start = simulation.positions
    for frame in range(60):
        simulation.move_pins([0, 7], start[[0, 7]] + [0, (frame + 1) / 60, 0])
        simulation.step()
    assert simulation.positions[:, 1].mean() > 0.4
    assert simulation.positions[-8:, 2].min() > 0.3


def test_momentum_is_kept_in_free_space():
    scene = vv.Scene(gravity=(0, 0, 0))
    mesh = vv.Mesh.grid(8, 8)
    body = scene.add_cloth(mesh, material=vv.MassSpring(500.0, damping=0.1))
    simulation = vv.Simulation(scene, "implicit", iterations=60, dt=0.01, damping=0.0)
    simulation.velocities = np.random.default_rng(0).normal(size=mesh.vertices.shape)
    before = momentum(scene, simulation)
    for _ in simulation.run(20):
        pass
    assert np.abs(momentum(scene, simulation) - before).max() < 1e-5 * body.masses.sum()


def test_damping_along_springs_takes_energy_and_leaves_rigid_motion_alone():
    def flying(damping, stretched):
        scene = vv.Scene(gravity=(0, 0, 0))
        mesh = vv.Mesh.grid(6, 6)
        scene.add_cloth(mesh, material=vv.MassSpring(200.0, damping=damping))
        simulation = vv.Simulation(scene, "implicit", iterations=200, dt=1e-3, damping=0.0)
        simulation.positions = mesh.vertices * stretched
        simulation.velocities = np.tile([1.0, 2.0, 3.0], (36, 1))
        for _ in simulation.run(300):
            pass
        velocity = simulation.velocities.mean(axis=0)
        return velocity, ((simulation.velocities - velocity) ** 2).sum()

    moved, still = flying(0.0, 1.1), flying(1.0, 1.1)
    assert still[1] < 0.5 * moved[1]
    np.testing.assert_allclose(flying(1.0, 1.0)[0], [1, 2, 3], rtol=1e-4)


def test_wind_carries_a_free_cloth_along_by_the_law_of_drag():
    """m v' = c (wind - v): v = wind (1 - (1 + c h / m)^-n)."""
    scene = vv.Scene(gravity=(0, 0, 0))
    scene.add_cloth(vv.Mesh.grid(5, 5), density=0.2, material=vv.MassSpring(100.0))
    scene.blow(0.5, (2.0, 0.0, 1.0))
    simulation = vv.Simulation(scene, "implicit", iterations=50, dt=0.02, damping=0.0)
    for _ in simulation.run(30):
        pass
    expected = np.array([2.0, 0.0, 1.0]) * (1 - (1 + 0.5 * 0.02 / 0.2) ** -30)
    np.testing.assert_allclose(simulation.velocities, np.tile(expected, (25, 1)), rtol=1e-4, atol=1e-6)
    simulation.control.wind = (0.0, 0.0, 0.0)
    for _ in simulation.run(200):
        pass
    np.testing.assert_allclose(simulation.velocities, 0, atol=1e-3)


@pytest.mark.parametrize(("degrees", "friction"), [(20, 0.5), (30, 0.7), (20, 0.0), (30, 0.3), (40, 0.5)])
def test_cloth_sticks_to_an_incline_or_slides_down_it_by_the_law_of_coulomb(degrees, friction):
    angle = np.radians(degrees)
    down, out = np.array([np.cos(angle), -np.sin(angle), 0]), np.array([np.sin(angle), np.cos(angle), 0])
    flat = vv.Mesh.grid(6, 6, (0.3, 0.3))
    mesh = vv.Mesh(flat.vertices @ np.stack([down, out, [0, 0, 1]]), flat.triangles)
    scene = vv.Scene()
    scene.add_cloth(mesh, material=vv.MassSpring(500.0))
    scene.add_collider(vv.Plane(normal=tuple(out)), friction=friction)
    simulation = vv.Simulation(scene, "implicit", iterations=10, substeps=4, damping=0.0)
    for _ in simulation.run(60):
        pass
    h, n = 1 / 240, 240
    expected = max(G * (np.sin(angle) - friction * np.cos(angle)), 0) * h * h * n * (n + 1) / 2
    way = (simulation.positions - mesh.vertices).mean(axis=0) @ down
    assert way == pytest.approx(expected, rel=0.02, abs=0.003)


def test_moving_pins_take_the_cloth_along():
    scene = vv.Scene(gravity=(0, 0, 0))
    cloth = scene.add_cloth(vv.Mesh.grid(5, 5), material=vv.MassSpring(1e3, damping=5.0))
    cloth.pin([0, 4])
    simulation = vv.Simulation(scene, "implicit", iterations=60, dt=0.02, damping=1.0)
    start = simulation.positions
    for frame in range(100):
        shift = min(frame + 1, 50) / 50
        simulation.move_pins([0, 4], start[[0, 4]] + [0, shift, 0])
        simulation.step()
    np.testing.assert_array_equal(simulation.positions[[0, 4]], (start + np.float32([0, 1, 0]))[[0, 4]])
    assert simulation.positions[:, 1].mean() > 0.45 and np.abs(simulation.positions).max() < 1.05


def test_a_cloth_that_may_touch_itself_piles_up_on_the_floor():
    scene = vv.Scene()
    for height in (0.1, 0.15):
        scene.add_cloth(vv.Mesh.grid(10, 10, (0.4, 0.4)).moved((0, height, 0)), material=vv.MassSpring(200.0))
    scene.add_collider(vv.Plane(), friction=0.5, margin=0.005)
    scene.self_collision(0.01)
    simulation = vv.Simulation(scene, "implicit", iterations=10, substeps=4)
    reports = list(simulation.run(60))
    low, high = simulation.positions[:100, 1], simulation.positions[100:, 1]
    assert reports[-1].touches.contacts > 50
    assert low.min() > 0.004 and high.min() > low.max() + 0.005 and high.max() < 0.03


@pytest.mark.parametrize("blocks", [1, 22])
def test_one_thread_is_done_with_each_block_while_it_lies_in_the_cache(blocks):
    """All that is due to a block comes from blocks before it."""
    simulation = vv.Simulation(corner_cloth(13), vv.ImplicitEuler(blocks=blocks), threads=1)
    simulation.step()
    sweeps = simulation._sweeps
    implicit = sweeps.implicit
    firm, *assemble = implicit.assemble(0.0, True)
    sweeps.advance([firm])
    for first, *others in (assemble, implicit.iterate(True, True), implicit.iterate(True, False)):
        implicit.early[:] = 0
        sweeps.advance([first])
        assert implicit.early.tolist() == blocks * [1]
        sweeps.advance(others)
        assert not implicit.counts.any()


def test_what_metis_made_moves_as_what_halving_made():
    pytest.importorskip("pymetis")
    runs = [
        vv.Simulation(corner_cloth(45), vv.ImplicitEuler(1e-8, blocks=9, decomposition=by), iterations=500, dt=1 / 50)
        for by in ("halves", "metis")
    ]
    for one, other in zip(runs[0].run(20), runs[1].run(20)):
        assert abs(one.solve.iterations - other.solve.iterations) <= 1
    np.testing.assert_allclose(runs[1].positions, runs[0].positions, atol=1e-5)
    assert (np.diff(runs[0].plan.net.starts) != np.diff(runs[1].plan.net.starts)).any()


def test_without_metis_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(vv.InputError, match=r"pymetis is not installed.*vivace\[mpi\]"):
        vv.Simulation(corner_cloth(10), vv.ImplicitEuler(blocks=2, decomposition="metis"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": 0}, "blocks is 0"),
        ({"decomposition": "meits"}, "unknown decomposition 'meits'; did you mean 'metis'"),
        ({"tolerance": -1}, "tolerance"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"preconditioner": "ilu"}, "preconditioner"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(vv.InputError, match=message):
        vv.ImplicitEuler(**options)


@pytest.mark.parametrize(
    ("material", "message"),
    [
        (vv.Ratios(), "stiffness ratio"),
        (vv.Springs(100.0, bend=0.1), "quadratic_bend.*no spring"),
        (vv.Compliances(stretch=0.0), "rigid"),
    ],
)
def test_materials_that_are_no_springs_are_refused(material, message):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(4, 4), material=material)
    with pytest.raises(vv.InputError, match=message):
        vv.Simulation(scene, "implicit")


def test_more_blocks_than_particles_are_refused():
    with pytest.raises(vv.InputError, match="26 blocks.*25"):
        vv.Simulation(corner_cloth(5), vv.ImplicitEuler(blocks=26))


def test_air_is_for_solvers_that_know_it():
    scene = corner_cloth(5)
    scene.blow(0.1)
    with pytest.raises(vv.InputError, match="implicit"):
        vv.Simulation(scene)
    with pytest.raises(vv.InputError, match="drag"):
        scene.blow(-1)


def test_a_state_that_is_not_finite_is_found_and_the_last_one_kept():
    scene = corner_cloth(8)
    simulation = vv.Simulation(scene, "implicit", iterations=5)
    simulation.step()
    before = simulation.positions
    simulation.state.fine_velocities[20, 0] = np.inf
    with pytest.raises(vv.SimulationError, match="not finite"):
        simulation.step()
    np.testing.assert_array_equal(simulation.positions, before)


def test_a_budget_buys_iterations():
    simulation = vv.Simulation(corner_cloth(40), "implicit", iterations=5, dt=0.01)
    simulation.step()
    reports = [simulation.step(budget_ms=200) for _ in range(8)]  # of which a busy machine may spoil some
    assert max(report.iterations for report in reports) > 20
    again = vv.Simulation(corner_cloth(40), "implicit", iterations=5, dt=0.01)
    again.step()
    for report in reports:
        again.step(work=report.work)
    np.testing.assert_array_equal(again.positions, simulation.positions)


def test_springs_without_a_length_are_solved_and_those_with_less_refused():
    def tied(rest):
        scene = corner_cloth(5)
        scene.add_constraints(scene.bodies[0], "stretch", [(0, 24)], rest=[rest], compliance=0.01)
        return scene

    for backend in ("cpu", "reference"):
        simulation = vv.Simulation(tied(0.0), "implicit", iterations=20, backend=backend)
        before = np.linalg.norm(np.diff(simulation.positions[[0, 24]], axis=0))
        for _ in simulation.run(5):
            pass
        assert np.linalg.norm(np.diff(simulation.positions[[0, 24]], axis=0)) < before
    with pytest.raises(vv.InputError, match="between particles 0 and 24 has a rest length of -0.1 m"):
        vv.Simulation(tied(-0.1), "implicit")


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_spring_whose_ends_meet_pulls_nowhere_and_is_as_firm_in_all_directions(backend):
    """What its ends slip is left as u / (1 + 2 h^2 k / m)."""
    stiffness, h, slip = 50.0, 0.02, np.array([0.3, -0.1, 0.2])
    scene = vv.Scene(gravity=WEIGHTLESS)
    scene.add_cloth(vv.Mesh.grid(2, 2), material=NOTHING)
    scene.add_constraints(scene.bodies[0], "stretch", [(0, 3)], rest=[0.1], compliance=1 / stiffness)
    simulation = vv.Simulation(scene, "implicit", iterations=50, dt=h, damping=0.0, backend=backend)
    rows = simulation.plan.row_of[[0, 3]]
    simulation.state.fine_positions[rows, :3] = 0.0
    simulation.state.fine_velocities[rows, :3] = [slip, -slip]
    simulation.step()
    left = slip / (1 + 2 * h**2 * stiffness * simulation.model.inverse_masses[0])
    np.testing.assert_allclose(simulation.state.fine_velocities[rows, :3], [left, -left], rtol=1e-5)


def test_rows_behind_the_last_particle_stay_where_they_are():
    simulation = vv.Simulation(corner_cloth(40), vv.ImplicitEuler(blocks=50), iterations=5)
    for _ in simulation.run(10):
        pass
    assert simulation.plan.net.dues.count > 0
    for rows in (simulation.state.fine_positions, simulation.state.fine_velocities):
        assert len(rows) > 1600 and not rows[1600:].any()


def test_iterations_end_when_nothing_is_left_to_solve():
    simulation = vv.Simulation(corner_cloth(10), "implicit", iterations=20_000, dt=0.01)
    for report in simulation.run(2):
        assert report.solve.iterations < 1000 and report.solve.residual < 1e-20


def test_a_model_without_springs_falls():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(3, 3), material=vv.Compliances(stretch=None))
    model = scene.build()
    assert replace(model).groups == ()
    simulation = vv.Simulation(scene, "implicit", iterations=1, dt=0.1, damping=0.0)
    assert simulation.step().residual == {}
    np.testing.assert_allclose(simulation.velocities[:, 1], -0.981, rtol=1e-5)


def test_sweeps_that_are_closed_let_go_of_their_arrays_at_once():
    """Blocks move fast because what they leave is used again: what waits for the collector of circles is not."""
    simulation = vv.Simulation(corner_cloth(20), "implicit", iterations=2, dt=1 / 25)
    simulation.step()
    sweeps = simulation._sweeps
    left = weakref.ref(sweeps.implicit.coefficients), weakref.ref(sweeps.implicit.direction)
    gc.disable()
    try:
        sweeps.close()
        assert [one() for one in left] == [None, None]
    finally:
        gc.enable()


def test_the_textbook_is_no_copy_of_ours():
    """A test of the test: its matrix is symmetric, and its forces are the gradient of an energy."""
    model = corner_cloth(4).build()
    textbook = Textbook(model, 0.01)
    blocks = np.tile(np.eye(3), (len(textbook.i), 1, 1))
    matrix = textbook.laplacian(blocks)
    assert abs(matrix - matrix.T).max() == 0
    assert abs(matrix @ np.ones(48)).max() < 1e-12
    assert abs((matrix + eye_array(48)) - (matrix + eye_array(48)).T).max() == 0

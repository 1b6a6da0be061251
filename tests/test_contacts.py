"""Contacts between soft things: what comes of them, solver by solver."""

import numpy as np
import pytest

import vivace as vv
from helpers import WEIGHTLESS, bits, momentum
from vivace.contacts import COLORS, Found
from vivace.contacts.crossing import crossing_pairs

T = 0.02  # thickness
SOLVERS = ["gauss-seidel", "xpbd", "vivace", "phantoms", "averaged-jacobi", "hybrid-jacobi", "serial", "pd-jacobi"]


def material(solver):
    physical = solver.startswith(("pd", "viv", "xp"))
    return vv.Springs(300.0, bend=1e-3) if physical else vv.Ratios(stretch=0.9, bend=0.1)


def two_sheets(solver="gauss-seidel", speed=2.0, **options):
    """Two sheets without weight fly at each other."""
    scene = vv.Scene(gravity=WEIGHTLESS)
    mesh = vv.Mesh.grid(10, 10, size=(0.5, 0.5))
    low = scene.add_cloth(mesh, material=material(solver), name="low")
    high = scene.add_cloth(mesh.moved((0.013, 0.1, 0.007)), density=0.3, material=material(solver), name="high")
    scene.self_collision(T, friction=0.2)
    made = vv.Simulation(scene, solver, iterations=8, substeps=4, damping=0.0, **{"threads": 1, **options})
    velocities = np.zeros((200, 3))
    velocities[low.rows, 1], velocities[high.rows, 1] = 0.5 * speed, -0.5 * speed
    made.velocities = velocities
    return made


@pytest.mark.parametrize("solver", SOLVERS)
def test_sheets_that_fly_at_each_other_do_not_pass(solver):
    simulation = two_sheets(solver)
    touched = 0
    for report in simulation.run(20):
        touched += report.touches.contacts > 0
        assert crossing_pairs(simulation.positions, simulation.model.triangles) == 0
    low, high = (simulation.positions[rows, 1] for _, rows in simulation.model.bodies)
    assert touched > 2 and high.mean() - low.mean() > 0.8 * T


@pytest.mark.parametrize("solver", ["gauss-seidel", "xpbd", "phantoms", "averaged-jacobi", "hybrid-jacobi"])
def test_contacts_keep_linear_momentum(solver):
    simulation = two_sheets(solver)
    before = momentum(simulation.scene, simulation)
    for _ in simulation.run(12):
        pass
    assert np.linalg.norm(momentum(simulation.scene, simulation) - before) < 1e-4 * np.linalg.norm(before)


def test_the_overflow_keeps_linear_momentum(monkeypatch):
    simulation = two_sheets()
    contacts = simulation._sweeps.contacts
    find = contacts.detector.find_for

    def crowded(*arguments):
        found = find(*arguments)  # each contact many times over, so that colors run out
        return Found(np.tile(found.corners, (COLORS, 1)), np.tile(found.data, (COLORS, 1)))

    monkeypatch.setattr(contacts.detector, "find_for", crowded)
    before, overflow = momentum(simulation.scene, simulation), 0
    for report in simulation.run(12):
        overflow += report.touches.overflow
    assert overflow > 1000
    assert np.linalg.norm(momentum(simulation.scene, simulation) - before) < 1e-4 * np.linalg.norm(before)


@pytest.mark.parametrize("solver", ["gauss-seidel", "vivace"])
def test_the_same_bits_for_any_number_of_threads(solver):
    ends = []
    for threads in (1, 2, 3):
        simulation = two_sheets(solver, threads=threads)
        for _ in simulation.run(15):
            pass
        ends.append(bits(simulation.positions))
    assert (ends[0] == ends[1]).all() and (ends[0] == ends[2]).all()


@pytest.mark.parametrize("solver", ["gauss-seidel", "vivace", "averaged-jacobi"])
def test_reference_backend_goes_the_same_way(solver):
    one, other = two_sheets(solver), two_sheets(solver, backend="reference")
    for _ in range(4):
        report, _ = one.step(), other.step()
    assert report.touches.contacts > 0
    np.testing.assert_allclose(one.positions, other.positions, atol=2e-4)


def pressed_solids():
    scene = vv.Scene(gravity=WEIGHTLESS)
    mesh = vv.Mesh.box((4, 4, 4), (0.2, 0.2, 0.2))
    for k in range(2):
        scene.add_solid(
            mesh.moved((0.02 * k, 0.25 * k, 0.01 * k)), material=vv.Ratios(0.5, volume=0.8), density=100 + 200 * k
        )
    scene.self_collision(0.01, friction=0.5)
    simulation = vv.Simulation(scene, iterations=8, substeps=4, damping=0.0, threads=1)
    velocities = np.zeros((2 * len(mesh.vertices), 3))
    velocities[: len(mesh.vertices)] = 0.3, 1.5, 0
    simulation.velocities = velocities
    return simulation


def test_solids_pressed_together_in_free_space_keep_momentum_and_do_not_enter_each_other():
    simulation = pressed_solids()
    before = momentum(simulation.scene, simulation)
    for _ in simulation.run(15):
        assert crossing_pairs(simulation.positions, simulation.model.triangles) == 0
    # Longer, rounding of the projections adds up to 1e-4 and more, with contacts or without.
    assert np.linalg.norm(momentum(simulation.scene, simulation) - before) < 1e-4 * np.linalg.norm(before)
    below, above = (simulation.velocities[rows].mean(axis=0) for _, rows in simulation.model.bodies)
    assert above[1] > 0.2 and above[1] >= below[1] - 0.05


@pytest.mark.parametrize(("friction", "degrees", "slides"), [(0.5, 20, False), (0.2, 20, True), (0.0, 5, True)])
def test_a_patch_on_an_inclined_sheet_obeys_friction(friction, degrees, slides):
    angle = np.radians(degrees)
    turn = np.array([[np.cos(angle), np.sin(angle), 0], [-np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    floor = vv.Mesh.grid(12, 6, size=(2.0, 0.6))
    patch = vv.Mesh.grid(4, 4, size=(0.2, 0.2))
    scene = vv.Scene()
    held = scene.add_cloth(vv.Mesh(floor.vertices @ turn, floor.triangles), name="floor")
    held.pin(np.arange(len(floor.vertices)))
    patch_at = (patch.vertices + [0.6, 1.001 * T, 0.01]) @ turn
    scene.add_cloth(vv.Mesh(patch_at, patch.triangles), material=vv.Ratios(1.0, bend=0.5), name="patch")
    scene.self_collision(T, friction)
    simulation = vv.Simulation(scene, iterations=4, substeps=8, damping=0.0, threads=1)
    for _ in simulation.run(30):
        pass
    way = (simulation.positions[72:] - patch_at).mean(axis=0) @ (np.array([-1.0, 0, 0]) @ turn)
    h, n = 1 / 60 / 8, 30 * 8
    expected = max(np.sin(angle) - friction * np.cos(angle), 0) * 9.81 * h * h * n * (n + 1) / 2
    assert abs(way - expected) < (0.02 * expected if slides else 0.01)


def test_cloth_folded_onto_itself_does_not_pass_through_itself():
    scene = vv.Scene()
    mesh = vv.Mesh.grid(24, 8, size=(0.9, 0.3))
    cloth = scene.add_cloth(mesh.moved((0, 0.5, 0)), material=vv.Ratios(stretch=0.9, bend=0.05))
    cloth.pin([24 * row for row in range(8)])
    scene.self_collision(0.015, friction=0.3)
    simulation = vv.Simulation(scene, iterations=4, substeps=6, damping=0.5, threads=1)
    for frame in range(90):  # the held side comes over the other
        held = mesh.vertices[[24 * row for row in range(8)]] + [0.9 * min(frame / 60, 1), 0.5, 0]
        simulation.move_pins([24 * row for row in range(8)], held)
        simulation.step()
    assert crossing_pairs(simulation.positions, mesh.triangles) == 0


def test_falling_freely_is_not_changed_by_a_bit_when_nothing_touches():
    ends = []
    for touching in (False, True):
        scene = vv.Scene()
        scene.add_cloth(vv.Mesh.grid(5, 5), material=vv.Ratios(0.5))
        if touching:
            scene.self_collision(0.01)
        simulation = vv.Simulation(scene, threads=1)
        for _ in simulation.run(10):
            pass
        ends.append(bits(simulation.positions))
    assert (ends[0] == ends[1]).all()


def test_reports_tell_of_contacts_and_budgets_and_repeats_work():
    simulation, again = two_sheets(), two_sheets()
    for _ in range(6):
        report = simulation.step(budget_ms=20)
        repeated = again.step(work=report.work)
    assert report.touches.contacts > 0 and report.milliseconds["detect"] > 0
    assert report.as_dict()["touches"]["contacts"] == report.touches.contacts == repeated.touches.contacts
    assert (bits(simulation.positions) == bits(again.positions)).all()


@pytest.mark.parametrize("spend", ["iterations", "substeps"])
def test_where_things_may_touch_a_budget_does_no_less_than_what_is_set(spend):
    report = two_sheets().step(budget_ms=0.01, spend=spend)
    assert report.substeps >= 4 and report.iterations >= 8 and report.deadline_missed


@pytest.mark.parametrize("solver", ["gauss-seidel", "xpbd", "vivace", "pd-jacobi"])
def test_more_passes_hold_a_stack_better(solver):
    """Eight layers on a floor sink into each other when contacts are met only a few times a frame."""

    def height(passes):
        scene = vv.Scene()
        for layer in range(8):
            sheet = vv.Mesh.grid(6, 6, size=(0.3, 0.3)).moved((0.003 * layer, T * (layer + 0.5), 0))
            scene.add_cloth(sheet, material=material(solver), name=str(layer))
        scene.add_collider(vv.Plane(), margin=T / 2)
        scene.self_collision(T, passes=passes)
        simulation = vv.Simulation(scene, solver, iterations=1, substeps=2, damping=1.0, threads=1)
        for _ in simulation.run(20):
            pass
        return float(simulation.positions[-36:, 1].mean()) / (7.5 * T)

    once, often = height(1), height(6)
    assert once < often < 1.02 and 1 - often < 0.6 * (1 - once)


def test_without_self_collision_nothing_touches():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(3, 3))
    assert vv.Simulation(scene).step().touches is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((0,), "thickness is 0"),
        ((-1,), "thickness"),
        ((np.nan,), "thickness"),
        ((0.1, -0.2), "friction"),
        ((0.1, 0.3, "air"), "by"),
        ((0.1, 0.3, "surfaces", 0), "passes"),
    ],
)
def test_bad_numbers_are_refused(arguments, told):
    with pytest.raises(vv.InputError, match=told):
        vv.Scene().self_collision(*arguments)


def test_a_thickness_larger_than_edges_is_warned_of():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(11, 11), name="fine")
    scene.self_collision(0.2)
    with pytest.warns(UserWarning, match="'fine'.*choose 0.05 m or less"):
        scene.build()

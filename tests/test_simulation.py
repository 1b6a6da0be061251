import gc
import json

import numpy as np
import pytest

import vivace as vv
from helpers import WEIGHTLESS, advance, strain
from vivace.kernels.lanes import sqrt

GRID = vv.Mesh.grid(5, 4)
COTTON = vv.Ratios(stretch=1.0, bend=0.1)


def hanging_cloth(mesh=GRID, pins=(0, 4), material=COTTON):
    scene = vv.Scene()
    cloth = scene.add_cloth(mesh, material=material)
    cloth.pin(list(pins))
    return scene, cloth


class RootOfHeight:
    """A constraint that breaks down below zero, where its root is not a number."""

    ARITY = 1
    ANCHORED = True

    @staticmethod
    def value_gradient(corners, rest):
        root = sqrt(corners[0][1])
        zero, half = np.float32(0), np.float32(0.5)
        return root - rest, ((zero * root, half / root, zero * root),), np.float32(1)


def falling_cloud(height, breaking):
    """Particles without constraints among them, some of which break down when they have fallen below zero."""
    scene = vv.Scene()
    scene.add_cloth(GRID.moved((0.0, 50.0, 0.0)), material=vv.Ratios(stretch=0.0), name="high")
    cloud = scene.add_cloth(GRID.moved((0.0, height, 0.0)), material=vv.Ratios(stretch=0.0), name="low")
    scene.add_constraints(cloud, RootOfHeight, np.array(breaking)[:, None], stiffness_ratio=0.0)
    return scene


def test_positions_and_velocities_are_read_only_rows_of_float32():
    simulation = advance(hanging_cloth()[0], 2)
    for values in (simulation.positions, simulation.velocities):
        assert values.shape == (20, 3) and values.dtype == np.float32
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1


def test_positions_taken_before_a_step_do_not_change_with_it():
    simulation = vv.Simulation(hanging_cloth()[0])
    before = simulation.positions
    copy = before.copy()
    simulation.step()
    np.testing.assert_array_equal(before, copy)
    assert (simulation.positions != copy).any()


def test_positions_and_velocities_are_assigned_whole():
    simulation = vv.Simulation(hanging_cloth()[0])
    simulation.step()
    positions, velocities = np.random.default_rng(0).normal(size=(2, 20, 3)).astype(np.float32)
    velocities[[0, 4]] = 0
    simulation.positions, simulation.velocities = positions, velocities
    np.testing.assert_array_equal(simulation.positions, positions)
    np.testing.assert_array_equal(simulation.velocities, velocities)


def test_results_come_back_in_the_order_of_the_user():
    """A shuffled cloth moves as before, vertex by vertex, though its constraints come in another order."""
    shuffle = np.random.default_rng(0).permutation(20)  # vertex i is called shuffle[i]
    shuffled = vv.Mesh(GRID.vertices[np.argsort(shuffle)], shuffle[GRID.triangles])
    plain, other = (
        advance(hanging_cloth(mesh, pins)[0], 30, iterations=40, damping=0.5)
        for mesh, pins in ((GRID, [0, 4]), (shuffled, shuffle[[0, 4]]))
    )
    assert abs(plain.positions - GRID.vertices).max() > 0.5
    np.testing.assert_allclose(other.positions[shuffle], plain.positions, atol=0.02)
    np.testing.assert_allclose(other.velocities[shuffle], plain.velocities, atol=0.2)


def test_body_rows_are_its_slice_of_the_positions():
    scene = vv.Scene(gravity=WEIGHTLESS)
    bodies = [scene.add_cloth(GRID.moved((2.0 * i, 0.0, 0.0))) for i in range(3)]
    simulation = advance(scene, 1)
    for i, body in enumerate(bodies):
        np.testing.assert_allclose(simulation.positions[body.rows], GRID.vertices + [2 * i, 0, 0], atol=1e-6)


def test_set_positions_puts_some_vertices_elsewhere_and_keeps_velocities():
    scene = vv.Scene()
    scene.add_cloth(GRID)
    cloth = scene.add_cloth(GRID.moved((3.0, 0.0, 0.0)))
    simulation = advance(scene, 3)
    before, velocities = simulation.positions, simulation.velocities
    cloth.set_positions([2, 7], [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(simulation.positions[[22, 27]], [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(
        np.delete(simulation.positions, [22, 27], axis=0), np.delete(before, [22, 27], axis=0)
    )
    np.testing.assert_array_equal(simulation.velocities, velocities)


def test_body_of_a_simulation_that_is_gone_sets_where_the_next_one_starts():
    scene, cloth = hanging_cloth()
    advance(scene, 1)
    gc.collect()
    cloth.set_positions([3], [[9, 9, 9]])
    np.testing.assert_array_equal(vv.Simulation(scene).positions[3], [9, 9, 9])


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_moved_pin_reaches_its_target_exactly_and_then_rests(backend):
    scene, cloth = hanging_cloth()
    simulation = vv.Simulation(scene, substeps=3, backend=backend)
    targets = np.float32([[-0.7, 0.3, -0.5], [0.6, 0.1, -0.4]])
    cloth.move_pins([0, 4], targets)
    for _ in simulation.run(3):
        np.testing.assert_array_equal(simulation.positions[[0, 4]], targets)
    np.testing.assert_array_equal(simulation.velocities[[0, 4]], 0)


def test_moved_pin_travels_evenly_over_the_substeps():
    """Evenly means: four substeps of a frame see the pin where four frames of a quarter see it, sent on by hand."""
    target = np.array([[0.4, 0.8, 0.0]], np.float32)
    start = GRID.vertices[:1]
    at_once, by_hand = (hanging_cloth(pins=[0])[0] for _ in range(2))
    one = vv.Simulation(at_once, substeps=4, dt=0.04)
    one.move_pins([0], target)
    one.step()
    four = vv.Simulation(by_hand, substeps=1, dt=0.01)
    for part in (0.25, 0.5, 0.75, 1.0):
        four.move_pins([0], start + part * (target - start))
        four.step()
    np.testing.assert_allclose(one.positions, four.positions, atol=1e-5)


def test_pinned_particle_stays_when_velocities_are_assigned():
    simulation = vv.Simulation(hanging_cloth()[0])
    simulation.velocities = np.ones((20, 3))
    simulation.step()
    np.testing.assert_array_equal(simulation.positions[[0, 4]], GRID.vertices[[0, 4]])


def test_run_steps_as_it_is_read_and_yields_a_report_of_each_frame():
    simulation = vv.Simulation(hanging_cloth()[0], iterations=3, substeps=2, dt=1 / 50, threads=1)
    frames = []
    for report in simulation.run(4):
        frames.append(report.frame)
        assert simulation.frame == report.frame and simulation.time == pytest.approx(report.frame / 50)
    assert frames == [1, 2, 3, 4]
    assert (report.iterations, report.substeps, report.threads) == (3, 2, 1)


def test_run_of_no_frames_leaves_everything_as_it_is():
    simulation = vv.Simulation(hanging_cloth()[0])
    assert list(simulation.run(0)) == [] and simulation.frame == 0


def test_report_has_residual_colors_and_time_of_each_group():
    scene, _ = hanging_cloth()
    simulation = vv.Simulation(scene, iterations=1)
    *_, report = simulation.run(5)
    ends = simulation.positions[GRID.edges].astype(float)
    stretch = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1) - np.linalg.norm(
        GRID.vertices[GRID.edges[:, 0]] - GRID.vertices[GRID.edges[:, 1]], axis=1
    )
    assert report.residual["stretch"].rms == pytest.approx(np.sqrt(np.mean(stretch**2)), rel=1e-3)
    assert report.residual["stretch"].largest == pytest.approx(abs(stretch).max(), rel=1e-3)
    assert set(report.residual) == set(report.colors) == {"stretch", "bend"}
    assert report.colors["stretch"] == vv.color(vv.Graph.from_members(GRID.edges, 20).transposed).count
    assert {"stretch", "bend", "total"} <= set(report.milliseconds) and all(
        t >= 0 for t in report.milliseconds.values()
    )


def test_report_can_be_written_as_json():
    report = vv.Simulation(hanging_cloth()[0]).step()
    read = json.loads(json.dumps(report.as_dict()))
    assert read["frame"] == 1 and read["residual"]["stretch"]["rms"] == report.residual["stretch"].rms


def test_same_seed_gives_the_same_bits_and_another_one_does_not():
    random = vv.ColoredGaussSeidel(coloring="random")
    one, same, other = (advance(hanging_cloth()[0], 5, solver=random, seed=seed).positions for seed in (1, 1, 2))
    assert (one.view(np.uint32) == same.view(np.uint32)).all() and (one != other).any()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_step_that_breaks_down_names_frame_group_and_particle_and_keeps_the_last_good_state(backend):
    simulation = vv.Simulation(falling_cloud(0.2, [13, 17]), backend=backend, damping=0.0)
    with pytest.raises(
        vv.SimulationError, match=r"particle 33 \('low', vertex 13; group 'RootOfHeight'\) is not finite, 2 of 40"
    ) as problem:
        for _ in simulation.run(30):
            good = simulation.positions.copy(), simulation.velocities.copy()
    fallen = simulation.frame + 1  # 0.2 m take 0.202 s, which is the 12th or 13th frame of 1/60 s
    assert (
        fallen in (12, 13)
        and f"frame {fallen}:" in str(problem.value)
        and f"state of frame {simulation.frame} is kept" in str(problem.value)
    )
    np.testing.assert_array_equal(simulation.positions, good[0])
    np.testing.assert_array_equal(simulation.velocities, good[1])


@pytest.mark.parametrize(
    "material", [vv.Ratios(stretch=1.0), vv.Ratios(stretch=0.0, bend=1.0)], ids=["stretch", "bend"]
)
def test_overflow_is_blamed_on_a_group_of_the_particle(material):
    simulation = vv.Simulation(hanging_cloth(material=material)[0], dt=100.0, iterations=1, damping=0.0)
    velocities = np.zeros((20, 3))
    velocities[9] = 1e18
    simulation.velocities = velocities
    with pytest.raises(
        vv.SimulationError, match=rf"frame 1: particle \d+ .*group '{'stretch' if material.stretch else 'bend'}'"
    ):
        simulation.step()


def test_simulation_goes_on_from_the_last_good_state():
    simulation = vv.Simulation(falling_cloud(0.01, [3]), damping=0.0)
    with pytest.raises(vv.SimulationError):
        list(simulation.run(10))
    rescued = simulation.velocities.copy()
    rescued[23] = [0, 5, 0]
    simulation.velocities = rescued
    frame = simulation.frame
    assert simulation.step().frame == frame + 1 and np.isfinite(simulation.positions).all()


@pytest.mark.parametrize("solver", [vv.ColoredGaussSeidel, vv.SerialGaussSeidel])
def test_corrected_ratio_leaves_the_same_error_for_any_number_of_iterations(solver):
    """One edge, stretched to twice its length, with ratio k: 1 - k of the error is left."""
    left = {}
    for corrected in (True, False):
        for iterations in (1, 4, 10):
            scene = vv.Scene(gravity=WEIGHTLESS)
            triangle = scene.add_cloth(
                vv.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), material=vv.Ratios(stretch=0.0)
            )
            scene.add_constraints(triangle, "stretch", [[0, 1]], stiffness_ratio=0.3)
            triangle.set_positions([1], [[2, 0, 0]])
            report = vv.Simulation(scene, solver=solver(corrected_ratios=corrected), iterations=iterations).step()
            left[corrected, iterations] = report.residual["stretch"].largest
    assert [left[True, n] for n in (1, 4, 10)] == pytest.approx([0.7] * 3, rel=1e-5)
    assert [left[False, n] for n in (1, 4, 10)] == pytest.approx([0.7, 0.7**4, 0.7**10], rel=1e-4)


def test_gravity_can_change_while_it_runs():
    scene = vv.Scene(gravity=WEIGHTLESS)
    scene.add_cloth(GRID)
    simulation = vv.Simulation(scene, dt=0.1, damping=0.0)
    simulation.control.gravity = (0.0, 0.0, 3.0)
    simulation.step()
    np.testing.assert_allclose(simulation.velocities, np.tile([0, 0, 0.3], (20, 1)), atol=1e-5)


def test_scene_can_run_in_two_simulations_that_do_not_touch_each_other():
    scene, _ = hanging_cloth()
    one, other = vv.Simulation(scene), vv.Simulation(scene)
    for _ in one.run(3):
        pass
    np.testing.assert_array_equal(other.positions, GRID.vertices)
    assert abs(strain(one.positions, GRID)).max() > 0

"""Colliders that move carry along what touches them, and friction acts on what slides relative to them."""

import numpy as np
import pytest

import vivace as vv
from helpers import BACKENDS, NOTHING, rotation
from vivace.collision.motion import check_way, composed, path_between, pose_of
from vivace.kernels.pose import advance_pose

G = 9.81
PLATE = vv.Box((4.0, 0.1, 4.0), (0.0, -0.05, 0.0))
SOLID = {"gauss-seidel": vv.Ratios(stretch=1.0, volume=1.0), "vivace": vv.Elastic(3e5), "pd-direct": vv.Elastic(3e5)}
each_backend = pytest.mark.parametrize("backend", BACKENDS)


def pose(turn=(0.0, 0.0, 0.0), translation=(0.0, 0.0, 0.0)):
    return np.column_stack([rotation(*turn), translation])


def on(collider, motion, friction, body="block", frames=60, run=True, **settings):
    """A body that lay on a moving collider, and how far it has come."""
    scene = vv.Scene()
    if body == "block":
        mesh, material = vv.Mesh.box((2, 2, 2), (0.2, 0.2, 0.2)).moved((0.0, 0.1, 0.0)), settings.pop("material", None)
        scene.add_solid(mesh, **({"material": material} if material else {}))
    else:
        mesh = vv.Mesh.grid(5, 5, (0.3, 0.3))
        scene.add_cloth(mesh, material=NOTHING if body == "particles" else vv.Ratios(stretch=1.0))
    scene.add_collider(collider, friction=friction, motion=motion)
    settings = {"substeps": 4, "damping": 0.0, "threads": 1, **settings}
    simulation = vv.Simulation(scene, **settings)
    for _ in simulation.run(frames if run else 0):
        pass
    return simulation, simulation.positions - mesh.vertices


@each_backend
@pytest.mark.parametrize("body", ["block", "cloth", "particles"])
@pytest.mark.parametrize("friction", [1.0, 0.0])
def test_a_plate_that_moves_sideways_carries_what_lies_on_it_by_friction_alone(backend, body, friction):
    frames = 15 if backend == "reference" else 60  # of the slow one five times as long as it takes to be up to speed
    simulation, way = on(PLATE, lambda t: (0.5 * t, 0.0, 0.0), friction, body, frames, backend=backend)
    carried = 0.5 * frames / 60 - 0.5**2 / (2 * G)  # it slips until it has been brought up to speed
    assert way.mean(axis=0) == pytest.approx([carried if friction else 0.0, 0.0, 0.0], abs=6e-3)
    assert np.ptp(way, axis=0).max() < 1e-3
    assert simulation.velocities[:, 0] == pytest.approx(0.5 if friction else 0.0, abs=2e-3)


@pytest.mark.parametrize("solver", SOLID)
def test_every_kind_of_solver_is_carried(solver):
    _, way = on(PLATE, lambda t: (0.5 * t, 0.0, 0.0), 1.0, solver=solver, iterations=20, material=SOLID[solver])
    assert way.mean(axis=0) == pytest.approx([0.5, 0.0, 0.0], abs=0.03)


@pytest.mark.parametrize(("friction", "acceleration"), [(0.3, 6.0), (0.8, 6.0)])
def test_a_plate_carries_no_faster_than_friction_allows(friction, acceleration):
    _, way = on(PLATE, lambda t: (acceleration / 2 * t * t, 0.0, 0.0), friction, "particles")
    assert way[:, 0].mean() == pytest.approx(min(acceleration, friction * G) / 2, rel=0.02)


@pytest.mark.parametrize("body", ["block", "cloth"])
def test_a_turntable_turns_what_lies_on_it(body):
    simulation, way = on(PLATE, lambda t: pose((0.0, 0.5 * t * t, 0.0)), 1.0, body)
    start = simulation.positions - way
    np.testing.assert_allclose(simulation.positions, start @ rotation(0.0, 0.5, 0.0).T, atol=2e-3)


@pytest.mark.parametrize("speed", [0.3, -0.3])
def test_a_lift_takes_its_load_up_and_down(speed):
    _, way = on(PLATE, lambda t: (0.0, speed * t, 0.0), 0.5)
    assert way.mean(axis=0) == pytest.approx([0.0, speed, 0.0], abs=1e-3)


@pytest.mark.parametrize("share", [0.98, 1.02, 1.5])
@pytest.mark.parametrize("friction", [0.3, 0.7])
@pytest.mark.parametrize("moves", [False, True])
def test_a_particle_stays_below_the_friction_angle_and_slides_above_it(share, friction, moves):
    """Also on an incline that moves on steadily, after the particles have been brought up to its speed."""
    angle = share * np.arctan(friction)
    incline = PLATE.moved(rotation=rotation(0.0, 0.0, -angle))
    down, across = np.array([np.cos(angle), -np.sin(angle), 0.0]), np.array([0.0, 0.0, 1.0])
    motion = (lambda t: 0.4 * t * across) if moves else None
    simulation, _ = on(incline, motion, friction, "particles", run=False)
    simulation.positions = simulation.positions @ rotation(0.0, 0.0, -angle).T
    if moves:
        simulation.velocities = np.tile(0.4 * across, (len(simulation.positions), 1))
    start, substeps = simulation.positions, 4 * 60
    for _ in simulation.run(60):
        pass
    way = (simulation.positions - start).mean(axis=0)
    free = G * (np.sin(angle) - friction * np.cos(angle)) / 2 * (1 + 1 / substeps)
    assert way @ down == pytest.approx(max(free, 0.0), rel=0.02, abs=1e-4)
    assert way @ across == pytest.approx(0.4 if moves else 0.0, abs=1e-3)


def test_the_same_bits_for_any_number_of_threads():
    shape = vv.Capsule((-0.5, -0.1, 0.0), (0.5, -0.1, 0.0), 0.1) | PLATE.moved((0.0, -0.3, 0.0))
    ends = [on(shape, lambda t: pose((0.0, 2 * t, 0.1 * t)), 0.7, "cloth", threads=n)[0].positions for n in (1, 2, 3)]
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])


@each_backend
def test_at_the_end_of_every_frame_a_collider_is_where_its_motion_says(backend):
    own = vv.Box((1.0, 1.0, 1.0)).moved((0.0, -3.0, 0.0), rotation(0.3, 0.0, 0.0))

    def motion(t):
        return pose((t, 0.0, 3 * t), (t * t, 2.0, -t))

    simulation, _ = on(own, motion, 0.5, run=False, substeps=7, backend=backend)
    numbers = simulation._sweeps.colliders.surfaces[0].parameters
    for number in range(5):
        simulation.step(*((1.0, "substeps") if number % 2 else ()))
        expected = composed(motion(simulation.time), own.pose)
        np.testing.assert_array_equal(numbers[:9], expected[:, :3].ravel().astype(np.float32))
        np.testing.assert_array_equal(numbers[9:12], expected[:, 3].astype(np.float32))


def test_a_step_of_uneven_substeps_can_be_repeated():
    first, second = (on(PLATE, lambda t: pose((0.0, t, 0.0)), 0.5, "cloth", run=False)[0] for _ in range(2))
    for _ in range(10):
        second.step(work=first.step(budget_ms=1.0, spend="substeps").work)
    np.testing.assert_array_equal(first.positions, second.positions)


def test_a_motion_that_follows_the_user_moves_from_where_the_collider_was():
    hand = [0.0, 0.0, 0.0]
    simulation, _ = on(PLATE, lambda t: hand, 1.0, "cloth", run=False)
    for _ in range(60):
        hand[0] += 0.005
        simulation.step()
    assert simulation.velocities[:, 0] == pytest.approx(0.3, abs=1e-3)


def test_parts_of_a_path_add_up_to_the_whole():
    """A screw: every point keeps its distance from the axis, and all parts are alike."""
    start, end = pose((0.2, 0.1, 0.0), (1.0, 2.0, 3.0)), pose((0.5, -1.0, 0.4), (1.2, 1.5, 3.3))
    path, now, motion = path_between(start, end), np.zeros(12), np.zeros(12)
    points = np.random.default_rng(0).normal(size=(5, 3))
    carried, motions = points @ start[:, :3].T + start[:, 3], []
    for share in (0.2, 0.3, 0.1, 0.4):
        advance_pose(path, share, now, motion)
        turn, way = motion[:9].reshape(3, 3), motion[9:]
        carried = carried + carried @ turn.T + way
        np.testing.assert_allclose(carried, points @ now[:9].reshape(3, 3).T + now[9:], atol=1e-12)
        motions.append(np.linalg.norm(turn) / np.sin(share * path[3] / 2))
    np.testing.assert_array_equal(now, [*end[:, :3].ravel(), *end[:, 3]])
    assert motions == pytest.approx([motions[0]] * 4)


@pytest.mark.parametrize("way", [(0.0, 0.0, 0.0), (1e-9, 0.0, 0.0), (0.3, -0.2, 0.1)])
def test_a_path_without_a_turn_is_straight(way):
    path, now, motion = path_between(pose(), pose(translation=way)), np.zeros(12), np.zeros(12)
    advance_pose(path, 0.25, now, motion)
    np.testing.assert_allclose(motion, [0] * 9 + [0.25 * number for number in way], atol=1e-17)


BAD = {
    "jumps": (lambda t: (1000 * t, 0, 0), "collider 0 .Box. jumps by 16.7 m between t = 0 s and 0.0166667 s"),
    "half a turn": (lambda t: pose((0, 60 * np.pi * t, 0)), r"turns by 180 degrees between t = 0 s"),
    "raises": (lambda t: 1 / 0 if t else (0, 0, 0), r"collider 0 .Box.: motion.0.0166667. raised ZeroDivisionError"),
    "too short": (lambda t: (0, 0, 0)[: 3 - bool(t)], "expected a translation"),
    "text": (lambda t: "up" if t else (0, 0, 0), "expected a translation .* got 'up'"),
    "not finite": (lambda t: (0, np.nan if t else 0, 0), "must be three finite numbers"),
    "a reflection": (lambda t: np.diag([1, 1, -1 if t else 1, 1]), "is a reflection"),
    "larger": (lambda t: np.diag([1 + t, 1 + t, 1 + t, 1]), "is not a rotation: its rows are off by 0.034"),
    "projective": (lambda t: np.diag([1, 1, 1, 1 + t]), "expected a translation .* or a rigid 3x4 or 4x4 matrix"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_motion_is_named_and_changes_nothing(name):
    motion, message = BAD[name]
    simulation, _ = on(PLATE, motion, 0.5, run=False)
    before = simulation.positions.copy(), simulation.velocities.copy()
    with pytest.raises(vv.InputError, match=message):
        simulation.step()
    assert simulation.frame == 0
    np.testing.assert_array_equal(simulation.positions, before[0])
    np.testing.assert_array_equal(simulation.velocities, before[1])


def test_a_bad_motion_is_refused_when_it_is_given():
    scene = vv.Scene()
    with pytest.raises(vv.InputError, match="motion is 3; it must be a function"):
        scene.add_collider(PLATE, motion=3)
    with pytest.raises(vv.InputError, match=r"collider 0 \(Box\): motion\(0\): expected a translation"):
        scene.add_collider(PLATE, motion=lambda t: None)
    assert scene.surfaces == []


def test_poses_come_as_translations_and_matrices():
    turned = pose((0.1, 0.2, 0.3), (1, 2, 3))
    np.testing.assert_allclose(pose_of("pose", np.vstack([turned, [0, 0, 0, 1]]).tolist()), turned)
    np.testing.assert_allclose(pose_of("pose", turned.astype(np.float32)), turned, atol=1e-6)
    np.testing.assert_array_equal(pose_of("pose", (1, 2, 3)), pose(translation=(1, 2, 3)))
    check_way("a collider", pose(), pose((0, 2.9, 0), (1.6, 0, 0)), 0.0, 1 / 60)

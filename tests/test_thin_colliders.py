"""Fast particles do not pass through thin colliders, and nothing else changes for it."""

import numpy as np
import pytest

import vivace as vv
from helpers import NOTHING, WEIGHTLESS, advance

WALL = vv.Box((0.02, 3.0, 3.0))
MATERIALS = {
    "gauss-seidel": vv.Ratios(stretch=1.0, bend=0.1),
    "xpbd": vv.Compliances(stretch=1e-5),
    "vivace": vv.Springs(500.0, bend=1e-3),
    "pd-direct": vv.Springs(500.0, bend=1e-3),
}


def sheet():
    """Upright, facing the wall."""
    flat = vv.Mesh.grid(16, 16)
    return vv.Mesh(flat.vertices[:, [1, 0, 2]], flat.triangles)


def balloon():
    """The skin of a ball."""
    ball = vv.Mesh.ball(5, 0.3)
    skin, triangles = np.unique(ball.triangles, return_inverse=True)
    return vv.Mesh(ball.vertices[skin], triangles.reshape(-1, 3))


def thrown(mesh, collider, velocity, gravity=WEIGHTLESS, material=NOTHING, motion=None, friction=0.3, **settings):
    """A simulation of a cloth that flies."""
    scene = vv.Scene(gravity=gravity)
    scene.add_cloth(mesh, material=material)
    if collider is not None:
        scene.add_collider(collider, friction=friction, motion=motion)
    simulation = vv.Simulation(scene, threads=1, damping=0.0, **settings)
    simulation.velocities = np.broadcast_to(np.array(velocity, float), simulation.positions.shape)
    return simulation


@pytest.mark.parametrize("solver", MATERIALS)
@pytest.mark.parametrize("speed", [20, 60])
@pytest.mark.parametrize("mesh", [sheet, balloon])
def test_cloth_thrown_at_a_thin_wall_in_one_substep_stays_on_its_side(solver, speed, mesh):
    cloth = mesh().moved((1.0, 0.05, 0.03))
    simulation = thrown(cloth, WALL, (-speed, 0, 0), material=MATERIALS[solver], solver=solver)
    for _ in simulation.run(30):
        assert simulation.positions[:, 0].min() > 0.01 - 1e-5
    assert simulation.positions[:, 0].min() < 0.3


@pytest.mark.parametrize(
    "collider", [WALL, WALL.moved(), WALL | vv.Sphere(0.1, (0.0, 5.0, 0.0)), WALL & vv.Sphere(3.0)]
)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("velocity", [(-60, 0, 0), (-20, 30, 0), (-6, 0, 55), (-0.5, 0.2, 0)])
def test_particles_that_cross_a_wall_end_on_it_where_they_came_from(collider, backend, velocity):
    cloth = vv.Mesh.grid(8, 8, (0.3, 0.3)).moved((0.4, 0.0, 0.0))
    simulation = thrown(cloth, collider, velocity, backend=backend)
    for _ in simulation.run(12):
        inside = (np.abs(simulation.positions[:, 1:]) < 1.5).all(axis=1)
        assert simulation.positions[inside, 0].min(initial=1.0) > 0.01 - 1e-5


@pytest.mark.parametrize("velocity", [(60, 40, 30), (60, 59, 0), (-20, -20, 20), (3, 2, 1)])
@pytest.mark.parametrize("made", ["cut out", "of walls"])
def test_what_is_in_a_room_of_thin_walls_stays_there_even_in_its_corners(velocity, made):
    room = vv.Box((2.04, 2.04, 2.04)) - vv.Box((2.0, 2.0, 2.0))
    if made == "of walls":
        walls = [vv.Box((0.02, 2.04, 2.04), (side, 0.0, 0.0)) for side in (-1.01, 1.01)]
        walls += [vv.Box((2.04, 0.02, 2.04), (0.0, side, 0.0)) for side in (-1.01, 1.01)]
        walls += [vv.Box((2.04, 2.04, 0.02), (0.0, 0.0, side)) for side in (-1.01, 1.01)]
        room = walls[0] | walls[1] | walls[2] | walls[3] | walls[4] | walls[5]
    cloth = balloon().moved((0.0, 0.05, 0.03))
    simulation = thrown(cloth, room, velocity, gravity=(0.0, -9.81, 0.0), material=MATERIALS["gauss-seidel"])
    for _ in simulation.run(40):
        assert np.abs(simulation.positions).max() < 1.02


def test_a_thin_collider_that_moves_fast_takes_along_what_is_in_its_way():
    simulation = thrown(sheet(), WALL, (0, 0, 0), motion=lambda t: (-1.0 + 60 * t, 0, 0))
    for _ in simulation.run(4):
        pass
    assert simulation.positions[:, 0].min() > -1.0 + 60 * simulation.time


@pytest.mark.parametrize("velocity", [(0, 0, 40), (-50, 0, 0), (-30, 10, 0)])
@pytest.mark.parametrize("mesh", [sheet, balloon])
def test_free_flight_past_a_collider_does_not_change_by_a_bit(velocity, mesh):
    cloth = mesh().moved((1.0, 0.0, 0.0))
    past = vv.Box((0.02, 1.0, 1.0), (0.0, 2.0, 0.0)) | vv.Torus(0.3, 0.01, (1.0, -1.5, 0.0))
    ends = [advance_thrown(cloth, collider, velocity, material=MATERIALS["gauss-seidel"]) for collider in (None, past)]
    np.testing.assert_array_equal(*ends)


def advance_thrown(*arguments, **settings):
    simulation = thrown(*arguments, **settings)
    for _ in simulation.run(12):
        pass
    return simulation.positions


@pytest.mark.parametrize("friction", [0.0, 0.5])
def test_particles_slide_over_a_thin_plate_as_over_a_thick_one(friction):
    """A stop at the surface must not act like glue."""
    ends = []
    for depth in (0.02, 2.0):
        plate = vv.Box((20.0, depth, 20.0), (0.0, -depth / 2, 0.0))
        cloth = vv.Mesh.grid(4, 4)
        ends.append(advance_thrown(cloth, plate, (3.0, -0.7, 0.0), (0.0, -9.81, 0.0), friction=friction))
    np.testing.assert_allclose(*ends, atol=2e-3)
    assert abs(ends[0][:, 1]).max() < 1e-5


def test_cloth_slides_over_edges_as_ever_where_nothing_is_known_of_the_thickness():
    box = vv.Box((0.6, 0.6, 0.6))
    ends = []
    for shape in (box, box - vv.Sphere(0.1, (0.0, -5.0, 0.0))):
        scene = vv.Scene()
        scene.add_cloth(vv.Mesh.grid(30, 30, (1.2, 1.2)).moved((0.3, 0.35, 0.0)))
        scene.add_collider(shape, friction=0.2, margin=0.005)
        ends.append(advance(scene, 60, damping=0.5).positions.mean(axis=0))
    np.testing.assert_allclose(*ends, atol=0.02)
    assert ends[0][1] < 0.0  # most of it hangs beside the box


def test_particles_fly_off_the_edge_of_a_thin_plate():
    plate = vv.Box((1.0, 0.02, 1.0), (0.0, -0.01, 0.0))
    simulation = thrown(vv.Mesh.grid(3, 3, (0.1, 0.1)), plate, (5.0, 0.0, 0.0), (0.0, -9.81, 0.0), friction=0.0)
    for _ in simulation.run(30):
        pass
    assert simulation.positions[:, 0].mean() == pytest.approx(2.5, rel=1e-3)
    # 0.1 s on the plate, 0.4 s in the air
    assert -simulation.positions[:, 1].mean() == pytest.approx(0.5 * 9.81 * 0.4**2, rel=0.1)


def test_a_plane_needs_no_stop_and_costs_none():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(3, 3))
    scene.add_collider(vv.Plane())
    simulation = advance(scene, 1)
    assert len(simulation._sweeps.stop_at_colliders()) == 0

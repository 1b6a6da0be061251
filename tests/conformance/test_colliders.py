"""What every collider must hold. A new one needs an example in helpers.py."""

import numpy as np
import pytest

import vivace as vv
from helpers import BACKENDS, COLLIDERS, bare_model, relaxed, rotation
from vivace.collision import colliders
from vivace.collision.shape import Difference, Intersection, Moved, Union
from vivace.constraints import stretch
from vivace.model import Surface

each_collider = pytest.mark.parametrize(
    "collider",
    [
        pytest.param(example, id=f"{name} {number}")
        for name, examples in COLLIDERS.items()
        for number, example in enumerate(examples)
    ],
)
each_backend = pytest.mark.parametrize("backend", BACKENDS)


def evaluate(collider, points):
    """Signed distance (n,) and outward normal (n, 3) in float64."""
    distance, normal = collider.distance_normal(tuple(np.asarray(points, float).T), collider.parameters())
    return distance, np.stack([np.broadcast_to(component, len(points)) for component in normal], axis=1)


def random_points(count=1000):
    return np.random.default_rng(0).uniform(-1, 1, (count, 3))


def far_inside(collider):
    """Points that have no nearest place on the surface: centers and axes."""
    points = [getattr(collider, "center", (0.0, -5.0, 0.0))]
    if isinstance(collider, vv.Capsule):
        points += [collider.start, collider.end]
    if isinstance(collider, vv.Torus):
        numbers = collider.parameters()
        points.append(np.add(collider.center, collider.radius * np.array(numbers[8:])))
    return np.array(points)


def exact_where(collider, distance):
    """Where a collider's distance is exact, and not only a bound."""
    if isinstance(collider, Moved):
        return exact_where(collider.part, distance)
    if isinstance(collider, (Intersection, Difference)):
        return distance < 0
    return distance > 0 if isinstance(collider, Union) else np.full(len(distance), True)


def test_every_collider_has_an_example():
    assert set(COLLIDERS) == set(colliders())


@each_collider
def test_normal_is_the_gradient_of_the_distance(collider):
    points = random_points()
    _, normal = evaluate(collider, points)
    step = 1e-6
    numeric = np.stack(
        [
            evaluate(collider, points + step * axis)[0] - evaluate(collider, points - step * axis)[0]
            for axis in np.eye(3)
        ],
        axis=1,
    ) / (2 * step)
    # On a ridge, where two sides are equally near, there is no gradient.
    smooth = abs(np.linalg.norm(numeric, axis=1) - 1) < 1e-4
    assert smooth.mean() > 0.95
    np.testing.assert_allclose(normal[smooth], numeric[smooth], atol=1e-4)


@each_collider
def test_normal_has_unit_length_even_where_no_way_out_is_nearest(collider):
    for points in (random_points(), far_inside(collider)):
        np.testing.assert_allclose(np.linalg.norm(evaluate(collider, points)[1], axis=1), 1, rtol=1e-6)


@each_collider
def test_going_back_by_the_distance_along_the_normal_ends_on_the_surface(collider):
    """Where the distance is exact: with joined shapes, only on one side."""
    points = random_points()
    distance, normal = evaluate(collider, points)
    assert (distance < 0).any() and (distance > 0).any()
    exact = exact_where(collider, distance)
    points, distance, normal = points[exact], distance[exact], normal[exact]
    np.testing.assert_allclose(evaluate(collider, points - distance[:, None] * normal)[0], 0, atol=1e-6)


@each_collider
def test_distance_changes_by_less_than_twice_as_much_as_a_point_goes(collider):
    """So that what is far away need not be looked at until it has gone half of the way."""
    generator = np.random.default_rng(5)
    points = random_points(3000)
    ways = generator.normal(size=points.shape) * 10 ** generator.uniform(-4, 0, (len(points), 1))
    before, after = evaluate(collider, points)[0], evaluate(collider, points + ways)[0]
    assert (np.abs(after - before) <= 2 * np.linalg.norm(ways, axis=1) + 1e-6).all()


@each_collider
def test_a_collider_is_not_passed_by_because_something_was_far_from_it(collider):
    """Bit for bit, whatever was known of where particles were: also when they are set elsewhere."""
    runs = []
    for forget in (False, True):
        scene = vv.Scene()
        scene.add_cloth(vv.Mesh.grid(6, 6, (2.0, 2.0)).moved((0.1, 1.5, 0.2)), density=0.5)
        scene.add_collider(collider, friction=0.3, margin=0.02)
        simulation = vv.Simulation(scene, iterations=2, substeps=2)
        start, seen = simulation.positions, []
        for frame in range(40):
            if frame == 30:
                simulation.positions = start - [0.2, 1.4, 0.1]
            if forget:
                for clearances in simulation._sweeps.colliders._clearances:
                    clearances[:] = 0
            simulation.step()
            seen.append(simulation.positions)
        runs.append(np.array(seen))
    np.testing.assert_array_equal(runs[0].view(np.uint32), runs[1].view(np.uint32))


@each_collider
def test_distance_stays_in_single_precision(collider):
    point, parameters = tuple(np.full(3, 0.1, np.float32)), tuple(np.float32(p) for p in collider.parameters())
    distance, normal = collider.distance_normal(point, parameters)
    assert {np.asarray(number).dtype for number in (distance, *normal)} == {np.dtype(np.float32)}


@each_collider
@each_backend
@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_free_particles_end_outside_and_pinned_ones_stay(collider, backend, margin):
    points = 0.6 * random_points(200).reshape(-1, 2, 3)
    inverse_masses = np.tile([1.0, 1.0, 0.0, 1.0], len(points) // 2)
    lengths = np.linalg.norm(points[:, 0] - points[:, 1], axis=1)
    model = bare_model(stretch, points, lengths, inverse_masses, [Surface(collider, 0.3, margin)])
    after, _ = relaxed(model, backend)
    free = inverse_masses > 0
    assert evaluate(collider, model.positions[free])[0].min() < -0.1
    assert evaluate(collider, after[free])[0].min() > margin - 1e-5
    np.testing.assert_array_equal(after[~free], model.positions[~free])


@each_collider
@each_backend
def test_particle_where_no_way_out_is_nearest_gets_out_all_the_same(collider, backend):
    points = np.stack([far_inside(collider), far_inside(collider)], axis=1)
    after, _ = relaxed(bare_model(stretch, points, np.zeros(len(points)), 1.0, [Surface(collider, 0.3, 0.0)]), backend)
    assert evaluate(collider, after)[0].min() > -1e-5


@each_collider
def test_particle_far_outside_is_left_alone(collider):
    normal = evaluate(collider, random_points(1) + 5)[1]
    away = np.stack([50 * normal, 51 * normal], axis=1)
    model = bare_model(stretch, away, [np.linalg.norm(away[0, 0] - away[0, 1])], 1.0, [Surface(collider, 0.3, 0.0)])
    after, _ = relaxed(model, "cpu")
    np.testing.assert_allclose(after, model.positions, rtol=1e-6)


def test_box_measures_to_side_edge_and_corner_and_from_inside():
    points = [[1, 0, 0], [0, -1, 0], [3.5, 4.75, 0], [1.5, 2.75, 3], [0.3, 0, 0], [0.3, -0.7, 0.2]]
    assert evaluate(vv.Box((1.0, 1.5, 2.0)), points)[0] == pytest.approx([0.5, 0.25, 5.0, 3.0, -0.2, -0.05])


def test_rounding_a_box_keeps_its_size_and_takes_its_corners():
    sharp, rounded = vv.Box((1.0, 1.0, 1.0)), vv.Box((1.0, 1.0, 1.0)).rounded(0.2)
    sides, corner = [[2, 0, 0], [0, -2, 0.1], [0.3, 0.3, 2]], [[0.5, 0.5, 0.5]]
    assert evaluate(rounded, sides)[0] == pytest.approx(evaluate(sharp, sides)[0])
    assert evaluate(rounded, corner)[0] == pytest.approx(0.2 * (np.sqrt(3) - 1))


def test_capsule_measures_to_its_segment():
    capsule = vv.Capsule((0.0, 0.0, 0.0), (2.0, 0.0, 0.0), 0.5)
    assert evaluate(capsule, [[1, 2, 0], [4, 0, 0], [-3, 4, 0], [1, 0, 0.1]])[0] == pytest.approx([1.5, 1.5, 4.5, -0.4])


def test_torus_measures_to_its_circle():
    torus = vv.Torus(1.0, 0.25)
    assert evaluate(torus, [[0, 0, 0], [1, 0, 0], [0, 0.5, -1], [3, 0, 0]])[0] == pytest.approx(
        [0.75, -0.25, 0.25, 1.75]
    )


def test_joined_shapes_are_where_their_parts_say():
    ball, box = vv.Sphere(0.5), vv.Box((1.0, 0.2, 1.0), (0.2, 0.0, 0.0))
    points = random_points()
    in_ball, in_box = (evaluate(part, points)[0] < 0 for part in (ball, box))
    np.testing.assert_array_equal(evaluate(ball | box, points)[0] < 0, in_ball | in_box)
    np.testing.assert_array_equal(evaluate(ball & box, points)[0] < 0, in_ball & in_box)
    np.testing.assert_array_equal(evaluate(ball - box, points)[0] < 0, in_ball & ~in_box)


def test_distance_of_a_joined_shape_is_never_too_long_outside():
    """So a march along it never steps over anything."""
    points, (ball, box) = random_points(), (vv.Sphere(0.5), vv.Box((1.0, 0.2, 1.0), (0.2, 0.0, 0.0)))
    inside = random_points(20000)
    for shape in (ball | box, ball & box, ball - box):
        solid = inside[evaluate(shape, inside)[0] < 0]
        nearest = np.linalg.norm(points[:, None] - solid[::4], axis=2).min(axis=1)
        assert (evaluate(shape, points)[0] <= nearest + 1e-6).all()


def test_a_moved_shape_is_the_shape_elsewhere():
    box, turn, way = vv.Box((0.8, 0.6, 0.7)).rounded(0.1), rotation(0.4, -1.0, 0.2), np.array([0.3, 0.2, -0.5])
    points = random_points()
    for moved in (box.moved(way, turn), box.moved(rotation=turn).moved(way)):
        distance, normal = evaluate(moved, points @ turn.T + way)
        np.testing.assert_allclose(distance, evaluate(box, points)[0], atol=1e-6)
        np.testing.assert_allclose(normal, evaluate(box, points)[1] @ turn.T, atol=1e-6)


def test_shapes_of_equal_structure_share_one_function():
    one, other = (vv.Sphere(r) | (vv.Box((r, r, r)) - vv.Sphere(r / 2)).moved((r, 0, 0)) for r in (0.5, 0.7))
    assert one.distance_normal is other.distance_normal
    assert one.distance_normal is not (vv.Sphere(0.5) & vv.Sphere(0.7)).distance_normal


class Hole:
    """A collider of a user, without our base class."""

    distance_normal = staticmethod(vv.Sphere.distance_normal)

    def parameters(self):
        return 0.0, 0.0, 0.0, 0.4


def test_colliders_of_ones_own_can_be_joined_with_ours():
    assert evaluate(vv.Box((1.0, 1.0, 1.0)) - Hole(), [[0, 0, 0], [0.45, 0, 0]])[0] == pytest.approx([0.4, -0.05])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vv.Box((1, 0, 1)), "Box size is .*each side must be above 0"),
        (lambda: vv.Box((1, 2)), "Box size is"),
        (lambda: vv.Box((1, 1, 1)).rounded(0.6), "Box rounding is 0.6; its thinnest side has room for 0.5"),
        (lambda: vv.Box((1, 1, 1), (0, np.nan, 0)), "Box center is"),
        (lambda: vv.Capsule((0, 0, 0), (1, 0, 0), 0.0), "Capsule radius is 0.0"),
        (lambda: vv.Capsule((0, 0, 0), (1, 0, np.inf), 1.0), "Capsule end is"),
        (lambda: vv.Torus(0.1, 0.2), "Torus thickness is 0.2; with a radius of 0.1 it has no hole"),
        (lambda: vv.Torus(1.0, 0.2, axis=(0, 0, 0)), "Torus axis has zero length"),
        (lambda: vv.Sphere(1.0) | 3, "| joins colliders; 3 is none"),
        (lambda: vv.Sphere(1.0) - vv.Box, "- joins colliders; .*Box.* is none"),
        (lambda: vv.Sphere(1.0).moved((0, 1)), "translation is"),
        (lambda: vv.Sphere(1.0).moved(rotation=2 * np.eye(3)), "rotation: .* is not a rotation: its rows are off by 3"),
        (lambda: vv.Sphere(1.0).moved(rotation=-np.eye(3)), "rotation: .* it is a reflection"),
        (lambda: vv.Sphere(1.0).moved(rotation="up"), "rotation: expected a 3x3 matrix, got 'up'"),
    ],
)
def test_bad_shapes_are_named(make, message):
    with pytest.raises(vv.InputError, match=message):
        make()


def test_sphere_measures_to_its_skin():
    assert evaluate(vv.Sphere(0.5, (1.0, 0.0, 0.0)), [[3, 0, 0], [1, 0.2, 0]])[0] == pytest.approx([1.5, -0.3])


def test_plane_measures_along_its_normal_whatever_its_length():
    assert evaluate(vv.Plane((0.0, 1.0, 0.0), (0.0, 10.0, 0.0)), [[5, 3, 5], [5, 0, 5]])[0] == pytest.approx([2, -1])


@pytest.mark.parametrize(
    ("point", "distance"),
    [
        ((1, 0, 0), 0.5),
        ((0, 0, 3), 2.0),
        ((0, 0, -3), 2.0),
        ((3.5, 0, -5), 5.0),
        ((0.3, 0, 0), -0.2),
        ((0, 0.1, 0.9), -0.1),
        ((0, 0.1, -0.9), -0.1),
    ],
)
def test_cylinder_measures_to_side_end_and_edge(point, distance):
    assert evaluate(vv.Cylinder(0.5, length=2.0), [point])[0] == pytest.approx(distance)

"""What every collider must hold. A new one needs an example in helpers.py."""

import numpy as np
import pytest

import vivace as vv
from helpers import COLLIDERS, bare_model, relaxed
from vivace.backends import backends
from vivace.collision import colliders
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
each_backend = pytest.mark.parametrize("backend", backends())


def evaluate(collider, points):
    """Signed distance (n,) and outward normal (n, 3) in float64."""
    distance, normal = collider.distance_normal(tuple(np.asarray(points, float).T), collider.parameters())
    return distance, np.stack([np.broadcast_to(component, len(points)) for component in normal], axis=1)


def random_points(count=1000):
    return np.random.default_rng(0).uniform(-1, 1, (count, 3))


def far_inside(collider):
    """Points that have no nearest place on the surface: centers and axes."""
    return np.array([getattr(collider, "center", (0.0, -5.0, 0.0))])


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
    points = random_points()
    distance, normal = evaluate(collider, points)
    assert (distance < 0).any() and (distance > 0).any()
    np.testing.assert_allclose(evaluate(collider, points - distance[:, None] * normal)[0], 0, atol=1e-6)


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
    after, _ = relaxed(bare_model(stretch, points, [0.0], 1.0, [Surface(collider, 0.3, 0.0)]), backend)
    assert evaluate(collider, after)[0].min() > -1e-5


@each_collider
def test_particle_far_outside_is_left_alone(collider):
    normal = evaluate(collider, random_points(1) + 5)[1]
    away = np.stack([50 * normal, 51 * normal], axis=1)
    model = bare_model(stretch, away, [np.linalg.norm(away[0, 0] - away[0, 1])], 1.0, [Surface(collider, 0.3, 0.0)])
    after, _ = relaxed(model, "cpu")
    np.testing.assert_allclose(after, model.positions, rtol=1e-6)


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

"""What every constraint must hold. A new file in vivace/constraints is collected by itself."""

import numpy as np
import pytest

from helpers import BACKENDS, bare_model, random_rotation, relaxed
from vivace.constraints import constraints
from vivace.kernels.project import moved, projection
from vivace.model import measure

CONSTRAINTS = constraints()
each_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)
each_backend = pytest.mark.parametrize("backend", BACKENDS)
# Those whose rest is what they measure on the mesh.
MEASURING = {name: constraint for name, constraint in CONSTRAINTS.items() if getattr(constraint, "REST_VALUES", 1) == 1}
each_measuring_constraint = pytest.mark.parametrize("constraint", MEASURING.values(), ids=MEASURING)
FREE = {name: constraint for name, constraint in CONSTRAINTS.items() if not getattr(constraint, "ANCHORED", False)}
each_free_constraint = pytest.mark.parametrize("constraint", FREE.values(), ids=FREE)


# A shape that is not flat, so that the inverse of its frame is not huge.
UPRIGHT = np.array([[0, 0, 0], [1, 0, 0], [0.2, 0.9, 0], [0.3, 0.2, 0.8]])


def random_corners(constraint, generator, count=50):
    if hasattr(constraint, "rest_shape"):  # deformed beyond all measure, a nearest shape is not the only one
        return UPRIGHT[: constraint.ARITY] + generator.uniform(-0.4, 0.4, (count, constraint.ARITY, 3))
    return generator.uniform(-1, 1, (count, constraint.ARITY, 3))


def flat_corners(constraint, generator, count=50):
    """Corners in one plane as cloth rests: an edge with a wing on either side, turned anyhow."""
    edge_and_wings = np.array([[0, 0, 0], [1, 0, 0], [0.5, 0.8, 0], [0.4, -0.7, 0]])[: constraint.ARITY]
    jitter = generator.uniform(-0.1, 0.1, (count, constraint.ARITY, 3)) * [1, 1, 0]
    return np.stack([corners @ random_rotation(generator) for corners in edge_and_wings + jitter])


SHAPES = {"random": random_corners, "flat": flat_corners}
each_shape = pytest.mark.parametrize("corners_of", SHAPES.values(), ids=SHAPES)


def random_rest(constraint, generator, count=50):
    if hasattr(constraint, "rest_shape"):
        return constraint.rest_shape(
            UPRIGHT[: constraint.ARITY] + generator.uniform(-0.2, 0.2, (count, constraint.ARITY, 3))
        )
    columns = getattr(constraint, "REST_VALUES", 1)
    rest = generator.uniform(0.1, 1, (count, columns))
    return rest[:, 0] if columns == 1 else rest


def evaluate(constraint, points, rest):
    """C and its gradient (arity, 3) in float64, in plain Python."""
    corners = tuple(tuple(np.float64(c) for c in point) for point in points)
    value, gradients, factor = constraint.value_gradient(corners, tuple(rest) if np.ndim(rest) else np.float64(rest))
    return np.float64(value) / np.float64(factor), np.array(gradients, float) / np.float64(factor)


def finite_difference(constraint, points, rest, step=1e-5):
    gradient = np.empty_like(points)
    for place in np.ndindex(points.shape):
        ahead, behind = points.copy(), points.copy()
        ahead[place] += step
        behind[place] -= step
        gradient[place] = (evaluate(constraint, ahead, rest)[0] - evaluate(constraint, behind, rest)[0]) / (2 * step)
    return gradient


def projected(constraint, points, rest, inverse_masses):
    """The corners after one full projection, in float64."""
    corners = tuple((*map(np.float64, point), np.float64(w)) for point, w in zip(points, inverse_masses))
    value, gradients, _ = constraint.value_gradient(corners, tuple(rest) if np.ndim(rest) else np.float64(rest))
    change = projection(value, gradients, corners, 1.0)
    return np.array([moved(corner, gradient, change)[:3] for corner, gradient in zip(corners, gradients)], float)


@each_constraint
@each_shape
def test_gradient_is_the_finite_difference(constraint, corners_of):
    generator = np.random.default_rng(0)
    for points, rest in zip(corners_of(constraint, generator), random_rest(constraint, generator)):
        _, gradient = evaluate(constraint, points, rest)
        np.testing.assert_allclose(
            gradient, finite_difference(constraint, points, rest), atol=1e-5 * abs(gradient).max()
        )


@each_measuring_constraint
@each_shape
def test_gradient_at_rest_is_the_finite_difference_and_not_zero(constraint, corners_of):
    generator = np.random.default_rng(1)
    for points in corners_of(constraint, generator):
        rest = measure(constraint, points[None])[0]
        _, gradient = evaluate(constraint, points, rest)
        assert (abs(gradient).max(axis=1) > 1e-6).all()
        np.testing.assert_allclose(
            gradient, finite_difference(constraint, points, rest), atol=1e-5 * abs(gradient).max()
        )


@each_measuring_constraint
@each_shape
def test_value_is_zero_at_rest(constraint, corners_of):
    points = corners_of(constraint, np.random.default_rng(2))
    np.testing.assert_allclose(measure(constraint, points, measure(constraint, points)), 0, atol=1e-12)


@each_free_constraint
@each_shape
def test_rigid_motion_keeps_the_value(constraint, corners_of):
    generator = np.random.default_rng(3)
    for points, rest in zip(corners_of(constraint, generator), random_rest(constraint, generator)):
        carried = points @ random_rotation(generator) + generator.normal(size=3)
        assert evaluate(constraint, carried, rest)[0] == pytest.approx(evaluate(constraint, points, rest)[0], abs=1e-6)


@each_free_constraint
@each_shape
def test_projection_keeps_linear_and_angular_momentum(constraint, corners_of):
    generator = np.random.default_rng(4)
    for points, rest in zip(corners_of(constraint, generator), random_rest(constraint, generator)):
        masses = generator.uniform(0.1, 10, constraint.ARITY)
        impulse = masses[:, None] * (projected(constraint, points, rest, 1 / masses) - points)
        assert abs(impulse).max() > 1e-6
        np.testing.assert_allclose(impulse.sum(axis=0), 0, atol=1e-9 * abs(impulse).max())
        np.testing.assert_allclose(np.cross(points, impulse).sum(axis=0), 0, atol=1e-9 * abs(impulse).max())


@each_measuring_constraint
@each_shape
def test_projection_takes_a_small_error_away(constraint, corners_of):
    generator = np.random.default_rng(5)
    for points in corners_of(constraint, generator):
        # Small beside what the gradient can reach, so that the projection's linear model holds.
        _, gradient = evaluate(constraint, points, 0.0)
        error = 1e-4 * abs(gradient).max()
        rest = measure(constraint, points[None])[0] - error
        after = projected(constraint, points, rest, generator.uniform(0.1, 10, constraint.ARITY))
        assert abs(evaluate(constraint, after, rest)[0]) < 0.2 * error


@each_constraint
def test_stays_in_single_precision(constraint):
    """A float64 constant would make GPU code many times slower."""
    generator = np.random.default_rng(6)
    points, rest = (
        random_corners(constraint, generator, 1)[0].astype(np.float32),
        random_rest(constraint, generator, 1)[0].astype(np.float32),
    )
    value, gradients, factor = constraint.value_gradient(
        tuple(map(tuple, points)), tuple(rest) if np.ndim(rest) else rest
    )
    assert {np.asarray(number).dtype for number in (value, factor, *sum(map(tuple, gradients), ()))} == {
        np.dtype(np.float32)
    }


@each_constraint
@each_backend
def test_backend_equals_plain_python(constraint, backend):
    generator = np.random.default_rng(7)
    points, rest = random_corners(constraint, generator, 21), random_rest(constraint, generator, 21)
    inverse_masses = generator.uniform(0, 2, points.shape[:2])
    after, _ = relaxed(bare_model(constraint, points, rest, inverse_masses.ravel()), backend)
    expected = np.concatenate([projected(constraint, *case) for case in zip(points, rest, inverse_masses)])
    assert abs(expected - points.reshape(-1, 3)).max() > 0.01
    np.testing.assert_allclose(after, expected, rtol=1e-4, atol=1e-4)


DEGENERATE = {
    "all corners equal": lambda points: np.full_like(points, 0.25),
    "along an axis": lambda points: points * [1, 0, 0] + [0, 0.25, 0.25],
    "along a slanted line": lambda points: points[..., :1] * [0.3, -0.5, 0.7],
    "two corners equal": lambda points: points[:, [0, *range(points.shape[1] - 1)]],
    "far away": lambda points: points + 1e6,
    "tiny": lambda points: points * 1e-20,
}


@each_constraint
@each_backend
@pytest.mark.parametrize("shape", DEGENERATE.values(), ids=DEGENERATE)
def test_degenerate_corners_give_finite_positions(constraint, backend, shape):
    generator = np.random.default_rng(8)
    points = shape(random_corners(constraint, generator, 11))
    after, outcome = relaxed(
        bare_model(constraint, points, random_rest(constraint, generator, 11), 1.0), backend, iterations=3
    )
    assert np.isfinite(after).all() and outcome.finite
    assert np.isfinite(outcome.residual["bare"].largest)


UNFOLDING = {name: c for name, c in FREE.items() if getattr(c, "ROWS", 1) > 1}
each_folding_constraint = pytest.mark.parametrize(
    "constraint", [c for name, c in FREE.items() if name not in UNFOLDING], ids=[n for n in FREE if n not in UNFOLDING]
)


@pytest.mark.parametrize("constraint", UNFOLDING.values(), ids=UNFOLDING)
@each_backend
def test_corners_in_one_point_unfold_again(constraint, backend):
    points = np.full((11, constraint.ARITY, 3), 0.25)
    rest = random_rest(constraint, np.random.default_rng(9), 11)
    after, outcome = relaxed(bare_model(constraint, points, rest, 1.0), backend, iterations=20)
    assert np.isfinite(after).all()
    assert outcome.residual["bare"].largest < 0.01


@each_folding_constraint
@each_backend
def test_corners_in_one_point_have_no_direction_and_stay(constraint, backend):
    points = np.full((11, constraint.ARITY, 3), 0.25)
    after, _ = relaxed(
        bare_model(constraint, points, random_rest(constraint, np.random.default_rng(9), 11), 1.0),
        backend,
        iterations=3,
    )
    np.testing.assert_array_equal(after, 0.25)


@each_constraint
@each_backend
def test_pinned_corners_stay_and_the_others_do_the_work(constraint, backend):
    generator = np.random.default_rng(10)
    points, rest = random_corners(constraint, generator, 11), random_rest(constraint, generator, 11)
    inverse_masses = np.ones((11, constraint.ARITY))
    inverse_masses[0] = 0
    inverse_masses[1:, 0] = 0
    model = bare_model(constraint, points, rest, inverse_masses.ravel())
    after, _ = relaxed(model, backend, iterations=3)
    pinned = inverse_masses.ravel() == 0
    np.testing.assert_array_equal(after[pinned], model.positions[pinned])
    assert np.isfinite(after).all()
    assert constraint.ARITY == 1 or abs(after - model.positions)[~pinned].max() > 0.01

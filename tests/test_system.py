"""The one system of Projective Dynamics: its matrix, its lists, its radius, its factor."""

import numpy as np
import pytest

import vivace as vv
from vivace.factor import factored
from vivace.solvers.vivace import Vivace
from vivace.system import make_system

PLAIN = Vivace(omega=1, extrapolation=1)


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
    folded, apart = (make_system(plan.model.groups, vertices, len(whole), for_visits) for for_visits in (True, False))
    assert folded.springs.sum() == 2 * len(plan.model.groups[0]) and folded.folded == 0
    assert apart.springs.sum() == 0 and apart.folded is None
    assert apart.projected == tuple(range(len(plan.groups)))  # a direct solve has all forces as pulls
    for system in (folded, apart):
        np.testing.assert_array_equal(system.matrix.toarray(), whole)
    np.testing.assert_allclose(written_out(folded), whole, atol=1e-6 * abs(whole).max())


def test_rows_sum_to_zero_but_for_attachments():
    _, matrix = system_of(every_kind())
    tied = np.zeros(len(matrix))
    tied[[0, 4]] = 50, 80
    np.testing.assert_allclose(matrix.sum(axis=1), tied, atol=1e-5)


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

"""Singular values of 3x3 matrices on lanes, and the nearest shapes of tets that are made of them."""

import numpy as np
import pytest
from numba import cfunc

import vivace as vv
from helpers import NOTHING, PHYSICAL, WEIGHTLESS, advance, settled
from vivace.constraints import tet_strain, tet_volume
from vivace.kernels.compile import OPTIONS, SIGNATURE, floats_at
from vivace.kernels.rows import in_blocks, load_block, store_block
from vivace.kernels.svd3 import composed, singular_values

each_physical_solver = pytest.mark.parametrize("solver", PHYSICAL)


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
@pytest.mark.parametrize("stretch", [0.5, 0.95, 1.15, 1.6])
def test_strain_between_its_bounds_costs_nothing_and_beyond_them_it_comes_back(solver, stretch):
    mesh = vv.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], tets=[[0, 1, 2, 3]])
    scene = vv.Scene(gravity=WEIGHTLESS)
    tet = scene.add_solid(mesh, density=10.0, material=NOTHING)
    rest = tet_strain.rest_shape(mesh.vertices[mesh.tets], smallest=0.9, largest=1.2)
    scene.add_constraints(tet, "tet_strain", mesh.tets, rest=rest, compliance=1e-4)
    start = mesh.vertices * np.float32([stretch, 1, 1])
    tet.set_positions(slice(None), start)
    found = advance(scene, 20, solver=solver, iterations=50, damping=20.0).positions
    values = np.linalg.svd((found[1:] - found[0]).T, compute_uv=False)
    if 0.9 < stretch < 1.2:
        np.testing.assert_allclose(found, start, atol=1e-6)
    else:
        assert abs(found - start).max() > 0.1
        assert (values > 0.9 - 2e-3).all() and (values < 1.2 + 2e-3).all()


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

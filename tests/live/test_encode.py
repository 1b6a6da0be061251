"""Positions and normals in few bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import vivace as vv
from vivace.live.encode import STEPS, quantize, vertex_normals
from vivace.live.protocol import dequantize

LARGEST = np.finfo(np.float32).max
positions_of_any_size = arrays(np.float32, st.tuples(st.integers(0, 20), st.just(3)), elements=st.floats(width=32))


def rounding(low, high):
    """What single precision may add to an error within a box."""
    return 2.0**-24 * np.maximum(abs(low), abs(high)).astype(float) + 1e-45


def normals_in_numpy(positions, triangles):
    corners = positions.astype(float)[triangles]
    weighted, sums = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), np.zeros(positions.shape)
    for corner in range(3):
        np.add.at(sums, triangles[:, corner], weighted)
    return sums / np.linalg.norm(sums, axis=1)[:, None]


@given(positions_of_any_size)
def test_places_are_half_a_step_from_the_positions_at_most(positions):
    low, high, places = quantize(positions)
    assert places.dtype == np.uint16 and places.shape == positions.shape
    assert low.dtype == high.dtype == np.float32 and np.isfinite([low, high]).all()
    finite = np.isfinite(positions)
    assert not places[~finite].any()
    half_a_step = (high.astype(float) - low) / STEPS / 2
    errors = abs(dequantize(low, high, places).astype(float) - np.where(finite, positions, low))
    assert (errors <= half_a_step * (1 + 1e-9) + rounding(low, high)).all()


@given(positions_of_any_size)
def test_box_is_that_of_the_finite_numbers(positions):
    low, high, _ = quantize(positions)
    for axis, column in enumerate(positions.T):
        finite = column[np.isfinite(column)]
        assert (low[axis], high[axis]) == ((finite.min(), finite.max()) if len(finite) else (0, 0))


def test_corners_of_the_box_are_kept_to_the_bit():
    corners = np.array([[-0.1, 0.3, -LARGEST], [7.7, 0.3, LARGEST]], np.float32)
    low, high, places = quantize(corners)
    np.testing.assert_array_equal(places, [[0, 0, 0], [STEPS, 0, STEPS]])
    np.testing.assert_array_equal(dequantize(low, high, places), corners)


@pytest.mark.parametrize("size", [1e-25, 1.0, 1e12, 1e30])
def test_normals_are_those_of_numpy_at_any_size(size):
    mesh = vv.Mesh.grid(12, 9)
    noise = np.random.default_rng(0).normal(size=mesh.vertices.shape)
    positions = ((mesh.vertices + 0.05 * noise) * size).astype(np.float32)
    normals = vertex_normals(positions, mesh.triangles)
    assert normals.dtype == np.int8
    assert abs(normals - 127 * normals_in_numpy(positions, mesh.triangles)).max() <= 0.5 + 1e-6


def test_larger_triangle_counts_for_more():
    positions = np.array([[0, 0, 0], [3, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    normals = vertex_normals(positions, np.array([[0, 1, 2], [0, 2, 3]], np.int32))
    np.testing.assert_array_equal(normals[0], np.rint(127 * np.array([1, 0, 3]) / 10**0.5))


def test_vertices_without_a_normal_have_zeros():
    positions = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [5, 5, 5], [np.nan, 0, 1], [np.inf, 1, 0]], np.float32)
    flat, broken = [0, 1, 2], [[3, 4, 1], [3, 5, 0]]
    normals = vertex_normals(positions, np.array([flat, *broken], np.int32))
    assert not normals.any()
    assert vertex_normals(positions[:0], np.zeros((0, 3), np.int32)).shape == (0, 3)


def test_two_sides_of_a_fold_leave_no_normal():
    positions = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)
    assert not vertex_normals(positions, np.array([[0, 1, 2], [0, 2, 1]], np.int32)).any()


@pytest.mark.parametrize("kernel", [quantize, vertex_normals])
def test_other_threads_of_python_run_on(kernel):
    assert kernel.targetoptions["nogil"] and not kernel.targetoptions.get("parallel")

"""Rows between memory and lanes."""

import numpy as np
import pytest
from numba import cfunc

from vivace.kernels.compile import OPTIONS, SIGNATURE, doubles_at, floats_at, ints_at
from vivace.kernels.rows import (
    add_rows,
    gather,
    gather_rows,
    in_blocks,
    load_block,
    load_numbers,
    load_pair,
    load_rows,
    prefetch_block,
    prefetch_row,
    scatter_add,
    scatter_rows,
    store_block,
    store_pair,
    store_rows,
    weight_of_pair,
)
from vivace.state import aligned


@cfunc(SIGNATURE, **OPTIONS)
def tie_corners(addresses, first, last):
    """Both corners of each pair go to the pair's sum."""
    rows, pairs = floats_at(addresses[0]), ints_at(addresses[1])
    for block in range(first, last):
        one, other = gather(rows, pairs, block, 2)
        added = one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]
        scatter_rows(rows, pairs, 16 * block, 2, added)
        scatter_rows(rows, pairs, 16 * block + 1, 2, added)


@cfunc(SIGNATURE, **OPTIONS)
def add_up(addresses, first, last):
    """Rows are added to the rows that are named, and then to themselves."""
    rows, order, sums = doubles_at(addresses[0]), ints_at(addresses[1]), doubles_at(addresses[2])
    for block in range(first, last):
        prefetch_block(rows, block + 1, 4, 1)
        prefetch_block(rows, block + 9, 4, 2)  # beyond the end, which is no read
        prefetch_row(sums, order[8 * block])
        row = load_rows(rows, block)
        scatter_add(sums, order, 8 * block, 1, row)
        add_rows(sums, block, row)


@cfunc(SIGNATURE, **OPTIONS)
def shuffle_columns(addresses, first, last):
    rows, order, results = floats_at(addresses[0]), ints_at(addresses[1]), floats_at(addresses[2])
    for block in range(first, last):
        x, y, z, w = load_rows(rows, block)
        store_rows(rows, block, (w, x, y, z))
    x, y, z, w = gather_rows(rows, order, 1, 3)
    store_block(results, 0, x)


@cfunc(SIGNATURE, **OPTIONS)
def weigh(addresses, first, last):
    rows, numbers, results = floats_at(addresses[0]), floats_at(addresses[1]), floats_at(addresses[2])
    a, b, c = load_numbers(numbers, 0, 3)
    for pair in range(first, last):
        here = load_pair(rows, pair)
        store_pair(results, pair, weight_of_pair(here) * a + here * b + c)


@cfunc(SIGNATURE, **OPTIONS)
def subtract_columns(addresses, first, last):
    values, results = floats_at(addresses[0]), floats_at(addresses[1])
    for block in range(first, last):
        one, two, three = load_block(values, block, 3)
        store_block(results, block, one - two * three)


def call(kernel, *arrays, last):
    addresses = np.array([array.ctypes.data for array in arrays], np.int64)
    kernel.ctypes(addresses.ctypes.data_as(kernel.ctypes.argtypes[0]), 0, last)


@pytest.fixture
def rows():
    memory = aligned((64, 4))
    memory[:] = np.random.default_rng(0).normal(size=(64, 4))
    return memory


def test_a_row_that_is_named_twice_is_added_to_twice():
    rng = np.random.default_rng(1)
    rows, sums = aligned((32, 4), np.float64), aligned((32, 4), np.float64)
    rows[:] = rng.integers(-99, 99, rows.shape)
    order = rng.integers(0, 32, 32, dtype=np.int32)
    order[:8] = 5
    call(add_up, rows, order, sums, last=4)
    expected = rows.copy()
    np.add.at(expected, order, rows)
    np.testing.assert_array_equal(sums, expected)


def test_gather_and_scatter_reach_the_rows_that_are_named(rows):
    pairs = np.random.default_rng(1).permutation(64)[:32].astype(np.int32).reshape(16, 2)
    expected = rows.copy()
    expected[pairs] = (rows[pairs[:, 0]] + rows[pairs[:, 1]])[:, None]
    call(tie_corners, rows, pairs, last=2)
    np.testing.assert_array_equal(rows, expected)


def test_blocks_of_rows_are_transposed_and_back(rows):
    order = np.random.default_rng(2).integers(0, 64, 30).astype(np.int32)
    results, before = np.zeros(8, np.float32), rows.copy()
    call(shuffle_columns, rows, order, results, last=8)
    np.testing.assert_array_equal(rows, np.roll(before, 1, axis=1))
    np.testing.assert_array_equal(results, rows[order[1:25:3], 0])


def test_weight_of_each_row_of_a_pair_stands_in_all_its_places(rows):
    results = aligned((64, 4))
    call(weigh, rows, np.array([2, 3, 4], np.float32), results, last=32)
    np.testing.assert_allclose(results, 2 * rows[:, 3:] + 3 * rows + 4, rtol=1e-6, atol=1e-6)


def test_columns_in_blocks_are_read_as_lanes():
    values, results = np.random.default_rng(3).normal(size=(24, 3)).astype(np.float32), np.zeros(24, np.float32)
    call(subtract_columns, in_blocks(values), results, last=3)
    np.testing.assert_allclose(results, values[:, 0] - values[:, 1] * values[:, 2], rtol=1e-6, atol=1e-6)

"""Eight values that behave like one number: each operation on lanes equals NumPy on an array of eight."""

import re

import numpy as np
import pytest
from numba import cfunc

from helpers import fresh_python
from vivace.constraints import constraints
from vivace.kernels import lanes, vec3
from vivace.kernels.compile import OPTIONS, SIGNATURE, floats_at
from vivace.kernels.lanes import (
    absolute,
    first_lanes,
    largest_lane,
    maximum,
    minimum,
    multiply_add,
    select,
    spread,
    sqrt,
    sum_of_lanes,
)
from vivace.kernels.rows import load_block, store_block

SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, np.finfo(np.float32).max, 1e-38, -1], np.float32)
ORDINARY_A = np.array([0.5, -1.25, 3, -4, 0.1, 7, -0.3, 2], np.float32)
ORDINARY_B = np.array([2, -1.25, 0.7, 5, -0.1, 6.5, 0.3, -2], np.float32)
TWO, ZERO, ONE = np.float32(2), np.float32(0), np.float32(1)


def every_operation(a, b):
    """Each operation that a value function may use; runs on lanes and on NumPy arrays alike."""
    return (
        a + b,
        a - b,
        a * b,
        a / b,
        -a,
        a + TWO,
        TWO - a,
        a * TWO,
        ONE / b,
        select(a < b, ONE, ZERO),
        select(a <= b, ONE, ZERO),
        select(a > b, ONE, ZERO),
        select(a >= b, ONE, ZERO),
        select((a > ZERO) & (b > ZERO), a, b),
        select(a < TWO, a, TWO),
        sqrt(a),
        absolute(a),
        minimum(a, b),
        maximum(a, b),
    )


on_lanes = lanes.value_function(every_operation)


@cfunc(SIGNATURE, **OPTIONS)
def operate(addresses, first, last):
    a, b, results = floats_at(addresses[0]), floats_at(addresses[1]), floats_at(addresses[2])
    made = on_lanes(load_block(a, 0, 1), load_block(b, 0, 1))
    for operation in range(len(made)):
        store_block(results, operation, made[operation])


@cfunc(SIGNATURE, **OPTIONS)
def reduce(addresses, first, last):
    values, results = floats_at(addresses[0]), floats_at(addresses[1])
    a = load_block(values, 0, 1)
    results[0], results[1] = sum_of_lanes(a), largest_lane(a)
    for count in range(9):
        results[2 + count] = sum_of_lanes(select(first_lanes(np.float32(count)), spread(ONE), ZERO))


@cfunc(SIGNATURE, **OPTIONS)
def angles(addresses, first, last):
    y, x, results = floats_at(addresses[0]), floats_at(addresses[1]), floats_at(addresses[2])
    for block in range(first, last):
        store_block(results, block, lanes.atan2(load_block(y, block, 1), load_block(x, block, 1)))


@cfunc(SIGNATURE, **OPTIONS)
def fused(addresses, first, last):
    a, b, results = floats_at(addresses[0]), floats_at(addresses[1]), floats_at(addresses[2])
    store_block(results, 0, multiply_add(load_block(a, 0, 1), load_block(b, 0, 1), ONE))
    store_block(results, 1, multiply_add(TWO, load_block(a, 0, 1), load_block(b, 0, 1)))


def call(kernel, *arrays, last=1):
    addresses = np.array([array.ctypes.data for array in arrays], np.int64)
    kernel.ctypes(addresses.ctypes.data_as(kernel.ctypes.argtypes[0]), 0, last)


OPERANDS = {
    "ordinary": (ORDINARY_A, ORDINARY_B),
    "ordinary, swapped": (ORDINARY_B, ORDINARY_A),
    "special first": (SPECIAL, ORDINARY_A),
    "special second": (ORDINARY_A, SPECIAL),
    "special both": (SPECIAL, SPECIAL[::-1].copy()),
}


@pytest.mark.parametrize(("a", "b"), OPERANDS.values(), ids=OPERANDS)
def test_operations_on_lanes_are_numpys(a, b):
    with np.errstate(all="ignore"):
        expected = np.stack(every_operation(a, b))
    results = np.zeros_like(expected)
    call(operate, a, b, results)
    for operation, (result, wanted) in enumerate(zip(results, expected)):
        np.testing.assert_allclose(result, wanted, rtol=1e-7, err_msg=f"entry {operation} of every_operation")


def test_reductions_take_in_all_lanes():
    results = np.zeros(11, np.float32)
    call(reduce, ORDINARY_A, results)
    assert results[0] == pytest.approx(ORDINARY_A.sum(), rel=1e-6) and results[1] == 7
    np.testing.assert_array_equal(results[2:], np.arange(9))


def test_multiply_add_takes_numbers_and_lanes():
    results = np.zeros((2, 8), np.float32)
    call(fused, ORDINARY_A, ORDINARY_B, results)
    np.testing.assert_allclose(
        results, [ORDINARY_A * ORDINARY_B + 1, 2 * ORDINARY_A + ORDINARY_B], rtol=1e-6, atol=1e-6
    )


def test_atan2_is_right_all_around_in_plain_python_and_on_lanes():
    angle = np.linspace(-np.pi, np.pi, 80001)[1:].astype(np.float32)
    radius = np.exp(np.random.default_rng(0).uniform(-20, 20, len(angle))).astype(np.float32)
    y, x = radius * np.sin(angle), radius * np.cos(angle)
    exact = np.arctan2(y.astype(float), x.astype(float))
    compiled = np.zeros_like(y)
    call(angles, y, x, compiled, last=len(y) // 8)
    assert abs(lanes.atan2(y, x) - exact).max() < 4e-7
    assert abs(compiled - exact).max() < 4e-7


def test_atan2_of_nothing_is_zero():
    assert lanes.atan2(np.float32(0), np.float32(0)) == 0


def test_vectors_take_rows_of_four_and_ignore_the_weight():
    a, b = np.random.default_rng(0).normal(size=(2, 4))
    np.testing.assert_allclose(vec3.cross(a, b), np.cross(a[:3], b[:3]))
    np.testing.assert_allclose(vec3.add(a, b), (a + b)[:3])
    np.testing.assert_allclose(vec3.sub(a, b), (a - b)[:3])
    np.testing.assert_allclose(vec3.scale(2.0, a), 2 * a[:3])
    assert vec3.dot(a, b) == pytest.approx(a[:3] @ b[:3]) and vec3.norm(a) == pytest.approx(np.linalg.norm(a[:3]))


@pytest.fixture(scope="module")
def projection_code(tmp_path_factory):
    """The LLVM code of every constraint's sweep, compiled afresh."""
    code = """
from vivace.constraints import constraints
from vivace.kernels.project import project_kernel
for name, constraint in constraints().items():
    print("=====", name, project_kernel(constraint).inspect_llvm(), sep="\\n")
"""
    listing = fresh_python(code, NUMBA_CACHE_DIR=str(tmp_path_factory.mktemp("cache")))
    return dict(part.split("\n", 1) for part in listing.split("=====\n")[1:])


@pytest.mark.parametrize("constraint", constraints())
def test_tuples_leave_no_trace_in_the_machine_code(projection_code, constraint):
    """One straight block of vector code per eight constraints: no call and no stack traffic for tuples."""
    functions = re.findall(r"^define .*?^}", projection_code[constraint], re.DOTALL | re.MULTILINE)
    body = next(function for function in functions if re.match(r"define .*@(?!cfunc).*project_blocks", function))
    assert "<8 x float>" in body
    assert "alloca" not in body and not re.search(r"call (?!.*@llvm\.)", body)


@pytest.mark.parametrize("constraint", constraints())
def test_machine_code_stays_in_single_precision(projection_code, constraint):
    assert "double" not in projection_code[constraint]

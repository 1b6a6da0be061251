"""Sweeps that call MPI: here functions of our own stand in for it."""

import ctypes

import numpy as np
import pytest

from vivace.kernels.compile import call_kernel, compiled
from vivace.kernels.region import addresses_of
from vivace.kernels.talk import finish_kernel, gather_kernel, start_kernel

WORD = ctypes.c_int64


@compiled
def call(address, listed, first, last):
    call_kernel(address, listed, first, last)


def run(kernel, *arguments, items=(0, 1)):
    listed = np.array(addresses_of(arguments))
    call(kernel.address, listed.ctypes.data, *items)


def stand_in(count, answer=0):
    """A C function of so many arguments, its address, and what it is called with."""
    calls = []
    function = ctypes.CFUNCTYPE(ctypes.c_int, *[WORD] * count)(lambda *found: (calls.append(found), answer)[1])
    return function, ctypes.cast(function, ctypes.c_void_p).value, calls


@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_rows_are_copied_before_they_are_sent_and_after_they_have_come(number):
    table, words = np.arange(40, dtype=number).reshape(10, 4), number().nbytes // 2
    rows, sent, failure, requests = np.array([7, 2], np.int32), np.zeros((2, 4), number), np.zeros(1, np.int32), 1234
    start, address, calls = stand_in(2)
    run(start_kernel(), failure, table, words, rows, 2, sent, address, requests, 3)
    np.testing.assert_array_equal(sent, table[[7, 2]])
    assert calls == [(3, requests)] and failure[0] == 0

    finish, address, calls = stand_in(3)
    run(finish_kernel(), failure, table, words, rows, 2, -sent, address, requests, 3, 99)
    assert calls == [(3, requests, 99)]
    np.testing.assert_array_equal(table[[7, 2]], -sent)
    assert table[3, 0] == 12  # and no other row


def test_sums_of_blocks_elsewhere_are_zeros_when_all_come_together():
    partial, failure = np.ones((3, 4)), np.zeros(1, np.int32)
    function, address, calls = stand_in(6)
    run(gather_kernel(), failure, partial, 2, 4, np.array([1, 3], np.int32), 2, address, -1, 5, 6, 7)
    assert calls == [(-1, partial.ctypes.data, 8, 5, 6, 7)]
    np.testing.assert_array_equal(partial, [[1, 0, 1, 0], [1, 0, 1, 0], [1, 1, 1, 1]])


def test_after_a_failure_nobody_talks_and_its_code_stays():
    failure, nothing = np.zeros(1, np.int32), np.zeros((0, 4))
    rows = np.zeros(0, np.int32)
    bad, bad_address, bad_calls = stand_in(2, answer=17)
    good, good_address, good_calls = stand_in(3)
    run(start_kernel(), failure, nothing, 4, rows, 0, nothing, bad_address, 0, 1)
    run(finish_kernel(), failure, nothing, 4, rows, 0, nothing, good_address, 0, 1, 0)
    run(start_kernel(), failure, nothing, 4, rows, 0, nothing, bad_address, 0, 1)
    assert failure[0] == 17 and len(bad_calls) == 1 and not good_calls


def test_a_thread_without_the_item_says_nothing():
    failure, nothing, rows = np.zeros(1, np.int32), np.zeros((0, 4)), np.zeros(0, np.int32)
    function, address, calls = stand_in(2)
    run(start_kernel(), failure, nothing, 4, rows, 0, nothing, address, 0, 1, items=(0, 0))
    assert not calls

"""The parallel region: every item of every sweep is visited once, and no sweep begins before the last one is done."""

import numpy as np
import pytest
from numba import cfunc

from vivace.kernels import region
from vivace.kernels.compile import OPTIONS, SIGNATURE, ints_at

each_thread_count = pytest.mark.parametrize("threads", [1, 2, 3, 4, 7])


@cfunc(SIGNATURE, **OPTIONS)
def count_visits(addresses, first, last):
    visits = ints_at(addresses[0])
    for item in range(first, last):
        visits[item] += 1


@cfunc(SIGNATURE, **OPTIONS)
def add_neighbors(addresses, first, last):
    """The sums of three neighbors around the ring: wrong wherever a neighbor is not yet written."""
    source, target, size = ints_at(addresses[0]), ints_at(addresses[1]), addresses[2]
    for item in range(first, last):
        target[item] = (source[(item + size - 1) % size] + source[item] + source[(item + 1) % size]) % 1009


def sweep(kernel, first, last, *arguments, stage=0):
    addresses = [argument.ctypes.data if isinstance(argument, np.ndarray) else argument for argument in arguments]
    return kernel.address, first, last, stage, addresses + [0] * (region.ARGUMENTS - len(addresses))


@pytest.mark.parametrize("threads", range(1, 9))
@pytest.mark.parametrize(("first", "last"), [(0, 0), (0, 1), (3, 10), (0, 1000)])
def test_shares_of_the_threads_are_the_whole_range_in_order(threads, first, last):
    shares = [region.share(first, last, thread, threads) for thread in range(threads)]
    assert [item for begin, end in shares for item in range(begin, end)] == list(range(first, last))
    sizes = [end - begin for begin, end in shares]
    assert max(sizes) - min(sizes) <= 1


@each_thread_count
def test_every_item_is_visited_as_often_as_it_is_scheduled(threads):
    visits = np.zeros(100, np.int32)
    table = np.array([sweep(count_visits, 0, 100, visits), sweep(count_visits, 90, 93, visits)], region.SWEEP)
    region.run(table, np.array([0, 1, 1, 0]), 1, threads)
    np.testing.assert_array_equal(visits, [4 if 90 <= item < 93 else 2 for item in range(100)])


@each_thread_count
def test_sweep_sees_all_that_the_one_before_has_written(threads):
    size, rounds = 97, 200
    here, there = np.arange(size, dtype=np.int32), np.zeros(size, np.int32)
    expected = here.copy()
    for _ in range(2 * rounds):
        expected = (np.roll(expected, 1) + expected + np.roll(expected, -1)) % 1009
    table = np.array(
        [sweep(add_neighbors, 0, size, here, there, size), sweep(add_neighbors, 0, size, there, here, size)],
        region.SWEEP,
    )
    region.run(table, np.tile([0, 1], rounds), 1, threads)
    np.testing.assert_array_equal(here, expected)


@each_thread_count
def test_time_is_booked_to_the_stages_that_ran(threads):
    visits = np.zeros(1000, np.int32)
    table = np.array([sweep(count_visits, 0, 1000, visits, stage=2)], region.SWEEP)
    ticks, _ = region.run(table, np.zeros(100, np.int64), 3, threads)
    assert ticks[2] > 0 and ticks[0] == ticks[1] == 0

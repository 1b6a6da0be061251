"""The parallel region: every item of every sweep is visited once, and no sweep begins before the last one is done."""

import numpy as np
import pytest
from numba import cfunc

from vivace.kernels import region
from vivace.kernels.barrier import count_up, counted
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


@cfunc(SIGNATURE, **OPTIONS)
def wait_for_another(addresses, first, last):
    """The item 0 is done when another one of its share is, which another thread has to take: for ten seconds or so."""
    done, waited_for = addresses[0], addresses[1]
    for item in range(first, last):
        looks = 0
        while item == 0 and counted(done + 8 * waited_for) == 0 and looks < 10_000_000_000:
            looks += 1
        if looks < 10_000_000_000:
            count_up(done + 8 * item)


@cfunc(SIGNATURE, **OPTIONS)
def watch_the_last(addresses, first, last):
    """The item 0 waits until another one of its share is done by another thread, and then looks for the last one."""
    done, waited_for, latest, seen = addresses[0], addresses[1], addresses[2], ints_at(addresses[3])
    for item in range(first, last):
        looks = 0
        while item == 0 and counted(done + 8 * waited_for) == 0 and looks < 10_000_000_000:
            looks += 1
        for _ in range(10_000_000 if item == 0 else 0):
            seen[0] = max(seen[0], counted(done + 8 * latest))
        count_up(done + 8 * item)


def sweep(kernel, first, last, *arguments, stage=0, least=1, grain=1):
    addresses = [argument.ctypes.data if isinstance(argument, np.ndarray) else argument for argument in arguments]
    return kernel.address, first, last, stage, least, grain, addresses + [0] * (region.ARGUMENTS - len(addresses))


@pytest.mark.parametrize("threads", range(1, 9))
@pytest.mark.parametrize(("first", "last"), [(0, 0), (0, 1), (3, 10), (0, 1000)])
def test_shares_of_the_threads_are_the_whole_range_in_order(threads, first, last):
    shares = [region.share(first, last, thread, threads) for thread in range(threads)]
    assert [item for begin, end in shares for item in range(begin, end)] == list(range(first, last))
    sizes = [end - begin for begin, end in shares]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("threads", range(1, 9))
@pytest.mark.parametrize(("first", "last", "grain"), [(0, 0, 3), (2, 3, 8), (3, 100, 8), (0, 1251, 64)])
def test_shares_are_whole_grains_and_nobody_has_two_grains_more_than_another(threads, first, last, grain):
    shares = [region.share(first, last, thread, threads, grain) for thread in range(threads)]
    assert [item for begin, end in shares for item in range(begin, end)] == list(range(first, last))
    assert all((begin - first) % grain == 0 for begin, end in shares if begin < end)
    grains = [-(-(end - begin) // grain) for begin, end in shares]
    assert max(grains) - min(grains) <= 1


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 64, 1000, 4097])
@pytest.mark.parametrize("least", [1, 3, 64])
def test_portions_of_a_share_are_the_whole_share_in_order(size, least):
    count = region.portion_count(size, least)
    portions = [region.portion(5, 5 + size, number, count) for number in range(count)]
    assert [item for begin, end in portions for item in range(begin, end)] == list(range(5, 5 + size))
    assert count == 1 or all(end - begin >= least for begin, end in portions)
    assert count == (region.MOST_PORTIONS if size > 64 * least else 1 if size < 2 * least else count)


def test_who_is_done_takes_portions_of_who_is_not():
    if region.core_count() < 2 or not region.runs_threads_together(2):
        pytest.skip("two threads cannot run at once here")
    size = 64
    first, end = region.share(0, size, 0, 2)
    portions = region.portion_count(end - first, 1)
    latest, _ = region.portion(first, end, portions - 2, portions)  # the last portion is left to its owner
    done = np.zeros(size, np.int64)
    region.run(np.array([sweep(wait_for_another, 0, size, done, latest)], region.SWEEP), np.array([0]), 1, 2)
    np.testing.assert_array_equal(done, 1)


def test_the_last_portion_is_left_to_who_has_the_share():
    if region.core_count() < 2 or not region.runs_threads_together(2):
        pytest.skip("two threads cannot run at once here")
    first, end = region.share(0, 64, 0, 2)
    portions = region.portion_count(end - first, 1)
    latest, last = (region.portion(first, end, number, portions)[0] for number in (portions - 2, portions - 1))
    done, seen = np.zeros(64, np.int64), np.zeros(1, np.int32)
    table = np.array([sweep(watch_the_last, 0, 64, done, latest, last, seen)], region.SWEEP)
    region.run(table, np.array([0]), 1, 2)
    assert seen[0] == 0
    np.testing.assert_array_equal(done, 1)


@pytest.mark.parametrize(("least", "grain"), [(1, 1), (3, 1), (64, 1), (1, 16), (3, 200)])
@each_thread_count
def test_every_item_is_visited_as_often_as_it_is_scheduled(threads, least, grain):
    visits = np.zeros(100, np.int32)
    items = [sweep(count_visits, *range_, visits, least=least, grain=grain) for range_ in [(0, 100), (90, 93)]]
    table = np.array(items, region.SWEEP)
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

"""One parallel region that runs through a schedule of sweeps, with a barrier after each.

A sweep is a row of a table: the address of its kernel, its items, and the addresses of its arrays. So the region is
compiled once, whatever a scene is made of, and a new kind of sweep compiles only its own kernel.

Each thread has a share of the items, and takes it in portions. Who is done waits for a moment, then takes those of
others: a core that is slower, or busy with something else, does not keep them waiting for long (docs/decisions/0020).
"""

import os
import platform
import threading
import time
from contextlib import contextmanager, nullcontext
from functools import cache

import numba
import numpy as np
from llvmlite import ir
from numba import config, njit, prange, types
from numba.extending import intrinsic

from ..errors import SimulationError
from . import barrier
from .compile import call_kernel, compiled, compiled_parallel, source_digest

ARGUMENTS = 21
SWEEP = np.dtype(
    [
        ("kernel", np.int64),
        ("first", np.int64),
        ("last", np.int64),
        ("stage", np.int64),
        ("least", np.int64),
        ("grain", np.int64),
        ("addresses", np.int64, ARGUMENTS),
    ]
)
LEAST_PORTION = 64  # items: fewer are not worth it, where an item is eight constraints or particles, or less
ONE_THREAD = 1 << 40  # the same for what one thread does while the others have to wait, however long it takes
MOST_PORTIONS, HELPED = 6, 7  # of a share; others that a thread helps at most when it has done its own
WORDS = 8  # of eight bytes in a cache line, so that threads do not disturb each other
DONE = 8  # bytes from the count of a share's portions to where its owner counts that it has none left
ADDRESSES_OFFSET = SWEEP.fields["addresses"][1]
WINDOWS = platform.system() == "Windows"
CLOCK = "QueryPerformanceCounter" if WINDOWS else "clock_gettime"
CLOCK_NUMBER = getattr(time, "CLOCK_MONOTONIC", 0)

TICKS_OF_FIRST_WORD = 1 if WINDOWS else 1_000_000_000

PATIENCE = 300_000_000  # ticks
# Ticks, 10 us, before a thread helps: what it takes over comes from another core's cache, and most are done soon.
HESITATION = 100 if WINDOWS else 10_000

# The barrier needs all its threads running at once, which TBB does not promise.
config.THREADING_LAYER_PRIORITY = ["omp", "workqueue", "tbb"]
if os.environ.get("OMP_DYNAMIC", "").lower() == "true":
    os.environ["OMP_DYNAMIC"] = "false"  # nor does OpenMP, if it may change its mind between two regions
# The workqueue layer ends the process when two threads of a program use it at once.
one_at_a_time = threading.RLock()
_together: set[int] = set()


@intrinsic
def _read_clock(typing_context, address):
    def generate(context, builder, signature, args):
        words = ir.IntType(64).as_pointer()
        arguments = [builder.inttoptr(args[0], words)]
        if not WINDOWS:
            arguments.insert(0, ir.Constant(ir.IntType(32), CLOCK_NUMBER))
        function = ir.FunctionType(ir.IntType(32), [argument.type for argument in arguments])
        callee = builder.module.globals.get(CLOCK) or ir.Function(builder.module, function, CLOCK)
        builder.call(callee, arguments)
        return context.get_dummy_value()

    return types.none(types.int64), generate


@njit
def clock_ticks(clock):
    """The monotonic clock now; `clock` is scratch memory of two words."""
    _read_clock(clock.ctypes.data)
    return clock[0] * TICKS_OF_FIRST_WORD + clock[1]


@njit
def share(first, last, thread, threads, grain=1):
    """The part of a range that falls to one thread: whole grains of so many items, but for the last one."""
    size = last - first
    if grain == 1:  # most are, and a division costs
        return first + size * thread // threads, first + size * (thread + 1) // threads
    grains = (size + grain - 1) // grain
    begin, end = grains * thread // threads, grains * (thread + 1) // threads
    return min(first + grain * begin, last), min(first + grain * end, last)


@njit
def portion_count(size, least):
    """The portions of a share: a half, a quarter, and so on, the last as large as the one before it."""
    portions = 1
    while portions < MOST_PORTIONS and size >> portions >= least:
        portions += 1
    return portions


@njit
def portion(first, last, number, portions):
    size = last - first
    end = last if number == portions - 1 else last - (size >> number + 1)
    return last - (size >> number), end


@cache
def _compiled_region(keeps_lock):
    """`keeps_lock`: no other thread of Python runs meanwhile, as none has to; else all may."""
    digest = source_digest(barrier.wait.py_func, share.py_func)

    def run_region(table, schedule, ticks, clocks, counter, contended, taken, threads, team):
        _ = digest  # part of the cache key
        rows, size, helped = table.ctypes.data, table.itemsize, min(HELPED, threads - 1)
        for thread in prange(threads):
            stage, since, long_waits, turn, clock = np.int64(-1), np.int64(0), 0, 0, clocks[thread]
            for entry in range(len(schedule)):
                sweep = table[schedule[entry]]
                # The first thread books the time of a stage whenever the next one begins; a read costs 20 ns.
                if thread == 0 and sweep.stage != stage:
                    now = clock_ticks(clock)
                    if stage >= 0:
                        ticks[stage] += now - since
                    stage, since = sweep.stage, now
                addresses = rows + schedule[entry] * size + ADDRESSES_OFFSET
                if helped == 0 or sweep.last - sweep.first < 2 * sweep.least * threads:
                    first, last = share(sweep.first, sweep.last, thread, threads, sweep.grain)
                    call_kernel(sweep.kernel, addresses, first, last)
                else:
                    turn, until = 1 - turn, np.int64(0)
                    taken[1 - turn, thread] = 0  # nobody takes from those of the sweep before any more
                    for other in range(1 + helped):
                        owner = (thread + other * threads // (1 + helped)) % threads
                        first, last = share(sweep.first, sweep.last, owner, threads, sweep.grain)
                        portions, place = portion_count(last - first, sweep.least), taken[turn, owner].ctypes.data
                        if other == 1:
                            barrier.count_up(taken[turn, thread].ctypes.data + DONE)
                            until = clock_ticks(clock) + (HESITATION if team > 1 else 0)
                        if other > 0:
                            while barrier.counted(place + DONE) == 0 and clock_ticks(clock) < until:
                                barrier.pause()
                        # Who comes to a small last one needs no help.
                        offered = portions - 1 if other > 0 and portions > 2 else portions
                        while barrier.counted(place) < offered:
                            number = barrier.count_up(place)
                            if number < portions:
                                begin, end = portion(first, last, number, portions)
                                call_kernel(sweep.kernel, addresses, begin, end)
                waited = barrier.wait(counter, team)
                if sweep.least < ONE_THREAD:
                    long_waits += waited
            if thread == 0 and stage >= 0:
                ticks[stage] += clock_ticks(clock) - since
            contended[thread] = long_waits

    return compiled_parallel(run_region, nogil=not keeps_lock), compiled(run_region, nogil=not keeps_lock)


def addresses_of(arguments):
    """As a kernel takes them: of arrays; whole numbers as they are."""
    return [a.ctypes.data if isinstance(a, np.ndarray) else int(a) for a in arguments]


def core_count() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_workqueue() -> bool:
    try:
        return numba.threading_layer() == "workqueue"
    except ValueError:  # no region has run yet, so the layer is not known: take no risk
        return True


@contextmanager
def threads_set(threads):
    """Let Numba use so many threads; the rest of the program has its own wishes, and gets them back."""
    if Forked.forked:
        raise SimulationError("this process was forked after a simulation had run; start processes by 'spawn'")
    Forked.used = True
    with one_at_a_time if _is_workqueue() else nullcontext():
        before = numba.get_num_threads()
        numba.set_num_threads(min(threads, most_threads()))
        try:
            yield
        finally:
            numba.set_num_threads(before)


def run_together(function, *arguments):
    """`function(*arguments, counter, threads)`: one compiled `prange(threads)` whose threads wait for each other.

    As many threads as there are cores; one, where they cannot run at once.
    """
    threads = min(core_count(), most_threads())
    threads = threads if runs_threads_together(threads) else 1
    with threads_set(threads):
        return function(*arguments, np.zeros(8, np.int64), threads)


def most_threads() -> int:
    """The number of threads that can run at once in one region."""
    return config.NUMBA_NUM_THREADS


def run(table, schedule, stages, threads, keeps_lock=True):
    """Run the sweeps of `table` in the order of `schedule` on `threads` threads.

    Returns the ticks of each stage, and the number of barriers at which a thread had to give its core away.
    """
    (region, one_thread), ticks = _compiled_region(keeps_lock), np.zeros(stages, np.int64)
    counter, contended = np.zeros(8, np.int64), np.zeros(threads, np.int64)
    clocks, taken = np.zeros((threads, WORDS), np.int64), np.zeros((2, threads, WORDS), np.int64)
    if threads == 1:  # no threads to start and to wait for
        one_thread(table, schedule, ticks, clocks, counter, contended, taken, 1, 1)
        return ticks, 0
    # Not one thread more than are used: an idle one must still be scheduled at the end.
    with threads_set(threads):
        if threads <= most_threads() and runs_threads_together(threads):
            region(table, schedule, ticks, clocks, counter, contended, taken, threads, threads)
        else:
            # Threads that may run one after the other cannot wait for each other: a region for each sweep instead.
            for entry in range(len(schedule)):
                taken[:] = 0
                region(table, schedule[entry : entry + 1], ticks, clocks, counter, contended, taken, threads, 1)
    return ticks, int(contended.max())


def runs_threads_together(threads) -> bool:
    """Whether so many threads may wait for each other: tried out, since OpenMP may give fewer than asked."""
    if threads in _together:
        return True
    with threads_set(threads):
        _compiled_region(True)[0](
            np.zeros(1, SWEEP), *(np.zeros(n, np.int64) for n in (0, 1, (1, WORDS), 8, 1, (2, 1, WORDS))), 1, 1
        )  # starts them
        if numba.threading_layer() == "tbb":
            return False
        met = np.zeros(threads, np.int64)
        _compiled_meeting()(np.zeros(8, np.int64), met, np.zeros((threads, 8), np.int64), threads)
        if met.all():
            _together.add(threads)  # a trial that failed may have met a busy moment, and is made again
        return bool(met.all())


@cache
def _compiled_meeting():
    digest = source_digest(barrier.wait.py_func, clock_ticks.py_func)

    @compiled_parallel
    def meet(counter, met, clocks, threads):
        _ = digest  # part of the cache key
        # Each thread counts itself in and waits for the others, but not for ever.
        for thread in prange(threads):
            begin = clock_ticks(clocks[thread])
            barrier.arrive(counter)
            while not met[thread] and clock_ticks(clocks[thread]) - begin < PATIENCE:
                met[thread] = barrier.count(counter) == threads
                barrier.give_way()

    return meet


def threading_layer() -> str:
    """What runs the threads: omp, workqueue or tbb."""
    runs_threads_together(1)
    return numba.threading_layer()


class Forked:
    """A process forked after OpenMP has run in it cannot run it again: it would be ended without a word of ours."""

    used = forked = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: setattr(Forked, "forked", Forked.used))

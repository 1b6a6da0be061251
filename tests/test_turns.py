"""Threads take blocks of a net in turns: each block once, and what a block needs of another is there before."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.backends.turns import turns_of
from vivace.kernels.region import share


def listed(pairs, blocks):
    """The second of each pair, by the first; and where those of each block begin."""
    pairs = sorted(pairs)
    starts = np.searchsorted([one for one, _ in pairs], np.arange(blocks + 1))
    return np.array([other for _, other in pairs], np.int32), starts.astype(np.int32)


def turns_among(blocks, owed, first, last, threads):
    return turns_of(listed(owed, blocks), listed({(b, a) for a, b in owed}, blocks), first, last, threads)


def needed_in(turns, turn):
    return turns.needed[turns.bounds[turn] : turns.bounds[turn + 1]].tolist()


@st.composite
def debts(draw):
    """Blocks, who owes whom (the lower one of two), a range of them, and threads."""
    blocks = draw(st.integers(1, 30))
    pair = st.tuples(st.integers(0, blocks - 1), st.integers(0, blocks - 1)).filter(lambda pair: pair[0] < pair[1])
    owed = draw(st.sets(pair, max_size=60)) if blocks > 1 else set()
    first = draw(st.integers(0, blocks))
    return blocks, owed, first, draw(st.integers(first, blocks)), draw(st.integers(1, 5))


@given(debts())
def test_each_block_has_one_turn_with_its_own_thread_and_what_it_needs_before(drawn):
    _, owed, first, last, threads = drawn
    turns = turns_among(*drawn)
    for thread in range(threads):
        begin, end = share(first, last, thread, threads)
        own = turns.order[begin - first : end - first]
        assert sorted(own) == list(range(begin, end))
    for turn, block in enumerate(turns.order):
        assert {block, *(b for a, b in owed if a == block)} <= set(needed_in(turns, turn))


@given(debts())
def test_threads_first_do_what_others_wait_for_and_last_what_waits_for_others(drawn):
    _, owed, first, last, threads = drawn
    turns = turns_among(*drawn)
    for thread in range(threads):
        begin, end = share(first, last, thread, threads)
        elsewhere = {*range(first, last)} - {*range(begin, end)}
        owes = {a for a, b in owed if b in elsewhere}
        is_owed = {b for a, b in owed if a in elsewhere}
        ranks = [(block in is_owed) - (block in owes) for block in turns.order[begin - first : end - first]]
        assert ranks == sorted(ranks)
        if begin < end:  # steps that others' springs need come before all else
            assert is_owed & {*range(begin, end)} <= set(needed_in(turns, begin - first))


@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_that_owe_nothing_to_other_threads_keep_their_order(threads):
    turns = turns_among(4, {(0, 1), (2, 3)}, 0, 4, threads)
    assert turns.order.tolist() == [0, 1, 2, 3]


def test_blocks_are_put_in_order_without_a_compiler():
    """It would be asked again in each process, on each rank."""
    program = (
        "import numpy as np; from vivace.backends.turns import turns_of; from vivace.kernels.region import share\n"
        "nobody = np.zeros(0, np.int32), np.zeros(5, np.int32)\n"
        "assert turns_of(nobody, nobody, 0, 4, 2).order.tolist() == [0, 1, 2, 3] and not share.signatures"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

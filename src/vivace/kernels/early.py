"""Kernels on blocks of a net, one after the other while a block lies in the cache, as soon as what they need is there.

Blocks count what has been done with them, from 0 on, until `forget` begins anew.
"""

from functools import cache

from . import barrier
from .compile import call_kernel, doubles_at, ints_at, kernel, source_digest
from .lanes import value_function


@value_function
def are_counted(counts, blocks, first, last):
    """Whether all these blocks are done, and what they wrote can be read."""
    for i in range(first, last):
        if barrier.counted(counts + 8 * blocks[i]) == 0:
            return False
    return True


@value_function
def forget_block(counts, each, apart, block):
    for i in range(each):
        barrier.forget(counts + 8 * (i * apart + block))


@value_function
def do_once(work, arguments, begun, ended, block):
    """Do a block's work, unless somebody has or does: then wait for it. The work itself must wait for nobody."""
    if barrier.counted(ended + 8 * block) == 0:
        if barrier.count_up(begun + 8 * block) == 0:
            call_kernel(work, arguments, block, block + 1)
            barrier.count_up(ended + 8 * block)
        else:
            barrier.wait_for(ended + 8 * block, 1)  # too short to count as a wait at a barrier


@cache
def pair_kernel():
    """The first work on each block, and the second at once if all that is due to the block is there; else see `rest`.

    Addresses: those of the first kernel and its list of addresses, of the second, debtors, first debtor of each block,
    which blocks have had the first work, which need no `rest`.
    """
    digest = source_digest(are_counted, barrier.wait.py_func)

    @kernel
    def pair(addresses, first, last):
        _ = digest  # part of the cache key
        debtors, bounds = ints_at(addresses[4]), ints_at(addresses[5])
        counts, early = addresses[6], ints_at(addresses[7])
        for block in range(first, last):
            call_kernel(addresses[0], addresses[1], block, block + 1)
            barrier.count_up(counts + 8 * block)
            early[block] = are_counted(counts, debtors, bounds[block], bounds[block + 1])
            if early[block]:
                call_kernel(addresses[2], addresses[3], block, block + 1)

    return pair


@cache
def rest_kernel():
    """The second work on blocks that have not had it, and `forget`.

    Addresses: counts, how many each block has, how far they lie apart, which blocks need no rest, those of the second
    kernel and its list of addresses.
    """
    digest = source_digest(forget_block, barrier.wait.py_func)

    @kernel
    def rest(addresses, first, last):
        _ = digest  # part of the cache key
        early = ints_at(addresses[3])
        for block in range(first, last):
            if not early[block]:
                call_kernel(addresses[4], addresses[5], block, block + 1)
            forget_block(addresses[0], addresses[1], addresses[2], block)

    return rest


@cache
def forget_kernel():
    """Blocks count from 0 again. Addresses: counts, how many each block has, how far they lie apart."""
    digest = source_digest(forget_block, barrier.wait.py_func)

    @kernel
    def forget(addresses, first, last):
        _ = digest  # part of the cache key
        for block in range(first, last):
            forget_block(addresses[0], addresses[1], addresses[2], block)

    return forget


@cache
def once_kernel():
    """Some blocks' first work. Addresses: whether nothing is to be done, the blocks, those of `do_once`."""
    digest = source_digest(do_once, barrier.wait.py_func)

    @kernel
    def once(addresses, first, last):
        _ = digest  # part of the cache key
        blocks = ints_at(addresses[1])
        if doubles_at(addresses[0])[0] == 0:
            for i in range(first, last):
                do_once(addresses[2], addresses[3], addresses[4], addresses[5], blocks[i])

    return once


@cache
def in_turn_kernel():
    """A work on one block in each turn. Addresses: its kernel, its list of addresses, the block of each turn."""
    digest = source_digest()

    @kernel
    def in_turn(addresses, first, last):
        _ = digest  # part of the cache key
        order = ints_at(addresses[2])
        for turn in range(first, last):
            call_kernel(addresses[0], addresses[1], order[turn], order[turn] + 1)

    return in_turn


@cache
def follow_kernel():
    """In each turn the first work on some blocks, and then the second on one.

    Addresses: whether nothing is to be done, blocks that have the first work, where those of each turn begin, those of
    `do_once`, of the second kernel and its list of addresses, the block of each turn.
    """
    digest = source_digest(do_once, barrier.wait.py_func)

    @kernel
    def follow(addresses, first, last):
        _ = digest  # part of the cache key
        needed, bounds, order = ints_at(addresses[1]), ints_at(addresses[2]), ints_at(addresses[9])
        if doubles_at(addresses[0])[0] == 0:
            for turn in range(first, last):
                for i in range(bounds[turn], bounds[turn + 1]):
                    do_once(addresses[3], addresses[4], addresses[5], addresses[6], needed[i])
                call_kernel(addresses[7], addresses[8], order[turn], order[turn] + 1)

    return follow

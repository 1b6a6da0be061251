"""The order in which threads take the blocks of a net, so that what one needs of another is there."""

from dataclasses import dataclass

import numpy as np

from ..kernels.region import share

Listed = tuple[np.ndarray, np.ndarray]  # others of all blocks, block by block; where those of each begin


@dataclass(frozen=True, eq=False)
class Turns:
    """A block in each turn, which has its second work then, and those that need their first before it."""

    order: np.ndarray  # (turns,) int32
    needed: np.ndarray  # int32, turn by turn
    bounds: np.ndarray  # (turns + 1,) int32, where those of each turn begin


def turns_of(creditors: Listed, debtors: Listed, first: int, last: int, threads: int) -> Turns:
    """Turns of the blocks from `first` on, before `last`, which so many threads share out among them.

    A thread begins with blocks that owe something to those of others, and ends with those that others owe something:
    that is there by then. Before its first turn it does the first work on what springs of others end at, or these
    would, far from where it lies in a cache.
    """
    shares = [share.py_func(first, last, thread, threads) for thread in range(threads)]
    owners = np.full(len(creditors[1]), -1)  # behind all blocks: of those elsewhere
    for thread, (begin, end) in enumerate(shares):
        owners[begin:end] = thread
    owes, is_owed = (_crosses(*listed, owners) for listed in (creditors, debtors))
    order: list[int] = []
    needed: list[list[int]] = []
    for begin, end in shares:
        own = begin + np.argsort(is_owed[begin:end] - owes[begin:end], kind="stable")
        early = begin + np.flatnonzero(is_owed[begin:end])
        for block in own.tolist():
            ends = creditors[0][creditors[1][block] : creditors[1][block + 1]]
            needed.append([*(early.tolist() if block == own[0] else []), block, *ends.tolist()])
        order += own.tolist()
    bounds = np.append(0, np.cumsum([len(blocks) for blocks in needed]))
    flat = [block for blocks in needed for block in blocks]
    return Turns(*(np.array(numbers, np.int32) for numbers in (order, flat, bounds)))


def _crosses(others: np.ndarray, bounds: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """1 for each block that has a block of another thread among its others, else 0."""
    own = np.repeat(owners[:-1], np.diff(bounds))
    crossing = (owners[others] >= 0) & (owners[others] != own)
    found = np.append(0, np.cumsum(crossing))[bounds]
    return (np.diff(found) > 0).astype(int)

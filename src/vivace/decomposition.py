"""Particles in blocks that are near each other: the order in which they lie in memory, and where each block begins."""

from typing import Any

import numpy as np

from .checks import extra
from .errors import InputError
from .halving import halve
from .kernels.compile import compiled
from .kernels.lanes import WIDTH
from .model import Model

# About so many blocks, with rows within these bounds; where they were more than the most, larger ones.
WANTED_BLOCKS, MOST_BLOCKS, FEWEST_ROWS, MOST_ROWS = 128, 1024, 512, 2048
STRIPED = 4096  # rows
DECOMPOSITIONS = "halves", "metis"


def decomposed(model: Model, blocks: int | None, by: str) -> tuple[np.ndarray, np.ndarray]:
    """An order of the particles, and the first row of each block, (blocks + 1,), in rows filled up to whole eights.

    At most `blocks` blocks, if given. They begin at multiples of eight, and do not depend on who computes them.
    """
    count = model.particle_count
    if blocks is not None and blocks > count:
        raise InputError(f"{blocks} blocks are more than there are particles ({count})")
    size = whole_eights(default_rows(count) if blocks is None else -(-count // blocks))
    if by == "metis":
        return _by_metis(model, -(-count // size))
    return order_in_strips(model.rest), np.append(np.arange(0, whole_eights(count), size), whole_eights(count))


def default_rows(count: int) -> int:
    """Of a block: a power of two, so that runs of `STRIPED` rows are made of whole blocks, or the other way round."""
    size = FEWEST_ROWS
    while size < MOST_ROWS and size * WANTED_BLOCKS < count or size * MOST_BLOCKS < count:
        size *= 2
    return size


def whole_eights(count: int) -> int:
    return -(-count // WIDTH) * WIDTH


def order_in_blocks(rest: np.ndarray) -> np.ndarray:
    """Particles in an order in which those in turn are near each other without forces.

    Halves of halves, so that runs of eight times a power of two are compact.
    """
    order = np.arange(len(rest))
    halve(rest.astype(np.float64), order, 0, len(order), True)
    return order


def order_in_strips(rest: np.ndarray) -> np.ndarray:
    """The same, but runs of `STRIPED` are sorted into strips.

    A sweep through one meets the neighbors of its particles in turn, which processors foresee.
    """
    order = order_in_blocks(rest)
    _sort_into_strips(rest.astype(np.float64), order, np.append(np.arange(0, len(order), STRIPED), len(order)))
    return order


def _by_metis(model: Model, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """Blocks that METIS makes of the graph of springs, with few springs between them; each is sorted into strips.

    What it shares out are eights of particles that are near each other, so that blocks are made of whole eights; one
    that is not full goes to the end.
    """
    order, count = order_in_blocks(model.rest), model.particle_count
    eight_of = np.empty(count, np.int32)
    eight_of[order] = np.arange(count) // WIDTH
    eights = -(-count // WIDTH)
    pairs = [eight_of[group.vertices] for group in model.groups]
    one, other = np.concatenate([*pairs, *(pair[:, ::-1] for pair in pairs), np.zeros((0, 2), np.int32)]).T
    labels = share_out(*neighbors_of(one, other, eights), np.full(eights, WIDTH), blocks)
    firsts = np.full(labels.max() + 1, eights)
    np.minimum.at(firsts, labels, np.arange(eights))
    firsts[labels[-1]] = eights  # its block may not be full
    turn = np.argsort(firsts[labels], kind="stable")  # blocks in the order of their first eights, which are near
    sizes = np.bincount(labels)[np.argsort(firsts, kind="stable")]
    starts = WIDTH * np.append(0, np.cumsum(sizes[sizes > 0]))
    order = np.concatenate([order[WIDTH * eight : WIDTH * (eight + 1)] for eight in turn])
    _sort_into_strips(model.rest.astype(np.float64), order, np.minimum(starts, count))
    return order, starts


def neighbors_of(one: np.ndarray, other: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Who is joined with whom, where one[i] is with other[i], and the other way round.

    Those that node i is joined with are offsets[i] to offsets[i + 1] of `neighbors`, and how often; all but itself.
    """
    apart = one != other
    keys, counts = np.unique(one[apart].astype(np.int64) * total + other[apart], return_counts=True)
    return np.searchsorted(keys // total, np.arange(total + 1)), keys % total, counts


def in_turn(weights: np.ndarray, shares: int) -> np.ndarray:
    """Nodes in turn in shares of about equal weight; each has one of its own if there are enough."""
    if shares >= len(weights):
        return np.arange(len(weights), dtype=np.int32)
    middles = (np.cumsum(weights) - weights / 2) / weights.sum()
    return np.minimum((middles * shares).astype(np.int32), shares - 1)


def share_out(
    offsets: np.ndarray, neighbors: np.ndarray, joints: np.ndarray, weights: np.ndarray, shares: int
) -> np.ndarray:
    """Nodes of a graph in shares of equal weight, with few joints between them, by METIS."""
    metis: Any = extra("pymetis", "mpi")
    if shares >= len(weights) or not len(neighbors):  # METIS would leave some shares empty
        return in_turn(weights, shares)
    weighed = {"vweights": weights.tolist(), "eweights": joints.tolist()}
    return np.array(metis.part_graph(shares, metis.CSRAdjacency(offsets, neighbors), **weighed)[1], np.int32)


@compiled
def _sort_into_strips(points: np.ndarray, order: np.ndarray, starts: np.ndarray) -> None:
    """Sort each run of an order into strips across its longest side, and these along the next longest."""
    for run in range(len(starts) - 1):
        own, sides = order[starts[run] : starts[run + 1]].copy(), np.empty(3)
        for axis in range(3):
            along = points[own, axis]
            sides[axis] = along.max() - along.min()
        longest, next_longest = np.argsort(-sides)[:2]
        if sides[longest] == 0.0:
            continue
        own = own[np.argsort(points[own, longest], kind="mergesort")]
        length = max(int(np.sqrt(len(own) * sides[next_longest] / sides[longest]) + 0.5), 1)
        for start in range(0, len(own), length):
            strip = own[start : start + length]
            own[start : start + length] = strip[np.argsort(points[strip, next_longest], kind="mergesort")]
        order[starts[run] : starts[run + 1]] = own

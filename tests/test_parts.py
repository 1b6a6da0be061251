"""Parts of a net: whose rows and blocks are whose, and what ranks owe each other."""

import numpy as np
import pytest

import vivace as vv
from vivace.net_parts import NetCut, part_of
from vivace.parts import Blocks, assign

pytest.importorskip("mpi4py", reason="needs pip install 'vivace[mpi]'")


def cloth_plan(side=40, blocks=20):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(side, side), material=vv.MassSpring(100.0)).pin(0)
    return vv.ImplicitEuler(blocks=blocks).prepare(scene.build(), 5, 0)


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_parts_share_the_rows_and_know_whose_copies_they_have(ranks):
    plan = cloth_plan()
    owners = assign(NetCut(plan).blocks, np.ones(plan.net.total), ranks)
    parts = [part_of(plan, owners, rank) for rank in range(ranks)]
    own = [part.rows[part.rows >= 0] for part in parts]
    np.testing.assert_array_equal(np.sort(np.concatenate(own)), np.arange(len(plan.order)))
    assert sum(part.plan.sizes["stretch"] for part in parts) == len(plan.groups[0].vertices)
    for rank, part in enumerate(parts):
        local = np.concatenate([part.rows, part.copies])
        np.testing.assert_array_equal(part.plan.order, np.arange(len(local)))
        for other, first, last in part.copied.senders:
            lent = dict(parts[other].copied.receivers)[rank]
            np.testing.assert_array_equal(local[first:last], parts[other].rows[lent])
        # A row has its springs in the order of the whole.
        net, whole = part.plan.net, plan.net
        for eight in (0, len(part.rows) // 16):
            before = part.rows[8 * eight] // 8
            slots, of_whole = slice(*net.bounds[eight : eight + 2]), slice(*whole.bounds[before : before + 2])
            np.testing.assert_array_equal(local[net.neighbors[slots]], whole.neighbors[of_whole])
            np.testing.assert_array_equal(net.kinds[slots], whole.kinds[of_whole])
        inner = net.neighbors[: net.bounds[net.starts[part.interior] // 8]]
        assert (inner < len(part.rows)).all()


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_ranks_pay_what_their_springs_do_to_rows_of_others(ranks):
    """Numbers that stand for dues come to the rows that the whole net has them for, in the same order."""
    plan = cloth_plan()
    whole = plan.net
    parts = [part_of(plan, assign(NetCut(plan).blocks, np.ones(whole.total), ranks), rank) for rank in range(ranks)]
    tables = []
    for part in parts:
        own, dues = part.plan.net, whole.dues
        tables.append(np.full(own.rows + own.dues.count, -1))
        for i, block in enumerate(own.ids):
            numbers = np.arange(dues.starts[block], dues.starts[block + 1])
            tables[-1][own.dues.starts[i] : own.dues.starts[i + 1]] = numbers
    for rank, part in enumerate(parts):
        assert (ranks == 1) == (not part.due.senders and not part.due.receivers)
        for other, first, last in part.due.senders:
            tables[rank][first:last] = tables[other][dict(parts[other].due.receivers)[rank]]
    paying = np.repeat(np.arange(whole.total), np.diff(whole.dues.starts))
    for part, table in zip(parts, tables):
        own, local = part.plan.net.dues, np.concatenate([part.rows, part.copies])
        places = {block: place for place, block in enumerate(part.plan.net.ids)}
        debtors, starts = own.debtors()
        for i, block in enumerate(part.plan.net.ids):
            claims = own.claims[own.claim_starts[i] : own.claim_starts[i + 1]]
            expected = whole.dues.claims[whole.dues.claim_starts[block] : whole.dues.claim_starts[block + 1]]
            np.testing.assert_array_equal(np.stack([local[claims[:, 0]], table[claims[:, 1]]], axis=1), expected)
            owing = {places.get(paying[due - whole.rows], len(places)) for due in expected[:, 1]}
            assert set(debtors[starts[i] : starts[i + 1]]) == owing


@pytest.mark.parametrize("ranks", [12, 30])
def test_each_block_has_a_rank_of_its_own_where_there_are_enough(ranks):
    blocks = NetCut(cloth_plan(blocks=12)).blocks
    assert len(np.unique(assign(blocks, blocks.costs, ranks))) == blocks.total == 12


def test_blocks_that_nothing_joins_are_shared_out_by_their_costs_too():
    none = np.zeros(0, np.int64)
    blocks = Blocks(np.arange(64), np.arange(0, 65, 8), np.ones(8), np.zeros(9, np.int64), none, none)
    assert list(assign(blocks, np.array([6.0, 1, 1, 1, 1, 1, 1, 1]), 2)) == [0, 1, 1, 1, 1, 1, 1, 1]


def test_blocks_go_to_ranks_by_their_costs():
    blocks = NetCut(cloth_plan()).blocks
    costs = np.ones(blocks.total)
    costs[:5] = 6.0
    owners = assign(blocks, costs, 2)
    loads = np.bincount(owners, costs)
    assert loads.max() / loads.mean() < 1.15
    assert len(blocks.offsets) == blocks.total + 1 and (blocks.joints > 0).all()
    assert len(blocks.neighbors) == blocks.offsets[-1]

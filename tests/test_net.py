"""Nets of springs: which springs a mesh has, how a net lists them, and the blocks that it is made of."""

import numpy as np
import pytest
from scipy.spatial import Delaunay

import vivace as vv
from helpers import corner_cloth
from vivace.decomposition import STRIPED, decomposed, default_rows, order_in_strips
from vivace.materials import spring_net


def test_a_grid_has_sides_diagonals_and_spans():
    columns, rows = 7, 5
    for diagonals in ("alternate", "same"):
        sides, across, spans = spring_net(vv.Mesh.grid(columns, rows, (1.2, 0.7), diagonals=diagonals))
        assert len(sides) == rows * (columns - 1) + columns * (rows - 1)
        assert len(across) == 2 * (columns - 1) * (rows - 1)
        assert len(spans) == rows * (columns - 2) + columns * (rows - 2)
        x, y = np.divmod(spans, columns)[::-1]
        steps = {tuple(step) for step in np.sort(np.abs(np.stack([np.diff(x)[:, 0], np.diff(y)[:, 0]], 1)), 1)}
        assert steps == {(0, 2)}


def test_another_mesh_has_edges_and_springs_over_its_hinges():
    mesh = vv.Mesh([(0, 0, 0), (1, 0, 0), (0.5, 0, 0.9), (1.5, 0, 0.8), (2, 0, 0)], [(0, 1, 2), (1, 3, 2), (1, 4, 3)])
    sides, across, spans = spring_net(mesh)
    assert len(across) == 0
    np.testing.assert_array_equal(sides, mesh.edges)
    assert sorted(map(sorted, spans.tolist())) == [[0, 3], [2, 4]]


def listed_springs(net):
    """Slots and lanes that are springs, the rows they are listed at, and where what they do to the others is added."""
    here = np.repeat(np.arange(net.rows // 8), np.diff(net.bounds))[:, None] * 8 + np.arange(8)
    targets = net.neighbors.copy()
    for eight, first in enumerate(net.dues.outside):
        if first >= 0:
            slots = slice(*net.bounds[eight : eight + 2])
            targets[slots] = net.dues.targets[first : first + slots.stop - slots.start]
    return net.strengths[net.kinds[:, 0]][:, 0] > 0, here, targets


def test_a_net_lists_each_spring_once_and_its_lists_lose_none():
    scene = corner_cloth(13)
    plan = vv.ImplicitEuler(blocks=5).prepare(scene.build(), 1, 0)
    net, group = plan.net, plan.groups[0]
    assert len(net.ids) <= 5 and net.starts[-1] == net.rows == 176
    strengths, rests = net.strengths[net.kinds[:, 0]], net.rests[net.kinds[:, 1]]
    real, here, _ = listed_springs(net)
    pairs = np.stack([here[real], net.neighbors[real]], axis=1)
    assert len(pairs) == len(group.vertices)
    np.testing.assert_array_equal(np.unique(np.sort(pairs), axis=0), np.unique(np.sort(group.vertices), axis=0))
    np.testing.assert_array_equal(net.neighbors[~real], here[~real])
    values = dict(zip(map(tuple, np.sort(group.vertices)), zip(1 / group.compliance, group.rest)))
    for pair, stiffness, rest in zip(np.sort(pairs), strengths[:, 0][real], rests[real]):
        assert values[tuple(pair)] == (stiffness, rest)
    assert len(net.strengths) < 0.5 * len(net.kinds)  # most of a grid is alike


@pytest.mark.parametrize("blocks", [1, 3, 22])
def test_what_a_spring_does_to_another_block_is_a_due_that_this_block_claims(blocks):
    net = vv.ImplicitEuler(blocks=blocks).prepare(corner_cloth(13).build(), 1, 0).net
    real, here, targets = listed_springs(net)
    block_of = np.repeat(net.ids, np.diff(net.starts))
    paying = np.repeat(net.ids, np.diff(net.dues.starts))
    row_of = dict(net.dues.claims[:, ::-1].tolist())
    assert sorted(row_of) == list(range(net.rows, net.rows + net.dues.count)) and (blocks == 1) == (not row_of)
    for row, other, target in zip(here[real], net.neighbors[real], targets[real]):
        if block_of[row] == block_of[other]:
            assert target == other and other // 8 - row // 8 <= net.dues.reach[block_of[row]]
        else:
            assert row < other  # one block has all springs that join it with another
            assert row_of[target] == other and paying[target - net.rows] == block_of[row]
    debtors, starts = net.dues.debtors()
    for block, (first, last) in enumerate(zip(net.dues.claim_starts, net.dues.claim_starts[1:])):
        claims = net.dues.claims[first:last].tolist()
        assert claims == sorted(claims) and all(block_of[row] == block for row, _ in claims)
        assert set(debtors[starts[block] : starts[block + 1]]) == {paying[due - net.rows] for _, due in claims}
    creditors, firsts = net.dues.creditors()
    owed = [(one, other) for one in net.ids for other in creditors[firsts[one] : firsts[one + 1]]]
    owing = [(one, other) for other in net.ids for one in debtors[starts[other] : starts[other + 1]]]
    assert sorted(owed) == sorted(owing) and len(set(owed)) == len(owed)


def test_a_hub_shares_its_springs_with_its_neighbors():
    """Else the eight that it is in would have as many slots as it has springs."""
    spokes = np.linspace(0, 2 * np.pi, 41)[:-1]
    rim = np.stack([np.cos(spokes), np.zeros(40), np.sin(spokes)], axis=1)
    mesh = vv.Mesh(np.concatenate([[[0, 0, 0]], rim]), [(0, 1 + i, 1 + (i + 1) % 40) for i in range(40)])
    scene = vv.Scene()
    scene.add_cloth(mesh, material=vv.MassSpring(100.0, bend=0.0))
    net = vv.ImplicitEuler().prepare(scene.build(), 1, 0).net
    assert np.diff(net.bounds).max() < 10


def test_springs_that_are_all_different_keep_their_values():
    mesh = vv.Mesh.grid(9, 9)
    mesh = vv.Mesh(
        mesh.vertices + np.random.default_rng(3).normal(scale=0.01, size=mesh.vertices.shape), mesh.triangles
    )
    scene = vv.Scene()
    scene.add_cloth(mesh, material=vv.MassSpring(100.0))
    model = scene.build()
    net = vv.ImplicitEuler().prepare(model, 1, 0).net
    assert len(net.rests) > 0.9 * len(net.kinds)
    np.testing.assert_array_equal(np.unique(net.rests[net.rests > 0]), np.unique(model.groups[0].rest))


def test_blocks_are_compact_made_of_strips_and_of_equal_size():
    mesh = vv.Mesh.grid(128, 128)
    order = order_in_strips(mesh.vertices)
    assert sorted(order) == list(range(128 * 128))
    tiles = mesh.vertices[order].reshape(-1, STRIPED, 3)
    assert np.ptp(tiles, axis=1).max() < 0.6
    strips = mesh.vertices[order].reshape(-1, 64, 3)
    assert np.ptp(strips, axis=1).min(axis=1).max() < 1e-6 and np.ptp(strips, axis=1).max() < 0.6
    assert len(order_in_strips(np.zeros((0, 3)))) == 0 and len(order_in_strips(np.zeros((5, 3)))) == 5
    model = corner_cloth(33).build()
    assert list(decomposed(model, None, "halves")[1]) == [0, 512, 1024, 1096]
    sizes = [default_rows(count) for count in (0, 10_000, 100_000, 1_000_000, 3_000_000)]
    assert sizes == [512, 512, 1024, 2048, 4096]


@pytest.mark.parametrize("particles", [2000, 2001])
def test_blocks_of_metis_are_whole_eights_with_few_springs_between_them(particles):
    pytest.importorskip("pymetis")
    points = np.random.default_rng(3).uniform(size=(particles, 3)) * (1, 1, 0)
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh(points, Delaunay(points[:, :2]).simplices), material=vv.MassSpring(100.0))
    model = scene.build()
    order, starts = decomposed(model, 16, "metis")
    assert sorted(order) == list(range(particles)) and len(starts) == 17
    sizes = np.diff(starts)
    assert (starts % 8 == 0).all() and starts[-1] == -(-particles // 8) * 8
    assert 0.8 * 125 < sizes.min() and sizes.max() < 1.2 * 125
    assert len(decomposed(model, -(-particles // 8), "metis")[1]) == -(-particles // 8) + 1  # an eight each
    assert list(decomposed(model, 1, "metis")[1]) == [0, starts[-1]]
    between = {
        by: vv.ImplicitEuler(blocks=16, decomposition=by).prepare(model, 5, 0).net.dues.count
        for by in ("halves", "metis")
    }
    assert between["metis"] < 1.05 * between["halves"]

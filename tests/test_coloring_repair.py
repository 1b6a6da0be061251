"""A coloring carried over to a graph that has changed."""

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vivace as vv
from strategies import edge_lists
from vivace.coloring import COLORED_ANEW, REPAIRED, Coloring, renewed
from vivace.graph import vertex_graph
from vivace.kernels import region

MESH = vv.Mesh.grid(30, 30)
COUNT = len(MESH.vertices)


def cloth(extra=None, count=COUNT):
    """The vertex graph of a cloth, with extra edges."""
    return vertex_graph([MESH.edges, np.zeros((0, 2), np.int32) if extra is None else np.asarray(extra)], count)


def clashing_edges(coloring, number, seed=0):
    """Edges between random nodes of one color."""
    generator, edges = np.random.default_rng(seed), []
    while len(edges) < number:
        one, other = generator.integers(0, COUNT, 2)
        if one != other and coloring.colors[one] == coloring.colors[other]:
            edges.append((one, other))
    return np.array(edges, np.int32)


@pytest.fixture
def before():
    return vv.color(cloth(), "brooks-vizing", seed=3)


def test_the_same_graph_keeps_the_coloring_itself(before):
    assert renewed(before, before.graph) is before
    assert renewed(before, cloth()) is before


def test_edges_between_different_colors_change_no_color(before):
    neighbor = before.graph.neighbors(0)[0]
    other = next(n for n in range(COUNT - 1, 0, -1) if before.colors[n] != before.colors[0] and n != neighbor)
    after = renewed(before, cloth([[0, other]]))
    assert after is not before and after.renewal == REPAIRED
    np.testing.assert_array_equal(after.colors, before.colors)


def test_a_clash_costs_only_the_higher_node_its_color(before):
    edges = clashing_edges(before, 1)
    after = renewed(before, cloth(edges))
    assert np.flatnonzero(after.colors != before.colors).tolist() == [edges.max()]


def test_repaired_is_proper_and_keeps_the_colors_of_all_others(before):
    edges = clashing_edges(before, 20)
    graph = cloth(edges)
    after = renewed(before, graph)
    others = np.setdiff1d(np.arange(COUNT), edges.max(axis=1))
    assert after.renewal == REPAIRED and after.algorithm == "brooks-vizing" and after.milliseconds > 0
    assert after.graph is graph and after.validate() is after and after.colors.dtype == before.colors.dtype
    np.testing.assert_array_equal(after.colors[others], before.colors[others])


def test_a_repair_does_not_write_into_the_coloring_before(before):
    colors = before.colors.copy()
    renewed(before, cloth(clashing_edges(before, 20)))
    np.testing.assert_array_equal(before.colors, colors)


@pytest.mark.parametrize(("number", "renewal"), [(20, REPAIRED), (300, COLORED_ANEW)])
def test_renewed_does_not_depend_on_the_number_of_threads(number, renewal, before, monkeypatch):
    graph, made = cloth(clashing_edges(before, number)), []
    for threads in (1, 2, 3, 4):
        monkeypatch.setattr(region, "core_count", lambda threads=threads: threads)
        made.append(renewed(before, graph, seed=5))
    assert all(coloring.renewal == renewal and (coloring.colors == made[0].colors).all() for coloring in made)


def test_a_graph_that_has_changed_too_much_is_colored_anew(before):
    graph = cloth(clashing_edges(before, 300))
    after = renewed(before, graph, "jones-plassmann", seed=5)
    assert after.renewal == COLORED_ANEW and after.algorithm == "jones-plassmann"
    np.testing.assert_array_equal(after.colors, vv.color(graph, "jones-plassmann", seed=5).colors)


def test_the_share_that_may_change_is_the_callers(before):
    graph = cloth(clashing_edges(before, 20))
    changed = int((renewed(before, graph).colors != before.colors).sum())
    assert renewed(before, graph, most=changed / COUNT).renewal == REPAIRED
    assert renewed(before, graph, most=(changed - 0.5) / COUNT).renewal == COLORED_ANEW
    assert renewed(before, cloth(clashing_edges(before, 300)), most=1).renewal == REPAIRED


@pytest.mark.parametrize("most", [-0.1, 1.1, np.nan, "all"])
def test_a_share_outside_of_zero_and_one_is_refused(most, before):
    with pytest.raises(vv.InputError, match="most"):
        renewed(before, before.graph, most=most)


def test_new_nodes_are_colored_and_the_others_keep_their_colors(before):
    after = renewed(before, cloth([[COUNT, 0], [COUNT + 1, 0], [COUNT, COUNT + 1]], COUNT + 3))
    assert after.renewal == REPAIRED and len(after.colors) == COUNT + 3
    np.testing.assert_array_equal(after.colors[:COUNT], before.colors)
    assert after.colors[COUNT + 2] == 0


def test_many_new_nodes_are_colored_anew(before):
    assert renewed(before, cloth(count=COUNT + COUNT // 5)).renewal == COLORED_ANEW


def test_fewer_nodes_are_colored_anew():
    before = vv.color(cloth(count=COUNT + 1), "brooks-vizing")
    assert renewed(before, cloth()).renewal == COLORED_ANEW


def test_no_color_vanishes():
    path = vv.Graph.from_edges(4, [[0, 1], [2, 3]])
    after = renewed(Coloring(path, np.array([0, 2, 1, 2]), "mine"), vv.Graph.from_edges(4, [[1, 3]]), most=1)
    assert after.colors.tolist() == [0, 2, 1, 0] and after.algorithm == "mine"


def test_a_coloring_with_impossible_colors_is_not_repaired():
    path = vv.Graph.from_edges(3, [[0, 1]])
    after = renewed(Coloring(path, np.array([0, 9, 1])), vv.Graph.from_edges(3, [[0, 2]]), most=1)
    assert after.renewal == COLORED_ANEW and after.count == 2


@given(edge_lists(), edge_lists(), st.sampled_from([0.0, 0.3, 1.0]))
def test_any_two_graphs_are_renewed_properly(first, second, most):
    (count, edges), (new_count, new_edges) = first, second
    before = vv.color(vv.Graph.from_edges(count, edges), "brooks-vizing")
    after = renewed(before, vv.Graph.from_edges(new_count, new_edges), most=most)
    oracle = networkx.empty_graph(new_count)
    oracle.add_edges_from(new_edges)
    assert after is before or after.renewal in (REPAIRED, COLORED_ANEW)
    assert len(after.colors) == new_count and all(after.colors[a] != after.colors[b] for a, b in oracle.edges)
    assert sorted(set(after.colors.tolist())) == list(range(after.count))
    if after.renewal == REPAIRED:
        clashing = {max(a, b) for a, b in oracle.edges if max(a, b) < count and before.colors[a] == before.colors[b]}
        assert len(clashing) + new_count - count <= most * new_count
        stayed = [node for node in range(count) if node not in clashing]
        np.testing.assert_array_equal(after.colors[stayed], before.colors[stayed])

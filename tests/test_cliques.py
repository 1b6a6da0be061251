"""Maximal cliques, against networkx."""

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vivace as vv
from strategies import constraint_vertices, edge_lists, joined_by_particles
from vivace.coloring import cliques
from vivace.coloring.cliques import clique_number, maximal_cliques
from vivace.graph import constraint_graph

GRID, TORUS, BALL = vv.Mesh.grid(7, 6), vv.Mesh.torus(around=4, rings=1), vv.Mesh.ball(2)
MESHES = {"edges": GRID.edges, "hinges": GRID.hinges, "solid edges": TORUS.edges, "tets": TORUS.tets, "ball": BALL.tets}


def ours(graph, larger_than=0):
    """Each clique as its members, ascending; one found twice is in twice."""
    offsets, members = maximal_cliques(graph, larger_than)
    return sorted(sorted(members[a:b].tolist()) for a, b in zip(offsets[:-1], offsets[1:]))


def theirs(graph, larger_than=0):
    return sorted(sorted(clique) for clique in networkx.find_cliques(graph) if len(clique) > larger_than)


def of_edges(node_count, edges):
    graph = networkx.empty_graph(node_count)
    graph.add_edges_from(edges)
    return vv.Graph.from_edges(node_count, np.array(edges, int).reshape(-1, 2)), graph


@given(edge_lists(), st.integers(0, 5))
def test_cliques_of_any_graph_are_those_of_networkx(case, larger_than):
    graph, oracle = of_edges(*case)
    assert ours(graph, larger_than) == theirs(oracle, larger_than)


@given(constraint_vertices(), st.integers(0, 5))
def test_cliques_of_constraints_are_those_of_networkx(case, larger_than):
    particle_count, vertices = case
    graph, oracle = constraint_graph(vertices, particle_count), joined_by_particles(vertices)
    assert ours(graph, larger_than) == theirs(oracle, larger_than)
    assert clique_number(graph) == max(map(len, theirs(oracle)), default=0)


@pytest.mark.parametrize("vertices", MESHES.values(), ids=MESHES)
@pytest.mark.parametrize("larger_than", [0, 3, 8])
def test_cliques_of_a_mesh_are_those_of_networkx(vertices, larger_than):
    graph, oracle = constraint_graph(vertices, int(vertices.max()) + 1), joined_by_particles(vertices)
    found = ours(graph, larger_than)
    assert found == theirs(oracle, larger_than)
    assert clique_number(graph) == max(map(len, theirs(oracle)))


@pytest.mark.parametrize(("node_count", "share"), [(64, 0.6), (65, 0.6), (130, 0.3)])
def test_neighbors_of_more_than_one_word_of_bits(node_count, share):
    oracle = networkx.gnp_random_graph(node_count, share, seed=0)
    graph, _ = of_edges(node_count, list(oracle.edges))
    assert ours(graph, 3) == theirs(oracle, 3)


def test_a_clique_may_be_larger_than_any_particle_has_constraints():
    """The lines of the Fano plane: seven, every two of which meet, three through each point."""
    lines = np.array([[0, 1, 2], [0, 3, 4], [0, 5, 6], [1, 3, 5], [1, 4, 6], [2, 3, 6], [2, 4, 5]])
    graph = constraint_graph(lines, 7)
    assert graph.largest_hub == 3 and clique_number(graph) == 7 and ours(graph) == [list(range(7))]


def test_one_clique_of_hundreds_and_thousands_of_two():
    whole = constraint_graph(np.stack([np.zeros(300, int), np.arange(1, 301)], 1), 301)
    assert ours(whole) == [list(range(300))] and clique_number(whole) == 300
    path = np.stack([np.arange(4999), np.arange(1, 5000)], 1)
    assert ours(vv.Graph.from_edges(5000, path)) == path.tolist()


def test_too_many_cliques_are_an_error_that_says_what_to_do(monkeypatch):
    parties = networkx.complete_multipartite_graph(*[3] * 8)  # Moon and Moser 1965: 3^8 cliques of 8
    graph, _ = of_edges(24, list(parties.edges))
    assert len(maximal_cliques(graph)[1]) == 8 * 3**8
    monkeypatch.setattr(cliques, "MOST_MEMBERS", 8 * 3**8 - 1)
    with pytest.raises(vv.InputError, match="too many.*cliques='particles'"):
        maximal_cliques(graph)

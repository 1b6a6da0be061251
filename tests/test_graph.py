import networkx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given

import vivace as vv
from strategies import constraint_vertices, edge_lists, joined_by_particles
from vivace.graph import constraint_graph, vertex_graph


def neighbors_of(graph):
    return [graph.neighbors(node).tolist() for node in range(graph.node_count)]


def oracle_neighbors(graph):
    return [sorted(graph.neighbors(node)) for node in range(len(graph))]


def networkx_graph(node_count, edges):
    graph = networkx.empty_graph(node_count)
    graph.add_edges_from(edges)
    return graph


@given(edge_lists())
def test_graph_of_edges_has_the_neighbors_and_degrees_of_networkx(case):
    node_count, edges = case
    graph, oracle = vv.Graph.from_edges(node_count, edges), networkx_graph(node_count, edges)
    assert neighbors_of(graph) == oracle_neighbors(oracle)
    assert graph.degrees.tolist() == [degree for _, degree in oracle.degree]


@given(constraint_vertices())
def test_constraints_are_neighbors_where_they_share_a_particle(case):
    particle_count, vertices = case
    graph, oracle = constraint_graph(vertices, particle_count), joined_by_particles(vertices)
    assert neighbors_of(graph) == oracle_neighbors(oracle)
    assert graph.degrees.tolist() == [degree for _, degree in oracle.degree]


@given(constraint_vertices())
def test_particles_are_neighbors_where_a_constraint_holds_both(case):
    particle_count, vertices = case
    pairs = [(a, b) for row in vertices.tolist() for a in row for b in row if a < b]
    graph = vertex_graph([vertices[:2], vertices[2:]], particle_count)
    assert neighbors_of(graph) == oracle_neighbors(networkx_graph(particle_count, pairs))


def test_groups_of_different_arity_join_one_vertex_graph():
    graph = vertex_graph([np.array([[0, 1]]), np.array([[1, 2, 3, 4]])], 6)
    assert neighbors_of(graph) == [[1], [0, 2, 3, 4], [1, 3, 4], [1, 2, 4], [1, 2, 3], []]


def test_vertex_graph_without_constraints_joins_nothing():
    assert neighbors_of(vertex_graph([], 3)) == [[], [], []]


def test_edge_given_twice_and_backwards_counts_once():
    graph = vv.Graph.from_edges(3, [[0, 1], [1, 0], [0, 1]])
    assert graph.hub_count == 1 and graph.degrees.tolist() == [1, 1, 0]


def sparse(size, entries):
    """A sparse matrix from a dictionary; a list of values under one place is stored one by one."""
    places = [(place, value) for place, values in entries.items() for value in np.atleast_1d(values)]
    rows, columns = np.array([place for place, _ in places], int).reshape(-1, 2).T
    return scipy.sparse.coo_array(([float(value) for _, value in places], (rows, columns)), shape=(size, size))


each_layout = pytest.mark.parametrize("layout", ["coo", "csr", "csc", "lil"])


@each_layout
def test_graph_of_a_sparse_matrix_joins_rows_with_entries_on_both_sides(layout):
    matrix = sparse(4, {(0, 1): 1, (1, 0): -3, (2, 1): 2, (1, 2): 2, (1, 1): 5})
    assert neighbors_of(vv.Graph.from_scipy(matrix.asformat(layout))) == [[1], [0, 2], [1], []]


@each_layout
def test_sparse_matrix_with_an_entry_on_one_side_only_is_refused_by_the_first_of_them(layout):
    matrix = sparse(4, {(3, 0): 1, (2, 1): 7, (0, 1): 1, (1, 0): 1, (2, 3): 1, (3, 2): 1})
    with pytest.raises(vv.InputError, match=r"matrix: entry \(2, 1\) is not zero and \(1, 2\) is"):
        vv.Graph.from_scipy(matrix.asformat(layout))


def test_stored_zeros_and_the_diagonal_of_a_sparse_matrix_join_nothing():
    matrix = sparse(3, {(0, 1): 0, (1, 2): 1, (2, 1): 1, (0, 0): 4, (2, 0): [1, -1]})
    assert neighbors_of(vv.Graph.from_scipy(matrix)) == [[], [2], [1]]


def test_stored_zero_is_no_twin():
    with pytest.raises(vv.InputError, match=r"entry \(0, 1\) is not zero"):
        vv.Graph.from_scipy(sparse(2, {(0, 1): 1, (1, 0): 0}))


@given(edge_lists())
def test_graph_of_a_sparse_matrix_is_that_of_its_edges(case):
    node_count, edges = case
    both = {place: 1 for a, b in edges for place in ((a, b), (b, a))}
    graph = vv.Graph.from_scipy(sparse(node_count, both))
    assert neighbors_of(graph) == neighbors_of(vv.Graph.from_edges(node_count, edges))


@given(constraint_vertices())
def test_adjacency_has_every_neighbor_once(case):
    particle_count, vertices = case
    graph = constraint_graph(vertices, particle_count)
    offsets, neighbors = graph.adjacency
    rows = [sorted(neighbors[offsets[i] : offsets[i + 1]].tolist()) for i in range(graph.node_count)]
    assert rows == neighbors_of(graph) and len(neighbors) == offsets[-1]


def test_transposed_twice_is_the_graph_itself():
    graph = vv.Graph.from_edges(4, [[0, 1], [1, 2]])
    assert graph.transposed.node_count == graph.hub_count == 2
    assert neighbors_of(graph.transposed) == [[1], [0]]
    assert neighbors_of(graph.transposed.transposed) == neighbors_of(graph)


@pytest.mark.parametrize(("vertices", "largest"), [([[0, 1], [0, 2], [0, 3], [3, 4]], 3), ([[0, 1]], 1)])
def test_largest_hub_is_the_particle_of_most_constraints(vertices, largest):
    assert constraint_graph(np.array(vertices), 5).largest_hub == largest

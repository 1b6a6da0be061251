"""What every coloring must hold. A new file in vivace/coloring is collected by itself."""

import itertools
import re

import networkx
import numpy as np
import pytest
from hypothesis import given

import vivace as vv
from strategies import constraint_vertices, edge_lists, joined_by_particles
from vivace.coloring import Coloring, ColoringError, algorithms
from vivace.coloring.greedy import smallest_last_bound
from vivace.graph import constraint_graph

GRAPHS = {
    "empty": networkx.empty_graph(0),
    "one node": networkx.empty_graph(1),
    "no edges": networkx.empty_graph(5),
    "one edge": networkx.path_graph(2),
    "complete": networkx.complete_graph(7),
    "star": networkx.star_graph(9),
    "bipartite": networkx.complete_bipartite_graph(4, 6),
    "crown": networkx.from_edgelist((2 * i, 2 * j + 1) for i in range(6) for j in range(6) if i != j),
    "cycle of five": networkx.cycle_graph(5),
    "disconnected": networkx.disjoint_union_all(
        [networkx.complete_graph(4), networkx.empty_graph(2), networkx.cycle_graph(5)]
    ),
    "petersen": networkx.petersen_graph(),
    "grid": networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(6, 7)),
    "random": networkx.gnp_random_graph(60, 0.2, seed=1),
}
each_algorithm = pytest.mark.parametrize("algorithm", algorithms())
each_graph = pytest.mark.parametrize("oracle", GRAPHS.values(), ids=GRAPHS)


def graph_of(oracle):
    return vv.Graph.from_edges(len(oracle), np.array(list(oracle.edges), np.int32).reshape(-1, 2))


def assert_proper_and_complete(colors, oracle):
    assert len(colors) == len(oracle) and (np.asarray(colors) >= 0).all()
    assert [(a, b) for a, b in oracle.edges if colors[a] == colors[b]] == []


def degeneracy_bound(oracle):
    """1 + the largest smallest degree of any subgraph: paper 002, eq. 14."""
    return 1 + max(networkx.core_number(oracle).values(), default=-1)


@each_algorithm
@each_graph
def test_coloring_is_proper_and_complete(algorithm, oracle):
    coloring = vv.color(graph_of(oracle), algorithm)
    assert_proper_and_complete(coloring.colors, oracle)
    assert coloring.count == len(set(coloring.colors.tolist()))
    assert coloring.sizes.tolist() == np.bincount(coloring.colors, minlength=coloring.count).tolist()


@each_algorithm
@each_graph
def test_coloring_needs_at_most_one_color_more_than_the_largest_degree(algorithm, oracle):
    most = 1 + max((degree for _, degree in oracle.degree), default=-1)
    assert vv.color(graph_of(oracle), algorithm).count <= most


@each_algorithm
def test_same_seed_gives_the_same_colors(algorithm):
    graph = graph_of(GRAPHS["random"])
    for seed in (0, 7):
        np.testing.assert_array_equal(vv.color(graph, algorithm, seed).colors, vv.color(graph, algorithm, seed).colors)
        np.testing.assert_array_equal(
            vv.color(graph, algorithm, np.random.default_rng(seed)).colors, vv.color(graph, algorithm, seed).colors
        )


def test_random_order_depends_on_the_seed():
    graph = graph_of(GRAPHS["random"])
    assert (vv.color(graph, "random", 0).colors != vv.color(graph, "random", 1).colors).any()


@each_algorithm
@given(edge_lists())
def test_any_graph_is_colored_properly(algorithm, case):
    node_count, edges = case
    oracle = networkx.empty_graph(node_count)
    oracle.add_edges_from(edges)
    assert_proper_and_complete(vv.color(vv.Graph.from_edges(node_count, edges), algorithm).colors, oracle)


@each_algorithm
@given(constraint_vertices())
def test_constraints_that_share_a_particle_get_different_colors(algorithm, case):
    particle_count, vertices = case
    assert_proper_and_complete(
        vv.color(constraint_graph(vertices, particle_count), algorithm).colors, joined_by_particles(vertices)
    )


@given(edge_lists())
def test_smallest_last_keeps_to_the_bound_on_any_graph(case):
    node_count, edges = case
    graph, oracle = vv.Graph.from_edges(node_count, edges), networkx.empty_graph(node_count)
    oracle.add_edges_from(edges)
    assert smallest_last_bound(graph) == degeneracy_bound(oracle)
    assert vv.color(graph).count <= degeneracy_bound(oracle)


@given(constraint_vertices())
def test_smallest_last_keeps_to_the_bound_on_any_constraints(case):
    """Two constraints with two particles in common are neighbors once."""
    particle_count, vertices = case
    graph, bound = constraint_graph(vertices, particle_count), degeneracy_bound(joined_by_particles(vertices))
    assert smallest_last_bound(graph) == bound
    assert graph.largest_hub <= vv.color(graph).count <= bound


@pytest.mark.parametrize("mesh", [vv.Mesh.grid(8, 8), vv.Mesh.box((3, 3, 3))], ids=["grid", "box"])
def test_smallest_last_keeps_to_the_bound_on_meshes(mesh):
    for vertices in (mesh.edges, mesh.hinges, mesh.tets):
        graph = constraint_graph(vertices, len(mesh.vertices))
        assert vv.color(graph).count <= degeneracy_bound(joined_by_particles(vertices))


@pytest.mark.parametrize(
    ("graph", "count"), [("star", 2), ("cycle of five", 3), ("complete", 7), ("one node", 1), ("empty", 0)]
)
def test_smallest_last_finds_the_fewest_colors_of_simple_graphs(graph, count):
    assert vv.color(graph_of(GRAPHS[graph])).count == count


@pytest.mark.parametrize("name", [name for name, oracle in GRAPHS.items() if oracle.edges])
def test_two_neighbors_of_one_color_are_named(name):
    oracle = GRAPHS[name]
    colors = vv.color(graph_of(oracle)).colors
    for one, other in itertools.islice(oracle.edges, 10):
        wrong = colors.copy()
        wrong[one] = wrong[other]
        with pytest.raises(ColoringError) as problem:
            Coloring(graph_of(oracle), wrong, "mine").validate()
        named = tuple(map(int, re.match(r"mine: nodes (\d+) and (\d+) are neighbors", str(problem.value)).groups()))
        assert one in named and oracle.has_edge(*named) and wrong[named[0]] == wrong[named[1]]


@pytest.mark.parametrize(
    ("colors", "message"),
    [
        ([0, 1, -1], "node 2 has no color"),
        ([0, 1], "expected 3 whole numbers"),
        ([0.0, 1.0, 0.0], "expected 3 whole numbers"),
        ([0, 2, 0], "color 1 is never used"),
        ([0, 3, 0], "color 3, though there are only 3 nodes"),
        ([1, 1, 0], "nodes 0 and 1 are neighbors and both have color 1"),
    ],
)
def test_wrong_coloring_raises(colors, message):
    path = vv.Graph.from_edges(3, [[0, 1], [1, 2]])
    with pytest.raises(ColoringError, match=message):
        Coloring(path, np.array(colors)).validate()


def test_function_that_colors_wrongly_is_caught_by_its_name():
    def all_alike(graph, generator):
        return np.zeros(graph.node_count, np.int32)

    with pytest.raises(ColoringError, match="all_alike: nodes 0 and 1 are neighbors and both have color 0"):
        vv.color(vv.Graph.from_edges(2, [[0, 1]]), all_alike)


def test_own_function_can_color():
    def one_each(graph, generator):
        return np.arange(graph.node_count)

    coloring = vv.color(graph_of(GRAPHS["petersen"]), one_each)
    assert coloring.count == 10 and coloring.balance == 1 and coloring.algorithm == "one_each"


def test_balance_is_the_mean_size_over_the_largest():
    star = vv.color(graph_of(GRAPHS["star"]))
    assert sorted(star.sizes) == [1, 9] and star.balance == pytest.approx(5 / 9)

"""Random graphs for hypothesis, and the explicit graph that they stand for."""

import itertools

import networkx
import numpy as np
from hypothesis import strategies as st


@st.composite
def edge_lists(draw, most_nodes=24):
    """A number of nodes and pairs of them, in any direction and some more than once."""
    node_count = draw(st.integers(0, most_nodes))
    if node_count < 2:
        return node_count, []
    nodes = st.integers(0, node_count - 1)
    return node_count, draw(
        st.lists(st.tuples(nodes, nodes).filter(lambda edge: edge[0] != edge[1]), max_size=4 * node_count)
    )


@st.composite
def constraint_vertices(draw, most_particles=16):
    """A number of particles and the vertices (m, arity) of constraints on them."""
    arity = draw(st.integers(1, 4))
    particle_count = draw(st.integers(arity, most_particles))
    row = st.lists(st.integers(0, particle_count - 1), min_size=arity, max_size=arity, unique=True)
    return particle_count, np.array(draw(st.lists(row, max_size=30)), np.int32).reshape(-1, arity)


def joined_by_particles(vertices):
    """Constraints as nodes, every two that share a particle as an edge, written out."""
    graph = networkx.empty_graph(len(vertices))
    sets = [set(row) for row in np.asarray(vertices).tolist()]
    graph.add_edges_from((i, j) for i, j in itertools.combinations(range(len(sets)), 2) if sets[i] & sets[j])
    return graph

"""The colorings that work in rounds: the same colors for any number of threads, and few of them."""

import numpy as np
import pytest

import vivace as vv
from vivace.bench.vivace_fig3 import PARALLEL, graphs
from vivace.coloring import algorithms, brooks_vizing
from vivace.coloring.brooks_vizing import with_shrink
from vivace.coloring.palette import NARROW, draw, draw_wide
from vivace.kernels import region

GRAPHS = {f"{kind} {number}": graph for kind, number, graph in graphs(quick=True)}
each_parallel = pytest.mark.parametrize("name", PARALLEL)
each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)


@each_parallel
@each_graph
def test_colors_do_not_depend_on_the_number_of_threads(name, graph, monkeypatch):
    made = []
    for threads in (1, 2, 3, 4):
        monkeypatch.setattr(region, "core_count", lambda threads=threads: threads)
        made.append(vv.color(graph, name, seed=5))
    assert all((coloring.colors == made[0].colors).all() and coloring.rounds == made[0].rounds for coloring in made)


@each_parallel
@each_graph
def test_another_seed_gives_another_coloring(name, graph):
    assert (vv.color(graph, name, seed=1).colors != vv.color(graph, name, seed=2).colors).any()


@each_graph
def test_brooks_vizing_needs_at_most_half_more_colors_than_jones_plassmann(graph):
    ours, theirs = (
        [vv.color(graph, name, seed=s).count for s in range(5)] for name in ("brooks-vizing", "jones-plassmann")
    )
    assert max(ours) <= 1.5 * min(theirs)


@each_graph
def test_a_stronger_shrink_needs_fewer_colors_and_more_rounds(graph):
    loose, tight = vv.color(graph, with_shrink(1)), vv.color(graph, with_shrink(4))
    assert tight.count < loose.count and tight.rounds > loose.rounds


@pytest.mark.parametrize("shrink", [0.5, 0, -1, np.nan])
def test_a_shrink_factor_below_one_is_refused(shrink):
    with pytest.raises(vv.InputError, match="shrink is"):
        with_shrink(shrink)
    with pytest.raises(vv.InputError, match="shrink is"):
        brooks_vizing.brooks_vizing(next(iter(GRAPHS.values())), np.random.default_rng(0), shrink)


def test_saturation_colors_a_bipartite_graph_with_two():
    """Brélaz 1979 proves it, and plain greedy does not hold it."""
    generator = np.random.default_rng(0)
    edges = np.unique(np.stack([generator.integers(0, 60, 400), generator.integers(60, 120, 400)], 1), axis=0)
    connected = vv.Graph.from_edges(
        120, np.concatenate([edges, [(i, 60) for i in range(60)], [(0, 60 + i) for i in range(60)]])
    )
    assert vv.color(connected, "saturation").count == 2
    assert vv.color(connected, "random", seed=3).count > 2


def test_a_palette_of_many_words_is_enough_for_a_hub():
    spokes = np.stack([np.zeros(150, int), np.arange(1, 151)], 1)
    hub = vv.Graph.from_edges(151, spokes)
    clique = vv.Graph.from_edges(150, [(i, j) for i in range(150) for j in range(i)])
    for name in algorithms():
        assert vv.color(clique, name).count == 150
        assert vv.color(hub, name).count <= 3, name


def test_the_word_of_bits_and_the_row_of_bytes_are_the_same_palette():
    generator = np.random.default_rng(0)
    taken = np.empty(NARROW, np.uint8)
    for degree in range(NARROW):
        colors, neighbors = generator.integers(-1, 90, 200, np.int32), generator.integers(0, 200, degree, np.uint32)
        for dealt in (1, degree // 2 + 1, degree + 1):
            number = generator.integers(1 << 63, dtype=np.uint64)
            arguments = colors, neighbors, np.uint64(0), np.uint64(degree), np.uint64(dealt), number
            color = draw(*arguments)
            assert color == draw_wide(*arguments, taken) and color not in colors[neighbors]


def test_rounds_do_not_grow_with_the_rows_of_a_mesh():
    """As they would if the higher number won: a palette of one color is a chain of nodes that wait."""
    strip = vv.Graph.from_edges(5000, np.stack([np.arange(4999), np.arange(1, 5000)], 1))
    assert vv.color(strip, "brooks-vizing").rounds < 30


def test_a_large_star_is_colored_in_little_memory():
    star = vv.Graph.from_edges(50_001, np.stack([np.zeros(50_000, int), np.arange(1, 50_001)], 1))
    assert vv.color(star, "brooks-vizing").count <= 3

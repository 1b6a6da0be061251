"""Phantom particles: any number of colors, checked with NumPy alone, and what the solver makes of them."""

from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.spatial import Delaunay

import vivace as vv
from helpers import NOTHING, WEIGHTLESS, advance, bits
from strategies import constraint_vertices
from vivace.backends.cpu import Team
from vivace.coloring.cliques import clique_number
from vivace.graph import constraint_graph

CLOTH, SAME, TORUS = vv.Mesh.grid(20, 20), vv.Mesh.grid(20, 20, diagonals="same"), vv.Mesh.torus(around=16)
LEFT = (20 * np.arange(19)[:, None] + np.arange(19)).ravel()  # the upper left corners of the grid's cells
CROSSED = np.unique(np.concatenate([SAME.edges, np.stack([LEFT + 1, LEFT + 20], 1)]), axis=0)
MESHES = {
    "cloth": CLOTH.edges,
    "cloth, crossed": CROSSED,
    "hinges": CLOTH.hinges,
    "torus stretch": TORUS.edges,
    "torus volume": TORUS.tets,
    "tets": Delaunay(np.random.default_rng(0).random((200, 3))).simplices,
}
WHEEL = np.array([(0, i) for i in range(1, 6)] + [(i, i % 5 + 1) for i in range(1, 6)])  # paper 000, figure 4
each_mesh = pytest.mark.parametrize("mesh", MESHES)
each_target = pytest.mark.parametrize("colors", [2, 3, 4, 6, 8])
each_cliques = pytest.mark.parametrize("cliques", ["particles", "bron-kerbosch"])
each_insertion = pytest.mark.parametrize("insertion", ["split", "paper"])


def plain_of(vertices):
    return vv.color(constraint_graph(vertices, int(vertices.max(initial=-1)) + 1))


@cache
def split(mesh, colors, cliques="particles"):
    return vv.partition([MESHES[mesh]], colors, cliques=cliques)


def assert_right(made, groups):
    """Constraints are those that were given, none of a color share a copy, all phantoms are used, none is left out."""
    originals = np.concatenate([np.arange(made.particle_count), made.originals])
    for group, vertices in zip(made.groups, groups, strict=True):
        np.testing.assert_array_equal(originals[group.vertices], np.reshape(vertices, group.vertices.shape))
        colors = group.coloring.colors
        assert len(colors) == len(vertices) == group.coloring.sizes.sum() and (colors >= 0).all()
        held = colors[:, None].astype(int) * len(originals) + group.vertices
        assert len(np.unique(held)) == held.size
    used = np.concatenate([np.zeros(0, int), *(group.vertices.ravel() for group in made.groups)])
    assert np.isin(np.arange(made.particle_count, len(originals)), used).all()
    together = made.phantom_constraints
    assert len(together) == len(set(made.originals.tolist())) == (made.copies > 1).sum()
    for particle, *own in together:
        assert own and (originals[own] == particle).all() and made.copies[particle] == len(own) + 1
    assert sum(map(len, together)) == made.phantom_count + len(together)


@each_mesh
@each_target
@each_cliques
def test_any_number_of_colors_is_reached_in_batches_of_nearly_equal_size(mesh, colors, cliques):
    made = split(mesh, colors, cliques)
    assert_right(made, [MESHES[mesh]])
    group = made.groups[0]
    assert 1 < group.coloring.count <= colors == group.target
    assert group.coloring.sizes.max() <= 1.5 * group.coloring.sizes.mean()
    assert np.bincount(group.vertices.ravel()).max() <= colors
    np.testing.assert_array_equal(group.plain.colors, plain_of(MESHES[mesh]).colors)
    if group.plain.count > colors:
        assert made.phantom_count > 0
    else:
        assert made.phantom_count == 0 and (group.coloring.colors == group.plain.colors).all()


@each_mesh
@each_target
def test_the_fast_way_needs_hardly_more_phantoms_than_all_cliques(mesh, colors):
    assert split(mesh, colors).phantom_count <= 1.1 * split(mesh, colors, "bron-kerbosch").phantom_count


@each_mesh
def test_fewer_colors_need_more_phantoms(mesh):
    counts = [split(mesh, colors).phantom_count for colors in (2, 3, 4, 6, 8)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]


@each_mesh
@each_target
def test_phantoms_are_nearly_as_few_as_copies_of_so_many_constraints_each_can_be(mesh, colors):
    sizes = np.bincount(MESHES[mesh].ravel())
    least = (-(-sizes // colors) - 1).clip(0).sum()
    springs = MESHES[mesh].shape[1] == 2
    assert least <= split(mesh, colors).phantom_count <= (1.1 if springs else 2.1) * least


@each_cliques
def test_the_wheel_of_the_paper(cliques):
    printed = vv.partition([WHEEL], 3, insertion="paper", cliques=cliques)
    assert_right(printed, [WHEEL])
    assert printed.originals.tolist() == [0] * 5
    assert [members.tolist() for members in printed.phantom_constraints] == [[0, 6, 7, 8, 9, 10]]
    assert printed.groups[0].plain.count == 5 and sorted(printed.groups[0].coloring.sizes) == [3, 3, 4]
    ours = vv.partition([WHEEL], 3, cliques=cliques)
    assert_right(ours, [WHEEL])
    assert ours.phantom_count <= 5 and sorted(ours.groups[0].coloring.sizes) == [3, 3, 4]


@each_cliques
def test_the_printed_algorithm_makes_three_times_as_many_phantoms_as_there_need_be(cliques):
    printed = vv.partition([SAME.edges], 4, insertion="paper", cliques=cliques)
    assert_right(printed, [SAME.edges])
    assert printed.phantom_count == 1944
    assert vv.partition([SAME.edges], 4, cliques=cliques).phantom_count <= 648


@each_mesh
@pytest.mark.parametrize("colors", [2, 8])
def test_the_printed_algorithm_leaves_no_particle_with_more_constraints_than_colors(mesh, colors):
    made = vv.partition([MESHES[mesh]], colors, insertion="paper")
    assert_right(made, [MESHES[mesh]])
    assert np.bincount(made.groups[0].vertices.ravel()).max() <= colors
    assert made.phantom_count >= split(mesh, colors).phantom_count


@each_insertion
@each_cliques
def test_phantoms_of_several_groups_are_one_phantom_constraint(insertion, cliques):
    groups = [TORUS.edges, TORUS.tets]
    made = vv.partition(groups, 3, insertion, cliques)
    assert_right(made, groups)
    shared = set(made.groups[0].vertices.ravel()) & set(made.groups[1].vertices.ravel())
    assert max(shared) >= made.particle_count  # both groups hold the same phantoms
    alone = [vv.partition([group], 3, insertion, cliques, made.particle_count).copies for group in groups]
    np.testing.assert_array_equal(made.copies, np.maximum(*alone))


@each_cliques
def test_half_is_half_the_clique_number_of_each_group(cliques):
    groups = {"stretch": TORUS.edges, "volume": TORUS.tets, "few": TORUS.edges[:1]}
    targets = [group.target for group in vv.partition(groups, "half", cliques=cliques).groups]
    numbers = [clique_number(constraint_graph(group, int(group.max()) + 1)) for group in groups.values()]
    assert targets == [number // 2 for number in numbers[:2]] + [2] and targets[0] != targets[1] > 2


@given(constraint_vertices(), constraint_vertices(), st.integers(2, 5), st.sampled_from(["split", "paper"]), st.data())
def test_any_constraints_in_any_order_are_partitioned_the_same_each_time(one, other, colors, insertion, data):
    cliques = data.draw(st.sampled_from(["particles", "bron-kerbosch"]))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    count = max(one[0], other[0])
    renumbered = generator.permutation(count)
    for groups in ([one[1], other[1]], [renumbered[generator.permutation(group)] for group in (one[1], other[1])]):
        made, again = (vv.partition(groups, colors, insertion, cliques, count) for _ in range(2))
        assert_right(made, groups)
        np.testing.assert_array_equal(made.originals, again.originals)
        for group, same in zip(made.groups, again.groups):
            assert insertion == "paper" or group.coloring.count <= colors
            np.testing.assert_array_equal(group.vertices, same.vertices)
            np.testing.assert_array_equal(group.coloring.colors, same.coloring.colors)


@given(constraint_vertices(), st.integers(0, 3))
def test_where_plain_colors_fit_and_are_even_they_stay_and_there_are_no_phantoms(case, more):
    plain = plain_of(case[1])
    assume(1 < plain.count and plain.sizes.max() <= 1.5 * plain.sizes.mean())
    made = vv.partition([case[1]], plain.count + more)
    assert made.phantom_count == 0
    np.testing.assert_array_equal(made.groups[0].coloring.colors, plain.colors)


def test_colors_that_fit_are_made_even():
    edges = np.concatenate([CLOTH.edges, np.stack([np.zeros(24, int), np.arange(100, 124)], 1)])
    plain = plain_of(edges)
    made = vv.partition([edges], plain.count)
    assert_right(made, [edges])
    assert plain.sizes.max() > 2 * plain.sizes.mean() and made.phantom_count == 0
    assert made.groups[0].coloring.sizes.max() < 1.1 * plain.sizes.mean()


TIGHT = [(10, 9, 11, 4), (10, 1, 9, 5), (2, 7, 3, 5), (3, 1, 10, 6), (1, 10, 7, 12), (10, 2, 0, 4), (2, 5, 6, 9)]
TIGHT += [(4, 6, 8, 7), (11, 2, 3, 0), (7, 5, 3, 12), (3, 1, 6, 11), (4, 6, 1, 5)]


def test_no_phantoms_where_plain_colors_fit_though_unevenly():
    plain = plain_of(np.array(TIGHT))
    assert vv.partition([TIGHT], plain.count).phantom_count == 0


# Bad input, and input that is unusual but good.


@pytest.mark.parametrize("colors", [1, 0, -3, "thirds", "4", 2.5, True, None, np.nan])
def test_bad_colors_are_refused(colors):
    for refuse in (lambda: vv.partition([WHEEL], colors), lambda: vv.Phantoms(colors)):
        with pytest.raises(vv.InputError, match="colors is .*; it must be a whole number, at least 2"):
            refuse()


@pytest.mark.parametrize("name", ["insertion", "cliques", "averaging"])
def test_unknown_ways_are_refused(name):
    with pytest.raises(vv.InputError, match=f"unknown {name} 'other'"):
        vv.Phantoms(**{name: "other"})
    if name != "averaging":
        with pytest.raises(vv.InputError, match=f"unknown {name} 'other'"):
            vv.partition([WHEEL], **{name: "other"})


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (WHEEL, r"groups: expected groups of constraints, got ndarray; try \[groups\]"),
        ("edges", "got str"),
        (WHEEL.tolist(), r"group 0: expected an array \(constraints, particles of each\), got shape \(2,\)"),
        ({"rim": [(0, 1), (2, 2)]}, "rim: constraint 1 names a particle twice"),
        ([[(0, -1)]], "group 0: row 0 names particle -1"),
        ([WHEEL, [(0.5, 1.0)]], "group 1: expected whole numbers"),
    ],
)
def test_bad_groups_are_named(groups, message):
    with pytest.raises(vv.InputError, match=message):
        vv.partition(groups, 2)


def test_too_small_a_particle_count_is_refused():
    with pytest.raises(vv.InputError, match="particle_count is 5; it must be a whole number, at least 6"):
        vv.partition([WHEEL], 2, particle_count=5)


def test_rows_of_different_lengths_are_named():
    with pytest.raises(vv.InputError, match="group 0"):
        vv.partition([[(0, 1), (1, 2, 3)]], 2)


@pytest.mark.parametrize("solver", [vv.Phantoms, vv.HybridJacobi])
def test_a_number_of_numpy_is_a_number(solver):
    plans = [solver(colors=colors).prepare(cloth_scene().build(), 4, 0) for colors in (2, np.int64(2))]
    assert plans[0].colors == plans[1].colors


def test_two_groups_of_one_name_are_both_partitioned_or_refused():
    groups = cloth_scene().build().groups
    try:
        made = vv.partition([groups[0], groups[0]], 2)
    except vv.InputError:
        return
    assert len(made.groups) == 2


def test_groups_come_as_a_model_has_them_or_in_a_list_or_by_name():
    model = cloth_scene().build()
    arrays = {group.name: group.vertices for group in model.groups}
    expected = vv.partition(model.groups, 3)
    assert [group.name for group in expected.groups] == list(arrays)
    for groups, names in ((arrays, list(arrays)), (list(arrays.values()), ["group 0", "group 1"])):
        made = vv.partition(groups, 3)
        assert [group.name for group in made.groups] == names
        np.testing.assert_array_equal(made.originals, expected.originals)


@each_insertion
@each_cliques
def test_empty_groups_and_particles_without_constraints_are_no_problem(insertion, cliques):
    assert vv.partition([], 2, insertion, cliques).groups == ()
    groups = [np.zeros((0, 4), int), WHEEL + 3]
    made = vv.partition(groups, 2, insertion, cliques, particle_count=20)
    assert_right(made, groups)
    assert made.groups[0].coloring.count == 0 and made.copies[[0, 1, 2, *range(9, 20)]].tolist() == [1] * 14
    assert made.report[0]["colors"] == 0 and made.report[0]["largest/mean"] == 1


@each_insertion
@each_cliques
def test_constraints_that_share_no_particle_are_one_color_without_phantoms(insertion, cliques):
    made = vv.partition([np.arange(40).reshape(10, 4)], "half", insertion, cliques)
    assert made.phantom_count == 0 and made.groups[0].coloring.count == 1 and made.phantom_constraints == []


@pytest.mark.parametrize(("colors", "phantoms"), [(2, 1499), (8, 374), ("half", 1), (5000, 0)])
def test_a_hub_of_thousands_of_constraints_gets_as_many_copies_as_it_needs(colors, phantoms):
    spokes = np.stack([np.zeros(3000, int), np.arange(1, 3001)], 1)
    made = vv.partition([spokes], colors)
    assert_right(made, [spokes])
    assert made.phantom_count == phantoms and not made.originals.any()


def test_the_report_tells_before_and_after():
    made = vv.partition({"rim": WHEEL}, 3, insertion="paper")
    (row,) = made.report
    assert (row["of"], row["constraints"], row["colors before"], row["target"], row["colors"]) == ("rim", 10, 5, 3, 3)
    assert (row["smallest"], row["largest"], row["phantoms"], row["phantom constraints"]) == (3, 4, 5, 1)
    assert row["largest/mean"] == pytest.approx(1.2) and sum(row["sizes"]) == sum(row["sizes before"]) == 10
    assert "rim 5 -> 3 colors; 5 phantoms of 1 particles" in repr(made)


# The solver.

COLORS = [2, 3, "half"]
each_colors = pytest.mark.parametrize("colors", COLORS)
MATERIALS = {"ratios": vv.Ratios(stretch=1.0, bend=0.2), "compliances": vv.Compliances(stretch=1e-4, bend=1.0)}
PINS = [0, 9]


def cloth_scene(material="ratios", gravity=(0.0, -9.81, 0.0)):
    """Hung by two corners over a ball."""
    scene = vv.Scene(gravity=gravity)
    scene.add_cloth(vv.Mesh.grid(10, 10), material=MATERIALS[material]).pin(PINS)
    scene.add_collider(vv.Sphere(0.2, (0.0, -0.25, 0.1)))
    return scene


def assert_together(simulation):
    """Every phantom's row is that of its particle, to the bit."""
    plan, state = simulation.plan, simulation.state
    first = plan.row_of[plan.order]
    assert plan.phantom_count == (first != np.arange(len(first))).sum() > 0
    for rows in (state.positions, state.velocities):
        assert (bits(rows[first]) == bits(rows[: len(first)])).all()


@pytest.mark.parametrize("material", MATERIALS)
@pytest.mark.parametrize(("colors", "substeps"), [(2, 1), (3, 2), ("half", 1)])
def test_bits_are_the_same_for_any_number_of_threads_and_near_the_reference(colors, substeps, material, monkeypatch):
    monkeypatch.setattr(Team, "BEARABLE", np.inf)  # all threads take part, however long they wait
    made = []
    for threads in (1, 2, 3):
        simulation = vv.Simulation(cloth_scene(material), vv.Phantoms(colors), substeps=substeps, threads=threads)
        assert {report.threads for report in simulation.run(8)} == {threads}
        made.append(simulation)
    assert all((bits(one.positions) == bits(made[0].positions)).all() for one in made)
    slow = advance(cloth_scene(material), 8, solver=vv.Phantoms(colors), substeps=substeps, backend="reference")
    np.testing.assert_allclose(made[0].positions, slow.positions, atol=2e-5)
    np.testing.assert_allclose(made[0].velocities, slow.velocities, atol=5e-3)
    assert abs(slow.positions - slow.model.positions).max() > 0.05


@each_colors
@pytest.mark.parametrize("averaging", ["mass", "paper"])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_phantoms_coincide_with_their_particle_after_every_step(colors, averaging, backend):
    simulation = vv.Simulation(cloth_scene(), vv.Phantoms(colors, averaging), threads=1, backend=backend, substeps=2)
    assert_together(simulation)
    for _ in simulation.run(10):
        assert_together(simulation)
    assert simulation.positions.shape == simulation.velocities.shape == (100, 3)
    reached = {"stretch": 4, "bend": 8} if colors == "half" else {"stretch": colors, "bend": colors}
    assert simulation.colors == reached


@each_colors
def test_copies_share_the_mass_of_their_particle_or_have_all_of_it(colors):
    model = cloth_scene().build()
    shared, whole = (vv.Phantoms(colors, averaging).prepare(model, 4, 0) for averaging in ("mass", "paper"))
    np.testing.assert_array_equal(whole.inverse_masses, model.inverse_masses[whole.order])
    np.testing.assert_allclose(shared.inverse_masses, (model.inverse_masses * shared.copies)[shared.order], rtol=1e-6)
    masses = np.bincount(shared.order[shared.inverse_masses > 0], 1 / shared.inverse_masses[shared.inverse_masses > 0])
    np.testing.assert_allclose(masses[1:9], 1 / model.inverse_masses[1:9], rtol=1e-6)


@each_colors
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_phantoms_of_pins_stay_and_travel_with_them(colors, backend):
    scene = cloth_scene()
    simulation = vv.Simulation(scene, vv.Phantoms(colors), threads=1, substeps=3, backend=backend)
    assert (simulation.plan.copies[PINS] > 1).any() or colors != 2
    for _ in simulation.run(3):
        np.testing.assert_array_equal(simulation.positions[PINS], simulation.model.positions[PINS])
    targets = simulation.positions[PINS] + np.array([[0.02, 0.01, 0.0], [0.0, 0.03, -0.01]], np.float32)
    simulation.move_pins(PINS, targets)
    simulation.step()
    assert_together(simulation)
    np.testing.assert_array_equal(simulation.positions[PINS], targets)
    for _ in simulation.run(2):
        np.testing.assert_array_equal(simulation.positions[PINS], targets)
        assert_together(simulation)
    assert not simulation.velocities[PINS].any()


@each_colors
def test_positions_and_velocities_that_are_set_reach_the_phantoms(colors):
    one = advance(cloth_scene(), 4, solver=vv.Phantoms(colors))
    other = vv.Simulation(cloth_scene(), vv.Phantoms(colors), threads=1)
    other.positions, other.velocities = one.positions, one.velocities
    assert_together(other)
    np.testing.assert_array_equal(other.positions, one.positions)
    one.step(), other.step()
    assert (bits(one.positions) == bits(other.positions)).all()
    other.set_positions([55, 44], [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    assert_together(other)
    assert other.positions[[44, 55], 2].tolist() == pytest.approx([0.6, 0.3])


@pytest.mark.parametrize("material", MATERIALS)
def test_with_enough_colors_it_is_plain_gauss_seidel_to_the_bit(material):
    plain = advance(cloth_scene(material), 10, solver="gauss-seidel")
    numbers = [planned.coloring.count for planned in plain.plan.groups]
    assert numbers == [clique_number(planned.coloring.graph) for planned in plain.plan.groups]
    same = advance(cloth_scene(material), 10, solver=vv.Phantoms(max(numbers)))
    assert same.plan.phantom_count == 0
    assert (bits(same.positions) == bits(plain.positions)).all()
    assert (bits(same.velocities) == bits(plain.velocities)).all()


def test_fewer_colors_are_farther_from_gauss_seidel():
    def hung(solver):
        scene = vv.Scene()
        scene.add_cloth(vv.Mesh.grid(30, 30), material=vv.Ratios(stretch=1.0)).pin([0, 29])
        return advance(scene, 10, solver=solver)

    plain = hung("gauss-seidel")
    moved = np.linalg.norm(plain.positions - plain.model.positions)
    errors = [np.linalg.norm(hung(vv.Phantoms(k)).positions - plain.positions) / moved for k in (2, "half", 8)]
    assert 0.1 > errors[0] > errors[1] > errors[2] == 0


@pytest.mark.parametrize("averaging", ["mass", "paper"])
def test_the_printed_insertion_runs_too(averaging):
    simulation = advance(cloth_scene(), 10, solver=vv.Phantoms(3, averaging, insertion="paper"))
    assert_together(simulation)
    assert simulation.plan.phantom_count > 2 * vv.Phantoms(3).prepare(simulation.model, 8, 0).phantom_count


def test_a_hub_of_thousands_of_springs_falls_as_one_and_loose_particles_fall_alone():
    scene = vv.Scene(gravity=(0, -1, 0))
    body = scene.add_cloth(vv.Mesh.grid(70, 70), material=NOTHING)
    scene.add_constraints(body, "stretch", np.stack([np.full(2000, 4899), np.arange(2000)], 1))
    simulation = advance(scene, 6, solver=vv.Phantoms(4), damping=0.0)
    assert simulation.plan.phantom_count == 499
    np.testing.assert_allclose(simulation.velocities, np.tile([0, -0.1, 0], (4900, 1)), atol=1e-4)


def test_a_scene_of_pins_alone_stays():
    scene = vv.Scene()
    body = scene.add_cloth(vv.Mesh.grid(6, 6))
    body.pin(np.arange(36))
    simulation = advance(scene, 3, solver=vv.Phantoms(2))
    assert simulation.plan.phantom_count > 0
    np.testing.assert_array_equal(simulation.positions, body.mesh.vertices)


def test_new_constraints_make_new_phantoms_and_the_motion_goes_on():
    scene = cloth_scene()
    simulation = advance(scene, 3, solver=vv.Phantoms(4))
    before, count = simulation.positions, simulation.plan.phantom_count
    scene.add_constraints(scene.bodies[0], "stretch", np.stack([np.full(30, 99), np.arange(20, 50)], 1))
    assert simulation.renew() and simulation.plan.phantom_count > count
    np.testing.assert_array_equal(simulation.positions, before)
    assert_together(simulation)
    simulation.step()
    assert_together(simulation)


def test_groups_of_both_kinds_and_attachments_share_phantoms():
    scene = vv.Scene(gravity=WEIGHTLESS)
    for material in (vv.Springs(100.0, bend=1e-3), vv.Ratios(stretch=0.5)):
        body = scene.add_cloth(vv.Mesh.grid(6, 6), material=material)
    scene.bodies[0].attach(np.arange(36), 50.0)
    scene.bodies[0].attach([14], 500.0)
    fast, slow = (advance(scene, 5, solver=vv.Phantoms(2), backend=backend) for backend in ("cpu", "reference"))
    assert max(fast.colors.values()) == 2 and len(fast.colors) == 4
    np.testing.assert_allclose(fast.positions, np.tile(body.mesh.vertices, (2, 1)), atol=1e-5)
    np.testing.assert_allclose(fast.positions, slow.positions, atol=1e-5)

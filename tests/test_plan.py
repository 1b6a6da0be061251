"""From a model to the rows and batches that backends sweep over: partition, plan and state."""

import numpy as np
import pytest

import vivace as vv
from helpers import materials_of
from vivace.batches import Partition
from vivace.coloring import Coloring
from vivace.remainder import find_remainder
from vivace.solvers import solvers
from vivace.state import State, aligned

SOLVERS = [(solver, kind) for solver in solvers() for kind in materials_of(solver)]
each_solver = pytest.mark.parametrize(("solver", "kind"), SOLVERS, ids=[" ".join(method) for method in SOLVERS])
# Of cloth and solid.
MATERIALS = {
    "ratios": (vv.Ratios(stretch=1.0, bend=0.1), vv.Ratios(stretch=1.0, volume=1.0)),
    "physical": (vv.Springs(100.0, bend=0.01), vv.Elastic(1e4)),
    "springs": (vv.MassSpring(100.0), vv.MassSpring(1e3)),
}


def model_of_two_bodies(kind="ratios"):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(6, 5), material=MATERIALS[kind][0]).pin([0, 5])
    scene.add_solid(vv.Mesh.box((2, 2, 3)), material=MATERIALS[kind][1])
    return scene.build()


def plan_of(solver, model):
    return solvers()[solver]().prepare(model, 4, 0)


@each_solver
def test_rows_are_the_particles_in_another_order_and_their_phantoms_beside_them(solver, kind):
    model = model_of_two_bodies(kind)
    plan = plan_of(solver, model)
    copies = np.ones(model.particle_count, int) if plan.copies is None else plan.copies
    np.testing.assert_array_equal(np.bincount(plan.order), copies)
    np.testing.assert_array_equal(plan.order[plan.row_of], np.arange(model.particle_count))
    assert np.count_nonzero(np.diff(plan.order)) == model.particle_count - 1
    assert plan.phantom_count == copies.sum() - len(copies) and (plan.phantom_count > 0) == (solver == "phantoms")
    assert (plan.order[plan.row_of[1:] - 1] != plan.order[plan.row_of[1:]]).all()  # the particle's own row is first


@each_solver
def test_planned_constraints_are_those_of_the_model_on_rows(solver, kind):
    for planned in plan_of(solver, model_of_two_bodies(kind)).groups:
        kept = planned.partition.order
        np.testing.assert_array_equal(np.sort(kept), np.arange(len(planned.group)))
        np.testing.assert_array_equal(planned.rest, planned.group.rest[kept])
        np.testing.assert_array_equal(planned.stiffness_ratio, planned.group.stiffness_ratio[kept])
        if kind == "physical":
            np.testing.assert_array_equal(planned.compliance, planned.group.compliance[kept])


@each_solver
def test_planned_vertices_lead_back_to_the_particles(solver, kind):
    plan = plan_of(solver, model_of_two_bodies(kind))
    for planned in plan.groups:
        np.testing.assert_array_equal(plan.order[planned.vertices], planned.group.vertices[planned.partition.order])


def test_constraints_of_a_batch_share_no_particle():
    for planned in plan_of("gauss-seidel", model_of_two_bodies()).groups:
        offsets = planned.partition.offsets
        assert planned.batch_count == planned.coloring.count > 1 and offsets[-1] == len(planned.group)
        for first, last in zip(offsets[:-1], offsets[1:]):
            touched = planned.vertices[first:last].ravel()
            assert len(np.unique(touched)) == len(touched) > 0


@pytest.mark.parametrize("kind", ["ratios", "physical"])
def test_particles_of_a_color_share_no_constraint(kind):
    plan = plan_of("vivace", model_of_two_bodies(kind))
    assert 4 <= plan.coloring.count < 30 and plan.colors == {"particles": plan.coloring.count}
    for planned in plan.groups:
        of_corners = np.sort(plan.coloring.colors[planned.vertices], axis=1)
        assert (of_corners[:, 1:] != of_corners[:, :-1]).all()


def test_rows_of_joined_particles_are_near_each_other_for_a_shuffled_mesh():
    mesh = vv.Mesh.grid(20, 20)
    shuffle = np.random.default_rng(0).permutation(400)
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh(mesh.vertices[np.argsort(shuffle)], shuffle[mesh.triangles]))
    stretch = plan_of("gauss-seidel", scene.build()).groups[0].vertices
    assert abs(stretch[:, 0] - stretch[:, 1]).max() < 60


def test_partition_has_a_batch_for_each_color_in_the_order_of_memory():
    graph = vv.Graph.from_edges(5, [[0, 1], [2, 3]])
    partition = Partition.from_coloring(Coloring(graph, np.array([0, 1, 0, 1, 0])), locality=np.array([9, 2, 5, 1, 7]))
    assert partition.order.tolist() == [2, 4, 0, 3, 1] and partition.offsets.tolist() == [0, 3, 5]
    assert partition.batch_count == 2 and partition.remainder == slice(5, 5)


@pytest.mark.parametrize(("most", "offsets"), [(1, [0, 2]), (2, [0, 2, 4]), (3, [0, 2, 4, 5]), (9, [0, 2, 4, 5])])
def test_colors_beyond_the_most_are_the_remainder(most, offsets):
    coloring = Coloring(vv.Graph.from_edges(5, []), np.array([2, 1, 0, 1, 0]))
    partition = Partition.from_coloring(coloring, np.array([1, 9, 8, 2, 7]), most)
    assert partition.offsets.tolist() == offsets and partition.batch_count == len(offsets) - 1
    assert partition.remainder == slice(offsets[-1], 5)
    assert partition.order.tolist() == ([4, 2, 0, 3, 1] if most == 1 else [4, 2, 3, 1, 0])


JACOBI = {"all": vv.AveragedJacobi(), "half": vv.HybridJacobi(), "some": vv.HybridJacobi(colors=1)}


@pytest.mark.parametrize("solver", [*JACOBI.values(), vv.HybridJacobi(colors=99)], ids=[*JACOBI, "none"])
def test_what_the_colors_leave_over_is_the_remainder_and_one_more_parallel_step(solver):
    for planned in solver.prepare(model_of_two_bodies(), 4, 0).groups:
        left, colored, batches = planned.partition.remainder, planned.coloring, 0
        if colored:
            half = colored.graph.largest_hub // 2
            batches = min(half if solver.colors == "half" else solver.colors, colored.count)
            assert (colored.colors[planned.partition.order[left]] >= batches).all()
        any_left = left.start < left.stop == len(planned.group)
        assert any_left == (colored is None or colored.count > batches)
        assert planned.batch_count == batches and planned.parallel_steps == batches + any_left


@pytest.mark.parametrize("solver", JACOBI.values(), ids=JACOBI)
def test_corrections_of_a_row_lie_side_by_side_and_are_counted_over_all_groups(solver):
    plan = solver.prepare(model_of_two_bodies(), 4, 0)
    found = find_remainder(plan.groups)
    corners = [planned.vertices[planned.partition.remainder].ravel() for planned in plan.groups]
    counts = np.bincount(np.concatenate(corners), minlength=len(plan.order))
    np.testing.assert_array_equal(found.rows, np.flatnonzero(counts))
    np.testing.assert_array_equal(np.diff(found.begins), counts[found.rows])
    places = np.concatenate([places.ravel() for places in found.places])
    np.testing.assert_array_equal(np.sort(places), np.arange(found.begins[-1]))
    np.testing.assert_array_equal(np.repeat(found.rows, np.diff(found.begins))[places], np.concatenate(corners))
    for own, rows in zip(found.counts, corners, strict=True):
        np.testing.assert_array_equal(own.ravel(), counts[rows])


def test_plans_without_a_remainder_have_no_corrections():
    found = find_remainder(plan_of("gauss-seidel", model_of_two_bodies()).groups)
    assert found.begins.tolist() == [0] and not found.rows.size and not any(map(len, found.places))


def test_state_gives_back_what_is_set_in_the_order_of_the_user():
    model = model_of_two_bodies()
    state = State(plan_of("gauss-seidel", model))
    np.testing.assert_array_equal(state.get("positions"), model.positions)
    values = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    state.set("velocities", np.array([3, 40]), values)
    np.testing.assert_array_equal(state.get("velocities")[[3, 40]], values)
    assert np.count_nonzero(state.get("velocities").any(axis=1)) == 2


def test_rows_beyond_the_last_particle_are_pinned():
    model = model_of_two_bodies()
    positions = State(plan_of("gauss-seidel", model)).positions
    assert len(positions) % 8 == 0 and len(positions) > model.particle_count
    assert not positions[model.particle_count :].any()


@pytest.mark.parametrize("shape", [(1,), (3, 4), (1000, 4)])
def test_aligned_memory_begins_on_a_cache_line(shape):
    memory = aligned(shape)
    assert memory.ctypes.data % 64 == 0 and memory.shape == shape and not memory.any() and memory.dtype == np.float32

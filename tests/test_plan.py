"""From a model to the rows and batches that backends sweep over: partition, plan and state."""

import numpy as np
import pytest

import vivace as vv
from helpers import materials_of
from vivace.batches import Partition
from vivace.coloring import Coloring
from vivace.solvers import solvers
from vivace.state import State, aligned

SOLVERS = [(solver, kind) for solver in solvers() for kind in materials_of(solver)]
each_solver = pytest.mark.parametrize(("solver", "kind"), SOLVERS, ids=[" ".join(method) for method in SOLVERS])
# Of cloth and solid.
MATERIALS = {
    "ratios": (vv.Ratios(stretch=1.0, bend=0.1), vv.Ratios(stretch=1.0, volume=1.0)),
    "physical": (vv.Springs(100.0, bend=0.01), vv.Elastic(1e4)),
}


def model_of_two_bodies(kind="ratios"):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(6, 5), material=MATERIALS[kind][0]).pin([0, 5])
    scene.add_solid(vv.Mesh.box((2, 2, 3)), material=MATERIALS[kind][1])
    return scene.build()


def plan_of(solver, model):
    return solvers()[solver]().prepare(model, 4, 0)


@each_solver
def test_rows_are_the_particles_in_another_order(solver, kind):
    model = model_of_two_bodies(kind)
    plan = plan_of(solver, model)
    np.testing.assert_array_equal(np.sort(plan.order), np.arange(model.particle_count))
    np.testing.assert_array_equal(plan.order[plan.row_of], np.arange(model.particle_count))


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
    assert partition.batch_count == 2


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

import numpy as np
import pytest

import vivace as vv
from vivace.constraints import stretch

GRID, BOX = vv.Mesh.grid(5, 4, (2.0, 3.0)), vv.Mesh.box((2, 3, 2), (1.0, 2.0, 0.5))


class Height:
    """Keeps a particle at a height: an example of a constraint of one's own."""

    ARITY = 1
    ANCHORED = True

    @staticmethod
    def value_gradient(corners, rest):
        one = corners[0][1] * np.float32(0) + np.float32(1)
        return corners[0][1] - rest, ((one - one, one, one - one),), one


def scene_of_both():
    scene = vv.Scene()
    cloth = scene.add_cloth(GRID, density=0.2, material=vv.Ratios(stretch=1.0, bend=0.1))
    solid = scene.add_solid(BOX, density=900.0, material=vv.Ratios(stretch=0.5, volume=0.8, bend=0.2))
    return scene, cloth, solid


def group_of(model, name):
    (group,) = [group for group in model.groups if group.name == name]
    return group


def test_masses_add_up_to_density_times_size():
    _, cloth, solid = scene_of_both()
    assert cloth.masses.sum() == pytest.approx(0.2 * 6.0, rel=1e-6)
    assert solid.masses.sum() == pytest.approx(900.0 * 1.0, rel=1e-6)


def test_each_triangle_gives_its_corners_equal_shares_of_its_mass():
    triangle = vv.Scene().add_cloth(vv.Mesh([[0, 0, 0], [2, 0, 0], [0, 3, 0]], [[0, 1, 2]]), density=0.5)
    np.testing.assert_allclose(triangle.masses, 0.5 * 3 / 3)


def test_inverse_masses_are_those_of_the_bodies_and_zero_where_pinned():
    scene, cloth, solid = scene_of_both()
    cloth.pin([0, 4])
    solid.pin(7)
    inverse = scene.build().inverse_masses
    pinned = np.zeros(len(inverse), bool)
    pinned[[0, 4, len(cloth) + 7]] = True
    np.testing.assert_array_equal(inverse == 0, pinned)
    np.testing.assert_allclose(inverse[~pinned], 1 / np.concatenate([cloth.masses, solid.masses])[~pinned], rtol=1e-6)


def test_bodies_follow_each_other_in_the_particles():
    scene, cloth, solid = scene_of_both()
    model = scene.build()
    assert cloth.rows == slice(0, len(GRID.vertices)) and solid.rows == slice(len(GRID.vertices), scene.particle_count)
    np.testing.assert_array_equal(model.positions[cloth.rows], GRID.vertices)
    np.testing.assert_array_equal(model.positions[solid.rows], BOX.vertices)
    np.testing.assert_array_equal(model.triangles, np.concatenate([GRID.triangles, BOX.triangles + len(GRID.vertices)]))


def test_constraints_of_one_kind_become_one_group_of_all_bodies():
    scene, cloth, solid = scene_of_both()
    model = scene.build()
    first = len(cloth)
    assert sorted(group.name for group in model.groups) == ["bend", "stretch", "volume"]
    np.testing.assert_array_equal(group_of(model, "stretch").vertices, np.concatenate([GRID.edges, BOX.edges + first]))
    np.testing.assert_array_equal(group_of(model, "bend").vertices, np.concatenate([GRID.hinges, BOX.hinges + first]))
    np.testing.assert_array_equal(group_of(model, "volume").vertices, BOX.tets + first)
    ratios = group_of(model, "stretch").stiffness_ratio
    np.testing.assert_array_equal(ratios, np.repeat(np.float32([1.0, 0.5]), [len(GRID.edges), len(BOX.edges)]))


def test_rest_values_are_lengths_angles_and_volumes_of_the_mesh():
    model = scene_of_both()[0].build()
    ends = BOX.vertices[BOX.edges].astype(float)
    np.testing.assert_allclose(
        group_of(model, "stretch").rest[len(GRID.edges) :], np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1), rtol=1e-6
    )
    np.testing.assert_allclose(group_of(model, "volume").rest, BOX.volumes, rtol=1e-6)
    folds = group_of(model, "bend").rest
    np.testing.assert_allclose(folds[: len(GRID.hinges)], 0, atol=1e-6)
    # A box is flat or folded by a right angle.
    assert set(np.round(abs(folds[len(GRID.hinges) :]), 5)) == {0, np.float32(1.5708)}


@pytest.mark.parametrize("left_out", ["stretch", "bend", "volume"])
def test_ratio_of_zero_leaves_a_constraint_out(left_out):
    scene = vv.Scene()
    scene.add_solid(BOX, material=vv.Ratios(**{"stretch": 1.0, "bend": 0.5, "volume": 1.0, left_out: 0.0}))
    assert sorted(group.name for group in scene.build().groups) == sorted({"stretch", "bend", "volume"} - {left_out})


def test_scene_without_any_constraint_is_a_cloud_of_particles():
    scene = vv.Scene()
    scene.add_cloth(GRID, material=vv.Ratios(stretch=0.0))
    assert scene.build().groups == ()


def test_cloth_of_a_solid_mesh_uses_the_edges_of_its_surface_only():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.box((1, 1, 1)), material=vv.Ratios(stretch=1.0))
    surface_edges = len(vv.Mesh.box((1, 1, 1)).triangles) * 3 // 2
    assert len(group_of(scene.build(), "stretch")) == surface_edges == len(vv.Mesh.box((1, 1, 1)).edges) - 1


def test_start_moves_but_rest_stays_when_positions_are_set_before_the_simulation():
    scene, cloth, _ = scene_of_both()
    before = scene.build()
    cloth.set_positions(slice(None), 2 * GRID.vertices)
    after = scene.build()
    np.testing.assert_array_equal(after.positions[cloth.rows], 2 * GRID.vertices)
    np.testing.assert_array_equal(group_of(after, "stretch").rest, group_of(before, "stretch").rest)


@pytest.mark.parametrize(
    "rows",
    [[1, 3], np.array([1, 3]), slice(1, 4, 2), np.arange(20) % 2 * (np.arange(20) < 4) == 1],
    ids=["list", "array", "slice", "mask"],
)
def test_rows_are_named_by_a_list_a_slice_or_a_mask(rows):
    scene = vv.Scene()
    cloth = scene.add_cloth(GRID)
    cloth.set_positions(rows, [[7, 7, 7], [8, 8, 8]])
    positions = scene.build().positions
    np.testing.assert_array_equal(positions[[1, 3]], [[7, 7, 7], [8, 8, 8]])
    np.testing.assert_array_equal(np.delete(positions, [1, 3], axis=0), np.delete(GRID.vertices, [1, 3], axis=0))


def test_added_constraints_measure_their_rest_and_take_a_ratio_for_each():
    scene = vv.Scene()
    scene.add_cloth(GRID, material=vv.Ratios(stretch=0.0))
    other = scene.add_cloth(GRID, material=vv.Ratios(stretch=0.0))
    scene.add_constraints(other, "stretch", [[0, 19], [0, 4]], stiffness_ratio=[0.5, 1.0])
    group = group_of(scene.build(), "stretch")
    np.testing.assert_array_equal(group.vertices, [[20, 39], [20, 24]])
    np.testing.assert_allclose(group.rest, [np.hypot(2, 3), 2.0], rtol=1e-6)
    np.testing.assert_array_equal(group.stiffness_ratio, np.float32([0.5, 1.0]))
    assert group.constraint is stretch


def test_added_constraints_keep_a_rest_that_is_given():
    scene = vv.Scene()
    cloth = scene.add_cloth(GRID, material=vv.Ratios(stretch=0.0))
    scene.add_constraints(cloth, "stretch", [[0, 1], [2, 3]], rest=[0.1, 0.2])
    scene.add_constraints(cloth, "stretch", [[5, 6]], rest=0.3)
    np.testing.assert_allclose(group_of(scene.build(), "stretch").rest, [0.1, 0.2, 0.3])


def test_constraint_of_ones_own_runs_beside_the_others():
    scene = vv.Scene()
    cloth = scene.add_cloth(GRID)
    scene.add_constraints(cloth, Height, np.arange(len(GRID.vertices))[:, None], rest=1.0)
    for backend in ("cpu", "reference"):
        report = vv.Simulation(scene, iterations=1, backend=backend).step()
        assert report.residual["Height"].largest < 1e-4


def test_bodies_without_a_name_get_different_ones():
    scene = vv.Scene()
    scene.add_cloth(GRID, name="cloth-2")
    for _ in range(3):
        scene.add_cloth(GRID)
    scene.add_solid(BOX)
    assert len({body.name for body in scene.bodies}) == 5


def test_surfaces_carry_friction_and_margin():
    scene = scene_of_both()[0]
    ball = vv.Sphere(0.5)
    scene.add_collider(ball, friction=0.7, margin=0.01)
    (surface,) = scene.build().surfaces
    assert (surface.collider, surface.friction, surface.margin) == (ball, 0.7, 0.01)


def test_model_does_not_change_when_the_scene_does():
    scene, cloth, _ = scene_of_both()
    model = scene.build()
    cloth.pin(0)
    cloth.set_positions([1], [[9, 9, 9]])
    assert model.inverse_masses[0] > 0 and model.positions[1].max() < 9

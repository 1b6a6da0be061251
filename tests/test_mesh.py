import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vivace as vv
from vivace.constraints import bend
from vivace.mesh import TET_FACES
from vivace.model import measure

SOLIDS = {
    "box": (vv.Mesh.box((3, 2, 4), (1.0, 0.5, 2.0)), 1.0, 2),
    "one-cell box": (vv.Mesh.box((1, 1, 1)), 1.0, 2),
    "ball": (vv.Mesh.ball(8, 0.5), 4 / 3 * np.pi * 0.5**3, 2),
    "torus": (vv.Mesh.torus(1.0, 0.4, 40, 4), 2 * np.pi**2 * 0.4**2, 0),
}
each_solid = pytest.mark.parametrize(("mesh", "volume", "euler_characteristic"), SOLIDS.values(), ids=SOLIDS)
sides = st.integers(2, 9)


def tet_faces(mesh):
    return np.unique(np.sort(np.concatenate([mesh.tets[:, list(face)] for face in TET_FACES]), axis=1), axis=0)


@given(sides, sides, st.sampled_from(["alternate", "same"]))
def test_grid_is_a_sheet_of_the_right_counts(columns, rows, diagonals):
    mesh = vv.Mesh.grid(columns, rows, (2.0, 3.0), diagonals)
    assert len(mesh.vertices) == columns * rows
    assert len(mesh.triangles) == 2 * (columns - 1) * (rows - 1)
    assert len(mesh.boundary) == 2 * (columns - 1) + 2 * (rows - 1)
    assert len(mesh.hinges) == len(mesh.edges) - len(mesh.boundary)
    assert len(mesh.vertices) - len(mesh.edges) + len(mesh.triangles) == 1
    assert mesh.areas.sum() == pytest.approx(6)


def test_grid_counts_vertices_row_by_row_in_the_xz_plane():
    mesh = vv.Mesh.grid(4, 3, (3.0, 2.0))
    row, column = 2, 1
    np.testing.assert_allclose(mesh.vertices[row * 4 + column], [-1.5 + column, 0, -1 + row], atol=1e-6)
    np.testing.assert_allclose(mesh.vertices.mean(axis=0), 0, atol=1e-6)


@pytest.mark.parametrize("diagonals", ["alternate", "same"])
def test_every_triangle_of_a_grid_faces_up(diagonals):
    mesh = vv.Mesh.grid(5, 4, diagonals=diagonals)
    a, b, c = (mesh.vertices[mesh.triangles[:, i]] for i in range(3))
    assert (np.cross(b - a, c - a)[:, 1] > 0).all()


@pytest.mark.parametrize(("diagonals", "valences"), [("alternate", {4, 8}), ("same", {6})])
def test_diagonals_set_the_valence_of_inner_vertices(diagonals, valences):
    mesh = vv.Mesh.grid(6, 6, diagonals=diagonals)
    inner = np.setdiff1d(np.arange(36), mesh.boundary)
    assert set(np.bincount(mesh.edges.ravel())[inner]) == valences


def test_strip_is_two_vertices_wide():
    mesh = vv.Mesh.strip(10, 2.0, 0.1)
    assert len(mesh.vertices) == 22 and len(mesh.triangles) == 20
    np.testing.assert_allclose(np.ptp(mesh.vertices, axis=0), [2.0, 0, 0.1], rtol=1e-6)


@each_solid
def test_solid_has_positive_tets_that_fill_its_volume(mesh, volume, euler_characteristic):
    assert (mesh.volumes > 0).all()
    assert mesh.volumes.sum() == pytest.approx(volume, rel=0.06)


@each_solid
def test_surface_of_a_solid_is_closed_and_encloses_its_tets(mesh, volume, euler_characteristic):
    """By the theorem of Gauss the pyramids over outward triangles add up to the volume."""
    assert len(mesh.boundary) == 0
    a, b, c = (mesh.vertices[mesh.triangles[:, i]].astype(float) for i in range(3))
    assert np.einsum("ij,ij->", np.cross(a, b), c) / 6 == pytest.approx(mesh.volumes.sum(), rel=1e-5)


@each_solid
def test_solid_has_the_euler_characteristic_of_its_shape(mesh, volume, euler_characteristic):
    on_surface = np.unique(mesh.triangles)
    surface_edges = len(mesh.triangles) * 3 // 2
    assert len(on_surface) - surface_edges + len(mesh.triangles) == euler_characteristic
    assert len(mesh.vertices) - len(mesh.edges) + len(tet_faces(mesh)) - len(mesh.tets) == euler_characteristic // 2


@each_solid
def test_every_vertex_of_a_solid_is_in_some_tet(mesh, volume, euler_characteristic):
    np.testing.assert_array_equal(np.unique(mesh.tets), np.arange(len(mesh.vertices)))


def test_box_is_exact():
    mesh = vv.Mesh.box((3, 2, 4), (1.0, 0.5, 2.0))
    assert len(mesh.vertices) == 4 * 3 * 5 and len(mesh.tets) == 6 * 3 * 2 * 4
    assert mesh.volumes.sum() == pytest.approx(1.0, rel=1e-6)
    np.testing.assert_allclose(mesh.volumes, 1 / len(mesh.tets), rtol=1e-5)


def test_ball_has_its_surface_on_the_sphere():
    mesh = vv.Mesh.ball(5, 2.0)
    assert len(mesh.tets) == 20 * 5**3 and len(mesh.triangles) == 20 * 5**2
    np.testing.assert_allclose(np.linalg.norm(mesh.vertices[np.unique(mesh.triangles)], axis=1), 2.0, rtol=1e-5)


def test_finer_ball_is_nearer_to_a_true_one():
    lost = [4 / 3 * np.pi - vv.Mesh.ball(layers).volumes.sum() for layers in (2, 4, 8)]
    assert lost[0] > 3 * lost[1] > 9 * lost[2] > 0


def test_torus_lies_around_the_y_axis():
    mesh = vv.Mesh.torus(2.0, 0.5, 24, 3)
    to_ring = np.hypot(np.hypot(mesh.vertices[:, 0], mesh.vertices[:, 2]) - 2.0, mesh.vertices[:, 1])
    assert to_ring.max() == pytest.approx(0.5, rel=1e-5)
    assert len(mesh.tets) == 24 * 6 * 3**2 * 3 and len(mesh.vertices) == 24 * (1 + 3 * 3 * 4)


def test_edges_are_listed_once_with_those_inside_a_solid():
    tet = vv.Mesh(np.eye(4, 3), tets=[[0, 1, 2, 3]])
    np.testing.assert_array_equal(tet.edges, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])
    assert len(tet.triangles) == 4


def test_hinge_is_an_edge_and_the_wings_of_its_two_triangles():
    mesh = vv.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2], [2, 1, 3]])
    (hinge,) = mesh.hinges
    assert set(hinge[:2]) == {1, 2} and set(hinge[2:]) == {0, 3}


def test_edge_of_three_triangles_has_two_hinges():
    fan = vv.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, 0]], [[0, 1, 2], [0, 1, 3], [0, 1, 4]])
    assert len(fan.hinges) == 2 and set(fan.hinges[:, :2].ravel()) == {0, 1}


@pytest.mark.parametrize("mesh", [vv.Mesh.grid(9, 7), vv.Mesh.grid(9, 7, diagonals="same")], ids=["alternate", "same"])
def test_rolled_sheet_folds_the_same_way_at_every_hinge(mesh):
    x, _, z = mesh.vertices.T
    folds = measure(bend, np.stack([np.sin(x), np.cos(x), z], axis=1)[mesh.hinges])
    folded = abs(folds) > 1e-3
    assert folded.sum() == 7 * 6 and abs(np.sign(folds[folded]).sum()) == 7 * 6


@pytest.mark.parametrize("solid", ["box", "ball"])
def test_convex_solid_folds_the_same_way_at_every_hinge(solid):
    mesh = SOLIDS[solid][0]
    folds = measure(bend, mesh.vertices[mesh.hinges])
    folded = abs(folds) > 1e-3
    assert folded.any() and abs(np.sign(folds[folded]).sum()) == folded.sum()


def test_mesh_keeps_its_own_arrays_and_does_not_let_them_be_written():
    vertices, triangles = np.eye(3), np.array([[0, 1, 2]])
    mesh = vv.Mesh(vertices, triangles)
    vertices[0] = 7
    triangles[0] = 0
    assert mesh.vertices[0, 0] == 1 and list(mesh.triangles[0]) == [0, 1, 2]
    assert mesh.vertices.dtype == np.float32 and mesh.triangles.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        mesh.vertices[0] = 7


def test_moved_scales_about_the_origin_and_then_shifts():
    mesh = vv.Mesh.box((1, 1, 1))
    moved = mesh.moved((1.0, 2.0, 3.0), scale=2.0)
    np.testing.assert_allclose(moved.vertices, 2 * mesh.vertices + [1, 2, 3])
    np.testing.assert_array_equal(moved.tets, mesh.tets)

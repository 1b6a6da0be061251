"""What the figures about phantoms (paper 000) and about the falling cube (paper 002) must show, at a small scale."""

import numpy as np
import pytest

from bench_rows import rows_of
from vivace.bench import pbd_fig5, phantoms_fig7, phantoms_fig8, phantoms_fig9, phantoms_fig10
from vivace.mesh import Mesh
from vivace.scene import Scene


def test_phantoms_halve_the_colors_and_make_batches_even():
    rows = rows_of(phantoms_fig7.NAME)
    for plain, phantoms in zip(rows[::2], rows[1::2]):
        assert (plain["method"], phantoms["method"]) == ("smallest-last", "phantoms")
        assert phantoms["colors"] < 0.6 * plain["colors"]
        assert phantoms["largest/mean"] < 1.5
        assert sum(phantoms["sizes"]) == sum(plain["sizes"]) == plain["constraints"]


def test_surface_triangles_belong_to_their_tets():
    mesh = Mesh.torus(around=8, rings=2)
    tets = mesh.tets[phantoms_fig7._owners(mesh)]
    assert all(set(triangle) < set(tet) for triangle, tet in zip(mesh.triangles, tets))


def test_any_number_of_colors_is_reached_with_even_batches():
    rows = [row for row in rows_of(phantoms_fig8.NAME) if row["insertion"] == "split"]
    assert [row["target"] for row in rows] == list(phantoms_fig8.COLORS)
    assert all(row["colors"] <= row["target"] and row["largest/mean"] < 1.5 for row in rows)


def test_splitting_takes_no_more_phantoms_than_the_printed_algorithm_where_that_reaches_the_colors():
    rows = {(row["insertion"], row["target"]): row for row in rows_of(phantoms_fig8.NAME)}
    reached = [target for target in phantoms_fig8.COLORS if rows["paper", target]["colors"] <= target]
    assert len(reached) > 3
    assert all(rows["split", target]["phantoms"] <= rows["paper", target]["phantoms"] for target in reached)


def test_gauss_seidel_relaxes_first_and_averaged_jacobi_last():
    after = {row["solver"]: row["residuals"][-1] for row in rows_of(phantoms_fig9.NAME)}
    assert after["gauss-seidel"] < min(after["phantoms"], after["hybrid-jacobi"])
    assert max(after["phantoms"], after["hybrid-jacobi"]) < after["averaged-jacobi"] < 0.1


def test_center_of_mass_stays_where_masses_are_split_and_moves_where_they_are_not():
    rows = rows_of(phantoms_fig10.NAME)
    kept = [row["moved m"] for row in rows if row["averaging"] != "paper"]
    hybrid = [row["moved m"] for row in rows if (row["solver"], row["averaging"]) == ("hybrid-jacobi", "paper")]
    assert max(kept) < 1e-5
    assert min(hybrid) > 1e-3


def test_symmetry_hides_the_drift_of_averaging():
    rows = rows_of(phantoms_fig10.NAME)
    rows = [row for row in rows if (row["solver"], row["averaging"]) == ("averaged-jacobi", "paper")]
    moved = {cloth: max(row["moved m"] for row in rows if row["cloth"] == cloth) for cloth in phantoms_fig10.SIDES}
    assert moved["square"] < 1e-5 < 1e-3 < moved["corner cut off"]


def test_rigid_modes_are_found():
    scene = Scene()
    body = scene.add_cloth(Mesh.grid(4, 3))
    angle = np.radians(7)
    turn = np.array([[np.cos(angle), 0, -np.sin(angle)], [0, 1, 0], [np.sin(angle), 0, np.cos(angle)]])
    moved, turned = phantoms_fig10.rigid_modes(body, body.mesh.vertices @ turn.T + [0.3, 0, 0.4])
    assert moved == pytest.approx(0.5, rel=1e-5)
    assert turned == pytest.approx(7, rel=1e-5)


def test_gauss_seidel_keeps_a_falling_cube_stiffer_than_jacobi_with_three_times_the_iterations():
    rows = {(row["solver"], row["way"]): row for row in rows_of(pbd_fig5.NAME)}
    ours, theirs = rows["Gauss-Seidel", pbd_fig5.THEIRS], rows["averaged Jacobi", pbd_fig5.THEIRS]
    assert (ours["iterations"], theirs["iterations"]) == (8, 24)
    for key in ("mean strain %", "mean volume error %"):
        assert ours[key] < theirs[key]

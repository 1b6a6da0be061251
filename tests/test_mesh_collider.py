"""A mesh as a collider: its distance on a sparse grid."""

import sys
import warnings

import numpy as np
import pytest

import vivace as vv
from helpers import BACKENDS, WEIGHTLESS, bare_model, relaxed, rotation
from vivace import caching
from vivace.collision import sampling
from vivace.constraints import stretch
from vivace.model import Surface
from vivace.progress import told_to

pytest.importorskip("igl")
VOXEL, RADIUS = 0.04, 0.5
each_backend = pytest.mark.parametrize("backend", BACKENDS)


@pytest.fixture(scope="module", autouse=True)
def cache_of_its_own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VIVACE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def ball(cache_of_its_own):
    return vv.MeshCollider(vv.Mesh.ball(10, RADIUS), VOXEL)


def evaluate(collider, points):
    """Distance (n,) and normal (n, 3)."""
    with np.errstate(all="ignore"):
        distance, normal = collider.distance_normal(tuple(np.asarray(points, float).T), collider.parameters())
    return distance, np.stack(np.broadcast_arrays(*normal), axis=1)


def around(count=4000, reach=0.8):
    return np.random.default_rng(0).uniform(-reach, reach, (count, 3))


def test_distance_near_the_surface_is_that_of_the_mesh(ball):
    points = around()
    true = np.linalg.norm(points, axis=1) - RADIUS
    distance, normal = evaluate(ball, points)
    near = np.abs(true) < ball.band
    assert np.abs(distance - true)[near].max() < 0.1 * VOXEL
    radial = points / np.linalg.norm(points, axis=1, keepdims=True)
    assert (normal * radial).sum(axis=1)[near].min() > 0.98


def test_distance_far_outside_is_never_more_than_there_is_and_at_least_the_band(ball):
    for reach in (0.8, 5.0, 1000.0):
        points = around(reach=reach)
        true = np.linalg.norm(points, axis=1) - RADIUS
        far = true > ball.band + 0.01
        distance, _ = evaluate(ball, points)
        assert (distance[far] <= true[far] + 0.01).all() and (distance[far] >= ball.band - 1e-6).all()


def test_the_way_out_is_known_everywhere_inside(ball):
    points = around()
    true = np.linalg.norm(points, axis=1) - RADIUS
    distance, normal = evaluate(ball, points)
    assert (distance[true < -0.01] < 0).all()
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1, rtol=1e-6)
    deep = (true < -ball.band) & (true > -0.8 * RADIUS)
    assert (normal * points).sum(axis=1)[deep].min() > 0


def test_normal_is_the_gradient_within_a_voxel(ball):
    points, step = around(), 1e-7
    distance, normal = evaluate(ball, points)
    points, normal = points[np.abs(distance) < ball.band], normal[np.abs(distance) < ball.band]
    gradient = np.stack(
        [evaluate(ball, points + step * axis)[0] - evaluate(ball, points - step * axis)[0] for axis in np.eye(3)],
        axis=1,
    ) / (2 * step)
    gradient /= np.linalg.norm(gradient, axis=1, keepdims=True)
    # Some points are within a step of a voxel's side, where it bends.
    assert (np.abs(gradient - normal).max(axis=1) < 1e-4).mean() > 0.99


def test_smaller_voxels_are_closer_to_the_mesh():
    points, errors = around(), []
    true = np.linalg.norm(points, axis=1) - RADIUS
    near = np.abs(true) < 0.05
    for voxel in (0.08, 0.04):
        ball = vv.MeshCollider(vv.Mesh.ball(16, RADIUS), voxel)
        errors.append(np.sqrt(np.mean((evaluate(ball, points)[0] - true)[near] ** 2)))
    assert errors[1] < 0.6 * errors[0]


@each_backend
@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_free_particles_end_outside_and_pinned_ones_stay(ball, backend, margin):
    points = 0.6 * around(200, 1.0).reshape(-1, 2, 3)
    inverse_masses = np.tile([1.0, 1.0, 0.0, 1.0], len(points) // 2)
    lengths = np.linalg.norm(points[:, 0] - points[:, 1], axis=1)
    model = bare_model(stretch, points, lengths, inverse_masses, [Surface(ball, 0.3, margin)])
    after, _ = relaxed(model, backend, iterations=4)
    free = inverse_masses > 0
    assert evaluate(ball, model.positions[free])[0].min() < -0.1
    assert evaluate(ball, after[free])[0].min() > margin - 0.05 * VOXEL
    np.testing.assert_array_equal(after[~free], model.positions[~free])


def resting(collider, backend="cpu", motion=None, frames=40, **settings):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(9, 9, (0.5, 0.5)).moved((0.0, RADIUS + 0.1, 0.0)), material=vv.Ratios(stretch=1.0))
    scene.add_collider(collider, friction=1.0, margin=0.01, motion=motion)
    simulation = vv.Simulation(scene, backend=backend, threads=1, substeps=4, damping=2.0, **settings)
    for _ in simulation.run(frames):
        pass
    return simulation.positions


@each_backend
def test_cloth_comes_to_lie_on_a_mesh_as_on_the_shape_itself(ball, backend):
    distance = np.linalg.norm(resting(ball, backend), axis=1) - RADIUS
    assert 0.01 - 0.1 * VOXEL < distance.min() < 0.02


def test_fast_and_reference_backends_agree(ball):
    moved = ball.moved((0.01, 0.0, 0.02), rotation(0.3, 0.2, 0.1))
    ends = [resting(moved, backend, lambda t: (0.1 * t, 0.0, 0.0), frames=12) for backend in ("cpu", "reference")]
    np.testing.assert_allclose(*ends, atol=1e-4)


def test_a_moved_mesh_is_the_mesh_elsewhere(ball):
    points, turn, way = around(), rotation(0.5, -0.3, 1.0), np.array([1.0, 2.0, -3.0])
    distance, normal = evaluate(ball, points)
    moved = ball.moved(rotation=rotation(0.5, 0.0, 0.0)).moved(way, turn @ rotation(-0.5, 0.0, 0.0))
    there, turned = evaluate(moved, points @ turn.T + way)
    np.testing.assert_allclose(there, distance, atol=1e-6)
    assert (np.abs(turned - normal @ turn.T).max(axis=1) < 1e-3).mean() > 0.99
    np.testing.assert_array_equal(evaluate(ball, points)[0], distance)


def test_a_mesh_that_moves_carries_cloth(ball):
    away = resting(ball, motion=lambda t: (0.0, 0.0, 0.3 * max(t - 0.33, 0.0)), frames=60).mean(axis=0)
    assert away[2] == pytest.approx(0.3 * 0.67, abs=0.03)


@pytest.mark.parametrize("speed", [2, 20, 60])
@each_backend
def test_cloth_thrown_at_a_thin_mesh_stays_on_its_side(speed, backend):
    wall = vv.MeshCollider(vv.Mesh.box((1, 4, 4), (0.04, 1.6, 1.6)), 0.02)
    flat = vv.Mesh.grid(8, 8, (0.5, 0.5))
    scene = vv.Scene(gravity=WEIGHTLESS)
    scene.add_cloth(vv.Mesh(flat.vertices[:, [1, 0, 2]] + np.float32([0.5, 0.0, 0.0]), flat.triangles))
    scene.add_collider(wall)
    simulation = vv.Simulation(scene, threads=1, backend=backend)
    simulation.velocities = np.tile([-speed, 0.3, 0.0], (64, 1))
    for _ in simulation.run(30):
        assert simulation.positions[:, 0].min() > 0.02 - 1e-3
    assert simulation.positions[:, 0].min() < 0.021


def test_particles_that_are_not_finite_are_found_and_not_looked_up(ball):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(3, 3))
    scene.add_collider(ball)
    for flaw in (np.nan, np.inf, -np.inf, 1e30):
        simulation = vv.Simulation(scene, threads=1)
        simulation.state.positions[3, 1] = flaw
        with pytest.raises(vv.SimulationError, match="is not finite"):
            simulation.step()


def test_a_second_time_it_comes_from_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("VIVACE_CACHE", str(tmp_path))
    told = []
    with told_to(lambda *news: told.append(news)):
        first = vv.MeshCollider(vv.Mesh.ball(3, RADIUS), 0.1)
    assert {what for what, _, _ in told} == {"looking for the surface", "sampling distances"}
    assert len(list((caching.folder() / "grids").glob("*.npz"))) == 1
    monkeypatch.setattr(sampling, "_sample", None)
    second = vv.MeshCollider(vv.Mesh.ball(3, RADIUS), 0.1)
    for one, other in zip(first.tables, second.tables):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(TypeError):  # other voxels must be sampled anew
        vv.MeshCollider(vv.Mesh.ball(3, RADIUS), 0.09)


def write_obj(path, mesh):
    lines = [f"v {x} {y} {z}" for x, y, z in mesh.vertices]
    path.write_text("\n".join(lines + [f"f {a} {b} {c}" for a, b, c in mesh.triangles + 1]))
    return path


@pytest.mark.parametrize("kind", ["obj", "stl"])
def test_a_file_is_the_mesh_in_it(tmp_path, kind):
    trimesh = pytest.importorskip("trimesh")
    mesh, file = vv.Mesh.ball(4, RADIUS), tmp_path / f"ball.{kind}"
    if kind == "obj":
        write_obj(file, mesh)
    else:  # which has three vertices of its own for every triangle
        trimesh.Trimesh(mesh.vertices, mesh.triangles).export(file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read, made = vv.MeshCollider(file, 0.1), vv.MeshCollider(mesh, 0.1)
    np.testing.assert_allclose(evaluate(read, around())[0], evaluate(made, around())[0], atol=1e-6)
    assert str(file) in repr(read)


def test_an_open_mesh_is_taken_with_a_warning(ball):
    mesh = vv.Mesh.ball(10, RADIUS)
    top = mesh.vertices[mesh.triangles].mean(axis=1)[:, 1] > 0.48
    with pytest.warns(UserWarning, match=r"not closed: \d+ edges are open \(first: at .*winding number"):
        cup = vv.MeshCollider(vv.Mesh(mesh.vertices, mesh.triangles[~top]), VOXEL)
    points = around()
    below = points[:, 1] < 0.3
    np.testing.assert_allclose(evaluate(cup, points)[0][below], evaluate(ball, points)[0][below], atol=0.3 * VOXEL)


def test_a_mesh_turned_inside_out_is_still_solid_inside(ball):
    mesh = vv.Mesh.ball(10, RADIUS)
    reversed_ball = vv.MeshCollider(vv.Mesh(mesh.vertices, mesh.triangles[:, ::-1]), VOXEL)
    np.testing.assert_allclose(evaluate(reversed_ball, around())[0], evaluate(ball, around())[0], atol=1e-6)


def text_file(folder):
    (folder / "chair.obj").write_text("a chair")
    return folder / "chair.obj"


def not_finite(folder):
    (folder / "nan.obj").write_text("v 0 0 0\nv 1 0 nan\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 4 2\nf 2 4 3\nf 1 3 4\n")
    return folder / "nan.obj"


def unknown_ending(folder):
    (folder / "chair.xyzzy").write_text("a chair")
    return folder / "chair.xyzzy"


def flat_plate(folder):
    corners = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1.0]])
    return vv.Mesh(corners, [[0, 1, 2], [0, 2, 3]])


BAD = {
    "missing file": (lambda folder: folder / "no.obj", {}, "there is no file .*no.obj"),
    "file that is no mesh": (text_file, {}, "chair.obj' (cannot be read as a mesh|has no triangles)"),
    "unknown ending": (unknown_ending, {}, "chair.xyzzy' cannot be read as a mesh"),
    "numbers that are none": (not_finite, {}, "nan.obj.*vertices: 1 row is not finite .first: row 1"),
    "something else": (lambda folder: 7, {}, "expected a vivace.Mesh or a file, got int"),
    "no triangles": (lambda folder: vv.Mesh([[0, 0, 0], [1, 1, 1.0]]), {}, "has no triangle with a size"),
    "huge voxel": (lambda folder: vv.Mesh.ball(2, 0.3), {"voxel": 5.0}, "0.6 m large, less than a voxel of 5 m"),
    "no voxel": (lambda folder: vv.Mesh.ball(2), {"voxel": 0.0}, "MeshCollider voxel is 0.0"),
    "NaN voxel": (lambda folder: vv.Mesh.ball(2), {"voxel": np.nan}, "MeshCollider voxel is nan"),
    "thin band": (lambda folder: vv.Mesh.ball(2), {"band": 0.01}, "MeshCollider band is 0.01"),
    "tiny voxel": (lambda folder: vv.Mesh.ball(2), {"voxel": 1e-4}, r"would take about \d+ MB, \d+ blocks of 8\^3"),
    "thin mesh": (flat_plate, {}, "thinner than its voxels of 0.1 m"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_bad_input_is_named(name, tmp_path):
    make, settings, message = BAD[name]
    with pytest.raises(vv.InputError, match=message):
        vv.MeshCollider(make(tmp_path), **{"voxel": 0.1, **settings})


def test_a_grid_that_does_not_fit_is_refused_before_any_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "igl", None)
    with pytest.raises(vv.InputError, match="MB"):
        vv.MeshCollider(vv.Mesh.ball(2), 1e-4)


@pytest.mark.parametrize(("module", "mesh"), [("igl", vv.Mesh.ball(2, 0.7)), ("trimesh", "chair.obj")])
def test_a_missing_library_says_what_to_install(monkeypatch, module, mesh):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(vv.InputError, match=rf"{module} is not installed; .*pip install 'vivace\[mesh\]'"):
        vv.MeshCollider(mesh, 0.1)


@pytest.mark.parametrize("sign", ["|", "&", "-"])
def test_a_mesh_is_not_joined_with_other_shapes(ball, sign):
    join = {"|": lambda a, b: a | b, "&": lambda a, b: a & b, "-": lambda a, b: a - b}[sign]
    for first, second in ((ball, vv.Sphere(1.0)), (vv.Sphere(1.0), ball)):
        with pytest.raises(vv.InputError, match=r"a MeshCollider cannot be joined by .: its distance is in a grid"):
            join(first, second)


def test_a_margin_beyond_the_band_is_refused(ball):
    with pytest.raises(vv.InputError, match=r"margin is 0.2, but <MeshCollider .*> knows distances up to 0.12 only"):
        vv.Scene().add_collider(ball, margin=0.2)

"""Writers: what they write, and that nothing is ever half-written."""

import sys

import numpy as np
import pytest

import vivace as vv
from vivace.io import open_writers, partial_name, picture, write_text, writers
from vivace.recording import record

DT = 1 / 60


@pytest.fixture
def simulation():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(6, 6)).pin([0, 5])
    scene.add_collider(vv.Sphere(0.2, center=(0, -0.5, 0)))
    return vv.Simulation(scene, dt=DT, iterations=2)


def recorded(simulation, paths, frames=4):
    return record(simulation, frames, open_writers(paths, simulation.model, DT), lambda: None)


def test_npz_holds_every_frame(simulation, tmp_path):
    path = tmp_path / "run.npz"
    result = recorded(simulation, [path])
    with np.load(path) as data:
        assert data["positions"].shape == (4, 36, 3) and data["positions"].dtype == np.float32
        np.testing.assert_array_equal(data["positions"][-1], simulation.positions)
        np.testing.assert_array_equal(data["triangles"], simulation.model.triangles)
        assert data["dt"] == DT
    assert result.written == [str(path)] and result.failure is None
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


@pytest.mark.parametrize("ending", [".mp4", ".gif", ".png"])
def test_pictures_show_something(simulation, tmp_path, ending):
    imageio = pytest.importorskip("imageio.v3")
    path = tmp_path / f"run{ending}"
    recorded(simulation, [path])
    shown = np.asarray(imageio.imread(path, **({"plugin": "FFMPEG"} if ending == ".mp4" else {})))
    frame = shown[-1] if shown.ndim == 4 else shown
    assert frame.shape[0] >= 360 and frame.std() > 3
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_film_plays_at_real_speed(simulation, tmp_path):
    imageio = pytest.importorskip("imageio.v3")
    path = tmp_path / "run.mp4"
    recorded(simulation, [path], frames=30)
    properties = imageio.immeta(path, plugin="FFMPEG")
    assert properties["duration"] == pytest.approx(30 * DT, abs=0.08)


def test_a_step_that_breaks_keeps_what_was_written(simulation, tmp_path):
    path = tmp_path / "run.npz"
    writer = open_writers([path], simulation.model, DT)
    for _ in range(3):
        simulation.step()
        writer[0].write(simulation.positions)
    simulation.state.velocities[7, 0] = np.nan
    result = record(simulation, 5, writer, lambda: None)
    assert isinstance(result.failure, vv.SimulationError) and f"frame {simulation.frame + 1}:" in str(result.failure)
    with np.load(path) as data:
        assert len(data["positions"]) == simulation.frame >= 3


def test_an_old_file_stays_until_the_new_one_is_whole(simulation, tmp_path):
    path = tmp_path / "run.npz"
    path.write_text("old")
    (writer,) = open_writers([path], simulation.model, DT)
    writer.write(simulation.positions)
    assert path.read_text() == "old"
    writer.close()
    assert len(np.load(path)["positions"]) == 1


def test_a_full_disk_is_reported_and_leaves_the_old_file(simulation, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    path.write_text("old")
    (writer,) = open_writers([path], simulation.model, DT)

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zipfile.ZipFile.open", full)
    result = record(simulation, 2, [writer], lambda: None)
    assert isinstance(result.failure, OSError) and result.failure.filename == str(path)
    assert path.read_text() == "old" and [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_writers_are_discarded_when_a_later_one_cannot_open(simulation, tmp_path, monkeypatch):
    def missing(*arguments):
        raise vv.InputError("no OpenGL")

    monkeypatch.setattr(picture, "Renderer", missing)
    with pytest.raises(vv.InputError, match="no OpenGL"):
        open_writers([tmp_path / "run.npz", tmp_path / "run.png"], simulation.model, DT)
    assert list(tmp_path.iterdir()) == []


def test_unknown_ending_and_missing_folder_are_named(simulation, tmp_path):
    with pytest.raises(vv.InputError, match="'.np'.*did you mean '.npz'"):
        open_writers([tmp_path / "a.np"], simulation.model, DT)
    with pytest.raises(vv.InputError, match="there is no folder .*nowhere"):
        open_writers([tmp_path / "nowhere" / "a.npz"], simulation.model, DT)
    with pytest.raises(vv.InputError, match="it is a folder"):
        (tmp_path / "a.npz").mkdir()
        open_writers([tmp_path / "a.npz"], simulation.model, DT)


def test_a_folder_that_cannot_be_written_is_named(simulation, tmp_path, monkeypatch):
    def denied(self, *arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.touch", denied)
    with pytest.raises(vv.InputError, match="cannot write .*a.npz: Permission denied"):
        open_writers([tmp_path / "a.npz"], simulation.model, DT)


def test_missing_extra_says_what_to_install(simulation, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvista", None)
    with pytest.raises(vv.InputError, match=r"pyvista is not installed; .*pip install 'vivace\[render\]'"):
        open_writers([tmp_path / "a.png"], simulation.model, DT)


def test_missing_gl_names_the_package(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", missing)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    with pytest.raises(vv.InputError, match="apt-get install libegl1"):
        picture.check_gl()


def test_every_collider_can_be_drawn():
    pytest.importorskip("pyvista")
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(4, 4))
    bare = picture.Renderer(scene.build(), size=(160, 90))
    empty = bare.picture(scene.build().positions).astype(int)
    bare.close()
    sphere, thin = vv.Sphere(0.3, center=(0, -0.4, 0)), vv.Box((1.0, 0.01, 1.0), (0, -0.4, 0))
    for collider in (sphere, vv.Cylinder(0.2, center=(0, -0.4, 0)), thin, thin.moved(), sphere | thin, thin - sphere):
        scene = vv.Scene()
        scene.add_cloth(vv.Mesh.grid(4, 4))
        scene.add_collider(collider)
        renderer = picture.Renderer(scene.build(), size=(160, 90))
        assert np.abs(renderer.picture(scene.build().positions).astype(int) - empty).max() > 50, collider
        renderer.close()


def test_a_collider_that_moves_is_drawn_where_it_is_at_that_time():
    pytest.importorskip("pyvista")
    pictures = []
    for motion, time in ((lambda t: (t, 0.5 * t, 0), 0.6), (lambda t: (0.6, 0.3, 0), 0.0), (lambda t: (0, 0, 0), 0.0)):
        scene = vv.Scene()
        scene.add_cloth(vv.Mesh.grid(4, 4))
        scene.add_collider(vv.Sphere(0.2, center=(0, -0.4, 0)), motion=motion)
        renderer = picture.Renderer(scene.build(), size=(160, 90))
        pictures.append(renderer.picture(scene.build().positions, time).astype(int))
        renderer.close()
    moved, there, still = pictures
    assert np.abs(moved - there).mean() < 0.05 < 0.5 < np.abs(moved - still).mean()


def test_every_writer_has_one_ending():
    assert set(writers()) == {".npz", ".png", ".mp4", ".gif"}


def test_text_is_written_whole_or_not_at_all(tmp_path):
    write_text(tmp_path / "a.json", "{}")
    assert (tmp_path / "a.json").read_text() == "{}" and not partial_name(tmp_path / "a.json").exists()
    with pytest.raises(vv.InputError, match="cannot write"):
        write_text(tmp_path / "nowhere" / "a.json", "{}")


def test_an_encoder_that_fails_leaves_the_old_film(simulation, tmp_path, monkeypatch):
    pytest.importorskip("pyvista")
    path = tmp_path / "run.mp4"
    path.write_text("old")
    writers_made = open_writers([path], simulation.model, DT)
    writers_made[0]._encoder.kill()
    result = record(simulation, 3, writers_made, lambda: None)
    assert isinstance(result.failure, OSError) and result.failure.filename == str(path) and result.written == []
    assert path.read_text() == "old" and [file.name for file in tmp_path.iterdir()] == ["run.mp4"]


def test_the_same_file_is_not_written_twice(simulation, tmp_path):
    with pytest.raises(vv.InputError, match="a.NPZ twice"):
        open_writers([tmp_path / "a.npz", tmp_path / "a.NPZ"], simulation.model, DT)

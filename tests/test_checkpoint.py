"""Checkpoints: what is saved goes on to the same bits, and nothing that was saved is lost."""

import errno
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import vivace as vv
from helpers import materials_of
from vivace import checkpoint, scenes
from vivace.solvers import solvers
from vivace.state import State

MATERIALS = {"ratios": vv.Ratios(stretch=0.9, bend=0.2), "physical": vv.Springs(300.0), "springs": vv.MassSpring(300.0)}
METHODS = [(solver, kind) for solver in solvers() for kind in materials_of(solver)]


def made(solver="gauss-seidel", kind="ratios", touching=False, **options):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(12, 12), material=MATERIALS[kind]).pin([0, 11])
    scene.add_cloth(vv.Mesh.grid(8, 8, (0.5, 0.5)).moved((0, 0.2, 0)), material=MATERIALS[kind])
    scene.add_collider(vv.Sphere(0.3, (0, -0.4, 0)), friction=0.4)
    scene.add_collider(vv.Box((3, 0.1, 3), (0, -1, 0)), motion=lambda t: (0, 0.1 * np.sin(3 * t), 0))
    if touching:
        scene.self_collision(0.02)
    return vv.Simulation(scene, solver, iterations=4, substeps=2, **options)


def move_on(simulation, frames):
    """Pins travel, so that their velocities are part of the state."""
    start = simulation.model.positions
    for _ in range(frames):
        angle = simulation.frame / 10
        simulation.move_pins([0, 11], start[[0, 11]] + [[0, 0.1 * np.sin(angle), 0.05 * angle]])
        simulation.step()
    return simulation.positions, simulation.velocities


@pytest.mark.parametrize(("solver", "kind"), METHODS, ids=[" ".join(method) for method in METHODS])
@pytest.mark.parametrize("touching", [False, True])
def test_a_run_goes_on_to_the_same_bits_with_every_solver(tmp_path, solver, kind, touching):
    whole = made(solver, kind, touching)
    move_on(whole, 6)
    whole.save(tmp_path / "a.ckpt")
    expected = move_on(whole, 6)
    resumed = made(solver, kind, touching, threads=2)
    resumed.load(tmp_path / "a.ckpt")
    assert resumed.frame == 6
    for values, wanted in zip(move_on(resumed, 6), expected):
        np.testing.assert_array_equal(values, wanted)


def test_what_the_user_holds_and_has_set_is_saved(tmp_path):
    simulation = made()
    grab = simulation.grab(60)
    grab.move((0.2, 0.5, 0.1))
    simulation.control.gravity = (0.0, -3.0, 1.0)
    move_on(simulation, 3)
    simulation.save(tmp_path / "a.ckpt")
    other = made()
    other.load(tmp_path / "a.ckpt")
    assert other.control.gravity == (0.0, -3.0, 1.0) and len(other.control.holds) == 1
    np.testing.assert_array_equal(move_on(other, 3)[0], move_on(simulation, 3)[0])


def test_the_newest_two_are_kept_and_no_other_file_is_left(tmp_path):
    simulation, path = made(), tmp_path / "a.ckpt"
    for frame in range(1, 5):
        simulation.step()
        simulation.save(path)
        assert checkpoint.read_header(path)["frame"] == frame
    assert checkpoint.read_header(checkpoint.previous_name(path))["frame"] == 3
    assert sorted(os.listdir(tmp_path)) == ["a.ckpt", "a.ckpt.previous"]


@pytest.fixture
def two(tmp_path):
    """A path with two checkpoints, of frames 1 and 2."""
    simulation = made()
    for _ in range(2):
        simulation.step()
        simulation.save(tmp_path / "a.ckpt")
    return tmp_path / "a.ckpt"


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_a_truncated_one_is_refused_and_the_one_before_it_taken(two, share):
    data = two.read_bytes()
    two.write_bytes(data[: int(share * len(data))])
    with pytest.raises(vv.InputError, match="is not whole|no checkpoint"):
        made().load(two)
    with pytest.warns(UserWarning, match="going on from a.ckpt.previous"):
        checkpoint.recover(two)
    assert checkpoint.read_header(two)["frame"] == 1


@pytest.mark.parametrize("place", [40, -10, -2000])
def test_a_damaged_one_is_refused_and_the_one_before_it_taken(two, place):
    data = bytearray(two.read_bytes())
    data[place] ^= 0x10
    two.write_bytes(data)
    before = made()
    untouched = before.positions
    with pytest.raises(vv.InputError, match="is damaged"):
        before.load(two)
    np.testing.assert_array_equal(before.positions, untouched)
    with pytest.warns(UserWarning, match="going on from"):
        checkpoint.recover(two)
    resumed = made()
    resumed.load(two)
    resumed.step()
    resumed.save(two)  # the damaged one is not kept as the one before
    frames = [checkpoint.read_header(path)["frame"] for path in (two, checkpoint.previous_name(two))]
    assert frames == [2, 1]
    made().load(checkpoint.previous_name(two))


def test_what_is_no_checkpoint_is_named(tmp_path):
    (tmp_path / "x.ckpt").write_bytes(b"PK" + bytes(1000))
    with pytest.raises(vv.InputError, match="x.ckpt is no checkpoint"):
        made().load(tmp_path / "x.ckpt")
    with pytest.raises(vv.InputError, match="cannot read .*No such file"):
        made().load(tmp_path / "y.ckpt")


def test_one_of_another_scene_is_refused(two):
    other = vv.Scene()
    other.add_cloth(vv.Mesh.grid(5, 5))
    with pytest.raises(vv.InputError, match="another scene: of 208 particles; this one has 25"):
        vv.Simulation(other).load(two)
    with pytest.raises(vv.InputError, match="another scene.*made otherwise"):
        made("xpbd", "physical").load(two)
    with pytest.raises(vv.InputError, match="frames of 0.0166667 s, this simulation of 0.1 s"):
        made(dt=0.1).load(two)


def test_one_of_another_format_is_refused(two, monkeypatch):
    monkeypatch.setattr(checkpoint, "FORMAT", 2)
    with pytest.raises(vv.InputError, match="has format 1"):
        made().load(two)


def test_a_full_disk_leaves_the_old_one(two, monkeypatch):
    def full(self, *_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    simulation, before = made(), two.read_bytes()
    monkeypatch.setattr(State, "write_records", full)
    with pytest.raises(vv.InputError, match="cannot write .*No space left"):
        simulation.save(two)
    assert two.read_bytes() == before
    assert sorted(os.listdir(two.parent)) == ["a.ckpt", "a.ckpt.previous"]


def test_where_there_are_no_hard_links_the_one_before_is_kept_too(two, monkeypatch):
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EPERM, "no")))
    simulation = made()
    simulation.load(two)
    simulation.step()
    simulation.save(two)
    frames = [checkpoint.read_header(path)["frame"] for path in (two, checkpoint.previous_name(two))]
    assert frames == [3, 2]


def test_pieces_are_as_many_as_there_are_blocks_and_memory_is_bounded(tmp_path):
    simulation = vv.Simulation(scenes.find("corner-cloth").make(0.2), "implicit")
    simulation.save(tmp_path / "a.ckpt")
    header = checkpoint.read_header(tmp_path / "a.ckpt")
    assert len(header["pieces"]) - 1 == simulation.plan.net.total == 4


def run(*arguments, cwd, **options):
    command = [sys.executable, "-m", "vivace", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, **options)


SCENE = ("corner-cloth", "--particles", 400, "--solver", "implicit", "--iterations", 5, "--substeps", 1)


def test_a_killed_run_is_resumed_from_the_command_line_to_the_same_bits(tmp_path):
    whole = run("run", *SCENE, "--frames", 30, "--out", "whole.npz", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    command = ["run", *SCENE, "--frames", 3000000, "--checkpoint", "run.ckpt", "--every", 5]
    process = subprocess.Popen([sys.executable, "-m", "vivace", *map(str, command)], cwd=tmp_path)
    deadline = time.monotonic() + 120
    while not (tmp_path / "run.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    frame = checkpoint.read_header(tmp_path / "run.ckpt")["frame"]
    assert frame % 5 == 0
    until = max(frame + 3, 30)
    resumed = run("resume", "run.ckpt", "--frames", until, "--out", "rest.npz", "--json", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    rest = np.load(tmp_path / "rest.npz")["positions"]
    assert len(rest) == until - frame
    if frame < 30:
        np.testing.assert_array_equal(rest[29 - frame], np.load(tmp_path / "whole.npz")["positions"][29])
    again = run("resume", "run.ckpt", "--frames", until, cwd=tmp_path)
    assert again.returncode == 2 and f"has its {until} frames" in again.stderr


def test_bad_input_of_the_commands_is_named(tmp_path):
    def error_of(*arguments):
        answer = run(*arguments, cwd=tmp_path)
        assert answer.returncode == 2 and answer.stderr.count("\n") == 1, answer.stderr
        return answer.stderr

    assert "no folder" in error_of("run", *SCENE, "--checkpoint", "there/run.ckpt")
    assert "--every is for --checkpoint" in error_of("run", *SCENE, "--every", 5)
    assert "every is 0" in error_of("run", *SCENE, "--checkpoint", "a.ckpt", "--every", 0)
    assert "cannot read gone.ckpt" in error_of("resume", "gone.ckpt")
    made().save(tmp_path / "bare.ckpt")
    assert "does not say" in error_of("resume", "bare.ckpt")
    (tmp_path / "s.py").write_text(
        "import vivace as vv\ndef scene():\n    s = vv.Scene()\n    s.add_cloth(vv.Mesh.grid(5, 5))\n    return s\n"
    )
    assert run("run", "s.py", "--frames", 4, "--checkpoint", "s.ckpt", "--every", 2, cwd=tmp_path).returncode == 0
    (tmp_path / "s.py").write_text((tmp_path / "s.py").read_text().replace("5, 5", "5, 6"))
    assert "another scene" in error_of("resume", "s.ckpt", "--frames", 9)

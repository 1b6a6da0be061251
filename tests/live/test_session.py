"""What a session is told and does, and that all of it can be done again to the bit."""

import json

import numpy as np
import pytest

import vivace as vv
from vivace.live.launch import make_session, session_again
from vivace.live.paint import PAINTS
from vivace.live.session import Session, load, replay

GRID = vv.Mesh.grid(12, 12, size=(1, 1))


def made(**options):
    scene = vv.Scene()
    scene.add_cloth(GRID, material=vv.Springs(500.0, bend=1e-3)).pin([0, 11])
    return Session(vv.Simulation(scene, "gauss-seidel", 4, 2), **options)


def told(session, do, viewer=1, **arguments):
    return session.apply({"do": do, **arguments}, viewer)


def test_pause_stops_time_and_steps_go_on_one_by_one():
    session = made()
    assert session.advance().frame == 1
    told(session, "pause")
    assert session.advance() is None and session.simulation.frame == 1
    told(session, "step", frames=2)
    assert [session.advance() is None for _ in range(3)] == [False, False, True]
    told(session, "play")
    assert session.advance().frame == 4


def test_reset_restores_the_start_and_keeps_settings():
    session = made()
    told(session, "set", name="damping", value=2.5)
    told(session, "set", name="gravity", value=[0, -1, 0])
    told(session, "grab", vertex=70)
    for _ in range(3):
        session.advance()
    told(session, "reset")
    assert session.simulation.frame == 0 and not session.simulation.control.holds
    assert (session.simulation.positions == session.simulation.model.positions).all()
    assert session.settings["damping"] == 2.5 and session.settings["gravity"] == [0, -1, 0]


SETTINGS = [
    ("solver", "vivace", lambda simulation: isinstance(simulation.solver, vv.Vivace)),
    ("coloring", "largest-first", lambda simulation: simulation.solver.coloring == "largest-first"),
    ("iterations", 7, lambda simulation: simulation.iterations == 7),
    ("substeps", 3, lambda simulation: simulation.substeps == 3),
    ("damping", 1.5, lambda simulation: simulation.damping == 1.5),
    ("gravity", [0, 0, -3], lambda simulation: simulation.control.gravity == (0, 0, -3)),
    ("stiffness", 4.0, lambda simulation: simulation.model.groups[0].compliance[0] == np.float32(1 / 2000)),
]


@pytest.mark.parametrize("name, value, holds", SETTINGS, ids=[setting[0] for setting in SETTINGS])
def test_a_setting_takes_effect_and_the_motion_goes_on(name, value, holds):
    session = made()
    for _ in range(5):
        session.advance()
    before = session.simulation.positions, session.simulation.velocities
    assert not holds(session.simulation)
    told(session, "set", name=name, value=value)
    assert holds(session.simulation) and session.settings[name] == value
    assert session.simulation.frame == 5
    assert (session.simulation.positions == before[0]).all() and (session.simulation.velocities == before[1]).all()
    assert session.advance().frame == 6


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("solver", "magic", "unknown solver 'magic'"),
        ("coloring", "magic", "unknown coloring"),
        ("iterations", 0, "iterations"),
        ("iterations", 1e6, "iterations"),
        ("substeps", "many", "substeps"),
        ("budget_ms", -1, "budget_ms"),
        ("damping", None, "damping"),
        ("gravity", 3.0, "gravity"),
        ("stiffness", 0, "stiffness"),
        ("paint", "blue", "paint"),
        ("color", 1, "unknown parameter 'color'"),
    ],
)
def test_a_bad_setting_is_named_and_changes_nothing(name, value, message):
    session = made()
    session.advance()
    before, simulation = session.settings, session.simulation
    with pytest.raises(vv.InputError, match=message):
        told(session, "set", name=name, value=value)
    assert session.settings == before and session.simulation is simulation


def test_grabs_are_those_of_a_viewer_and_end_with_it():
    session = made()
    assert told(session, "grab", viewer=1, id=0, origin=[0.02, 1, 0.03], direction=[0, -1, 0])["grabbed"] is not None
    told(session, "grab", viewer=2, id=0, vertex=70)
    assert told(session, "grab", viewer=3, id=0, origin=[9, 1, 0], direction=[0, -1, 0]) == {"grabbed": None}
    assert len(session.simulation.control.holds) == 2
    told(session, "move", viewer=3, id=0, to=[0, 0, 0])
    session.forget(1)
    assert len(session.simulation.control.holds) == 1
    told(session, "set", name="solver", value="vivace")
    told(session, "move", viewer=2, id=0, to=[0, 0.4, 0])
    for _ in range(20):
        session.advance()
    assert session.simulation.positions[70, 1] > 0.2
    told(session, "release", viewer=2, id=0)
    assert not session.simulation.control.holds


def test_a_grab_that_is_refused_changes_nothing():
    session = made()
    told(session, "grab", id=0, vertex=70)
    held = session.simulation.control.holds
    with pytest.raises(vv.InputError, match="pinned"):
        told(session, "grab", id=0, vertex=0)
    assert session.simulation.control.holds == held


def test_threads_and_backend_stay_what_they_were():
    scene = vv.Scene()
    scene.add_cloth(GRID)
    session = Session(vv.Simulation(scene, threads=2, backend="reference"))
    for do in ({"do": "set", "name": "iterations", "value": 3}, {"do": "reset"}):
        session.apply(do)
        assert session.simulation.threads == 2 and session.simulation.backend == "reference"


def test_only_frames_in_which_something_is_compiled_go_without_the_budget():
    session = made(budget_ms=3.0)
    told(session, "set", name="iterations", value=900)
    assert session.advance().iterations == 900
    told(session, "set", name="iterations", value=901)
    assert session.advance().iterations < 900
    told(session, "set", name="solver", value="vivace")
    assert session.advance().iterations == 901 and session.advance().iterations < 900


def test_of_moves_in_one_frame_the_last_is_kept_and_nothing_without_a_record(tmp_path):
    for recorded in (True, False):
        session = made(recorded=recorded)
        told(session, "grab", id=0, vertex=70)
        for i in range(1000):
            told(session, "move", id=0, to=[0, i, 0])
            told(session, "release", id=1)
        session.advance()
        session.save(tmp_path / "s.json")
        frames = load(tmp_path / "s.json")["frames"]
        assert [len(frame["told"]) for frame in frames] == ([2] if recorded else [])


def test_a_simulation_that_breaks_down_is_paused_and_says_why():
    session = made()
    session.advance()
    session.simulation.state.velocities[5, 1] = np.nan
    assert session.advance() is None and not session.playing and "not finite" in session.problem
    assert session.simulation.frame == 1 and np.isfinite(session.simulation.positions).all()
    told(session, "reset")
    assert session.problem == ""


@pytest.mark.parametrize("paint", PAINTS)
@pytest.mark.parametrize("solver", ["gauss-seidel", "vivace"])
def test_particles_can_be_painted(paint, solver):
    session = made()
    told(session, "set", name="solver", value=solver)
    told(session, "set", name="paint", value=paint)
    for _ in range(20):
        session.advance()
    painted = session.painted()
    if paint == "none":
        assert painted is None
        return
    assert painted.shape == (144,) and painted.dtype == np.uint8
    assert len(np.unique(painted)) > 2 or paint == "contacts"
    if paint == "partition" and solver == "vivace":
        plan = session.simulation.plan
        for group in session.simulation.model.groups:
            assert (painted[group.vertices[:, 0]] != painted[group.vertices[:, 1]]).all()
        assert painted.max() == plan.coloring.count - 1


@pytest.mark.parametrize("solver", ["gauss-seidel", "vivace"])
def test_particles_in_contact_are_painted(solver):
    scene = vv.Scene(gravity=(0, 0, 0))
    below = scene.add_cloth(vv.Mesh.grid(8, 8, size=(1, 1)), name="below")
    scene.add_cloth(vv.Mesh(vv.Mesh.grid(4, 4, size=(0.2, 0.2)).vertices + (0, 0.01, 0), vv.Mesh.grid(4, 4).triangles))
    scene.self_collision(0.012)
    session = Session(vv.Simulation(scene, solver))
    told(session, "set", name="paint", value="contacts")
    session.advance()
    painted, contacts = session.painted(), session.simulation.contacts
    assert (painted[64:] == 255).all() and 0 < (painted[below.rows] == 255).sum() < 40
    assert contacts.shape[1] == 4 and (contacts.max(axis=1) >= 64).all() and contacts.max() < 80


def disturbed(tmp_path):
    """A session of a built-in scene with a budget, in which much is done; its end, and where it is saved."""
    session, _, _ = make_session("tablecloth", "gauss-seidel", 0.05, 0, 1, None, 2.0, tmp_path, {}, recorded=True)
    for frame in range(24):
        if frame == 3:
            told(session, "grab", id=4, vertex=30)
        if 3 < frame < 12:
            told(session, "move", id=4, to=[0.02 * frame, 0.8, 0.1])
        if frame == 8:
            told(session, "set", name="solver", value="vivace")
        if frame == 10:
            told(session, "set", name="stiffness", value=0.5)
        if frame == 13:
            session.forget(1)
        if frame == 15:
            told(session, "set", name="budget_ms", value=None)
        if frame == 17:
            told(session, "pause"), told(session, "play")
        if frame == 18:
            told(session, "reset")
        session.advance()
    path = tmp_path / "session.json"
    session.save(path)
    return session, path


def test_a_saved_session_is_repeated_to_the_bit(tmp_path):
    session, path = disturbed(tmp_path)
    again, _, _, frames = session_again(path, 1, tmp_path, recorded=True)
    assert len(list(replay(again, frames))) == 24
    assert (again.simulation.positions == session.simulation.positions).all()
    assert (again.simulation.velocities == session.simulation.velocities).all()
    assert np.abs(session.simulation.positions - session.simulation.model.positions).max() > 0.005
    again.save(tmp_path / "again.json")
    assert load(tmp_path / "again.json") == load(path)


def test_while_a_session_is_repeated_nobody_interferes_and_it_pauses_at_its_end(tmp_path):
    session, path = disturbed(tmp_path)
    again, _, _, frames = session_again(path, 1, tmp_path)
    again.repeat(replay(again, frames))
    again.advance()
    with pytest.raises(vv.InputError, match="being repeated"):
        told(again, "grab", vertex=3)
    again.forget(1)
    while again.advance():
        pass
    assert not again.playing and (again.simulation.positions == session.simulation.positions).all()
    told(again, "grab", vertex=3)


def test_broken_session_files_are_named(tmp_path):
    _, path = disturbed(tmp_path)
    whole, bad = json.loads(path.read_text()), tmp_path / "bad.json"
    for content, message in (
        ("", "not a saved session"),
        ("[]", "not a saved session"),
        (json.dumps({**whole, "vivace session": 2}), "another version"),
        (json.dumps({**whole, "frames": 3}), "not a whole session"),
        (json.dumps({**whole, "start": {}}), "does not say how"),
        (path.read_text()[:-40], "not a saved session"),
    ):
        bad.write_text(content)
        with pytest.raises(vv.InputError, match=message):
            session_again(bad, 1, tmp_path)
    with pytest.raises(vv.InputError, match="cannot read"):
        load(tmp_path / "missing.json")
    again, _, _, frames = session_again(path, 1, tmp_path)
    with pytest.raises(vv.InputError, match="broken in frame 1"):
        list(replay(again, [{"told": []}]))
    for command in ({"do": "rebuild"}, {"do": "record", "seconds": 1, "path": "x.npz"}, {"do": "set", "name": 3}):
        with pytest.raises(vv.InputError, match="broken in frame 1"):
            list(replay(again, [{"told": [{**command, "viewer": 1}], "work": []}]))
    for missing in ("gravity", "solver", "budget_ms"):
        start = {name: value for name, value in whole["start"].items() if name != missing}
        bad.write_text(json.dumps({**whole, "start": start}))
        with pytest.raises(vv.InputError, match=missing):
            session_again(bad, 1, tmp_path)
    with pytest.raises(vv.InputError, match="cannot be repeated, in frame 1"):
        list(replay(again, [{"told": [], "work": [[1, 5.0, 1]]}]))


def test_the_last_seconds_are_written_as_they_were(tmp_path):
    session = made(folder=tmp_path, seconds_kept=0.2)
    with pytest.raises(vv.InputError, match="nothing to record"):
        told(session, "record", seconds=1, path="a.npz")
    seen = []
    for _ in range(20):
        session.advance()
        seen.append(session.simulation.positions)
    assert told(session, "record", seconds=0.1, path="a.npz")["frames"] == 6
    assert told(session, "record", seconds=9, path="b.npz")["frames"] == 12
    with np.load(tmp_path / "a.npz") as file:
        assert (file["positions"] == np.array(seen[-6:])).all()
    for path, message in (
        ("a.npz", "there already"),
        ("../c.npz", "no folder"),
        ("c.txt", "ends in"),
        ("c.mp4", "scenes that have a name"),
    ):
        with pytest.raises(vv.InputError, match=message):
            told(session, "record", seconds=1, path=path)
    with pytest.raises(vv.InputError, match="keeps no recordings"):
        told(made(), "record", seconds=1, path="a.npz")


def test_a_film_is_made_beside_the_simulation(tmp_path):
    pytest.importorskip("pyvista")
    session, _, _ = make_session("cloth-on-tube", "gauss-seidel", 0.02, 0, 1, None, None, tmp_path, {})
    for _ in range(8):
        session.advance()
    told(session, "record", seconds=0.1, path="film.mp4")
    session.close()
    assert (tmp_path / "film.mp4").stat().st_size > 1000
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]

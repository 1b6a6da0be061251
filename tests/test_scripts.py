"""Scene files with a script: what a user would do while it runs, before every frame."""

import pytest

import vivace as vv
from vivace import scenes
from vivace.recording import record

SCRIPTED = """
import vivace as vv
def scene():
    made = vv.Scene()
    made.add_cloth(vv.Mesh.grid(3, 3)).pin(0)
    return made
def script(simulation):
    SCRIPT
"""


def setup_with(tmp_path, script):
    file = tmp_path / "scripted.py"
    file.write_text(SCRIPTED.replace("SCRIPT", script))
    return scenes.find(str(file))


def test_a_script_moves_a_pin_in_every_frame(tmp_path):
    lift = "simulation.move_pins([0], simulation.positions[[0]] + [0, 0.01, 0])"
    setup = setup_with(tmp_path, lift)
    simulation = vv.Simulation(setup.make(1.0))
    recording = record(simulation, 5, [], lambda: None, before_frame=setup.before_frame)
    assert recording.failure is None and len(recording.reports) == 5
    assert simulation.positions[0, 1] == pytest.approx(0.05, abs=1e-6)


def test_a_script_that_fails_is_named_with_its_line(tmp_path):
    setup = setup_with(tmp_path, "raise KeyError('hand')")
    recording = record(vv.Simulation(setup.make(1.0)), 5, [], lambda: None, before_frame=setup.before_frame)
    assert isinstance(recording.failure, vv.InputError) and recording.reports == []
    assert "script() raised KeyError in line 8" in str(recording.failure)


def test_a_script_that_is_no_function_is_refused(tmp_path):
    file = tmp_path / "scripted.py"
    file.write_text("import vivace as vv\nscript = 3\ndef scene():\n    return vv.Scene()\n")
    with pytest.raises(vv.InputError, match="script must be a function"):
        scenes.find(str(file))

"""The command: what it prints, what it writes, how it fails."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from helpers import materials_of
from vivace.coloring import algorithms
from vivace.solvers import solvers

SMALL = ("cloth-on-tube", "--scale", "0.01")


def vivace(*arguments, cwd=None, code=0, **environment):
    """Run the command in a new process, as a user does."""
    done = subprocess.run(
        [sys.executable, "-m", "vivace.cli", *map(str, arguments)],
        cwd=cwd,
        text=True,
        capture_output=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def error_of(*arguments, **options):
    """The one line that bad input is answered with."""
    done = vivace(*arguments, code=2, **options)
    lines = [line for line in done.stderr.strip().splitlines() if "compiling" not in line]
    assert len(lines) == 1 and lines[0].startswith("vivace: "), done.stderr
    assert "Traceback" not in done.stderr and not done.stdout
    return lines[0]


def test_help_lists_every_command():
    text = vivace("--help").stdout
    assert all(command in text for command in ("run", "scenes", "color", "bench", "doctor"))


def test_run_writes_what_it_says(tmp_path):
    done = vivace("run", *SMALL, "--frames", 3, "--out", "a.npz", "--out", "b.npz", "--report", "r.json", cwd=tmp_path)
    assert "fps" in done.stdout and "residual stretch" in done.stdout
    assert str(tmp_path / "a.npz") in done.stdout and str(tmp_path / "r.json") in done.stdout
    report = json.loads((tmp_path / "r.json").read_text())
    assert len(report["steps"]) == 3 and report["steps"][2]["frame"] == 3
    assert set(report["steps"][0]["residual"]) == {"stretch", "bend"}
    one, other = (np.load(tmp_path / name)["positions"] for name in ("a.npz", "b.npz"))
    assert (one.view(np.uint32) == other.view(np.uint32)).all()


def test_run_tells_what_crosses_when_asked(tmp_path):
    (tmp_path / "through.py").write_text(
        "import vivace as vv\n\n"
        "def scene():\n"
        "    made = vv.Scene(gravity=(0, 0, 0))\n"
        "    mesh = vv.Mesh.grid(4, 4)\n"
        "    made.add_cloth(mesh)\n"
        "    made.add_cloth(vv.Mesh(mesh.vertices[:, [1, 0, 2]] + [0.01, 0.02, 0.03], mesh.triangles))\n"
        "    return made\n"
    )
    options = "run", "through.py", "--frames", 1, "--diagnose"
    told = vivace(*options, "--report", "r.json", cwd=tmp_path).stdout
    found = json.loads((tmp_path / "r.json").read_text())["summary"]["interpenetration"]
    assert found["crossing_pairs"] > 5 and found["particles_inside"] == 0
    assert f"{found['crossing_pairs']} pairs of 36 triangles cross; 0 particles in colliders" in told


def test_options_do_what_their_help_says(tmp_path):
    answer = json.loads(
        vivace(
            "run", *SMALL, "--iterations", 3, "--substeps", 2, "--frames", 4, "--dt", 0.01, "--threads", 2, "--json"
        ).stdout
    )
    assert (answer["iterations"], answer["substeps"], answer["frames"], answer["dt"]) == (3, 2, 4, 0.01)
    assert answer["threads"] == 2 and answer["particles"] == 100
    paper = json.loads(vivace("run", *SMALL, "--frames", 1, "--paper", "--json").stdout)
    assert (paper["iterations"], paper["substeps"]) == (8, 1)
    serial = json.loads(vivace("run", *SMALL, "--frames", 1, "--solver", "serial", "--json").stdout)
    assert serial["colors"] == {"stretch": 1, "bend": 1}


def test_a_scene_is_made_with_as_many_particles_as_asked():
    answer = json.loads(
        vivace(
            "run", "corner-cloth", "--particles", 900, "--frames", 2, "--solver", "implicit", "--paper", "--json"
        ).stdout
    )
    assert answer["particles"] == 900 and answer["iterations"] == 5 and "energy" in answer["milliseconds"]
    assert answer["solve"]["iterations"] == 5 and 0 < answer["solve"]["residual"] < 1
    assert "particles is 0" in error_of("run", "corner-cloth", "--particles", 0)
    assert "--particles or --scale" in error_of("run", "corner-cloth", "--particles", 100, "--scale", 2)


@pytest.mark.parametrize("solver", [name for name in solvers() if "physical" in materials_of(name)])
@pytest.mark.parametrize("scene", ["tablecloth", "armadillo"])
def test_a_scene_in_physical_units_runs_with_every_solver_that_takes_them(scene, solver):
    answer = json.loads(vivace("run", scene, "--scale", 0.05, "--frames", 2, "--solver", solver, "--json").stdout)
    assert answer["frames"] == 2 and answer["scene"] == scene and all(count > 0 for count in answer["colors"].values())


def test_threads_do_not_change_the_result(tmp_path):
    runs = []
    for threads in (1, 3):
        vivace(
            "run", *SMALL, "--frames", 10, "--threads", threads, "--out", "a.npz", cwd=tmp_path, NUMBA_NUM_THREADS="4"
        )
        runs.append(np.load(tmp_path / "a.npz")["positions"].view(np.uint32))
    assert (runs[0] == runs[1]).all()


@pytest.mark.parametrize(
    "arguments, named",
    [
        (("run", "cloth-on-tub"), "did you mean 'cloth-on-tube'"),
        (("run", *SMALL, "--solver", "gaus-seidel"), "did you mean 'gauss-seidel'"),
        (("run", *SMALL, "--solver", "pd-direct"), "'pd-direct': group 'stretch' has stiffness ratios"),
        (("run", *SMALL, "--colors", "3"), "solver 'gauss-seidel' has no option 'colors'"),
        (("run", *SMALL, "--solver", "phantoms", "--colors", "2.5"), "colors is '2.5'; it must be a whole number"),
        (("color", *SMALL, "--phantoms", "-3"), "colors is -3; it must be a whole number, at least 2"),
        (("color", *SMALL, "--phantoms", "3", "--insertion", "spilt"), "did you mean 'split'"),
        (("run", *SMALL, "--iterations", "0"), "iterations is 0"),
        (("run", *SMALL, "--substeps", "-1"), "substeps is -1"),
        (("run", *SMALL, "--frames", "0"), "frames is 0"),
        (("run", *SMALL, "--dt", "0"), "dt is 0"),
        (("run", *SMALL, "--dt", "nan"), "dt is nan"),
        (("run", *SMALL, "--threads", "0"), "threads is 0"),
        (("run", "cloth-on-tube", "--scale", "0"), "scale is 0"),
        (("run", *SMALL, "--out", "nowhere/a.mp4"), "there is no folder nowhere"),
        (("run", *SMALL, "--out", "a.avi"), "output format '.avi'"),
        (("run", *SMALL, "--report", "nowhere/r.json"), "there is no folder nowhere"),
        (("run", "nothing.py"), "no scene file nothing.py"),
        (("color", *SMALL, "--algorithm", "smallest"), "did you mean 'smallest-last'"),
        (("bench", "limits"), "did you mean 'limit'"),
    ],
)
def test_bad_input_is_answered_with_one_line_and_code_2(arguments, named, tmp_path):
    assert named in error_of(*arguments, cwd=tmp_path)


@pytest.mark.parametrize(
    "text, named",
    [
        ("def scene():\n    return 1 / 0\n", "line 2: division by zero"),
        ("import nothing_like_this\n", "No module named 'nothing_like_this'"),
        ("x = (\n", "SyntaxError"),
        ("y = 1\n", "defines no function scene()"),
        ("import sys\nsys.exit(3)\n", "SystemExit"),
        ("import vivace as vv\nPAPER = 5\ndef scene():\n    return vv.Scene()\n", "PAPER must be"),
        ("def scene():\n    return 3\n", "returned int, not a vivace.Scene"),
        ("import vivace as vv\ndef scene():\n    return vv.Scene()\n", "the scene is empty"),
        (
            "import vivace as vv\ndef scene():\n    vv.Scene().add_cloth(vv.Mesh.grid(3, 3)).pin([9])\n",
            "names vertex 9",
        ),
    ],
)
def test_a_scene_file_that_fails_is_named_with_its_problem(text, named, tmp_path):
    (tmp_path / "mine.py").write_text(text)
    assert named in error_of("run", "mine.py", cwd=tmp_path)


OWN_CONSTRAINT = """
import vivace as vv
from beside import MINUS
from vivace.kernels.vec3 import norm, scale, sub
ARITY = 2
def value_gradient(corners, rest):
    edge = sub(corners[0], corners[1])
    length = norm(edge)
    return length * (length - rest), (edge, scale(MINUS, edge)), length
class Own:
    ARITY, value_gradient = ARITY, staticmethod(value_gradient)
def scene():
    scene = vv.Scene()
    cloth = scene.add_cloth(vv.Mesh.grid(3, 3))
    scene.add_constraints(cloth, Own, [(0, 8)])
    return scene
"""


def test_a_scene_file_may_bring_its_own_constraint_and_import_what_lies_beside_it(tmp_path):
    (tmp_path / "beside.py").write_text("import numpy as np\nMINUS = np.float32(-1)\n")
    (tmp_path / "mine.py").write_text(OWN_CONSTRAINT)
    for _ in range(2):  # the second time from the kernel cache
        answer = json.loads(vivace("run", tmp_path / "mine.py", "--frames", 1, "--json").stdout)
        assert answer["constraints"]["Own"] == 1


MINE = """
import vivace as vv
SETTINGS = vv.Settings(iterations=2, substeps=3, frames=2)
def scene():
    scene = vv.Scene()
    scene.add_solid(vv.Mesh.box((2, 2, 2)))
    return scene
def check(simulation):
    yield "it has fallen", bool((simulation.positions[:, 1].mean() < 0))
    yield "it has flown", {flown}
"""


def test_a_users_scene_file_runs_with_its_own_settings_and_check(tmp_path):
    (tmp_path / "mine.py").write_text(MINE.format(flown=True))
    answer = json.loads(vivace("run", "mine.py", "--check", "--json", cwd=tmp_path).stdout)
    assert (answer["iterations"], answer["substeps"], answer["frames"]) == (2, 3, 2)
    assert answer["checks"] == {"it has fallen": True, "it has flown": True}
    (tmp_path / "mine.py").write_text(MINE.format(flown=False))
    assert "WRONG it has flown" in vivace("run", "mine.py", "--check", cwd=tmp_path, code=1).stdout
    assert "takes no scale" in error_of("run", "mine.py", "--scale", 2, cwd=tmp_path)
    assert "no settings of a paper" in error_of("run", "mine.py", "--paper", cwd=tmp_path)


BREAKS = """
import vivace as vv
from vivace.kernels.lanes import sqrt
ARITY = 1
def value_gradient(corners, rest):
    height = sqrt(corners[0][1] + 0.05)
    return height - rest, (corners[0][:3],), height
class RootOfHeight:
    ARITY, value_gradient = ARITY, staticmethod(value_gradient)
def scene():
    scene = vv.Scene()
    cloth = scene.add_cloth(vv.Mesh.grid(4, 4), material=vv.Ratios(stretch=0.0))
    scene.add_constraints(cloth, RootOfHeight, [[5]], stiffness_ratio=0.0)
    return scene
"""


def test_a_simulation_that_breaks_exits_with_1_and_keeps_its_frames(tmp_path):
    (tmp_path / "mine.py").write_text(BREAKS)
    done = vivace("run", "mine.py", "--frames", 60, "--out", "a.npz", cwd=tmp_path, code=1)
    assert "is not finite" in done.stderr and "'RootOfHeight'" in done.stderr and "frame" in done.stderr
    assert 1 < len(np.load(tmp_path / "a.npz")["positions"]) < 60


def test_bad_outputs_are_refused_before_anything_is_simulated(tmp_path):
    assert "a.npz twice" in error_of("run", *SMALL, "--out", "a.npz", "--out", "./a.npz", cwd=tmp_path)
    assert "needs an ending" in error_of("run", *SMALL, "--out", ".mp4", cwd=tmp_path)
    assert "must end in .json" in error_of("run", *SMALL, "--report", "scene.py", cwd=tmp_path)
    assert "frames of 2 s" in error_of("run", *SMALL, "--dt", 2, "--out", "a.mp4", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_usage_errors_are_one_line_too():
    assert "--iterations" in error_of("run", *SMALL, "--iterations", "x")
    assert "Missing argument 'SCENE'" in error_of("run")
    assert "No such command 'runn'" in error_of("runn")
    assert "Usage" in vivace().stdout


def test_a_bad_budget_leaves_nothing_behind(tmp_path):
    assert "budget_ms is -1" in error_of("run", *SMALL, "--budget-ms", -1, "--out", "a.npz", cwd=tmp_path)
    assert "unknown spend 'x'" in error_of(
        "run", *SMALL, "--budget-ms", 1, "--spend", "x", "--out", "a.npz", cwd=tmp_path
    )
    assert list(tmp_path.iterdir()) == []


def test_a_run_within_a_budget_reports_its_work(tmp_path):
    vivace("run", *SMALL, "--budget-ms", 5, "--spend", "substeps", "--frames", 3, "--report", "r.json", cwd=tmp_path)
    steps = json.loads((tmp_path / "r.json").read_text())["steps"]
    assert all(sum(count * length for count, length, _ in step["work"]) == pytest.approx(1 / 60) for step in steps)


def test_a_budget_goes_into_what_the_scene_says_unless_told_otherwise(tmp_path):
    for options, spent in (((), "substeps"), (("--spend", "iterations", "--substeps", 1), "iterations")):
        vivace(
            "run",
            "tablecloth",
            "--scale",
            0.05,
            "--frames",
            3,
            "--budget-ms",
            20,
            *options,
            "--report",
            "r.json",
            cwd=tmp_path,
        )
        last = json.loads((tmp_path / "r.json").read_text())["steps"][-1]
        assert last[spent] > 1 and last["iterations" if spent == "substeps" else "substeps"] == 1


def test_huge_settings_are_refused():
    assert "threads is 5000" in error_of("run", *SMALL, "--threads", 5000)
    assert "too many" in error_of("run", *SMALL, "--iterations", 10**9)
    assert "scale is" in error_of("run", "tori", "--scale", 1e7)


def test_a_run_that_is_ended_keeps_its_frames(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "vivace.cli", "run", *SMALL, "--frames", "100000000", "--out", "a.npz"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    deadline = time.monotonic() + 120
    while not any(file.stat().st_size > 1000 for file in tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert len(np.load(tmp_path / "a.npz")["positions"]) > 0
    assert [file.name for file in tmp_path.iterdir()] == ["a.npz"]


def test_scenes_are_listed():
    names = [scene["name"] for scene in json.loads(vivace("scenes", "--json").stdout)]
    assert names == [
        "armadillo",
        "cloth-heap",
        "cloth-on-tube",
        "corner-cloth",
        "falling-cube",
        "flat-bunny",
        "noodles",
        "omotondo",
        "sheets",
        "squishy-ball",
        "stretched-cloth",
        "tablecloth",
        "tori",
        "tori-400",
    ]
    assert all(name in vivace("scenes").stdout for name in names)


def test_color_reports_and_plots(tmp_path):
    rows = json.loads(vivace("color", *SMALL, "--algorithm", "all", "--plot", "c.png", "--json", cwd=tmp_path).stdout)
    assert len(rows) == 3 * len(algorithms()) and all(sum(row["sizes"]) == row["nodes"] for row in rows)
    assert {row["of"] for row in rows} == {"stretch", "bend", "particles"}
    assert all(row["colors"] >= row["at least"] for row in rows)
    assert (tmp_path / "c.png").read_bytes()[1:4] == b"PNG"
    assert "smallest-last" in vivace("color", *SMALL).stdout


def test_color_with_phantoms_tells_before_and_after_and_plots(tmp_path):
    rows = json.loads(vivace("color", *SMALL, "--phantoms", "half", "--plot", "c.png", "--json", cwd=tmp_path).stdout)
    assert [(row["of"], row["target"], row["colors before"]) for row in rows] == [("stretch", 4, 8), ("bend", 8, 16)]
    assert all(1 < row["colors"] <= row["target"] and row["phantoms"] > 0 for row in rows)
    assert all(sum(row["sizes"]) == sum(row["sizes before"]) == row["constraints"] for row in rows)
    assert (tmp_path / "c.png").read_bytes()[1:4] == b"PNG"
    table = vivace("color", *SMALL, "--phantoms", 3, "--insertion", "paper", "--cliques", "bron-kerbosch").stdout
    assert "colors before" in table and "phantom constraints" in table


@pytest.mark.parametrize(
    ("solver", "colors", "reached"),
    [
        ("phantoms", "3", {"stretch": 3, "bend": 3}),
        ("hybrid-jacobi", "2", {"stretch": 3, "bend": 3}),
    ],
)
def test_run_takes_a_number_of_colors_and_writes_only_the_users_particles(solver, colors, reached, tmp_path):
    arguments = ("run", *SMALL, "--solver", solver, "--colors", colors, "--frames", 2, "--out", "a.npz", "--json")
    answer = json.loads(vivace(*arguments, cwd=tmp_path).stdout)
    assert answer["colors"] == reached and answer["particles"] == 100
    positions = np.load(tmp_path / "a.npz")["positions"]
    assert positions.shape == (2, 100, 3) and np.isfinite(positions).all()


def test_doctor_tells_about_threads_lanes_cache_and_extras():
    found = {row["what"]: row for row in json.loads(vivace("doctor", "--json").stdout)}
    assert {"threads", "lanes", "kernel cache", "OpenGL", "pictures (pyvista)"} <= set(found)
    assert "8 floats" in found["lanes"]["found"]


def test_bench_lists_and_writes_table_and_picture(tmp_path):
    listed = vivace("bench", "--list").stdout
    assert set(json.loads(vivace("bench", "--list", "--json").stdout)) >= {"pbd-table1", "limit"}
    assert all(name in listed for name in ("pbd-table1", "limit", "small-steps", "contention", "coloring", "start"))
    done = vivace("bench", "small-steps", "--quick", "--out", "results", cwd=tmp_path)
    assert "mean strain" in done.stdout
    assert (tmp_path / "results" / "small-steps.csv").read_text().startswith("substeps,iterations")
    assert (tmp_path / "results" / "small-steps.png").read_bytes()[1:4] == b"PNG"


TOUCHING = """
import vivace as vv
def scene():
    made = vv.Scene()
    for height in (0.2, 0.26):
        made.add_cloth(vv.Mesh.grid(6, 6, size=(0.3, 0.3)).moved((0, height, 0)))
    made.add_collider(vv.Plane())
    made.self_collision(THICKNESS)
    return made
"""


def test_contacts_are_summed_up_and_warnings_are_one_line(tmp_path):
    file = tmp_path / "touching.py"
    file.write_text(TOUCHING.replace("THICKNESS", "0.02"))
    quiet = vivace("run", str(file), "--frames", "15", "--substeps", "4")
    assert "contacts at the end:" in quiet.stdout and "warning" not in quiet.stderr
    file.write_text(TOUCHING.replace("THICKNESS", "0.1"))
    warned = vivace("run", str(file), "--frames", "1", "--json")
    lines = [line for line in warned.stderr.splitlines() if "thickness" in line]
    assert len(lines) == 2 and all(line.startswith("vivace: warning: self_collision") for line in lines)
    assert json.loads(warned.stdout)["touches"]["contacts"] >= 0

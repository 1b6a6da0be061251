"""`vv.live` from Python, and the notebook of the documentation."""

import os
import time
import urllib.request
from pathlib import Path

import pytest

import vivace as vv
from helpers import SOURCE
from vivace.live.client import Connection

pytest.importorskip("viser")
NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "live.ipynb"


def hanging():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(10, 10)).pin([0])
    return vv.Simulation(scene)


def test_live_runs_in_the_background_with_a_page_until_it_is_stopped():
    with vv.live(hanging()) as shown:
        assert f'src="{shown.url}"' in shown._repr_html_()
        assert b"<html" in urllib.request.urlopen(shown.url).read()[:500].lower()
        connection = Connection("127.0.0.1", shown.server.port)
        frame = connection.next_frame(10).report["frame"]
        time.sleep(0.5)
        assert shown.simulation.frame > frame
        connection.ask("set", name="solver", value="averaged-jacobi")
        assert isinstance(shown.simulation.solver, vv.AveragedJacobi)
        connection.close()
        page = shown._page
    assert page.poll() is not None and not shown.server.broadcaster.alive
    last = shown.simulation.frame
    shown.simulation.step()
    assert shown.simulation.frame == last + 1


def test_live_wants_a_simulation():
    with pytest.raises(vv.InputError, match="expected a vivace.Simulation, got Scene"):
        vv.live(vv.Scene())


def test_the_notebook_of_the_documentation_runs(monkeypatch, tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="the notebook is run by nbclient, which comes with [dev]")
    nbclient = pytest.importorskip("nbclient", reason="the notebook is run by nbclient, which comes with [dev]")
    monkeypatch.setenv("PYTHONPATH", f"{SOURCE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("<iframe" in output.get("data", {}).get("text/html", "") for output in outputs)
    assert "frames, then it stood still" in outputs[-1]["data"]["text/plain"]

"""Every built-in scene, as large as it is, run without pictures and pinned to a number."""

import numpy as np
import pytest

import vivace as vv
from vivace import scenes
from vivace.backends.cpu import Team

NAMES = sorted(scenes.built_in())
# Paper 002, table 1, and paper 001, figures 6 and 7: particles and constraints.
SIZES = {
    "cloth-on-tube": (10_000, {"stretch": 29_000, "bend": 29_000}),
    "flat-bunny": (16_000, {"stretch": 80_000, "bend": 42_000, "volume": 50_000}),
    "tori": (91_000, {"stretch": 493_000, "volume": 313_000}),
    "tablecloth": (10_000, {"stretch": 30_000, "quadratic_bend": 30_000}),
    "armadillo": (10_000, {"tet_strain": 55_000}),
}
# Mean height at the end [m].
PINNED = {
    "cloth-on-tube": 0.8563,
    "flat-bunny": 0.4744,
    "tori": 0.1371,
    "tablecloth": 0.7270,
    "armadillo": 0.2130,
}


def is_physical(name):
    """Whether a scene is made of materials in physical units, which Projective Dynamics takes as well."""
    return all(group.compliance is not None for group in scenes.find(name).make(0.05).build().groups)


PHYSICAL = [name for name in NAMES if is_physical(name)]


def simulation_of(setup, settings, solver="gauss-seidel", **options):
    motion = settings.iterations, settings.substeps, settings.dt, settings.damping
    return vv.Simulation(setup.make(1.0), solver, *motion, **options)


@pytest.mark.parametrize("name", NAMES)
def test_scene_ends_as_its_check_demands(name):
    setup = scenes.find(name)
    simulation = simulation_of(setup, setup.settings)
    for _ in simulation.run(setup.settings.frames):
        pass
    assert [text for text, holds in setup.check(simulation) if not holds] == []
    height = float(simulation.positions[:, 1].mean())
    assert height == pytest.approx(PINNED[name], rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_scene_is_as_large_as_in_the_paper(name):
    particles, constraints = SIZES[name]
    model = scenes.find(name).make(1.0).build()
    assert model.particle_count == pytest.approx(particles, rel=0.1)
    assert {group.name: len(group) for group in model.groups} == pytest.approx(constraints, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [0.05, 1.5])
def test_scale_changes_the_number_of_particles(name, scale):
    small, whole = (scenes.find(name).make(factor).particle_count for factor in (scale, 1.0))
    assert small == pytest.approx(scale * whole, rel=0.3)


@pytest.mark.parametrize(
    ("name", "solver"), [*((name, "gauss-seidel") for name in NAMES), *((name, "vivace") for name in PHYSICAL)]
)
def test_scene_has_the_same_bits_for_any_number_of_threads(name, solver, monkeypatch):
    monkeypatch.setattr(Team, "BEARABLE", np.inf)  # all threads take part, however long they wait
    setup = scenes.find(name)
    runs, settings = [], setup.chosen(paper=True)
    for threads in (1, 2, 3, 4):
        simulation = simulation_of(setup, settings, solver, threads=threads)
        used = {report.threads for report in simulation.run(round(5 / 3 / settings.dt))}
        assert used == {threads}
        runs.append(simulation.positions.view(np.uint32))
    assert np.abs(simulation.positions - simulation.model.positions).max() > 0.1
    assert all((run == runs[0]).all() for run in runs)


def test_every_builtin_scene_tells_its_paper_and_summary():
    for setup in scenes.built_in().values():
        assert setup.summary and setup.paper and setup.check and setup.camera

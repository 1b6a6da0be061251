"""Projective Dynamics over many frames: bounded from any start, with steps of any length, after any failure."""

import gc
import weakref

import numpy as np
import pytest

import vivace as vv
from helpers import PROJECTIVE, advance, soft_scene
from vivace.kernels.lanes import sqrt
from vivace.scenes import armadillo, tablecloth

G = 9.81
each_projective_solver = pytest.mark.parametrize("solver", PROJECTIVE)


# Stability


def kinetic(simulation, masses):
    """[J/kg]"""
    return masses @ (simulation.velocities.astype(float) ** 2).sum(axis=1) / 2 / masses.sum()


def kinetic_energies(scene, iterations, scramble):
    """Of 120 frames, from a start where every particle is thrown about."""
    body = scene.bodies[0]
    simulation = vv.Simulation(scene, "vivace", iterations=iterations, dt=1 / 30, damping=0.5, threads=1)
    thrown = np.random.default_rng(0).normal(size=(len(body), 3)) * scramble
    simulation.positions = simulation.positions + np.where(body.pinned[:, None], 0, thrown)
    return [kinetic(simulation, np.where(body.pinned, 0, body.masses)) for _ in simulation.run(120)]


def assert_calms_down(energies):
    """After the first frames no more than a fall from 3 m gives, in the end less than one from 0.5 m does."""
    assert max(energies[10:]) < 3 * G
    assert np.mean(energies[-30:]) < 0.5 * G


@pytest.mark.parametrize("iterations", [2, 4, 8])
@pytest.mark.parametrize("ratio", [1, 30, 1000])
@pytest.mark.parametrize("scramble", [0.0, 0.3])
def test_a_scrambled_tablecloth_calms_down_at_any_stiffness(ratio, iterations, scramble):
    scene = tablecloth.scene(0.05, tablecloth.springs(ratio, 0.05))
    assert_calms_down(kinetic_energies(scene, iterations, scramble))


@pytest.mark.parametrize("young", [3e3, 3e4, 3e6])
def test_a_scrambled_armadillo_calms_down_at_any_stiffness(young):
    scene = armadillo.scene(0.05, vv.Elastic(young, poisson=0.0))
    for iterations in (2, 4, 8):
        assert_calms_down(kinetic_energies(scene, iterations, 0.2))


@pytest.mark.parametrize("body", ["cloth", "bar"])
def test_more_iterations_of_vivace_do_not_keep_a_body_from_coming_to_rest(body):
    """Over-relaxation that diverges is held back by the projections, and shows as a body that never rests."""
    scene = vv.Scene()
    if body == "cloth":
        scene.add_cloth(vv.Mesh.grid(12, 12), material=vv.Springs(1000.0)).pin([0, 11])
    else:
        mesh = vv.Mesh.box((3, 12, 3), (0.25, 1.0, 0.25))
        bar = scene.add_solid(mesh, density=1000.0, material=vv.Elastic(5e5, poisson=0.0))
        bar.pin(np.flatnonzero(mesh.vertices[:, 1] > 0.49))
    for iterations in (30, 100):
        simulation = advance(scene, 100, solver="vivace", iterations=iterations, dt=1 / 30, damping=5.0)
        assert abs(simulation.velocities).max() < 0.05


# Steps of changing length


@each_projective_solver
def test_a_step_of_another_length_equals_that_of_a_simulation_made_for_it(solver):
    """A factor, a radius and the schedule hold for one length."""
    scene, mesh = soft_scene("cloth")
    changing = vv.Simulation(scene, solver, iterations=3, threads=1)
    for substeps in (1, 4, 1, 2):
        made_for_it = vv.Simulation(soft_scene("cloth")[0], solver, iterations=3, substeps=substeps, threads=1)
        made_for_it.positions, made_for_it.velocities = changing.positions, changing.velocities
        made_for_it.step()
        changing.step(work=((substeps, 1 / 60 / substeps, 3),))
        assert (changing.positions.view(np.uint32) == made_for_it.positions.view(np.uint32)).all()
    assert abs(changing.positions - mesh.vertices).max() > 1e-3


@each_projective_solver
@pytest.mark.parametrize("spend", ["iterations", "substeps"])
def test_a_budget_can_be_repeated_to_the_bit(solver, spend):
    first, again = (vv.Simulation(soft_scene("cloth")[0], solver, iterations=3, threads=count) for count in (2, 1))
    for _ in range(3):
        report = first.step(budget_ms=4.0, spend=spend)
        again.step(work=report.work)
    assert (first.positions.view(np.uint32) == again.positions.view(np.uint32)).all()


@each_projective_solver
def test_steps_of_ever_new_lengths_do_not_fill_the_memory(solver):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(6, 6), material=vv.Springs(20.0)).pin(0)
    simulation = vv.Simulation(scene, solver, iterations=14, threads=1)
    for frame in range(200):  # which would be ten thousand sweeps, were each omega another one
        length = (0.4 + 0.001 * frame) / 60
        simulation.step(work=((1, length, 14), (1, 1 / 60 - length, 14)))
    assert len(simulation._sweeps._rows) < 1000


@each_projective_solver
def test_a_simulation_that_is_dropped_leaves_nothing_behind(solver):
    simulation = vv.Simulation(soft_scene("cloth")[0], solver)
    simulation.step()
    plan = weakref.ref(simulation.plan)
    del simulation
    gc.collect()
    assert plan() is None


class OverGround:
    """Has no nearest point below height 0."""

    ARITY = ROWS = 1

    @staticmethod
    def coefficients(rest):
        return ((np.float32(1),),)

    @staticmethod
    def nearest(projected, rest):
        x, y, z = projected[0][0], projected[0][1], projected[0][2]
        return ((x, y + np.float32(0) * sqrt(y), z),)

    @staticmethod
    def value_gradient(corners, rest):
        x, y, z = corners[0][0], corners[0][1], corners[0][2]
        return y * y, ((x, y, z),), np.float32(0) * y + np.float32(1)


@each_projective_solver
def test_after_a_step_that_failed_a_simulation_goes_on_from_where_it_is_put(solver):
    mesh = vv.Mesh.grid(3, 3).moved((0.0, 1.0, 0.0))
    scene = vv.Scene(gravity=(0.0, 0.0, 0.0))
    body = scene.add_cloth(mesh, material=vv.Springs(100.0))
    scene.add_constraints(body, OverGround, [[4]], compliance=1.0)
    simulation = vv.Simulation(scene, solver, iterations=12, threads=1)
    simulation.positions = mesh.vertices - [0, 5, 0]
    with pytest.raises(vv.SimulationError, match="not finite"):
        simulation.step()
    simulation.positions = mesh.vertices
    simulation.step()
    np.testing.assert_allclose(simulation.positions, mesh.vertices, atol=1e-5)

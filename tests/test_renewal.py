"""A simulation that takes over constraints which were added to its scene while it ran."""

import numpy as np
import pytest

import vivace as vv
from vivace.coloring import COLORED_ANEW, REPAIRED

MESH = vv.Mesh.grid(12, 12)
each_solver = pytest.mark.parametrize("solver", ["vivace", "pd-direct", "xpbd"])


def running(solver, frames=5):
    scene = vv.Scene()
    cloth = scene.add_cloth(MESH, material=vv.Springs(100.0, bend=1e-3))
    cloth.pin([0, 11])
    simulation = vv.Simulation(scene, solver, iterations=10, dt=1 / 60, damping=2.0, threads=1)
    for _ in simulation.run(frames):
        pass
    return scene, cloth, simulation


def tie(scene, cloth, pairs, rest=0.1):
    scene.add_constraints(cloth, "stretch", pairs, rest=rest, compliance=1e-4)


@each_solver
def test_without_new_constraints_nothing_is_done(solver):
    _, _, asked = running(solver)
    _, _, left_alone = running(solver)
    plan = asked.plan
    assert not asked.renew() and asked.plan is plan
    asked.step(), left_alone.step()
    assert (asked.positions.view(np.uint32) == left_alone.positions.view(np.uint32)).all()


@each_solver
def test_new_constraints_act_and_the_motion_goes_on(solver):
    scene, cloth, simulation = running(solver)
    before = simulation.positions, simulation.velocities, simulation.time
    tie(scene, cloth, [[0, 143]])
    assert simulation.renew()
    np.testing.assert_array_equal(simulation.positions, before[0])
    np.testing.assert_array_equal(simulation.velocities, before[1])
    assert simulation.time == before[2]
    assert np.linalg.norm(before[0][0] - before[0][143]) > 1
    for _ in simulation.run(120):
        pass
    assert np.linalg.norm(simulation.positions[0] - simulation.positions[143]) == pytest.approx(0.1, abs=0.03)


def far_pairs(count):
    return [[i, 143 - i] for i in range(count)]


def test_few_new_constraints_repair_the_coloring_and_many_make_it_anew():
    scene, cloth, simulation = running("vivace")
    first = simulation.plan.coloring
    tie(scene, cloth, far_pairs(4))
    simulation.renew()
    repaired = simulation.plan.coloring
    assert repaired.renewal == REPAIRED and (repaired.colors != first.colors).sum() <= 4
    repaired.validate()
    generator = np.random.default_rng(0)
    tie(scene, cloth, np.array([generator.choice(144, 2, replace=False) for _ in range(600)]))
    simulation.renew()
    assert simulation.plan.coloring.renewal == COLORED_ANEW
    simulation.plan.coloring.validate()


def test_what_comes_out_does_not_depend_on_what_was_in_between():
    """So that a run can be resumed, and repeated to the bit."""
    ends = []
    for at_once in (True, False):
        scene, cloth, simulation = running("vivace")
        for pair in far_pairs(3):
            tie(scene, cloth, [pair])
            if not at_once:
                simulation.renew()
        simulation.renew()
        for _ in simulation.run(5):
            pass
        ends.append(simulation.positions.view(np.uint32))
    assert (ends[0] == ends[1]).all()


def test_new_bodies_need_a_new_simulation():
    scene, _, simulation = running("vivace")
    scene.add_cloth(MESH, material=vv.Springs(100.0))
    with pytest.raises(vv.InputError, match="bodies were added.*new Simulation"):
        simulation.renew()

"""What the scenes in which things touch begin with, and a hand that drags a cloth."""

import numpy as np
import pytest

import vivace as vv
from vivace import scenes
from vivace.diagnostics import collider_depths, rms_speed
from vivace.scenes import cloth_heap

TOUCHING = ["cloth-heap", "noodles", "sheets", "tori", "tori-400"]


@pytest.mark.parametrize("name", TOUCHING)
def test_nothing_touches_at_the_start(name):
    scene = scenes.find(name).make(0.1)
    simulation = vv.Simulation(scene)
    assert collider_depths(simulation).max() == 0
    thickness, positions = scene.touching.thickness, simulation.model.positions
    low, high = (np.array([edge(body.positions, axis=0) for body in scene.bodies]) for edge in (np.min, np.max))
    for i in range(1, len(scene.bodies)):
        near = ((low[:i] < high[i] + thickness) & (low[i] - thickness < high[:i])).all(axis=1)
        for j in np.flatnonzero(near):
            apart = positions[scene.bodies[i].rows][:, None] - positions[scene.bodies[j].rows]
            assert np.linalg.norm(apart, axis=2).min() > thickness


def test_the_hand_goes_where_its_way_leads_and_stops_there():
    setup = scenes.find("cloth-heap")
    simulation = vv.Simulation(setup.make(0.02))
    cloth = simulation.scene.bodies[-1]
    held = cloth.first + np.flatnonzero(cloth.pinned)
    assert len(held) == 9
    for frame in range(90):
        setup.before_frame(simulation)
        simulation.step()
        moved = simulation.positions[held] - simulation.model.positions[held]
        np.testing.assert_allclose(moved, [cloth_heap.way((frame + 1) / 60)] * 9, atol=1e-5)
    np.testing.assert_allclose([cloth_heap.way(t) for t in cloth_heap.TIMES], cloth_heap.WAY)
    np.testing.assert_allclose(cloth_heap.way(100.0), cloth_heap.WAY[-1])


@pytest.mark.parametrize(("name", "scale"), [("noodles", 0.1), ("sheets", 0.3)])
def test_what_moves_in_a_pile_dies_away(name, scale):
    setup = scenes.find(name)
    settings = setup.settings
    simulation = vv.Simulation(
        setup.make(scale), iterations=settings.iterations, substeps=settings.substeps, damping=settings.damping
    )
    speeds = np.array([rms_speed(simulation) for _ in simulation.run(200)]).reshape(5, 40)
    in_each = np.sqrt((speeds**2).mean(axis=1))
    assert (in_each[1:] < np.maximum(0.8 * in_each[:-1], 0.03)).all() and in_each[-1] < 0.03

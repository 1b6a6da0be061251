"""What the scenes in which things touch begin with, and a hand that drags a cloth."""

import numpy as np
import pytest

import vivace as vv
from vivace import scenes
from vivace.diagnostics import collider_depths
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

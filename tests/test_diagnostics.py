"""What tells whether soft things have gone through each other or into colliders."""

import numpy as np
import pytest

import vivace as vv
from vivace.diagnostics import collider_depths, crossings, interpenetration, kinetic_energy, rms_speed


def sheet(scene, height=0.0, turn=False):
    mesh = vv.Mesh.grid(4, 4)
    vertices = mesh.vertices[:, [1, 0, 2]] + [0.01, 0.02, 0.03] if turn else mesh.vertices
    return scene.add_cloth(vv.Mesh(vertices + [0, height, 0], mesh.triangles))


def test_crossing_sheets_are_counted_and_parallel_ones_are_not():
    scene = vv.Scene()
    sheet(scene), sheet(scene, 0.1)
    assert crossings(vv.Simulation(scene)) == 0
    sheet(scene, turn=True)
    assert 6 <= crossings(vv.Simulation(scene)) <= 30


def test_depths_are_those_of_the_collider_a_particle_is_deepest_in():
    scene = vv.Scene()
    sheet(scene)
    scene.add_collider(vv.Sphere(0.9), margin=0.2)
    scene.add_collider(vv.Plane(point=(0, 0.05, 0)))
    simulation = vv.Simulation(scene)
    radius = np.linalg.norm(simulation.positions, axis=1)
    np.testing.assert_allclose(collider_depths(simulation), np.maximum(1.1 - radius, 0.05), atol=1e-6)
    np.testing.assert_allclose(collider_depths(simulation, False), np.maximum(0.9 - radius, 0.05), atol=1e-6)


def test_interpenetration_counts_what_is_inside_and_not_what_lies_on_top():
    scene = vv.Scene()
    sheet(scene), sheet(scene, turn=True)
    scene.add_collider(vv.Plane(), margin=0.1)
    simulation = vv.Simulation(scene)
    found, lowest = interpenetration(simulation), simulation.positions[:, 1].min()
    assert (found.crossing_pairs, found.triangles) == (crossings(simulation), 36) and found.crossing_pairs > 0
    assert found.particles_inside == (simulation.positions[16:, 1] < 0).sum() > 0
    assert found.deepest == pytest.approx(-lowest)


def test_a_moving_collider_is_where_its_motion_says():
    scene = vv.Scene(gravity=(0, 0, 0))
    sheet(scene)
    scene.add_collider(vv.Sphere(0.1, (0, -5, 0)), motion=lambda t: (0, 6 * t, 0))
    simulation = vv.Simulation(scene, dt=0.1)
    assert collider_depths(simulation).max() == 0
    for _ in range(3):
        simulation.step()
    radius = np.linalg.norm(simulation.positions - [0, -5 + 6 * 0.3, 0], axis=1)
    np.testing.assert_allclose(collider_depths(simulation), np.maximum(0.1 - radius, 0), atol=1e-5)


def test_energy_and_speed_leave_pins_out_or_in():
    scene = vv.Scene()
    body = sheet(scene)
    body.pin(0)
    simulation = vv.Simulation(scene)
    simulation.velocities = np.tile([3.0, 0, 4.0], (16, 1))
    assert kinetic_energy(simulation) == pytest.approx(12.5 * body.masses[1:].sum(), rel=1e-5)
    assert rms_speed(simulation) == pytest.approx(5 * np.sqrt(15 / 16))

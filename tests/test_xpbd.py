"""Compliance: stiffness in SI units, whatever iterations and substeps."""

import numpy as np
import pytest

import vivace as vv

LINKS, LENGTH, GRAVITY, STRAIN = 10, 0.1, 9.81, 0.2


def chain(stiffness):
    """Ten links of 1 kg each, hanging from a pin; a second, pinned column of vertices makes triangles of them."""
    down = np.stack([np.zeros(LINKS + 1), -LENGTH * np.arange(LINKS + 1), np.zeros(LINKS + 1)], axis=1)
    i, j = np.arange(LINKS), np.arange(LINKS) + LINKS + 1
    triangles = np.concatenate([np.stack([i, i + 1, j], 1), np.stack([i + 1, j + 1, j], 1)])
    scene = vv.Scene(gravity=(0, -GRAVITY, 0))
    body = scene.add_cloth(
        vv.Mesh(np.concatenate([down, down + [0.01, 0, 0]]), triangles), material=vv.Compliances(stretch=None)
    )
    body.masses[:] = 1.0
    body.pin([0, *range(LINKS + 1, 2 * LINKS + 2)])
    scene.add_constraints(body, "stretch", np.stack([i, i + 1], 1), compliance=1 / stiffness)
    return scene


@pytest.mark.parametrize("iterations", [10, 100])
@pytest.mark.parametrize("substeps", [1, 2, 4])
@pytest.mark.parametrize("solver", ["xpbd", "gauss-seidel"])
def test_chain_hangs_at_the_analytic_length(solver, iterations, substeps):
    weights = GRAVITY * np.arange(1, LINKS + 1)
    stiffness = weights.sum() / (STRAIN * LINKS * LENGTH)
    simulation = vv.Simulation(chain(stiffness), solver, iterations=iterations, substeps=substeps, damping=2.0)
    for _ in simulation.run(600):
        pass
    extension = -simulation.positions[LINKS, 1] - LINKS * LENGTH
    assert extension == pytest.approx((weights / stiffness).sum(), rel=0.02)
    assert extension == pytest.approx(STRAIN * LINKS * LENGTH, rel=0.02)


def test_a_soft_spring_swings_with_its_own_period():
    """T = 2 pi sqrt(m / k), which stiffness ratios cannot promise."""
    stiffness, scene = 100.0, chain(100.0)
    body = scene.bodies[0]
    body.masses[:] = 1e-3
    body.masses[1] = 1.0
    simulation = vv.Simulation(scene, "gauss-seidel", iterations=20, substeps=20, dt=1 / 100, damping=0.0)
    heights = [float(simulation.positions[1, 1]) for _ in simulation.run(200)]
    middle = (max(heights) + min(heights)) / 2
    crossings = [i for i in range(1, 200) if heights[i - 1] > middle >= heights[i]]
    assert np.diff(crossings).mean() / 100 == pytest.approx(2 * np.pi * np.sqrt(1.0 / stiffness), rel=0.03)


def test_rigid_compliance_is_plain_projection():
    positions = []
    for material in (vv.Compliances(stretch=0.0), vv.Ratios(stretch=1.0)):
        scene = vv.Scene()
        scene.add_cloth(vv.Mesh.grid(8, 8), material=material).pin([0, 7])
        simulation = vv.Simulation(scene, "gauss-seidel", iterations=6)
        for _ in simulation.run(20):
            pass
        positions.append(simulation.positions)
    np.testing.assert_allclose(*positions, atol=1e-5)


def test_materials_of_both_kinds_may_meet_in_one_scene():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(4, 4), material=vv.Compliances(stretch=1e-4))
    scene.add_cloth(vv.Mesh.grid(4, 4), material=vv.Ratios(stretch=0.5))
    model = scene.build()
    assert sorted(group.compliance is None for group in model.groups) == [False, True]
    assert set(vv.Simulation(scene).step().residual) == {"stretch", "stretch-2"}


@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_bad_compliances_are_named(value):
    with pytest.raises(vv.InputError, match="Compliances bend"):
        vv.Compliances(bend=value)
    scene = vv.Scene()
    body = scene.add_cloth(vv.Mesh.grid(3, 3))
    with pytest.raises(vv.InputError, match="stretch group 'cloth-1': compliance .* of constraint 1"):
        scene.add_constraints(body, "stretch", [(0, 4), (0, 8)], compliance=[0.0, value])


def test_the_serial_solver_refuses_compliances():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(3, 3), material=vv.Compliances())
    with pytest.raises(vv.InputError, match="'serial': group 'stretch' has compliances; use 'gauss-seidel'"):
        vv.Simulation(scene, "serial")


def test_xpbd_refuses_stiffness_ratios():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(3, 3), material=vv.Ratios())
    with pytest.raises(vv.InputError, match="'xpbd': group 'stretch' has stiffness ratios.*Springs or Elastic"):
        vv.Simulation(scene, "xpbd")

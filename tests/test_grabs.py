"""Points of surfaces that are held, moved and let go: by Python, and by what a ray meets."""

import numpy as np
import pytest

import vivace as vv
from helpers import SOFT
from vivace import solvers
from vivace.holds import MOST_HOLDS
from vivace.picking import hit_by_ray, hit_nearest

GRID = vv.Mesh.grid(9, 9, size=(1, 1))
PHYSICAL = {"vivace", "pd-jacobi", "pd-chebyshev", "pd-direct", "xpbd"}


def cloth(solver, backend="cpu", threads=1, **options):
    scene, physical = vv.Scene(gravity=(0, 0, 0)), solver in PHYSICAL
    material = vv.Springs(2000.0, bend=1e-3) if physical else vv.Ratios()
    material = vv.MassSpring(2000.0) if solver == "implicit" else material
    scene.add_cloth(GRID, density=0.2, material=material)
    return vv.Simulation(scene, solver, 8, 2, threads=threads, backend=backend, damping=1.0, **options)


@pytest.mark.parametrize("solver", sorted(solvers.solvers()))
def test_a_held_point_follows_with_every_solver_and_the_cloth_with_it(solver):
    simulation = cloth(solver)
    before = simulation.positions
    grab = simulation.grab(40)
    for frame in range(120):
        grab.move(before[40] + (0.2 * min(frame + 1, 60) / 60, 0, 0))
        simulation.step()
    np.testing.assert_allclose(simulation.positions[40] - before[40], (0.2, 0, 0), atol=0.004)
    assert np.abs(simulation.positions.mean(axis=0) - before.mean(axis=0) - (0.2, 0, 0)).max() < 0.03
    grab.release()
    simulation.step()
    assert not simulation.control.holds


@pytest.mark.parametrize("solver", ["gauss-seidel", "vivace", "phantoms", "pd-chebyshev"])
def test_backends_agree_about_held_points(solver):
    ends = []
    for backend in ("cpu", "reference"):
        simulation = cloth(solver, backend)
        grab = simulation.grab((0.31, 0.0, 0.17))
        grab.move((0.4, 0.1, 0.2))
        for _ in range(3):
            simulation.step()
        ends.append(simulation.positions)
    np.testing.assert_allclose(*ends, atol=2e-5)
    assert np.abs(ends[0] - GRID.vertices).max() > 0.05


def test_held_points_give_the_same_bits_for_any_number_of_threads():
    ends = []
    for threads in (1, 2):
        simulation = cloth("gauss-seidel", threads=threads)
        first, second = simulation.grab(40), simulation.grab(simulation.pick((0.1, 1, 0.1), (0, -1, 0)))
        for frame in range(10):
            first.move((0, 0.01 * frame, 0))
            second.move((0.1, 0.02 * frame, 0))
            simulation.step()
        ends.append(simulation.positions)
    assert (ends[0] == ends[1]).all()


def test_a_cloth_hangs_from_where_it_is_held():
    """Against gravity, on one point; the rest of it is below."""
    scene = vv.Scene()
    scene.add_cloth(GRID, density=0.2)
    simulation = vv.Simulation(scene, iterations=20, substeps=2, damping=2.0)
    place = simulation.positions[40].copy()
    simulation.grab(40)
    for _ in range(200):
        simulation.step()
    assert np.linalg.norm(simulation.positions[40] - place) < 0.01
    assert (np.delete(simulation.positions[:, 1], 40) < place[1]).all()


def test_a_released_point_falls_freely():
    scene = vv.Scene()
    scene.add_cloth(GRID, density=0.2)
    simulation = vv.Simulation(scene, damping=0.0)
    simulation.grab(40).release()
    other = vv.Simulation(scene, damping=0.0)
    for _ in range(5):
        simulation.step(), other.step()
    assert (simulation.positions == other.positions).all()


def test_a_grab_works_within_a_budget_and_is_repeated_by_its_work():
    simulation, again = cloth("gauss-seidel"), cloth("gauss-seidel")
    grabs = [one.grab(40) for one in (simulation, again)]
    for _ in range(4):
        for grab in grabs:
            grab.move(np.add(grab.target, (0.02, 0.0, 0.0)))
        again.step(work=simulation.step(budget_ms=3).work)
    assert (simulation.positions == again.positions).all()
    assert simulation.positions[40, 0] > GRID.vertices[40, 0] + 0.05


def test_renewing_keeps_what_is_held():
    simulation = cloth("gauss-seidel")
    grab = simulation.grab(40)
    simulation.step()
    simulation.scene.add_constraints(simulation.scene.bodies[0], "stretch", [[0, 2]])
    assert simulation.renew()
    grab.move(GRID.vertices[40] + (0, 0.1, 0))
    for _ in range(5):
        simulation.step()
    assert simulation.positions[40, 1] > GRID.vertices[40, 1] + 0.05


def test_a_ray_meets_the_first_triangle_from_either_side():
    positions, triangles = SOFT["cloth"][0].vertices, SOFT["cloth"][0].triangles
    both = np.concatenate([positions, positions - (0, 1, 0)])
    of_both = np.concatenate([triangles, triangles + len(positions)])
    generator = np.random.default_rng(3)
    for sign in (1, -1):
        target = np.append(generator.uniform(-0.4, 0.4, 2), 0)[[0, 2, 1]] + (0 if sign > 0 else -1) * np.array(
            [0, 1, 0]
        )
        origin = target + sign * np.array([0.3, 2, -0.1])
        hit = hit_by_ray(origin, target - origin, both, of_both)
        np.testing.assert_allclose(hit.point, target, atol=1e-6)
        assert (hit.triangle < len(triangles)) == (sign > 0)
        np.testing.assert_allclose(np.array(hit.shares) @ both[list(hit.particles)], hit.point, atol=1e-9)
    assert hit_by_ray((0, 2, 0), (0, 1, 0), both, of_both) is None
    assert hit_by_ray((5, 2, 0), (0, -1, 0), both, of_both) is None
    assert hit_by_ray((0, 2, 0), (0, -1, 0), both, of_both[:0]) is None


def test_the_nearest_point_is_what_sampling_finds():
    generator = np.random.default_rng(4)
    for _ in range(30):
        corners = generator.normal(size=(6, 3)).astype(np.float32)
        triangles, point = np.array([[0, 1, 2], [3, 4, 5]]), generator.normal(size=3) * 2
        hit = hit_nearest(point, corners, triangles)
        f, g = np.meshgrid(*2 * [np.linspace(0, 1, 101)])
        f, g = f[f + g <= 1], g[f + g <= 1]
        gaps = [
            np.linalg.norm(np.stack([1 - f - g, f, g], 1) @ corners[triangle] - point, axis=1).min()
            for triangle in triangles
        ]
        assert min(gaps) - 0.03 < np.linalg.norm(hit.point - point) <= min(gaps) + 1e-6
        assert min(hit.shares) >= -1e-9 and sum(hit.shares) == pytest.approx(1)


def test_bad_grabs_are_named():
    scene = vv.Scene()
    scene.add_cloth(GRID, density=0.2).pin([0])
    simulation = vv.Simulation(scene)
    for bad, message in (
        (81, "81"),
        (-1, "-1"),
        ("corner", "corner"),
        ((0, 0), "three"),
        ((0, 0, np.nan), "nan"),
        (0, "particle 0 is pinned"),
    ):
        with pytest.raises(vv.InputError, match=message):
            simulation.grab(bad)
    with pytest.raises(vv.InputError, match="firmness"):
        simulation.grab(40, firmness=2)
    with pytest.raises(vv.InputError, match="direction"):
        simulation.pick((0, 0, 0), (0, 0, 0))
    grab = simulation.grab(40)
    with pytest.raises(vv.InputError, match="to"):
        grab.move((0, 0, np.inf))
    for _ in range(MOST_HOLDS - 1):
        simulation.grab(40)
    with pytest.raises(vv.InputError, match=f"{MOST_HOLDS} points are held"):
        simulation.grab(40)
    grab.release(), grab.release()
    assert len(simulation.control.holds) == MOST_HOLDS - 1

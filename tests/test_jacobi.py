"""Constraints that share particles, projected apart and averaged: Jacobi, hybrid Jacobi, and phantoms alike."""

import numpy as np
import pytest

import vivace as vv
from helpers import NOTHING, WEIGHTLESS, advance, bits, momentum, noise, strain
from vivace.backends.cpu import Team

GRID = vv.Mesh.grid(8, 8)
# By the way they average, "mass" or "paper".
AVERAGING = {
    "phantoms": lambda averaging: vv.Phantoms(2, averaging),
    "averaged-jacobi": lambda averaging: vv.AveragedJacobi(averaging=averaging),
    "over-relaxed": lambda averaging: vv.AveragedJacobi(1.5, averaging),
    "hybrid-jacobi": lambda averaging: vv.HybridJacobi(averaging=averaging, colors=2),
}
each_averaging = pytest.mark.parametrize("solver", AVERAGING.values(), ids=AVERAGING)
JACOBI = {
    "averaged": vv.AveragedJacobi(),
    "under-relaxed": vv.AveragedJacobi(0.5),
    "over-relaxed": vv.AveragedJacobi(1.5, "paper"),
    "hybrid": vv.HybridJacobi(),
    "hybrid 1": vv.HybridJacobi(1.3, colors=1),
    "hybrid 3": vv.HybridJacobi(averaging="paper", colors=3, coloring="random"),
}
each_jacobi = pytest.mark.parametrize("solver", JACOBI.values(), ids=JACOBI)


def links(pairs, compliance=None, gravity=WEIGHTLESS, count=11):
    """Particles of 1 kg each in a column, 0.1 m apart, with springs of that length between these pairs.

    A second, pinned column of vertices makes triangles of them.
    """
    down = np.stack([np.zeros(count), -0.1 * np.arange(count), np.zeros(count)], axis=1)
    i, j = np.arange(count - 1), np.arange(count - 1) + count
    triangles = np.concatenate([np.stack([i, i + 1, j], 1), np.stack([i + 1, j + 1, j], 1)])
    scene = vv.Scene(gravity=gravity)
    body = scene.add_cloth(vv.Mesh(np.concatenate([down, down + [0.01, 0, 0]]), triangles), material=NOTHING)
    body.masses[:] = 1.0
    body.pin(range(count, 2 * count))
    scene.add_constraints(body, "stretch", pairs, compliance=compliance)
    return scene, body


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("relaxation", [0.5, 1.0, 1.5])
@pytest.mark.parametrize(("averaging", "share"), [("mass", 1 / 3), ("paper", 1 / 2)])
def test_one_iteration_on_two_links_is_as_by_hand(averaging, share, relaxation, backend):
    """The middle counts twice with half its mass: an end takes a third of the error, the middle two means of zero."""
    scene, body = links([(0, 1), (1, 2)], count=3)
    body.set_positions([0, 2], [[0, 0.2, 0], [0, -0.4, 0]])  # both links are 0.2 m too long
    solver = vv.AveragedJacobi(relaxation, averaging)
    simulation = advance(scene, 1, solver=solver, iterations=1, damping=0.0, backend=backend)
    way = 0.2 * share * relaxation
    assert simulation.positions[:3, 1].tolist() == pytest.approx([0.2 - way, -0.1, -0.4 + way], abs=1e-6)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_hybrid_jacobi_projects_its_colors_first_and_averages_the_rest(backend):
    """Two colors of one link: the first in full, half of its 0.2 m to each end, then the other, alone in the rest."""
    scene, body = links([(0, 1), (1, 2)], count=3)
    body.set_positions([0, 2], [[0, 0.2, 0], [0, -0.4, 0]])
    hybrid, plain = (
        advance(scene, 1, solver=solver, iterations=1, damping=0.0, backend=backend)
        for solver in (vv.HybridJacobi(colors=1), "gauss-seidel")
    )
    assert hybrid.plan.groups[0].batch_count == 1 and hybrid.colors == {"stretch": 2}
    np.testing.assert_allclose(hybrid.positions, plain.positions, atol=1e-6)
    assert sorted(abs(np.diff(hybrid.positions[:3, 1]))) == pytest.approx([0.1, 0.25], abs=1e-6)


MATERIALS = {"ratios": vv.Ratios(stretch=0.9, bend=0.3), "compliances": vv.Compliances(stretch=1e-4, bend=1.0)}
METHODS = [(s, m) for s in JACOBI for m in MATERIALS if JACOBI[s].averaging == "mass" or m == "ratios"]


@pytest.mark.parametrize(("solver", "material"), METHODS, ids=map(" ".join, METHODS))
def test_bits_are_the_same_for_any_number_of_threads_and_near_the_reference(solver, material, monkeypatch):
    monkeypatch.setattr(Team, "BEARABLE", np.inf)  # all threads take part, however long they wait
    scene = vv.Scene()
    scene.add_cloth(GRID, material=MATERIALS[material]).pin([0, 7])
    scene.add_collider(vv.Sphere(0.2, (0.0, -0.25, 0.1)))
    made = []
    for threads in (1, 2, 3):
        simulation = vv.Simulation(scene, JACOBI[solver], threads=threads)
        assert {report.threads for report in simulation.run(8)} == {threads}
        made.append(simulation.positions)
    assert all((bits(one) == bits(made[0])).all() for one in made)
    slow = advance(scene, 8, solver=JACOBI[solver], backend="reference")
    np.testing.assert_allclose(made[0], slow.positions, atol=2e-5)
    assert abs(slow.positions - slow.model.positions).max() > 0.05


def stirred(solver, share=0.1, iterations=4):
    """A cloth at rest, all of whose particles are off their places."""
    scene = vv.Scene(gravity=WEIGHTLESS)
    scene.add_cloth(GRID, material=vv.Ratios(stretch=1.0))
    simulation = vv.Simulation(scene, solver, iterations=iterations, damping=1e6, threads=1)
    simulation.positions = GRID.vertices + noise(GRID, share)
    return simulation


@each_jacobi
def test_the_residual_falls_with_every_frame(solver):
    residuals = [report.residual["stretch"].rms for report in stirred(solver).run(20)]
    assert (np.diff(residuals) < 0).all() and residuals[-1] < 0.2 * residuals[0]


def test_more_relaxation_goes_farther():
    ends = [stirred(vv.AveragedJacobi(relaxation)).step().residual["stretch"].rms for relaxation in (0.5, 1.0, 1.5)]
    assert ends[0] > 1.2 * ends[1] > 1.4 * ends[2]


@pytest.mark.parametrize("solver", [vv.AveragedJacobi, vv.HybridJacobi])
@pytest.mark.parametrize("relaxation", [0, 2, -1.0, 2.5, np.nan, np.inf, "much", None])
def test_bad_relaxations_are_refused(solver, relaxation):
    with pytest.raises(vv.InputError, match="relaxation"):
        solver(relaxation=relaxation)


@pytest.mark.parametrize("colors", [0, -1, "thirds", 2.5, True, None])
def test_bad_colors_of_hybrid_jacobi_are_refused(colors):
    with pytest.raises(vv.InputError, match="colors is .*; it must be a whole number, at least 1"):
        vv.HybridJacobi(colors=colors)


@pytest.mark.parametrize("solver", [vv.AveragedJacobi, vv.HybridJacobi, vv.Phantoms])
def test_unknown_averaging_is_refused(solver):
    with pytest.raises(vv.InputError, match="unknown averaging 'mas'; did you mean 'mass'"):
        solver(averaging="mas")


def test_too_many_iterations_are_refused(monkeypatch):
    monkeypatch.setattr("vivace.simulation.MOST_SWEEPS", 1000)
    with pytest.raises(vv.InputError, match="too many"):
        stirred("averaged-jacobi", iterations=1001)


@pytest.mark.parametrize("colors", [8, 100])
def test_hybrid_jacobi_with_all_colors_is_gauss_seidel_to_the_bit(colors):
    hybrid, plain = stirred(vv.HybridJacobi(colors=colors)), stirred("gauss-seidel")
    assert plain.colors == hybrid.colors == {"stretch": 8}
    for _ in range(5):
        hybrid.step(), plain.step()
        assert (bits(hybrid.positions) == bits(plain.positions)).all()
        assert (bits(hybrid.velocities) == bits(plain.velocities)).all()


def test_hybrid_jacobi_gets_nearer_to_gauss_seidel_with_more_colors():
    plain = stirred("gauss-seidel")
    plain.step()
    errors = []
    for colors in (1, 4, 7):
        hybrid = stirred(vv.HybridJacobi(colors=colors))
        hybrid.step()
        assert hybrid.colors == {"stretch": colors + 1}
        errors.append(np.linalg.norm(hybrid.positions - plain.positions))
    assert errors[0] > errors[1] > errors[2] > 0


def test_half_is_half_of_the_constraints_around_a_particle():
    assert stirred("hybrid-jacobi").plan.groups[0].batch_count == 4


def drift(solver, body, rest=False):
    """How much linear and angular momentum a free body of varied masses gains, by its mass [m/s, m^2/s]."""
    mesh = GRID if body == "cloth" else vv.Mesh.box((2, 2, 2))
    scene = vv.Scene(gravity=WEIGHTLESS)
    material = vv.Ratios(stretch=1.0, bend=0.1) if body == "cloth" else vv.Ratios(stretch=1.0, volume=1.0)
    added = getattr(scene, f"add_{body}")(mesh, material=material)
    added.masses[:] = np.random.default_rng(1).uniform(0.2, 3.0, len(added))
    simulation = vv.Simulation(scene, solver, iterations=1 if rest else 8, damping=0.0, threads=1)
    if rest:
        simulation.positions = mesh.vertices + noise(mesh, 0.2)
    else:
        simulation.velocities = np.random.default_rng(0).normal(size=mesh.vertices.shape)

    def spin():
        turning = np.cross(simulation.positions.astype(float), simulation.velocities.astype(float))
        return added.masses @ turning

    before = momentum(scene, simulation), spin()
    for _ in simulation.run(1 if rest else 5):
        pass
    after = momentum(scene, simulation), spin()
    return [abs(new - old).max() / added.masses.sum() for new, old in zip(after, before)]


@each_averaging
@pytest.mark.parametrize("body", ["cloth", "solid"])
def test_a_free_body_keeps_its_momentum_where_mass_is_split_and_only_there(solver, body):
    """Angular momentum is kept as far as Gauss-Seidel keeps it, whose projections meet a body that has turned."""
    (kept, turned), (drifted, spun) = (drift(solver(averaging), body) for averaging in ("mass", "paper"))
    assert kept < 1e-5 and drifted > 0.03
    _, plain = drift("gauss-seidel", body)
    assert turned < 3 * plain < spun


@pytest.mark.parametrize("body", ["cloth", "solid"])
def test_one_iteration_from_rest_keeps_angular_momentum_where_mass_is_split_and_only_there(body):
    """All constraints then see the body as it was, and none of them turns it."""
    (kept, turned), (drifted, spun) = (drift(vv.AveragedJacobi(1.0, way), body, True) for way in ("mass", "paper"))
    assert max(kept, turned) < 2e-6 and min(drifted, spun) > 1e-3


COMPLIANT = {
    "phantoms": vv.Phantoms(2),
    "phantoms 3": vv.Phantoms(3),
    "phantoms as printed": vv.Phantoms(2, insertion="paper"),
    "averaged-jacobi": vv.AveragedJacobi(),
    "over-relaxed": vv.AveragedJacobi(1.5),
    "under-relaxed": vv.AveragedJacobi(0.5),
    "hybrid-jacobi": vv.HybridJacobi(colors=1),
    "hybrid-jacobi 2": vv.HybridJacobi(1.5, colors=2),
}


@pytest.mark.parametrize("solver", COMPLIANT.values(), ids=COMPLIANT)
@pytest.mark.parametrize("iterations", [60, 150])
@pytest.mark.parametrize("substeps", [1, 2])
def test_a_chain_of_threefold_springs_hangs_at_its_analytic_length(solver, iterations, substeps):
    """Three springs a link: more constraints on a particle than there are colors."""
    weights = 9.81 * np.arange(1, 11)
    stiffness = weights.sum() / 0.2  # [N/m]: 1 m becomes 1.2 m
    pairs = np.tile(np.stack([np.arange(10), np.arange(1, 11)], 1), (3, 1))
    scene, body = links(pairs, compliance=3 / stiffness, gravity=(0, -9.81, 0))
    body.pin(0)
    simulation = advance(scene, 500, solver=solver, iterations=iterations, substeps=substeps, damping=2.0)
    assert (simulation.plan.phantom_count > 0) == isinstance(solver, vv.Phantoms)
    lengths = -np.diff(simulation.positions[:11, 1]) - 0.1
    assert lengths == pytest.approx(weights[::-1] / stiffness, rel=0.01)


@each_averaging
def test_averaging_as_printed_refuses_compliances(solver):
    scene, _ = links([(0, 1)], compliance=1e-3)
    with pytest.raises(vv.InputError, match="averaging 'paper' takes no compliances, such as group 'stretch' has"):
        vv.Simulation(scene, solver("paper"))
    vv.Simulation(scene, solver("mass"))


STRETCHED = {
    "gauss-seidel": ("gauss-seidel", 2000),
    "phantoms": ("phantoms", 3000),
    "phantoms 2": (vv.Phantoms(2), 4000),
    "averaged-jacobi": ("averaged-jacobi", 10_000),
    "hybrid-jacobi": ("hybrid-jacobi", 5000),
}


@pytest.mark.parametrize(("solver", "iterations"), STRETCHED.values(), ids=STRETCHED)
def test_a_cloth_stretched_to_sixteen_times_its_area_relaxes_around_its_center(solver, iterations):
    """Paper 000, figure 10: projections alone, no velocities."""
    mesh = vv.Mesh.grid(20, 20, diagonals="same")
    scene = vv.Scene(gravity=WEIGHTLESS)
    body = scene.add_cloth(mesh, material=vv.Ratios(stretch=1.0))
    body.set_positions(slice(None), 4 * mesh.vertices)
    simulation = vv.Simulation(scene, solver, iterations=500, damping=1e6, threads=1)
    assert len(simulation.model.groups[0]) == 1121
    middle = np.average(simulation.positions.astype(float), axis=0, weights=body.masses)
    first = simulation.step()
    for _ in simulation.run(iterations // 500 - 1):
        pass
    assert first.residual["stretch"].rms > 1e-6
    assert abs(strain(simulation.positions, mesh)).max() < 1e-3
    corners = simulation.positions[mesh.triangles].astype(float)
    areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])[:, 1] / 2
    assert areas.min() > 0 and areas.sum() == pytest.approx(mesh.areas.sum(), rel=2e-3)
    moved = np.average(simulation.positions.astype(float), axis=0, weights=body.masses) - middle
    assert abs(moved).max() < 1e-5

"""The time budget: as much as fits, at least one, at most one too many; and the same again."""

import numpy as np
import pytest

import vivace as vv
from helpers import materials_of
from vivace import budget
from vivace.solvers import solvers
from vivace.solvers.base import position_based_dynamics


class Clock:
    """Time that passes only when sweeps are done."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now


class FakeSweeps:
    """Every projection takes `cost` seconds; what was done is noted."""

    predict, update_velocities, project = "predict", "update", "project"

    def __init__(self, clock, cost):
        self.clock, self.cost, self.done, self.steps = clock, cost, [], []
        self.plan = type("Plan", (), {"model": type("Model", (), {"surfaces": (), "touching": None})})

    def advance_colliders(self):
        return ()

    stop_at_colliders = advance_colliders
    holds = type("Holds", (), {"hold": staticmethod(tuple), "advance": staticmethod(tuple)})

    def set_step(self, step):
        self.steps.append(step)

    def advance(self, tokens):
        for token in tokens:
            if token is not None:
                self.done.append(token)
                self.clock.now += self.cost if token == "project" else 0


class FakeSolver:
    def schedule(self, sweeps, iterations, substeps):
        return position_based_dynamics(sweeps, ["project"], iterations, substeps)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(budget, "time", made)
    return made


@pytest.mark.parametrize("cost, fitting", [(0.1, 10), (0.3, 3), (0.01, 100)])
def test_iterations_fill_the_budget_and_no_more(clock, cost, fitting):
    sweeps = FakeSweeps(clock, cost)
    ((substeps, step, iterations),) = budget.spend_on_iterations(sweeps, FakeSolver(), 0.5, 1, clock.now + 1.0)
    assert substeps == 1 and step == 0.5
    assert fitting - 1 <= iterations <= fitting
    assert clock.now <= 101.0 + 1e-9
    assert sweeps.done == ["predict"] + ["project"] * iterations + ["update"]


def test_one_iteration_is_done_even_if_none_fits(clock):
    sweeps = FakeSweeps(clock, 5.0)
    ((_, _, iterations),) = budget.spend_on_iterations(sweeps, FakeSolver(), 0.5, 1, clock.now + 1.0)
    assert iterations == 1 and sweeps.done == ["predict", "project", "update"]
    ((_, _, iterations),) = budget.spend_on_iterations(sweeps, FakeSolver(), 0.5, 1, clock.now - 1.0)
    assert iterations == 1


def test_overshoot_is_at_most_one_iteration_when_they_get_slower(clock):
    sweeps = FakeSweeps(clock, 0.01)
    original = sweeps.advance

    def slower_each_time(tokens):
        original(tokens)
        sweeps.cost *= 1.5

    sweeps.advance = slower_each_time
    budget.spend_on_iterations(sweeps, FakeSolver(), 0.5, 1, clock.now + 1.0)
    assert clock.now <= 101.0 + sweeps.cost


def test_each_substep_gets_its_share(clock):
    sweeps = FakeSweeps(clock, 0.01)
    work = budget.spend_on_iterations(sweeps, FakeSolver(), 0.4, 4, clock.now + 1.0)
    assert [step for _, step, _ in work] == [0.1] * 4
    assert all(20 <= iterations <= 26 for _, _, iterations in work)


@pytest.mark.parametrize("guess", [0.001, 0.02, 1.0])
def test_substeps_cover_the_frame_whatever_the_first_guess(clock, guess):
    sweeps = FakeSweeps(clock, 0.02)
    work, took = budget.spend_on_substeps(sweeps, FakeSolver(), 0.5, 1, clock.now + 1.0, guess)
    assert sum(substeps * step for substeps, step, _ in work) == pytest.approx(0.5)
    assert took == pytest.approx(0.02)
    if guess == 0.02:
        assert 45 <= sum(substeps for substeps, _, _ in work) <= 50
        assert clock.now <= 101.0 + 0.02


def test_no_substep_is_longer_than_allowed_even_if_the_deadline_is_missed(clock):
    sweeps = FakeSweeps(clock, 0.02)
    work, _ = budget.spend_on_substeps(sweeps, FakeSolver(), 0.5, 1, clock.now + 0.1, 0.02, longest=0.025)
    assert sum(substeps * step for substeps, step, _ in work) == pytest.approx(0.5)
    assert all(step <= 0.025 * (1 + 1e-6) for _, step, _ in work)
    assert clock.now > 100.1  # twenty substeps take 0.4 s


def test_substeps_become_at_most_twice_as_long_from_one_frame_to_the_next():
    """A budget that shrinks a thousandfold at once; cloth explodes where its substeps grow tenfold."""
    simulation = hanging_cloth(dt=1 / 30, threads=1)
    shortest = min(length for _, length, _ in simulation.step(budget_ms=20.0, spend="substeps").work)
    for _ in range(4):
        report = simulation.step(budget_ms=0.02, spend="substeps")
        lengths = [length for _, length, _ in report.work]
        assert max(lengths) <= 2 * shortest * (1 + 1e-6)
        shortest = min(lengths)
    assert report.deadline_missed


COTTON = {"ratios": vv.Ratios(stretch=1.0, bend=0.1), "physical": vv.Springs(300.0, bend=1e-3)}
COTTON["springs"] = vv.MassSpring(300.0)


def hanging_cloth(kind="ratios", **options):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(12, 12), material=COTTON[kind]).pin([0, 11])
    return vv.Simulation(scene, **options)


@pytest.mark.parametrize(("solver", "kind"), [(solver, kind) for solver in solvers() for kind in materials_of(solver)])
@pytest.mark.parametrize("spend", ["iterations", "substeps"])
def test_a_run_with_a_budget_can_be_repeated_to_the_bit(solver, kind, spend):
    first, again = (hanging_cloth(kind, solver=solver, threads=threads) for threads in (None, 1))
    for _ in range(10):
        report = first.step(budget_ms=1.0, spend=spend)
        repeated = again.step(work=report.work)
        assert repeated.work == report.work and repeated.substeps == report.substeps
    assert (first.positions.view(np.uint32) == again.positions.view(np.uint32)).all()


def test_a_step_without_budget_says_what_it_did_too():
    first, again = hanging_cloth(iterations=3, substeps=2), hanging_cloth(iterations=9)
    report = first.step()
    assert report.work == ((2, 1 / 120, 3),) and not report.deadline_missed
    again.step(work=report.work)
    assert (first.positions.view(np.uint32) == again.positions.view(np.uint32)).all()


def test_a_budget_too_small_does_one_iteration_and_reports_the_missed_deadline():
    report = hanging_cloth(iterations=50).step(budget_ms=1e-6)
    assert report.iterations == 1 and report.deadline_missed


def test_the_reference_backend_takes_a_budget_as_well():
    report = hanging_cloth(backend="reference").step(budget_ms=20.0)
    assert report.iterations >= 1 and np.isfinite(report.residual["stretch"].rms)


@pytest.mark.parametrize(
    "bad, named", [({"budget_ms": 0}, "budget_ms is 0"), ({"budget_ms": 1, "spend": "time"}, "unknown spend 'time'")]
)
def test_bad_budgets_are_named(bad, named):
    with pytest.raises(vv.InputError, match=named):
        hanging_cloth().step(**bad)


def test_a_solver_that_never_looks_at_the_clock_takes_no_budget():
    class Deaf(vv.ColoredGaussSeidel):
        def schedule(self, sweeps, iterations, substeps):
            return (token for token in super().schedule(sweeps, iterations, substeps) if token is not None)

    with pytest.raises(vv.InputError, match="Deaf takes no budget"):
        hanging_cloth(solver=Deaf()).step(budget_ms=1.0)


@pytest.mark.parametrize(
    "work, named",
    [
        ((), "last 0 s"),
        (((1, 1 / 60),), "expected"),
        (((1, 1 / 30, 8),), "last 0.0333333 s"),
        (((0, 1 / 60, 8),), "work substeps is 0"),
        (((1, 1 / 60, 0),), "work iterations is 0"),
        (5, "expected"),
    ],
)
def test_bad_work_is_named(work, named):
    with pytest.raises(vv.InputError, match=named):
        hanging_cloth().step(work=work)


def test_budget_and_work_exclude_each_other_and_corrected_ratios_take_no_budget():
    with pytest.raises(vv.InputError, match="not both"):
        hanging_cloth().step(budget_ms=1, work=((1, 1 / 60, 8),))
    with pytest.raises(vv.InputError, match="corrected_ratios"):
        hanging_cloth(solver=vv.ColoredGaussSeidel(corrected_ratios=True)).step(budget_ms=1)


def test_work_that_costs_nothing_ends_all_the_same(clock):
    sweeps = FakeSweeps(clock, 1e-9)
    ((_, _, iterations),) = budget.spend_on_iterations(sweeps, FakeSolver(), 0.5, 1, clock.now + 1.0)
    assert iterations < budget.MANY and sweeps.done[-1] == "update"

"""The colored solvers on several ranks: the same bits as one process, and what they refuse."""

import subprocess
import sys

import numpy as np
import pytest

import vivace as vv
from jobs import MPIEXEC, needs_mpiexec
from vivace import colored_parts
from vivace.cluster.launch import mpiexec_command
from vivace.colored_parts import ColoredCut, Reach
from vivace.parts import assign

pytest.importorskip("mpi4py", reason="needs pip install 'vivace[mpi]'")

# Cloth on a sphere, pulled by its pins and hit by a box, solids on the ground, and too little for all ranks. Copies are
# renewed before each color, before some, or once an iteration; blocks change their ranks in the middle.
PROGRAM = """
import sys, numpy as np, vivace as vv
from vivace import colored_parts
name, backend = sys.argv[1:]
found = {}

def run(case, scene, solver, exchange, frames=14, pins=(), **settings):
    colored_parts.EXCHANGE, pins = exchange, list(pins)
    simulation = vv.Simulation(scene, solver, dt=0.01, backend=backend, **settings)
    start = simulation.positions
    for frame in range(frames):
        if pins and frame < 10:
            simulation.move_pins(pins, start[pins] + [0, 0.004 * (frame + 1), 0])
        work = ((1, 0.004, 3), (2, 0.003, 2)) if frame == 5 else None
        report = simulation.step(work=work)
        if backend == "mpi" and frame == frames // 2:
            sweeps = simulation._sweeps
            sweeps.migrate((sweeps.owners + np.arange(len(sweeps.owners)) % 2).astype(np.int32) % sweeps.comm.size)
    found[case + " positions"], found[case + " velocities"] = simulation.positions, simulation.velocities
    found[case + " residual"] = [[one.rms, one.largest] for one in report.residual.values()]

def hanging(material):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(25, 25), material=material).pin([0, 24])
    scene.add_collider(vv.Sphere(0.3, (0, -0.305, 0)), friction=0.5)
    scene.add_collider(vv.Box((0.2, 0.2, 0.2)), motion=lambda t: (0.0, -0.3 + 0.3 * np.sin(20 * t), 0.3))
    return scene

def tiny():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(5, 5), material=vv.Springs(100.0)).pin(0)
    return scene

def solids():
    scene = vv.Scene()
    bar = scene.add_solid(vv.Mesh.box((12, 4, 4), (3.0, 1.0, 1.0)), material=vv.Elastic(2e4))
    bar.attach([0, 1, 2], 1e4)
    scene.add_cloth(vv.Mesh.grid(15, 15), material=vv.Elastic(1e4))
    scene.add_collider(vv.Plane((0, -0.52, 0)), friction=0.3)
    return scene

run("ratios", hanging(vv.Ratios(bend=0.2)), "gauss-seidel", 0, pins=(0, 24), iterations=3, substeps=2)
run("compliances", hanging(vv.Compliances(1e-6, bend=1e-3)), "xpbd", 2000, pins=(0, 24), iterations=4, substeps=2)
run("vivace ratios", hanging(vv.Ratios(bend=0.2)), "vivace", 0, pins=(0, 24), iterations=3)
run("vivace solids", solids(), "vivace", 0, iterations=4, substeps=2)
run("solids", solids(), vv.ColoredGaussSeidel(), 10**9, iterations=5)
for solver in ("xpbd", "vivace"):
    run("tiny " + solver, tiny(), solver, 0, iterations=2)
np.savez(name, **found)
"""


def run_program(folder, ranks, name):
    (folder / "program.py").write_text(PROGRAM)
    start = [] if ranks is None else mpiexec_command(MPIEXEC, ranks)
    command = [*start, sys.executable, "program.py", name, "cpu" if ranks is None else "mpi"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return np.load(folder / f"{name}.npz")


@needs_mpiexec
def test_same_bits_on_one_process_and_on_one_to_four_ranks_with_blocks_that_move(tmp_path):
    expected = run_program(tmp_path, None, "alone")
    for ranks in (1, 2, 3, 4):
        found = run_program(tmp_path, ranks, f"on{ranks}")
        for name in expected:
            if name.endswith("residual"):
                np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
            else:
                np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def vivace(*arguments, cwd):
    command = [sys.executable, "-m", "vivace", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


@needs_mpiexec
def test_a_checkpoint_of_two_ranks_goes_on_on_three_to_the_same_bits(tmp_path):
    scene = "tablecloth", "--scale", 0.03, "--solver", "gauss-seidel"
    whole = vivace("run", *scene, "--frames", 20, "--out", "whole.npz", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    half = vivace("run", *scene, "--frames", 10, "--ranks", 2, "--checkpoint", "run.ckpt", "--every", 5, cwd=tmp_path)
    assert half.returncode == 0, half.stderr
    rest = vivace("resume", "run.ckpt", "--frames", 20, "--ranks", 3, "--out", "rest.npz", cwd=tmp_path)
    assert rest.returncode == 0, rest.stderr
    ends = [np.load(tmp_path / name)["positions"][-1] for name in ("rest.npz", "whole.npz")]
    np.testing.assert_array_equal(*ends)


def simulation_on_ranks(solver, material, **settings):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(6, 6), material=material)
    return vv.Simulation(scene, solver, backend="mpi", **settings)


@pytest.mark.parametrize(
    ("solver", "material", "reason"),
    [
        ("serial", vv.Ratios(), "one after the other.*serial"),
        ("phantoms", vv.Ratios(), "split particles"),
        ("averaged-jacobi", vv.Ratios(), "share particles.*jacobi"),
        ("pd-jacobi", vv.Elastic(1e4), "all particles at once.*pd-jacobi"),
    ],
)
def test_solvers_that_several_ranks_cannot_run_say_why(solver, material, reason):
    with pytest.raises(vv.InputError, match=reason):
        simulation_on_ranks(solver, material)


def test_fresh_orders_are_for_one_process():
    simulation = simulation_on_ranks(vv.Vivace(fresh=True), vv.Elastic(1e4))
    with pytest.raises(vv.InputError, match="fresh=True.*are for one process"):
        simulation.step()


def test_batches_in_another_order_are_refused():
    class Backwards(vv.ColoredGaussSeidel):
        def schedule(self, sweeps, iterations, substeps):
            return reversed(list(super().schedule(sweeps, iterations, substeps)))

    with pytest.raises(vv.InputError, match="does not project all batches in turn"):
        simulation_on_ranks(Backwards(), vv.Ratios())


def test_colors_that_do_not_begin_with_the_first_group_are_refused():
    class Backwards(vv.Vivace):
        def schedule(self, sweeps, iterations, substeps):
            return reversed(list(super().schedule(sweeps, iterations, substeps)))

    with pytest.raises(vv.InputError, match="does not begin each color with the first group"):
        simulation_on_ranks(Backwards(), vv.Ratios(stretch=0.9, bend=0.2)).step()


def test_points_cannot_be_held_on_ranks(tmp_path):
    simulation = simulation_on_ranks("gauss-seidel", vv.Ratios())
    with pytest.raises(vv.InputError, match="cannot be held on several ranks"):
        simulation.grab(5)
    alone = vv.Simulation(simulation.scene)
    alone.grab(5)
    alone.save(tmp_path / "held.ckpt")
    simulation.load(tmp_path / "held.ckpt")
    with pytest.raises(vv.InputError, match="cannot be held on several ranks"):
        simulation.step()


def test_contacts_do_not_reach_over_to_other_ranks():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(6, 6), material=vv.Ratios())
    scene.self_collision(0.01)
    with pytest.raises(vv.InputError, match="self_collision is for one process"):
        vv.Simulation(scene, backend="mpi")


def cut_of_cloth(side=40):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(side, side), material=vv.Ratios(bend=0.1)).pin(0)
    return ColoredCut(vv.ColoredGaussSeidel().prepare(scene.build(), 5, 0))


@pytest.mark.parametrize("exchange", [0, 3000, 10**9])
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_parts_have_all_that_their_own_rows_depend_on(ranks, exchange, monkeypatch):
    """Whoever is moved in a batch has only corners that are still right; then the rows of others become wrong."""
    monkeypatch.setattr(colored_parts, "EXCHANGE", exchange)
    cut = cut_of_cloth()
    owners = assign(cut.blocks, cut.blocks.costs, ranks)
    part_of, measured = cut.among(owners, ranks), 0
    for rank in range(ranks):
        part = part_of(rank)
        own = len(part.rows)
        here = np.concatenate([part.rows, part.copies])
        known, renewals = np.arange(len(here)) < own, dict(part.renewals)
        for group, planned in enumerate(part.plan.groups):
            whole, offsets = cut.plan.groups[group], planned.partition.offsets
            for batch in range(planned.batch_count):
                if (group, batch) in renewals:
                    for _, rows in renewals[group, batch].takes:
                        known[rows] = True
                members = planned.vertices[offsets[batch] : offsets[batch + 1]]
                wanted = whole.vertices[slice(*whole.partition.offsets[batch : batch + 2])]
                place = np.full(len(cut.plan.order), -1)
                place[here] = np.arange(len(here))
                computed = set(map(tuple, members))
                for corners in place[wanted]:
                    if tuple(corners) not in computed:
                        known[corners[corners >= 0]] = False
                for corners in members:
                    known[corners] = known[corners].all()
                assert known[:own].all()
        measured += sum(int(counts.sum()) for counts in part.counted)
    assert measured == sum(len(planned.vertices) for planned in cut.plan.groups)


def test_copies_are_renewed_more_seldom_where_that_costs_more(monkeypatch):
    cut, counts = cut_of_cloth(), []
    owner_of = cut.blocks.owner_of(assign(cut.blocks, cut.blocks.costs, 2))
    for exchange in (0, 3000, 10**9):
        monkeypatch.setattr(colored_parts, "EXCHANGE", exchange)
        counts.append(len(Reach(cut.plan, owner_of, 2).needs))
    assert counts[0] > counts[1] > counts[2] == 1

"""Threads of the machine and of the user's program: never a hang, never other bits."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import vivace as vv
from vivace.backends.cpu import Team
from vivace.kernels import region

RUN = """
import vivace as vv
material = vv.MassSpring(100.0)
for options, solver in ({}, "gauss-seidel"), (dict(material=material), vv.ImplicitEuler(blocks=20)):
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(40, 40), **options).pin([0, 39])
    simulation = vv.Simulation(scene, solver, threads=2)
    for _ in simulation.run(5):
        pass
    print(simulation.positions.tobytes().hex()[-64:])
"""


def fresh(code, **environment):
    """What a new process prints; a hang is a failure."""
    plain = {key: value for key, value in os.environ.items() if key != "NUMBA_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**plain, **environment}, text=True, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def undisturbed():
    return fresh(RUN)


@pytest.mark.parametrize(
    "environment",
    [
        {"OMP_DYNAMIC": "true"},
        {"OMP_THREAD_LIMIT": "1"},
        {"NUMBA_NUM_THREADS": "1"},
        {"NUMBA_THREADING_LAYER": "workqueue"},
    ],
    ids=lambda environment: " ".join(environment),
)
def test_fewer_threads_than_asked_neither_hang_nor_change_the_bits(environment, undisturbed):
    assert fresh(RUN, **environment) == undisturbed


def test_a_forked_child_is_told_to_spawn():
    if not hasattr(os, "fork"):
        pytest.skip("no fork")
    told = fresh(
        RUN
        + """
import os, sys
reader, writer = os.pipe()
if os.fork() == 0:
    try:
        simulation.step()
    except vv.SimulationError as problem:
        os.write(writer, str(problem).encode())
    os._exit(0)
os.wait()
print(os.read(reader, 1000).decode())
"""
    )
    assert "by 'spawn'" in told


def cloth():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(20, 20)).pin([0, 19])
    return vv.Simulation(scene)


def test_two_threads_of_a_program_take_turns_with_one_simulation():
    alone, shared = cloth(), cloth()
    for _ in alone.run(40):
        pass
    workers = [threading.Thread(target=lambda: list(shared.run(20))) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert shared.frame == 40
    assert (alone.positions.view(np.uint32) == shared.positions.view(np.uint32)).all()


def test_numbas_threads_are_given_back():
    import numba

    before = numba.get_num_threads()
    cloth().step()
    assert numba.get_num_threads() == before


def test_threads_that_are_there_can_wait_for_each_other():
    assert region.runs_threads_together(1) and region.runs_threads_together(2)


@pytest.mark.parametrize("token", [1000, -5, 1.5, "predict"])
def test_a_schedule_with_something_else_than_sweeps_is_refused(token):
    class Wrong(vv.ColoredGaussSeidel):
        def schedule(self, sweeps, iterations, substeps):
            return iter([sweeps.predict, token, sweeps.update_velocities])

    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(3, 3))
    with pytest.raises(vv.InputError, match="not a sweep"):
        vv.Simulation(scene, solver=Wrong())


class TooFewGradients:
    ARITY = 2

    @staticmethod
    def value_gradient(corners, rest):
        return corners[0][0], (corners[0],), corners[0][1]


def test_a_constraint_with_too_few_gradients_is_refused():
    scene = vv.Scene()
    body = scene.add_cloth(vv.Mesh.grid(3, 3))
    with pytest.raises(vv.InputError, match="'TooFewGradients': value_gradient must give 2 gradients"):
        scene.add_constraints(body, TooFewGradients, [(0, 1)])


def branching(point, parameters):
    return (point[0], point[:3]) if point[0] > parameters[0] else (point[1], point[:3])


class Branching:
    distance_normal = staticmethod(branching)

    def parameters(self):
        return (0.0,)


def test_a_collider_that_cannot_be_compiled_is_named():
    scene = vv.Scene()
    scene.add_cloth(vv.Mesh.grid(3, 3))
    scene.add_collider(Branching())
    with pytest.raises(vv.InputError, match="branching cannot be compiled"):
        vv.Simulation(scene)


def test_a_team_works_alone_while_cores_are_taken_and_tries_again_ever_more_seldom(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("vivace.backends.cpu.time", type("Clock", (), {"perf_counter": staticmethod(lambda: now[0])}))
    team, trials = Team(2), []
    for _ in range(2000):  # steps of 10 ms in which two threads always meet a busy machine
        threads = team.size()
        if threads == 2:
            trials.append(now[0])
        team.tell(threads, 50 if threads == 2 else 0, 200)
        now[0] += 0.01
    pauses = np.diff(trials)
    assert pauses[0] == pytest.approx(Team.SHORTEST, abs=0.02) and pauses[-1] == pytest.approx(Team.LONGEST, abs=0.02)
    now[0] += Team.LONGEST
    team.tell(team.size(), 0, 200)  # the machine is quiet again
    assert team.size() == 2
    team.tell(2, 50, 200)
    now[0] += Team.SHORTEST + 0.01
    assert team.size() == 2


def test_one_long_wait_does_not_send_a_thread_home():
    team = Team(2)
    team.tell(2, 4, 1000)
    assert team.size() == 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_tori_fit_into_400_megabytes():
    small = "import vivace as vv; from vivace import scenes; vv.Simulation(scenes.find('tori').make(0.05)).step()"
    fresh(small)  # a compiler needs memory too
    peak = fresh(
        "import vivace as vv; from vivace import scenes\n"
        "simulation = vv.Simulation(scenes.find('tori').make(1.0))\n"
        "simulation.step()\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    assert int(peak) * 1024 < 400e6

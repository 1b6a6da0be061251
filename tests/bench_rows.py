"""What quick runs of the benchmarks give, made once for all tests that look at it."""

import shutil
from functools import cache

import numpy as np
import pytest

import vivace as vv
from vivace.bench import benches, limit
from vivace.bench.timing import race
from vivace.cluster.launch import find_mpiexec


def jittered_cube():
    scene, mesh = vv.Scene(), vv.Mesh.box((13, 14, 15))
    jitter = np.random.default_rng(0).normal(0, 0.004, mesh.vertices.shape)
    body = scene.add_solid(mesh, material=vv.Ratios(stretch=0.9, volume=0.9))
    body.set_positions(slice(None), mesh.vertices + jitter)
    return scene


# Constants of benches, for runs that are smaller yet: nobody reads their times here.
SMALLER = {
    "coloring": {"SCALES": (0.03, 0.1), "STARS": (50, 200)},
    "limit": {
        "WORKS": {name: scene for name, scene in limit.WORKS.items() if "300" not in name} | {"W2": jittered_cube},
        "race": lambda *functions, seconds: race(*functions, seconds=0.03),
    },
    "mpi-scaling": {"frames_for": lambda particles: 50},
    "stability": {"RATIOS": (10.0, 1000.0)},
}


def skip_without_mpi():
    pytest.importorskip("mpi4py", reason="needs pip install 'vivace[mpi]'")
    try:
        find_mpiexec()
    except vv.InputError as problem:
        pytest.skip(str(problem))


@cache
def rows_of(name):
    if name == "limit" and shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("no C++ compiler")
    if name in ("mpi-scaling", "zara-fig8"):
        skip_without_mpi()
    bench = benches()[name]
    with pytest.MonkeyPatch.context() as patch:
        for constant, value in SMALLER.get(name, {}).items():
            patch.setattr(bench, constant, value)
        return bench.run(quick=True, progress=lambda text: None)

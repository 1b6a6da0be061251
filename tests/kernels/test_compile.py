"""Kernels are compiled once: a second process finds them on disk, and none is used after its sources have changed."""

import os
import shutil
import subprocess
import sys

import pytest
from numba import njit

from helpers import SOURCE, fresh_python
from vivace.constraints import bend, stretch, volume
from vivace.kernels import compile as compiling
from vivace.kernels.compile import announce_compiling, cached, source_digest
from vivace.kernels.region import share

HITS = """
from vivace.constraints import stretch, volume
from vivace.kernels.compile import announce_compiling
from vivace.kernels.project import project_kernel
announced = []
with announce_compiling(announced.append):
    hits = [project_kernel(constraint).cache_hits for constraint in (stretch, volume)]
print(*hits, *announced)
"""


def append_comment(file):
    file.write_text(file.read_text() + "\n# changed\n")


def test_second_process_loads_from_the_disk_cache_and_sees_changed_sources(tmp_path):
    shutil.copytree(SOURCE / "vivace", tmp_path / "vivace", ignore=shutil.ignore_patterns("__pycache__"))
    hits = lambda: fresh_python(HITS, source=tmp_path, NUMBA_CACHE_DIR="")  # noqa: E731
    assert hits().startswith("0 0 project_blocks")
    assert hits() == "1 1"
    append_comment(tmp_path / "vivace" / "constraints" / "stretch.py")
    assert hits().startswith("0 1 project_blocks")
    append_comment(tmp_path / "vivace" / "kernels" / "vec3.py")
    assert hits().startswith("0 0 project_blocks")


HITS_OF_TALK = """
from vivace.kernels.talk import finish_kernel, gather_kernel, start_kernel
print(*(kernel().cache_hits for kernel in (start_kernel, finish_kernel, gather_kernel)))
"""


def test_ranks_find_what_they_talk_with_on_disk(tmp_path):
    shutil.copytree(SOURCE / "vivace", tmp_path / "vivace", ignore=shutil.ignore_patterns("__pycache__"))
    hits = lambda: fresh_python(HITS_OF_TALK, source=tmp_path, NUMBA_CACHE_DIR="")  # noqa: E731
    assert (hits(), hits()) == ("0 0 0", "1 1 1")


HITS_OF_A_UNION = """
import vivace as vv
from vivace.kernels.collide import collide_kernel
shape = (vv.Sphere(1.0) | vv.Capsule((0, 0, 0), (0, 1, 0), 0.1)).moved((0, 1, 0))
print(collide_kernel(shape.distance_normal, len(shape.parameters())).cache_hits)
"""


def test_a_joined_collider_is_found_on_disk_unless_one_of_its_parts_has_changed(tmp_path):
    shutil.copytree(SOURCE / "vivace", tmp_path / "vivace", ignore=shutil.ignore_patterns("__pycache__"))
    hits = lambda: fresh_python(HITS_OF_A_UNION, source=tmp_path, NUMBA_CACHE_DIR="")  # noqa: E731
    assert hits() == "0"
    append_comment(tmp_path / "vivace" / "collision" / "torus.py")
    assert hits() == "1"
    append_comment(tmp_path / "vivace" / "collision" / "capsule.py")
    assert hits() == "0"


HITS_OF_COMPILED = """
from caller import twice
print(twice(3), sum(twice.stats.cache_hits.values()))
"""


@pytest.mark.parametrize("decorator", ["compiled", "compiled_parallel"])
def test_a_compiled_function_is_made_anew_when_a_file_near_it_has_changed(tmp_path, decorator):
    header = f"from vivace.kernels.compile import {decorator} as compiled\n"
    body = "@compiled\ndef twice(x):\n    return FACTOR * same(x)\n"
    (tmp_path / "caller.py").write_text(f"{header}from called import FACTOR, same\n{body}")
    called = header + "FACTOR = {}\n@compiled\ndef same(x):\n    return x + {}\n"
    (tmp_path / "called.py").write_text(called.format(2, 0))
    run = lambda: fresh_python(HITS_OF_COMPILED, source=f"{SOURCE}{os.pathsep}{tmp_path}", NUMBA_CACHE_DIR="")  # noqa: E731
    assert run() == "6 0"
    assert run() == "6 1"
    (tmp_path / "called.py").write_text(called.format(2, 1))
    assert run() == "8 0"
    (tmp_path / "called.py").write_text(called.format(5, 1))
    assert run() == "20 0"


def test_digest_follows_functions_in_closures_at_any_depth():
    def around(inner):
        return lambda x: inner(x)

    inner = [around(around(constraint.value_gradient)) for constraint in (stretch, bend)]
    assert source_digest(inner[0]) != source_digest(inner[1])
    assert source_digest(inner[0]) == source_digest(around(around(stretch.value_gradient)))


def test_digest_is_that_of_all_sources_involved():
    digests = {source_digest(constraint.value_gradient) for constraint in (stretch, bend, volume)}
    assert len(digests) == 3
    assert source_digest(stretch.value_gradient) == source_digest(stretch.value_gradient)


def test_function_without_a_source_file_is_digested_by_its_code():
    namespaces = [{}, {}, {}]
    for namespace, body in zip(namespaces, ("x + 1.0", "x + 1.0", "x + 2.0")):
        exec(f"def value_gradient(x):\n    return {body}", namespace)
    one, same, other = (source_digest(namespace["value_gradient"]) for namespace in namespaces)
    assert one == same != other


def test_compiles_without_the_disk_where_no_folder_can_be_written():
    def compile_with(cache):
        if cache:
            raise RuntimeError("cannot cache function 'f': no locator available for file '<stdin>'")
        return "compiled"

    assert cached(compile_with) == "compiled"


def test_other_problems_of_compiling_are_not_hidden():
    def compile_with(cache):
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        cached(compile_with)


def test_compiling_of_our_functions_is_announced_once_and_only_while_asked():
    @njit
    def a_users_own(x):
        return x + 1

    ours = njit(share.py_func)  # the same again, uncached
    announced = []
    with announce_compiling(announced.append):
        ours(0, 8, 0, 2)
        ours(0, 8, 1, 2)
        a_users_own(1.0)
    assert announced == ["share"]
    ours(0.0, 8.0, 0, 2)
    assert announced == ["share"]


def test_a_cold_first_use_says_so_on_standard_error_and_a_warm_one_does_not(tmp_path):
    code = "import vivace as vv; s = vv.Scene(); s.add_cloth(vv.Mesh.grid(3, 3)); vv.Simulation(s).step()"
    for expected in (1, 0):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            text=True,
            capture_output=True,
            check=True,
        )
        assert done.stderr.count("compiling kernels for this processor") == expected


def test_fast_math_is_contraction_only():
    """Under full fast-math a check for NaN finds nothing."""
    assert compiling.OPTIONS["fastmath"] == {"contract"}

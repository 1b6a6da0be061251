"""Benchmarks: each runs, gives rows that say what they should, and can be drawn."""

import csv
import shutil

import pytest

from vivace.bench import benches
from vivace.bench.results import machine_name, write_csv

SLOW = {"pbd-table1", "start"}  # the parts of these are tested with the scenes and the command


@pytest.fixture(scope="module")
def rows_of():
    made = {}

    def rows(name):
        if name == "limit" and shutil.which("g++") is None and shutil.which("clang++") is None:
            pytest.skip("no C++ compiler")
        if name not in made:
            made[name] = benches()[name].run(quick=True, progress=lambda text: None)
        return made[name]

    return rows


@pytest.mark.parametrize("name", sorted(set(benches()) - SLOW))
def test_bench_gives_rows_that_can_be_written_and_drawn(name, rows_of, tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    rows = rows_of(name)
    write_csv(tmp_path / "rows.csv", rows)
    with (tmp_path / "rows.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows) > 0
    benches()[name].plot(rows, figure)
    assert figure.axes and figure.axes[0].has_data()


def test_ours_goes_where_the_cpp_goes(rows_of):
    rows = rows_of("limit")
    assert {row["work"][:2] for row in rows} == {"W1", "W2", "W3", "W4"}
    assert all(row["largest difference m"] < 1e-5 for row in rows)


def test_small_steps_stretch_less_than_many_iterations(rows_of):
    strain = {(row["substeps"], row["iterations"]): row["mean strain %"] for row in rows_of("small-steps")}
    assert strain[128, 1] < 0.5 < strain[1, 8]
    assert strain[64, 1] < strain[1, 64]


def test_smallest_last_needs_no_more_colors_than_natural_or_random_order(rows_of):
    rows = [row for row in rows_of("coloring") if row["scene"] == "tori x 0.3"]
    colors = {row["algorithm"]: sum(int(part) for part in row["colors"].split("+")) for row in rows}
    assert colors["smallest-last"] <= min(colors["natural"], colors["random"])


def test_results_are_filed_by_machine():
    assert machine_name() == machine_name().lower() and "cores" in machine_name()

"""Benchmarks: each runs, gives rows that say what they should, and can be drawn."""

import csv

import pytest

from bench_rows import rows_of, skip_without_mpi
from vivace.bench import benches, mpi_scaling
from vivace.bench.ranks import Case, measured
from vivace.bench.results import machine_name, write_csv
from vivace.kernels.region import core_count

SLOW = {"pbd-table1", "start"}  # the parts of these are tested with the scenes and the command


@pytest.mark.parametrize("name", sorted(set(benches()) - SLOW))
def test_bench_gives_rows_that_can_be_written_and_drawn(name, tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    rows = rows_of(name)
    write_csv(tmp_path / "rows.csv", rows)
    with (tmp_path / "rows.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows) > 0
    benches()[name].plot(rows, figure)
    assert figure.axes and figure.axes[0].has_data()


def test_ours_goes_where_the_cpp_goes():
    rows = rows_of("limit")
    assert {row["work"][:2] for row in rows} == {"W1", "W2", "W3", "W4"}
    assert all(row["largest difference m"] < 1e-5 for row in rows)


def test_small_steps_stretch_less_than_many_iterations():
    strain = {(row["substeps"], row["iterations"]): row["mean strain %"] for row in rows_of("small-steps")}
    assert strain[128, 1] < 0.5 < strain[1, 8]
    assert strain[64, 1] < strain[1, 64]


def test_smallest_last_needs_no_more_colors_than_natural_or_random_order():
    rows = [row for row in rows_of("coloring") if row["scene"] == "tori x 0.1"]
    colors = {row["algorithm"]: sum(int(part) for part in row["colors"].split("+")) for row in rows}
    assert colors["smallest-last"] <= min(colors["natural"], colors["random"])


def test_the_size_of_blocks_and_ranks_change_times_only():
    rows = [row for row in rows_of("zara-fig8") if row["particles"] == 1600]
    assert {row["ranks"] for row in rows} == {1, 2} and len({row["rows of a block"] for row in rows}) == 3
    for row in rows:
        alike = [other for other in rows if other["rows of a block"] == row["rows of a block"]]
        assert {other["relative residual"] for other in alike} == {row["relative residual"]}  # to the bit
        assert row["relative residual"] == pytest.approx(rows[0]["relative residual"], rel=0.05)
        assert 0 < row["best ms"] <= row["median ms"]


def test_speedups_are_over_one_rank_and_the_model_knows_what_talking_costs():
    rows = rows_of("mpi-scaling")
    alone = [row for row in rows if row["kind"] not in ("model", "colored") and row["ranks"] * row["threads"] == 1]
    assert {row["kind"] for row in alone} == {"strong", "weak", "threads"} and all(row["speedup"] == 1 for row in alone)
    alone = next(row["step ms"] for row in rows if row["kind"] == "strong" and row["ranks"] == 1)
    (far,) = [row for row in rows if row.get("network", "").startswith("1 GbE") and row["ranks"] == 100]
    halo = 4 * 5 * 2 * 32 / 0.117e9  # a part of 5 x 5 particles
    talking = 1e3 * (7 * (4 * 50e-6 + halo) + 8 * 7 * 50e-6)
    assert far["of that talking ms"] == pytest.approx(talking)
    assert far["step ms"] == pytest.approx(alone / 100 + talking)


def test_processes_apart_are_compared_with_one_thread():
    rows = rows_of("mpi-scaling")
    apart = [row for row in rows if row["kind"] == "apart"]
    assert 2 in {row["ranks"] for row in apart} or core_count() == 1
    (alone,) = [row for row in rows if row["kind"] == "threads" and row["threads"] == 1]
    for row in apart:
        assert row["particles"] == pytest.approx(2500, rel=0.05)
        rates = [one["particles"] / one["step ms"] for one in (row, alone)]
        assert row["speedup"] == pytest.approx(rates[0] / rates[1])


def test_speedups_are_compared_within_a_turn():
    def turns(*times):
        return [{"particles": 100, "frames": 1, "step ms": t, "best ms": t, "median ms": t} for t in times]

    alone, two = (mpi_scaling.Measured(0, "implicit", 100, ranks, 1) for ranks in (1, 2))
    row = mpi_scaling._row(two, {alone: turns(10, 30, 20), two: turns(5, 10, 20)})
    assert (row["speedup"], row["least speedup"], row["most speedup"], row["efficiency"]) == (2, 1, 3, 1)
    assert (row["step ms"], row["frames"], row["median ms"], row["best over best"]) == (5, 3, 10, 2)


def test_colored_solvers_are_compared_with_one_thread_and_their_messages_are_counted():
    rows = [row for row in rows_of("mpi-scaling") if row["kind"] == "colored"]
    assert {row["solver"] for row in rows} == {"gauss-seidel", "vivace"}
    assert all(row["speedup"] == 1 for row in rows if row["ranks"] * row["threads"] == 1)
    assert all((row["messages"] > 10) == (row["ranks"] == 2) for row in rows)


def test_what_ends_a_job_of_ranks_is_told():
    skip_without_mpi()
    with pytest.raises(RuntimeError, match="(?s)2 ranks ended with .*blocks are more than there are particles"):
        list(measured([Case(100, blocks=1000)], 2))


def test_results_are_filed_by_machine():
    assert machine_name() == machine_name().lower() and "cores" in machine_name()

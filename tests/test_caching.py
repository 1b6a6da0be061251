"""Long work: what came of it is kept in files, and how far it has come is told."""

import os

import numpy as np
import pytest

import vivace as vv
from vivace import caching
from vivace.caching import MOST_FILES, kept_arrays
from vivace.coloring import phantoms
from vivace.progress import pieces, told_to


class Maker:
    """Makes other arrays at each call, and counts the calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return {"made": np.arange(5, dtype=np.int32) + self.calls, "empty": np.zeros((0, 3), np.float32)}


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """The folder of the kind "test"."""
    monkeypatch.setenv("VIVACE_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept" / "test"


def files(folder):
    return sorted(file.name for file in folder.iterdir())


def test_the_second_call_reads_what_the_first_has_made(kept):
    make = Maker()
    first, second = kept_arrays("test", (1, "a"), make), kept_arrays("test", (1, "a"), make)
    assert make.calls == 1 and first.keys() == second.keys()
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])
        assert values.dtype == second[name].dtype and values.shape == second[name].shape
    assert len(files(kept)) == 1


@pytest.mark.parametrize(
    "other",
    [
        (2, "a", np.arange(4)),
        ("1", "a", np.arange(4)),
        (1, "b", np.arange(4)),
        (1, "a", np.arange(4) + 1),
        (1, "a", np.arange(4).view(float)),
        (1, "a", np.arange(4).reshape(2, 2)),
        (1, "a"),
    ],
)
def test_another_key_is_another_file(other, kept):
    make = Maker()
    kept_arrays("test", (1, "a", np.arange(4)), make)
    assert kept_arrays("test", other, make)["made"][0] == 2 and len(files(kept)) == 2


def test_another_version_is_never_looked_at(monkeypatch):
    make = Maker()
    kept_arrays("test", (1,), make)
    monkeypatch.setattr(caching, "VERSION", caching.VERSION + 1)
    assert kept_arrays("test", (1,), make)["made"][0] == 2


BROKEN = {
    "empty": lambda whole: b"",
    "cut": lambda whole: whole[: len(whole) // 2],
    "flipped": lambda whole: whole.replace(np.arange(1, 6, dtype=np.int32).tobytes(), bytes(20)),
    "text": lambda whole: b"no archive at all",
}


@pytest.mark.parametrize("spoil", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_made_again(spoil, kept):
    make = Maker()
    kept_arrays("test", (1,), make)
    (file,) = kept.iterdir()
    assert spoil(file.read_bytes()) != file.read_bytes()
    file.write_bytes(spoil(file.read_bytes()))
    assert kept_arrays("test", (1,), make)["made"][0] == 2
    assert kept_arrays("test", (1,), make)["made"][0] == 2 and make.calls == 2


def test_where_nothing_can_be_written_it_is_made_each_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("VIVACE_CACHE", str(tmp_path / "file"))
    make = Maker()
    assert [kept_arrays("test", (1,), make)["made"][0] for _ in range(2)] == [1, 2]


def test_a_full_disk_is_no_problem(kept, monkeypatch):
    def full(path, **arrays):
        path.write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    assert kept_arrays("test", (1,), Maker())["made"][0] == 1 and files(kept) == []


def test_the_files_used_last_stay_and_no_partial_ones(kept):
    make = Maker()
    for key in range(MOST_FILES):
        kept_arrays("test", (key,), make)
    for age, file in enumerate(sorted(kept.iterdir())):
        os.utime(file, (age, age))
    kept_arrays("test", (7,), make)  # read: now the youngest
    assert make.calls == MOST_FILES
    for key in range(MOST_FILES, 2 * MOST_FILES - 1):
        kept_arrays("test", (key,), make)
    assert len(files(kept)) == MOST_FILES and not [name for name in files(kept) if "partial" in name]
    calls = make.calls
    kept_arrays("test", (7,), make)
    assert make.calls == calls
    kept_arrays("test", (8,), make)
    assert make.calls == calls + 1


@pytest.mark.parametrize("options", [{}, {"insertion": "paper"}], ids=["split", "paper"])
def test_a_partition_read_from_its_file_is_the_one_that_was_made(options, tmp_path, monkeypatch):
    monkeypatch.setattr(phantoms, "WORTH_KEEPING", 100)
    mesh = vv.Mesh.torus(around=8)
    groups = {"stretch": mesh.edges, "volume": mesh.tets}
    folder = tmp_path / "kept" / "phantoms"
    vv.partition(groups, 3, keep=False, **options)
    assert not folder.exists()
    made = vv.partition(groups, 3, **options)
    assert len(files(folder)) == 1
    monkeypatch.setattr(phantoms, "_make", None)  # it is not called again
    read = vv.partition(groups, 3, **options)
    np.testing.assert_array_equal(made.originals, read.originals)
    for one, other in zip(made.groups, read.groups):
        assert (one.name, one.target) == (other.name, other.target)
        np.testing.assert_array_equal(one.vertices, other.vertices)
        np.testing.assert_array_equal(one.coloring.colors, other.coloring.colors)
        np.testing.assert_array_equal(one.plain.colors, other.plain.colors)
    with pytest.raises(TypeError):
        vv.partition(groups, 4, **options)
    renamed = vv.partition({"a": mesh.edges, "b": mesh.tets}, 3, **options)  # names are no part of the work
    assert [group.name for group in renamed.groups] == ["a", "b"]


def test_a_few_constraints_are_not_worth_a_file(tmp_path):
    vv.partition([vv.Mesh.grid(10, 10).edges], 2)
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("count", [0, 1, 999, 2500, 100_000])
def test_pieces_are_all_items_in_order_and_tell_how_many_are_done(count):
    told = []
    with told_to(lambda *call: told.append(call)):
        seen = np.concatenate(list(pieces("counting", np.arange(count))))
    np.testing.assert_array_equal(seen, np.arange(count))
    assert {what for what, _, _ in told} == {"counting"} and {total for _, _, total in told} == {count}
    done = [done for _, done, _ in told]
    assert done == sorted(set(done)) and done[-1] == count and len(done) <= 40
    assert len(done) > 1 or count < 2000


def test_a_partition_tells_how_far_it_is_only_within_the_block():
    told, edges = [], vv.Mesh.grid(40, 40).edges
    with told_to(lambda *call: told.append(call)):
        vv.partition([edges], 2, cliques="bron-kerbosch", keep=False)
    assert {what.split(",")[0] for what, _, _ in told} == {"finding cliques", "inserting phantoms"}
    assert all(0 < done <= total == len(edges) for _, done, total in told) and told[-1][1] == len(edges)
    count = len(told)
    vv.partition([edges], 2, keep=False)
    assert len(told) == count

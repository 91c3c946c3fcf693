"""The index on disk: commit, lock, damage, determinism, what a stopped build leaves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from colrank import ColRank
from colrank.codec import whole_vectors
from colrank.encoder import TokenFrequencies
from colrank.errors import IndexDamaged, IndexExists, IndexFormat, IndexLocked, IndexMissing, InputError
from colrank.index import FORMAT_VERSION, IndexWriter, is_index, open_snapshot


def arrays(seed: int, *lengths: int, dim: int = 8) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((length, dim)).astype(np.float32) for length in lengths]


def given_index(path: Path, ids=("a", "b", "c"), seed: int = 0, **options) -> ColRank:
    index = ColRank.create(path, model=None, **options)
    index.add_embeddings(
        list(ids), arrays(seed, *range(1, len(ids) + 1)), texts=[f"text of {i}" for i in ids]
    )
    return index


def manifest_file(path: Path) -> Path:
    return next(path.glob("manifest-*.json"))


def stopped_build(path: Path, generation: int, error: type[BaseException]) -> None:
    with IndexWriter(path) as writer:
        writer.segment_writer(generation, whole_vectors(8))
        raise error


def test_an_index_opens_again_with_what_was_put_in(tmp_path: Path):
    given_index(tmp_path / "i")
    opened = ColRank.open(tmp_path / "i")
    contents = opened.snapshot.contents
    assert len(opened) == 3
    assert contents.offsets.tolist() == [0, 1, 3, 6]
    assert contents.offsets.dtype == np.int64
    assert [contents.document(row).id for row in range(3)] == ["a", "b", "c"]
    assert contents.passage(1).text == "text of b"
    expected = arrays(0, 1, 2, 3)[1]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_array_equal(contents.passage_vectors(1), expected.astype(np.float16))


def test_vectors_stay_memory_mapped(tmp_path: Path):
    given_index(tmp_path / "i")
    before = pa.total_allocated_bytes()
    contents = open_snapshot(tmp_path / "i").contents
    block = contents.vectors.read(0, 6)
    assert pa.total_allocated_bytes() == before
    assert not block.flags.owndata
    assert not block.flags.writeable


def test_equal_input_gives_equal_bytes(tmp_path: Path, sample: Path):
    for name in ("one", "two"):
        ColRank.create(tmp_path / name, device="cpu").add_files(sample)
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file())
    assert files == sorted(
        p.relative_to(tmp_path / "two") for p in (tmp_path / "two").rglob("*") if p.is_file()
    )
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_creating_over_an_index_is_refused_unless_asked_for(tmp_path: Path):
    given_index(tmp_path / "i")
    with pytest.raises(IndexExists, match="--overwrite"):
        ColRank.create(tmp_path / "i", model=None)
    given_index(tmp_path / "i", ids=("x",), overwrite=True)
    assert [hit.document for hit in ColRank.open(tmp_path / "i").search(np.eye(1, 8), 5)] == ["x"]
    assert len(list((tmp_path / "i").glob("segment-*"))) == 1
    assert open_snapshot(tmp_path / "i").manifest.generation == 2


def test_overwriting_that_fails_keeps_the_old_index(tmp_path: Path):
    given_index(tmp_path / "i")
    index = ColRank.create(tmp_path / "i", model=None, overwrite=True)
    with pytest.raises(InputError, match="NaN or Inf"):
        index.add_embeddings(["x"], [np.full((2, 8), np.nan)])
    assert len(ColRank.open(tmp_path / "i")) == 3


def test_a_folder_with_other_things_in_it_is_never_written_to(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=r"mine\.txt"):
        given_index(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        given_index(tmp_path / "file")


def test_no_index_is_a_clear_error(tmp_path: Path):
    with pytest.raises(IndexMissing, match=r"no index at .*nowhere.*colrank index"):
        ColRank.open(tmp_path / "nowhere")


def test_another_format_version_is_refused(tmp_path: Path):
    given_index(tmp_path / "i")
    file = manifest_file(tmp_path / "i")
    file.write_text(json.dumps({**json.loads(file.read_text()), "format_version": FORMAT_VERSION + 1}))
    with pytest.raises(IndexFormat, match=f"version {FORMAT_VERSION + 1}.*versions 1 to {FORMAT_VERSION}"):
        ColRank.open(tmp_path / "i")


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: text.replace('"documents": 3', '"documents": 4'),
        lambda text: "[]",
        lambda text: '{"format_version": 1}',
        lambda text: text.replace('"dim"', '"dam"'),
    ],
)
def test_a_damaged_manifest_is_named(tmp_path: Path, damage):
    given_index(tmp_path / "i")
    file = manifest_file(tmp_path / "i")
    file.write_text(damage(file.read_text()))
    with pytest.raises((IndexDamaged, IndexFormat), match=r"manifest|format version"):
        ColRank.open(tmp_path / "i")


@pytest.mark.parametrize("name", ["documents", "ids", "passages", "offsets", "frequencies", "tokens-00000"])
@pytest.mark.parametrize("how", ["missing", "short", "empty"])
def test_a_damaged_file_is_named(tmp_path: Path, name, how):
    given_index(tmp_path / "i")
    file = tmp_path / "i" / "segment-00000001" / f"{name}.arrow"
    if how == "missing":
        file.unlink()
    else:
        with file.open("r+b") as handle:
            handle.truncate(file.stat().st_size - 9 if how == "short" else 0)
    with pytest.raises(IndexDamaged, match=name):
        ColRank.open(tmp_path / "i")


def test_offsets_that_leave_the_shard_are_refused(tmp_path: Path):
    given_index(tmp_path / "i")
    file = tmp_path / "i" / "segment-00000001" / "offsets.arrow"
    content = file.read_bytes()
    good = np.array([0, 1, 3, 6], dtype=np.int64).tobytes()
    assert content.count(good) == 1
    file.write_bytes(content.replace(good, np.array([0, 1, 3, 7], dtype=np.int64).tobytes()))
    with pytest.raises(IndexDamaged, match="rows"):
        ColRank.open(tmp_path / "i")


def test_one_writer_at_a_time_and_the_second_is_told_who(tmp_path: Path):
    given_index(tmp_path / "i")
    with (
        IndexWriter(tmp_path / "i"),
        pytest.raises(IndexLocked, match=f"process {os.getpid()}"),
        IndexWriter(tmp_path / "i"),
    ):
        pass
    with IndexWriter(tmp_path / "i"):
        pass  # the lock was given back


def test_a_reader_keeps_its_snapshot_while_the_index_is_rewritten(tmp_path: Path):
    given_index(tmp_path / "i")
    reader = ColRank.open(tmp_path / "i")
    before = [(h.id, h.score) for h in reader.search(np.ones((2, 8)), 5)]
    writer = ColRank.open(tmp_path / "i")
    writer.add_embeddings(["a", "z"], arrays(9, 4, 4))
    assert [(h.id, h.score) for h in reader.search(np.ones((2, 8)), 5)] == before
    assert sorted(h.document for h in ColRank.open(tmp_path / "i").search(np.ones((2, 8)), 9)) == list("abcz")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_stopped_first_build_leaves_nothing(tmp_path: Path, error):
    with pytest.raises(error):
        stopped_build(tmp_path / "new" / "i", 1, error)
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_later_build_leaves_the_old_generation(tmp_path: Path):
    given_index(tmp_path / "i")
    before = sorted(p.name for p in (tmp_path / "i").iterdir())
    with pytest.raises(KeyboardInterrupt):
        stopped_build(tmp_path / "i", 2, KeyboardInterrupt)
    assert sorted(p.name for p in (tmp_path / "i").iterdir()) == before
    assert len(ColRank.open(tmp_path / "i")) == 3


def test_what_a_killed_build_left_behind_is_no_index_and_is_cleared(tmp_path: Path):
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom colrank.codec import whole_vectors\n"
        "from colrank.index import IndexWriter\n"
        "with IndexWriter(Path(sys.argv[1])) as writer:\n"
        "    writer.segment_writer(1, whole_vectors(8))\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "i")], check=False)
    assert (tmp_path / "i" / "building").is_dir()
    assert not is_index(tmp_path / "i")
    with pytest.raises(IndexMissing):
        ColRank.open(tmp_path / "i")
    given_index(tmp_path / "i")
    assert not (tmp_path / "i" / "building").exists()


def test_an_index_can_be_moved_and_holds_no_absolute_path(tmp_path: Path):
    given_index(tmp_path / "i")
    shutil.move(tmp_path / "i", tmp_path / "elsewhere")
    assert len(ColRank.open(tmp_path / "elsewhere").search(np.ones((1, 8)), 3)) == 3
    for file in (tmp_path / "elsewhere").rglob("*"):
        assert file.is_dir() or str(tmp_path).encode() not in file.read_bytes()


def test_two_indexes_in_one_process_share_nothing(tmp_path: Path):
    one, two = given_index(tmp_path / "1", ids=("a",)), given_index(tmp_path / "2", ids=("b",), seed=1)
    one.add_embeddings(["c"], arrays(5, 2))
    assert sorted(h.document for h in one.search(np.ones((1, 8)), 9)) == ["a", "c"]
    assert [h.document for h in two.search(np.ones((1, 8)), 9)] == ["b"]


def test_token_frequencies_take_back_what_they_added():
    frequencies = TokenFrequencies()
    frequencies.add([1, 1, 2])
    frequencies.add([2, 3])
    before = [column.tolist() for column in frequencies.table()]
    other = TokenFrequencies()
    other.add([3, 9, 9])
    other.add([2])
    frequencies.include(other)
    assert [column.tolist() for column in frequencies.table()] == [[1, 2, 3, 9], [1, 3, 2, 1]]
    assert frequencies.passages == 4
    frequencies.subtract(other)
    assert [column.tolist() for column in frequencies.table()] == before == [[1, 2, 3], [1, 2, 1]]
    assert frequencies.passages == 2
    expected = [np.sqrt(np.log1p((2 - n + 0.5) / (n + 0.5))) for n in (1, 2, 0)]
    np.testing.assert_allclose(frequencies.weights(np.array([1, 2, 77])), expected, rtol=1e-6)
    with pytest.raises(IndexDamaged):
        frequencies.subtract(other)

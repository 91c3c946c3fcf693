"""What happens to an index when writers meet, disks fill and file systems lack features."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from colrank import ColRank
from colrank.errors import IndexExists, ModelMismatch
from colrank.index import IndexWriter, open_snapshot, store


def add(index: ColRank, *ids: str, dim: int = 8) -> None:
    rng = np.random.default_rng(len(ids))
    index.add_embeddings(list(ids), [rng.standard_normal((3, dim)) for _ in ids])


def fresh(path: Path, **options: object) -> ColRank:
    return ColRank.create(path, model=None, **options)


def test_an_index_made_by_another_since_create_is_not_overwritten(tmp_path: Path):
    first, second = fresh(tmp_path / "i"), fresh(tmp_path / "i")
    add(first, "a")
    with pytest.raises(IndexExists, match="overwrite=True"):
        add(second, "b")
    assert [hit.document for hit in ColRank.open(tmp_path / "i").search(np.ones((1, 8)))] == ["a"]


def test_a_stale_writer_does_not_mix_its_vectors_into_another_index(tmp_path: Path):
    stale = fresh(tmp_path / "i")
    add(stale, "a")
    add(fresh(tmp_path / "i", overwrite=True), "b", dim=4)
    with pytest.raises(ModelMismatch, match="open it again"):
        add(stale, "c")
    assert ColRank.open(tmp_path / "i").snapshot.manifest.dim == 4


def test_a_reader_of_an_older_snapshot_still_tells_its_stats(tmp_path: Path):
    reader = fresh(tmp_path / "i")
    add(reader, "a")
    before = reader.stats()
    add(ColRank.open(tmp_path / "i"), "b")
    assert reader.stats() == before


def test_a_reader_of_an_older_snapshot_finds_documents_and_weighs_tokens_after_a_compaction(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", token_weights="idf", device="cpu")
    for name, text in (("a", "Trams run at dawn."), ("b", "Buses run at noon.")):
        index.add([{"id": name, "text": text}])
    reader, looked_up = ColRank.open(tmp_path / "i", device="cpu"), ColRank.open(tmp_path / "i", device="cpu")
    expected = [(hit.id, hit.score) for hit in looked_up.search("trams at dawn", 9, ids=["a", "b"])]
    index.compact()
    assert [path.name for path in (tmp_path / "i").glob("segment-*")] == ["segment-00000003"]
    assert reader.snapshot.contents.rows_of(["a", "b"]) == {"a": 0, "b": 1}
    assert [(hit.id, hit.score) for hit in reader.search("trams at dawn", 9, ids=["a", "b"])] == expected


@pytest.mark.parametrize("first", [True, False])
def test_a_disk_that_fills_at_the_commit_leaves_what_was_there(tmp_path: Path, monkeypatch, first: bool):
    if not first:
        add(fresh(tmp_path / "i"), "a")
    before = sorted(path.name for path in tmp_path.rglob("*"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    index = fresh(tmp_path / "i") if first else ColRank.open(tmp_path / "i")
    with monkeypatch.context() as patched:
        patched.setattr("colrank.index.generations.os.link", full)
        with pytest.raises(OSError, match="No space"):
            add(index, "b")
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    add(index, "b")
    assert len(ColRank.open(tmp_path / "i")) == (1 if first else 2)


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP])
def test_a_file_system_without_hard_links_will_do(tmp_path: Path, monkeypatch, code: int):
    def without(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("colrank.index.generations.os.link", without)
    add(fresh(tmp_path / "i"), "a")
    add(ColRank.open(tmp_path / "i"), "b")
    assert len(ColRank.open(tmp_path / "i")) == 2


def test_a_lock_on_a_file_that_is_gone_is_taken_again(tmp_path: Path, monkeypatch):
    really, raced = os.open, []

    def racing(path: Path, *arguments: int) -> int:
        handle = really(path, *arguments)
        if not raced:  # the writer before us removes the file between our open and our lock
            raced.append(path)
            Path(path).unlink()
        return handle

    monkeypatch.setattr(store.os, "open", racing)
    with IndexWriter(tmp_path / "i") as writer:
        assert raced
        assert (tmp_path / "i" / "colrank.lock").stat().st_ino == os.fstat(writer._lock).st_ino


def test_opening_while_a_commit_removes_the_manifest_gives_the_newer_generation(tmp_path: Path, monkeypatch):
    add(fresh(tmp_path / "i"), "a")
    writer = ColRank.open(tmp_path / "i")
    really, calls = store.read_manifest, []

    def overtaken(folder: Path):
        calls.append(folder)
        if len(calls) == 1:
            monkeypatch.setattr(store, "read_manifest", really)
            add(writer, "b")
            raise FileNotFoundError(folder)
        return really(folder)

    monkeypatch.setattr(store, "read_manifest", overtaken)
    assert open_snapshot(tmp_path / "i").manifest.generation == 2


def test_what_a_killed_commit_left_is_cleared(tmp_path: Path):
    left = tmp_path / "i" / "segment-00000001"
    left.mkdir(parents=True)
    (left / "documents.arrow").write_bytes(b"half")
    (tmp_path / "i" / "building").mkdir()
    (tmp_path / "i" / "building" / "manifest-00000001.json").write_text("{")
    add(fresh(tmp_path / "i"), "a")
    assert len(ColRank.open(tmp_path / "i")) == 1

"""A folder read again, and a build that was stopped: nothing is encoded twice, nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import colrank.builder.documents as documents
from colrank import ColRank
from colrank.encoder import Encoder
from colrank.errors import InputError
from colrank.index import is_index

TEXTS = {
    "guide.md": "The guarantee of a repair lasts six months.",
    "terms.md": "A deposit is not given back.",
    "es/garantia.md": "La garantía de una reparación dura seis meses.",
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    for name, text in TEXTS.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was given to the encoder as passages."""
    seen: list[str] = []
    plain = Encoder.encode_passages

    def told(self: Encoder, inputs, lengths, done=None):
        seen.extend(inputs)
        return plain(self, inputs, lengths, done)

    monkeypatch.setattr(Encoder, "encode_passages", told)
    return seen


def held(index: ColRank) -> set[str]:
    return {document.id for document in index.snapshot.contents.live_documents()}


def counts(report) -> tuple[int, int, int, int]:
    return report.added, report.replaced, report.deleted, report.unchanged


def test_a_second_run_on_an_unchanged_folder_encodes_nothing(
    corpus: Path, tmp_path: Path, encoded: list[str]
):
    index = ColRank.create(tmp_path / "i", device="cpu")
    assert counts(index.sync(corpus)) == (3, 0, 0, 0)
    del encoded[:]
    generation = index.snapshot.manifest.generation
    assert counts(ColRank.open(tmp_path / "i", device="cpu").sync(corpus)) == (0, 0, 0, 3)
    assert encoded == []
    assert ColRank.open(tmp_path / "i").snapshot.manifest.generation == generation


def test_a_sync_adds_replaces_and_deletes(corpus: Path, tmp_path: Path, encoded: list[str]):
    index = ColRank.create(tmp_path / "i", device="cpu")
    index.add([{"id": "note", "text": "A document from memory is no business of a folder."}])
    index.sync(corpus)
    (corpus / "new.md").write_text("Opening hours are nine to five.")
    (corpus / "guide.md").write_text("The guarantee of a repair lasts twelve months.")
    (corpus / "terms.md").unlink()
    del encoded[:]
    assert counts(index.sync(corpus)) == (1, 1, 1, 1)
    assert encoded == ["The guarantee of a repair lasts twelve months.", "Opening hours are nine to five."]
    assert held(index) == {"note", "corpus/guide.md", "corpus/new.md", "corpus/es/garantia.md"}
    assert (
        index.search("how long is the guarantee", 1)[0].text
        == "The guarantee of a repair lasts twelve months."
    )
    fresh = ColRank.create(tmp_path / "fresh", device="cpu")
    fresh.add([{"id": "note", "text": "A document from memory is no business of a folder."}])
    fresh.sync(corpus)
    for query in ("guarantee of a repair", "cuánto dura la garantía", "opening hours"):
        # Vectors differ in their last bits with the batch that they were encoded in.
        assert [(hit.id, pytest.approx(hit.score, abs=1e-3)) for hit in index.search(query)] == [
            (hit.id, hit.score) for hit in fresh.search(query)
        ]


def test_keep_missing_deletes_nothing(corpus: Path, tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    index.sync(corpus)
    (corpus / "terms.md").unlink()
    assert counts(index.sync(corpus, keep_missing=True)) == (0, 0, 0, 2)
    assert "corpus/terms.md" in held(index)
    assert counts(index.add_files(corpus)) == (0, 0, 0, 2)
    assert counts(index.sync(corpus)) == (0, 0, 1, 2)


def test_another_folder_takes_nothing_away(corpus: Path, tmp_path: Path):
    other = tmp_path / "corpus-b"
    other.mkdir()
    (other / "b.md").write_text("Another folder.")
    index = ColRank.create(tmp_path / "i", device="cpu")
    index.sync(corpus)
    assert counts(index.sync(other)) == (1, 0, 0, 0)
    assert len(index) == 4
    (corpus / "terms.md").unlink()
    assert counts(index.sync([corpus, other])) == (0, 0, 1, 3)


def test_what_cannot_be_read_now_is_not_taken_for_gone(corpus: Path, tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    (corpus / "list.jsonl").write_text(
        '{"id": "one", "text": "The first."}\n{"id": "two", "text": "The second."}\n'
    )
    index.sync(corpus)
    (corpus / "guide.md").write_bytes(b"\xff\xfe not UTF-8 \x00")
    (corpus / "list.jsonl").write_text('{"id": "one", "text": "The first."}\n{"id": "two", "te')
    report = index.sync(corpus)
    assert counts(report) == (0, 0, 0, 3)
    assert {"corpus/guide.md", "one", "two"} <= held(index)
    assert any("kept though they were not read" in sentence for sentence in report.warnings)
    # A record that is gone from a file that was read whole is gone.
    (corpus / "list.jsonl").write_text('{"id": "one", "text": "The first."}\n')
    (corpus / "guide.md").write_text(TEXTS["guide.md"])
    assert index.sync(corpus).deleted == 1
    assert "two" not in held(index)


def test_a_changed_title_or_metadata_is_a_change(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    index.add([{"id": "a", "text": "A text.", "year": 2020}])
    assert index.add([{"id": "a", "text": "A text.", "year": 2020}]).unchanged == 1
    assert index.add([{"id": "a", "text": "A text.", "year": 2021}]).replaced == 1
    assert index.search("text", 1)[0].metadata == {"year": 2021}
    assert index.add([{"id": "a", "text": "A text.", "title": "T", "year": 2021}]).replaced == 1


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("options", [{}, {"bits": 2, "pool": 2}, {"bits": 32}], ids=str)
def test_a_stopped_build_goes_on_where_it_stood_and_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoded: list[str], options: dict
):
    texts = [
        {"id": f"d{number}", "text": f"Passage number {number} is about the {word} of things, at length."}
        for number, word in enumerate(["price", "weight", "colour", "age", "smell"] * 8)
    ]
    monkeypatch.setattr(documents, "_WINDOW_PASSAGES", 8)
    whole = ColRank.create(tmp_path / "whole" / "i", device="cpu", **options)
    whole.add(texts)
    assert len(encoded) == 40
    del encoded[:]
    plain = Encoder.encode_passages

    def stopped(self: Encoder, inputs, lengths, done=None):
        if len(encoded) == 24:
            raise KeyboardInterrupt
        return plain(self, inputs, lengths, done)

    monkeypatch.setattr(Encoder, "encode_passages", stopped)
    folder = tmp_path / "broken" / "i"
    with pytest.raises(KeyboardInterrupt):
        ColRank.create(folder, device="cpu", **options).add(texts)
    assert not is_index(folder)
    assert len(encoded) == 24
    monkeypatch.setattr(Encoder, "encode_passages", plain)
    index = ColRank.create(folder, device="cpu", **options)
    report = index.add(texts)
    assert (report.added, report.resumed) == (40, 24)
    assert len(encoded) == 40
    assert files(folder) == files(tmp_path / "whole" / "i")
    assert not (folder / "building").exists()


def test_a_stopped_add_leaves_the_index_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoded: list[str]
):
    monkeypatch.setattr(documents, "_WINDOW_PASSAGES", 2)
    index = ColRank.create(tmp_path / "i", device="cpu")
    index.add([{"id": "a", "text": "The first text."}])
    more = [{"id": f"m{number}", "text": f"One more text, number {number}."} for number in range(6)]
    plain = Encoder.encode_passages

    def stopped(self: Encoder, inputs, lengths, done=None):
        if any("number 4" in text for text in inputs):
            raise OSError("No space left on device")
        return plain(self, inputs, lengths, done)

    monkeypatch.setattr(Encoder, "encode_passages", stopped)
    with pytest.raises(OSError, match="No space"):
        index.add(more)
    assert len(index) == len(ColRank.open(tmp_path / "i")) == 1
    monkeypatch.setattr(Encoder, "encode_passages", plain)
    report = index.add(more)
    assert (report.added, report.resumed, len(index)) == (6, 4, 7)


def colrank(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "colrank", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )


def test_the_command_line_indexes_again_adds_deletes_and_compacts(corpus: Path, tmp_path: Path):
    assert "Indexed 3 documents" in colrank("index", "corpus", cwd=tmp_path).stdout
    (corpus / "new.md").write_text("Opening hours are nine to five.")
    (corpus / "terms.md").unlink()
    told = colrank("index", "corpus", cwd=tmp_path).stdout
    assert "1 added, 0 replaced, 1 deleted, 2 unchanged" in told
    assert "holds 3 documents" in told
    refused = colrank("index", "corpus", "--pool", "2", cwd=tmp_path)
    assert refused.returncode == 2
    assert "was made with --pool 1 and 2 was asked for" in refused.stderr
    (tmp_path / "more.txt").write_text("A text on its own.")
    assert "1 added" in colrank("add", "more.txt", cwd=tmp_path).stdout
    told = colrank("delete", "--path-prefix", "corpus/es", "--dry-run", cwd=tmp_path).stdout
    assert told == "Would delete 1 documents: corpus/es/garantia.md.\n"
    told = colrank("delete", "more.txt", cwd=tmp_path).stdout
    assert told == "Deleted 1 documents: more.txt.\ncolrank.index holds 3 documents now.\n"
    unknown = colrank("delete", "more.txt", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "There is no document 'more.txt'" in unknown.stderr
    assert "as one" in colrank("compact", "--dry-run", cwd=tmp_path).stdout
    assert "Wrote" in colrank("compact", cwd=tmp_path).stdout
    assert "there is nothing to do" in colrank("compact", cwd=tmp_path).stdout
    found = colrank("search", "opening hours", "-k", "1", "--filter", "source like '%new.md'", cwd=tmp_path)
    assert "corpus/new.md" in found.stdout


def test_nothing_named_deletes_nothing(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", model=None)
    with pytest.raises(InputError, match="Nothing was indexed"):
        index.delete(["a"])
    index.add_embeddings(["a", "b"], [np.eye(2, 8), np.eye(1, 8)])
    with pytest.raises(InputError, match="Nothing to delete was named"):
        index.delete()
    assert index.delete(["a"]) == ["a"]
    assert index.delete(["b"]) == ["b"]
    assert len(index) == 0
    assert list(index.search(np.eye(1, 8))) == []
    index.add_embeddings(["a"], [np.eye(1, 8)])
    assert [hit.document for hit in index.search(np.eye(1, 8))] == ["a"]

"""An index as Parquet and back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from colrank import ColRank
from colrank.errors import InputError

LONG = " ".join(f"Sentence number {number} of a text that needs several passages." for number in range(60))
DOCUMENTS = [
    {
        "id": "a",
        "text": "El depósito no se devuelve.",
        "title": "Condiciones",
        "year": 2020,
        "tags": ["x", "y"],
    },
    {"id": "b", "text": "", "title": "A title alone"},
    {"id": "c", "text": "The same", "title": "The same"},
    {"id": "d", "text": LONG},
    {"id": "gone", "text": "This one is deleted."},
]


@pytest.fixture
def index(tmp_path: Path) -> ColRank:
    made = ColRank.create(tmp_path / "i", device="cpu", overlap=8)
    made.add(DOCUMENTS[:3])
    made.add(DOCUMENTS[3:])
    made.delete(["gone"])
    return made


def contents(index: ColRank) -> list[tuple]:
    held = index.snapshot.contents
    return sorted(
        (
            d.id,
            d.title,
            d.source,
            d.language,
            json.dumps(d.metadata, sort_keys=True),
            p.ordinal,
            p.text,
            p.start,
        )
        for d in held.live_documents()
        for p in held.passages(held.passages_of(d.row))
    )


def test_texts_come_back_as_they_were(index: ColRank, tmp_path: Path):
    file = tmp_path / "e.parquet"
    passages = index.export(file)
    table = pq.read_table(file)
    assert passages == len(table) == index.stats()["passages"]
    assert "vectors" not in table.schema.names
    assert set(table["document"].to_pylist()) == {"a", "b", "c", "d"}
    again = ColRank.create(tmp_path / "again", device="cpu", overlap=8)
    report = again.add_exported(file)
    assert (report.documents, report.passages) == (4, passages)
    assert contents(again) == contents(index)
    for query in ("deposit", "sentence number 50", "the same"):
        assert [hit.id for hit in again.search(query, 3)] == [hit.id for hit in index.search(query, 3)]


def test_vectors_come_back_as_the_codec_keeps_them(tmp_path: Path):
    random = np.random.default_rng(3)
    arrays = [random.standard_normal((tokens, 16)) for tokens in (1, 5, 30, 80)]
    index = ColRank.create(tmp_path / "i", model=None, bits=2)
    index.add_embeddings(
        ["a", "b", "c", "d"], arrays, texts=["A", "B", "C", "D"], metadata=[{"n": 1}, {}, {}, {}]
    )
    file = tmp_path / "e.parquet"
    assert index.export(file, vectors=True) == 4
    held = {row["document"]: np.array(row["vectors"], np.float32) for row in pq.read_table(file).to_pylist()}
    assert [len(held[name]) for name in "abcd"] == [1, 5, 30, 80]
    snapshot = index.snapshot
    for row, name in enumerate("abcd"):
        decoded = snapshot.codec.turn_back(snapshot.contents.passage_vectors(row).astype(np.float32))
        decoded /= np.linalg.norm(decoded, axis=1, keepdims=True)
        np.testing.assert_allclose(held[name], decoded, atol=1e-6)
    again = ColRank.create(tmp_path / "again", model=None, bits=32)
    assert again.add_exported(file, vectors=True).documents == 4
    query = random.standard_normal((3, 16))
    found = [
        (hit.id, hit.text, hit.metadata, pytest.approx(hit.score, rel=2e-2)) for hit in again.search(query)
    ]
    assert found == [(hit.id, hit.text, hit.metadata, hit.score) for hit in index.search(query)]


def test_what_is_no_export_is_refused(index: ColRank, tmp_path: Path):
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), other)
    (tmp_path / "text.parquet").write_text("no Parquet")
    new = ColRank.create(tmp_path / "new", device="cpu")
    for path in (other, tmp_path / "text.parquet", tmp_path / "nowhere.parquet"):
        with pytest.raises(InputError, match="is no export of an index"):
            new.add_exported(path)
    index.export(tmp_path / "e.parquet")
    with pytest.raises(InputError, match="holds no vectors"):
        ColRank.create(tmp_path / "v", model=None).add_exported(tmp_path / "e.parquet", vectors=True)
    index.export(tmp_path / "v.parquet", vectors=True)
    with pytest.raises(InputError, match=r"'d' has \d passages, and given vectors have one"):
        ColRank.create(tmp_path / "v", model=None).add_exported(tmp_path / "v.parquet", vectors=True)
    with pytest.raises(InputError, match="Cannot write"):
        index.export(tmp_path / "nowhere" / "e.parquet")

"""Indexes that older versions left on a disk, and a reader that knows nothing but docs/format.md.

`golden/make.py` says how they were made. When one of these tests fails, the code is wrong, or the format
changed and needs a new version: the golden files themselves never change.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from golden.make import DIM_1, DIM_2, documents_of_format_1, documents_of_format_2

from colrank import ColRank
from colrank.index import FORMAT_VERSION, Knobs
from colrank.index.manifest import read_manifest

GOLDEN = Path(__file__).parent / "golden"
DOCUMENTS = {1: documents_of_format_1, 2: documents_of_format_2}
VERSIONS = tuple(DOCUMENTS)


# A reader written from docs/format.md: it imports nothing of colrank


@dataclass
class Read:
    """An index as `read_index` found it; `tokens[i]` are passage i's vectors in the codec's space."""

    manifest: dict[str, Any]
    documents: list[dict[str, Any]]
    passages: list[dict[str, Any]]
    tokens: list[np.ndarray]
    rotation: np.ndarray | None
    centroids: list[np.ndarray] | None
    postings: list[list[int]] | None
    labels: list[list[int]] | None
    frequencies: tuple[dict[int, int], int]

    def turn(self, vectors: np.ndarray) -> np.ndarray:
        wide = vectors.astype(np.float64)
        return wide if self.rotation is None else wide @ self.rotation.astype(np.float64)

    def hits(self, query: np.ndarray, weights: np.ndarray | None = None) -> list[tuple[str, np.float32]]:
        """All passages with tokens as (id, score), best first."""
        turned = self.turn(query)
        weights = np.ones(len(query)) if weights is None else weights.astype(np.float64)
        found = []
        for row, tokens in enumerate(self.tokens):
            if len(tokens):
                best = (turned @ tokens.astype(np.float64).T).max(axis=1)
                document = self.documents[self.passages[row]["document"]]["id"]
                found.append((-np.float32(weights @ best), document, row))
        return [(f"{name}#{self.passages[row]['ordinal']}", -score) for score, name, row in sorted(found)]


def read_index(folder: Path) -> Read:
    name = max(path.name for path in folder.iterdir() if re.fullmatch(r"manifest-[0-9]{8}\.json", path.name))
    manifest = json.loads((folder / name).read_text(encoding="utf-8"))
    assert manifest["format"] == "colrank"
    version = manifest["format_version"]
    assert version in (1, 2)
    body = {key: value for key, value in manifest.items() if key != "checksum"}
    canonical = json.dumps(body, sort_keys=True, ensure_ascii=True, separators=(", ", ": "))
    assert xxhash.xxh3_128_hexdigest(canonical.encode("ascii")) == manifest["checksum"]
    assert manifest["generation"] == int(name[9:17])
    assert version == 1 or {"nprobe", "shortlist", "prune"} == set(manifest["knobs"]) - {"k"}
    (segment,) = manifest["segments"]
    codec = manifest.get("codec")
    for part in (segment, *([codec] if codec else [])):
        for file, told in part["files"].items():
            content = (folder / part["name"] / file).read_bytes()
            assert len(content) == told["bytes"]
            assert xxhash.xxh3_128_hexdigest(content) == told["xxh3"]

    def table(part: dict[str, Any], file: str, columns: dict[str, pa.DataType]) -> pa.Table:
        found = pa.ipc.open_file(pa.memory_map(str(folder / part["name"] / file))).read_all()
        assert dict(zip(found.schema.names, found.schema.types, strict=True)) == columns
        assert list(columns) == found.schema.names
        assert all(column.null_count == 0 for column in found.columns)
        return found

    def numbers(column: pa.ChunkedArray) -> np.ndarray:
        if pa.types.is_fixed_size_list(column.type):
            flat = pa.concat_arrays([chunk.flatten() for chunk in column.chunks])
            return flat.to_numpy(zero_copy_only=False).reshape(-1, column.type.list_size)
        return column.to_numpy()

    documents = table(
        segment,
        "documents.arrow",
        {
            "id": pa.utf8(),
            "title": pa.utf8(),
            "source": pa.utf8(),
            "language": pa.utf8(),
            "metadata": pa.large_utf8(),
            "encoded": pa.bool_(),
            "first_passage": pa.int64(),
        },
    ).to_pylist()
    for document in documents:
        document["metadata"] = json.loads(document["metadata"])
    passages = table(
        segment,
        "passages.arrow",
        {
            "document": pa.int64(),
            "ordinal": pa.int32(),
            "start": pa.int64(),
            "end": pa.int64(),
            "prefix": pa.int32(),
            "text": pa.large_utf8(),
        },
    ).to_pylist()
    assert (len(documents), len(passages)) == (segment["documents"], segment["passages"])
    firsts = [document["first_passage"] for document in documents]
    for row, (first, end) in enumerate(zip(firsts, [*firsts[1:], len(passages)], strict=True)):
        owned = passages[first:end]
        assert [passage["document"] for passage in owned] == [row] * len(owned)
        assert [passage["ordinal"] for passage in owned] == list(range(len(owned)))
    offsets = numbers(table(segment, "offsets.arrow", {"token_offset": pa.int64()})["token_offset"])
    assert len(offsets) == len(passages) + 1
    assert (offsets[0], offsets[-1]) == (0, segment["tokens"])
    assert (np.diff(offsets) >= 0).all()
    found = table(segment, "frequencies.arrow", {"token_id": pa.int32(), "passages": pa.int64()})
    counts = dict(zip(found["token_id"].to_pylist(), found["passages"].to_pylist(), strict=True))
    frequencies = counts, int(found.schema.metadata[b"passages"])
    assert sum(segment["language_tokens"].values()) == segment["tokens"]

    dim = manifest["dim"]
    bits = codec["bits"] if codec else 32 if manifest.get("bits") == 32 else 16
    kind = codec["kind"] if codec else "none"
    columns: dict[str, pa.DataType] = {}
    if codec:
        columns["centroid"] = pa.uint16() if codec["centroids"] <= 65536 else pa.uint32()
    if bits >= 16:
        columns["vector"] = pa.list_(pa.float16() if bits == 16 else pa.float32(), dim)
    else:
        columns["code"] = pa.list_(pa.uint8(), -(-dim * bits // 8))
        columns["scale" if kind == "linear" else "inverse_norm"] = (
            pa.uint8() if kind == "linear" else pa.float16()
        )
    assert all(file.startswith("codes-" if codec else "tokens-") for file in segment["shards"])
    shards = [table(segment, file, columns) for file in segment["shards"]]
    stored = {
        column: numbers(pa.concat_tables(shards)[column]) if shards else np.empty((0, dim))
        for column in columns
    }
    assert all(len(values) == segment["tokens"] for values in stored.values())

    rotation = centroid_ids = postings = None
    if codec:
        centroids = table(codec, "centroids.arrow", {"vector": pa.list_(pa.float16(), dim)})["vector"]
        centroids = numbers(centroids).astype(np.float32)
        assert len(centroids) == codec["centroids"]
        centroid_ids = stored["centroid"]
        assert not len(centroid_ids) or centroid_ids.max() < len(centroids)
        found = table(segment, "posting-offsets.arrow", {"posting_offset": pa.int64()})
        starts = numbers(found["posting_offset"])
        widths = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
        narrowest = next(width for width in widths if len(passages) - 1 < 2**width.bit_width)
        lists = table(segment, "postings.arrow", {"passage": narrowest})["passage"].to_pylist()
        assert len(starts) == len(centroids) + 1
        assert (starts[0], starts[-1]) == (0, len(lists))
        assert (np.diff(starts) >= 0).all()
        postings = [lists[a:b] for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]
    if bits >= 16:
        vectors = stored["vector"]
    else:
        levels = numbers(table(codec, "levels.arrow", {"level": pa.float32()})["level"])
        assert len(levels) == 2**bits
        vectors = np.empty((segment["tokens"], dim), dtype=np.float32)
        for column in range(dim):
            code = (stored["code"][:, column * bits // 8] >> (column * bits % 8)) & (2**bits - 1)
            near = centroids[centroid_ids, column]
            if kind == "linear":
                scales = numbers(table(codec, "scales.arrow", {"scale": pa.float32()})["scale"])
                assert len(scales) == 256
                vectors[:, column] = levels[code] * scales[stored["scale"]] + near
            else:
                vectors[:, column] = (levels[code] + near) * stored["inverse_norm"].astype(np.float32)
        if kind == "linear":
            rotation = numbers(
                table(codec, "rotation.arrow", {"vector": pa.list_(pa.float32(), dim)})["vector"]
            )
            assert rotation.shape == (dim, dim)
    labels = None
    if manifest.get("pool", 1) > 1:
        found = pa.ipc.open_file(pa.memory_map(str(folder / segment["name"] / "pooling.arrow"))).read_all()
        assert found.schema.names == ["labels", "unpooled"]
        assert found.schema.types[0] in [pa.large_list(kind()) for kind in (pa.uint8, pa.uint16, pa.uint32)]
        labels = found["labels"].to_pylist()
        assert len(labels) == len(passages)
    cuts = offsets[1:-1]
    return Read(
        manifest,
        documents,
        passages,
        np.split(vectors, cuts),
        rotation,
        None if centroid_ids is None else np.split(centroid_ids, cuts),
        postings,
        labels,
        frequencies,
    )


# The golden indexes


def expected(version: int) -> list[tuple[np.ndarray, list[tuple[str, np.float32]]]]:
    content = json.loads((GOLDEN / f"format-{version}.json").read_text(encoding="utf-8"))
    return [
        (
            np.array(each["query"], dtype=np.float32),
            list(zip(each["ids"], np.array(each["scores"], dtype=np.float32), strict=True)),
        )
        for each in content
    ]


@pytest.fixture
def golden(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return Path(shutil.copytree(GOLDEN / f"format-{request.param}", tmp_path / "i"))


def found(index: ColRank, query: np.ndarray, k: int = 1000, **options: Any) -> list[tuple[str, np.float32]]:
    return [(hit.document, np.float32(hit.score)) for hit in index.search(query, k, **options)]


@pytest.mark.parametrize(("golden", "version"), [(1, 1), (2, 2)], indirect=["golden"])
def test_a_golden_index_gives_the_same_hits_for_ever(golden: Path, version: int):
    index = ColRank.open(golden)
    asked = expected(version)
    assert [len(query) for query, _ in asked] == [1, 2, 5, 9, 32, len(asked[-1][0])]
    for query, hits in asked:
        assert len(hits) == len(DOCUMENTS[version]())
        assert found(index, query, scan="always") == hits
        assert found(index, query) == hits
        assert found(index, query, by="document", scan="always") == hits
        assert found(index, query, 7, scan="always") == hits[:7]
    together = index.search([query for query, _ in asked], 1000, scan="always")
    assert [[(h.document, np.float32(h.score)) for h in each] for each in together] == [h for _, h in asked]


@pytest.mark.parametrize("golden", [2], indirect=True)
def test_a_wide_prefilter_gives_the_same_hits_for_ever(golden: Path):
    index = ColRank.open(golden)
    for query, hits in expected(2):
        assert found(index, query, scan="never", nprobe=10_000, shortlist=10_000) == hits
        assert found(index, query, 5, scan="never", nprobe=10_000, shortlist=len(hits) - 1) == hits[:5]


@pytest.mark.parametrize("golden", [2], indirect=True)
def test_a_golden_manifest_is_written_again_byte_for_byte(golden: Path):
    manifest = read_manifest(golden)
    assert manifest.knobs == Knobs()
    assert manifest.to_json().encode() == (golden / "manifest-00000001.json").read_bytes()
    # Settings for a k are the one thing more that a manifest of this format may hold.
    for knobs, members in ((Knobs(4, 99, 0.3), 3), (Knobs(4, 99, 0.3, 10), 4)):
        (golden / "manifest-00000001.json").write_text(replace(manifest, knobs=knobs).to_json())
        assert read_manifest(golden).knobs == knobs
        assert len(read_index(golden).manifest["knobs"]) == members


@pytest.mark.parametrize("version", VERSIONS)
def test_equal_documents_tie_and_order_by_id(version: int):
    twins = {1: ["doc-03", "doc-07"], 2: ["año-17", "año-56"]}[version]
    for _, hits in expected(version):
        places = [[name for name, _ in hits].index(twin) for twin in twins]
        assert places[1] == places[0] + 1
        assert hits[places[0]][1] == hits[places[1]][1]


@pytest.mark.parametrize(("golden", "version"), [(1, 1), (2, 2)], indirect=["golden"])
def test_what_was_put_in_survives(golden: Path, version: int):
    documents = {document["id"]: document for document in DOCUMENTS[version]()}
    index = ColRank.open(golden)
    segment = index.snapshot.segment
    assert [segment.document_id(row) for row in range(len(index))] == list(documents)
    hits = index.search(expected(version)[0][0], 1000)
    assert {hit.document for hit in hits} == set(documents)
    for hit in hits:
        document = documents[hit.document]
        body = document["text"] or document["title"]
        assert hit.id == f"{hit.document}#0"
        assert (hit.title, hit.text, hit.start, hit.end) == (document["title"], body, 0, len(body))
        assert hit.metadata == document["metadata"]
    stats = index.stats()
    lengths = [len(document["vectors"]) for document in documents.values()]
    assert stats["unpooled_tokens"] == sum(lengths)
    assert stats["tokens"] == sum(max(1, length // version) for length in lengths)
    assert (stats["dim"], stats["bits"], stats["pool"]) == {1: (DIM_1, 16, 1), 2: (DIM_2, 2, 2)}[version]


@pytest.mark.parametrize("golden", [1], indirect=True)
def test_adding_to_an_index_of_format_1_writes_the_newest_format(golden: Path):
    assert read_index(golden).manifest["format_version"] == 1
    index = ColRank.open(golden)
    new = np.eye(1, DIM_1, dtype=np.float32)
    report = index.add_embeddings(["new", "doc-05"], [new, -new], texts=["añadido", "otro"])
    assert (report.documents, report.replaced) == (13, 1)
    assert [path.name for path in golden.glob("manifest-*")] == ["manifest-00000002.json"]
    read = read_index(golden)
    assert read.manifest["format_version"] == FORMAT_VERSION
    assert read.manifest["codec"] is None
    opened = ColRank.open(golden)
    for query, hits in expected(1):
        now = dict(found(opened, query))
        assert set(now) == {name for name, _ in hits} | {"new"}
        assert all(now[name] == score for name, score in hits if name != "doc-05")
        assert [(f"{name}#0", score) for name, score in found(opened, query)] == read.hits(query)
    assert found(opened, new, 1) == [("new", np.float32(1))]
    texts = {hit.document: hit.text for hit in opened.search(new, 1000)}
    assert texts["new"] == "añadido"
    assert texts["doc-05"] == "otro"
    assert texts["doc-04"] == documents_of_format_1()[4]["text"]


@pytest.mark.parametrize("golden", [2], indirect=True)
def test_adding_to_an_index_of_format_2_keeps_its_codec_and_scores(golden: Path):
    before = read_index(golden)
    ColRank.open(golden).add_embeddings(["new"], [np.eye(3, DIM_2)])
    after = read_index(golden)
    assert after.manifest["codec"] == before.manifest["codec"]
    for query, hits in expected(2):
        now = [hit for hit in found(ColRank.open(golden), query) if hit[0] != "new"]
        assert now == hits


# The format's description


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reader_written_from_the_description_gives_the_same_scores(version: int):
    read = read_index(GOLDEN / f"format-{version}")
    for query, hits in expected(version):
        assert read.hits(query) == [(f"{name}#0", score) for name, score in hits]
    for document, passage, wanted in zip(read.documents, read.passages, DOCUMENTS[version](), strict=True):
        assert {name: document[name] for name in ("id", "title", "metadata")} == {
            name: wanted[name] for name in ("id", "title", "metadata")
        }
        assert passage["text"] == (wanted["text"] or wanted["title"])
        assert not document["encoded"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_folder_holds_what_its_manifest_names_and_nothing_else(version: int):
    folder = GOLDEN / f"format-{version}"
    manifest = read_index(folder).manifest
    parts = [manifest["segments"][0], *([manifest["codec"]] if manifest.get("codec") else [])]
    named = {f"{part['name']}/{file}" for part in parts for file in part["files"]}
    held = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert held == {*named, "manifest-00000001.json"}

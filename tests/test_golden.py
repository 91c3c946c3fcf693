"""Indexes that older versions left on a disk, and a reader that knows nothing but docs/format.md.

`golden/make.py` says how they were made. When one of these tests fails, the code is wrong, or the format
changed and needs a new version: the golden files themselves never change.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from golden.make import (
    DIM_1,
    DIM_2,
    DIM_3,
    DIM_4,
    documents_of_format_1,
    documents_of_format_2,
    documents_of_format_3,
    documents_of_format_4,
    updates_of_format_3,
)

from colrank import ColRank
from colrank.index import FORMAT_VERSION, Knobs
from colrank.index.generations import read_manifest

GOLDEN = Path(__file__).parent / "golden"
DOCUMENTS = {
    1: documents_of_format_1,
    2: documents_of_format_2,
    3: documents_of_format_3,
    4: documents_of_format_4,
}
VERSIONS = tuple(DOCUMENTS)
DIMS = {1: DIM_1, 2: DIM_2, 3: DIM_3, 4: DIM_4}
POOLS = {1: 1, 2: 2, 3: 1, 4: 1}
INDEXES = [(version, version) for version in VERSIONS]


# A reader written from docs/format.md: it imports nothing of colrank


@dataclass
class Read:
    """An index as `read_index` found it, all segments one after the other, deleted documents among them.

    `tokens[i]` are passage i's vectors in the codec's space, `words[i]` its terms with their counts and
    `lengths[i]` the number of its words, where these are kept; `deleted[i]` is of document i. Frequencies and
    `language_tokens` are of what is not deleted.
    """

    manifest: dict[str, Any]
    documents: list[dict[str, Any]]
    passages: list[dict[str, Any]]
    tokens: list[np.ndarray]
    rotation: np.ndarray | None
    centroids: list[np.ndarray] | None
    postings: list[list[int]] | None
    labels: list[list[int]] | None
    frequencies: tuple[dict[int, int], int]
    deleted: list[bool]
    language_tokens: dict[str, int]
    words: list[dict[str, int]]
    lengths: list[int]

    @property
    def live(self) -> list[dict[str, Any]]:
        """Documents that are not deleted."""
        return [document for document, gone in zip(self.documents, self.deleted, strict=True) if not gone]

    def turn(self, vectors: np.ndarray) -> np.ndarray:
        wide = vectors.astype(np.float64)
        return wide if self.rotation is None else wide @ self.rotation.astype(np.float64)

    def hits(self, query: np.ndarray, weights: np.ndarray | None = None) -> list[tuple[str, np.float32]]:
        """All passages with tokens as (id, score), best first."""
        turned = self.turn(query)
        weights = np.ones(len(query)) if weights is None else weights.astype(np.float64)
        found = []
        for row, tokens in enumerate(self.tokens):
            document = self.passages[row]["document"]
            if len(tokens) and not self.deleted[document]:
                best = (turned @ tokens.astype(np.float64).T).max(axis=1)
                found.append((-np.float32(weights @ best), self.documents[document]["id"], row))
        return [(f"{name}#{self.passages[row]['ordinal']}", -score) for score, name, row in sorted(found)]


DOCUMENT_COLUMNS = {
    "id": pa.utf8(),
    "title": pa.utf8(),
    "source": pa.utf8(),
    "language": pa.utf8(),
    "metadata": pa.large_utf8(),
    "encoded": pa.bool_(),
    "first_passage": pa.int64(),
}
PASSAGE_COLUMNS = {
    "document": pa.int64(),
    "ordinal": pa.int32(),
    "start": pa.int64(),
    "end": pa.int64(),
    "prefix": pa.int32(),
    "text": pa.large_utf8(),
}
COUNTS = ("documents", "passages", "tokens", "unpooled_tokens")


def table(folder: Path, file: str, columns: dict[str, pa.DataType]) -> pa.Table:
    found = pa.ipc.open_file(pa.memory_map(str(folder / file))).read_all()
    assert dict(zip(found.schema.names, found.schema.types, strict=True)) == columns
    assert list(columns) == found.schema.names
    assert all(column.null_count == 0 for column in found.columns)
    return found


def numbers(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_fixed_size_list(column.type):
        flat = pa.concat_arrays([chunk.flatten() for chunk in column.chunks])
        return flat.to_numpy(zero_copy_only=False).reshape(-1, column.type.list_size)
    return column.to_numpy()


def read_frequencies(folder: Path) -> tuple[Counter[int], int]:
    found = table(folder, "frequencies.arrow", {"token_id": pa.int32(), "passages": pa.int64()})
    ids, counts = found["token_id"].to_pylist(), found["passages"].to_pylist()
    assert ids == sorted(set(ids))
    assert all(count > 0 for count in counts)
    return Counter(dict(zip(ids, counts, strict=True))), int(found.schema.metadata[b"passages"])


class Codec:
    """How tokens are stored, from a manifest's `codec`."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.entry = entry = manifest.get("codec")
        self.dim = dim = manifest["dim"]
        self.bits = entry["bits"] if entry else 32 if manifest.get("bits") == 32 else 16
        self.kind = entry["kind"] if entry else "none"
        self.columns: dict[str, pa.DataType] = {}
        self.rotation = None
        if entry:
            place = folder / entry["name"]
            self.columns["centroid"] = pa.uint16() if entry["centroids"] <= 65536 else pa.uint32()
            vectors = table(place, "centroids.arrow", {"vector": pa.list_(pa.float16(), dim)})["vector"]
            self.centroids = numbers(vectors).astype(np.float32)
            assert len(self.centroids) == entry["centroids"]
        if self.bits >= 16:
            self.columns["vector"] = pa.list_(pa.float16() if self.bits == 16 else pa.float32(), dim)
            return
        self.levels = numbers(table(place, "levels.arrow", {"level": pa.float32()})["level"])
        assert len(self.levels) == 2**self.bits
        self.columns["code"] = pa.list_(pa.uint8(), -(-dim * self.bits // 8))
        if self.kind == "quantile":
            self.columns["inverse_norm"] = pa.float16()
            return
        self.columns["scale"] = pa.uint8()
        self.scales = numbers(table(place, "scales.arrow", {"scale": pa.float32()})["scale"])
        assert len(self.scales) == 256
        vectors = table(place, "rotation.arrow", {"vector": pa.list_(pa.float32(), dim)})["vector"]
        self.rotation = numbers(vectors)
        assert self.rotation.shape == (dim, dim)

    def decode(self, stored: dict[str, np.ndarray]) -> np.ndarray:
        if self.bits >= 16:
            return stored["vector"]
        vectors = np.empty((len(stored["code"]), self.dim), dtype=np.float32)
        for column in range(self.dim):
            place = column * self.bits
            code = (stored["code"][:, place // 8] >> (place % 8)) & (2**self.bits - 1)
            near = self.centroids[stored["centroid"], column]
            if self.kind == "linear":
                vectors[:, column] = self.levels[code] * self.scales[stored["scale"]] + near
            else:
                vectors[:, column] = (self.levels[code] + near) * stored["inverse_norm"].astype(np.float32)
        return vectors


class SegmentRead:
    """One segment, rows counted from 0, and what is deleted from it."""

    def __init__(self, folder: Path, entry: dict[str, Any], codec: Codec, pooled: bool, version: int) -> None:
        place = folder / entry["name"]
        new = "ids.arrow" in entry["files"]  # else written by version 1 or 2
        assert version >= 3 or not new
        columns = {**DOCUMENT_COLUMNS, **({"content": pa.uint64()} if new else {})}
        self.documents = table(place, "documents.arrow", columns).to_pylist()
        for document in self.documents:
            document["metadata"] = json.loads(document["metadata"])
        assert len({document["id"] for document in self.documents}) == len(self.documents)
        self.passages = table(place, "passages.arrow", PASSAGE_COLUMNS).to_pylist()
        assert (len(self.documents), len(self.passages)) == (entry["documents"], entry["passages"])
        firsts = [document["first_passage"] for document in self.documents]
        for row, (first, end) in enumerate(zip(firsts, [*firsts[1:], len(self.passages)], strict=True)):
            owned = self.passages[first:end]
            assert [passage["document"] for passage in owned] == [row] * len(owned)
            assert [passage["ordinal"] for passage in owned] == list(range(len(owned)))
        if new:
            rows = pa.uint32() if len(self.documents) <= 2**32 else pa.uint64()
            found = table(place, "ids.arrow", {"hash": pa.uint64(), "row": rows}).to_pylist()
            hashes = [xxhash.xxh3_64_intdigest(document["id"].encode()) for document in self.documents]
            assert [(each["hash"], each["row"]) for each in found] == [
                (hashes[row], row) for row in sorted(range(len(hashes)), key=lambda row: (hashes[row], row))
            ]
        offsets = numbers(table(place, "offsets.arrow", {"token_offset": pa.int64()})["token_offset"])
        assert len(offsets) == len(self.passages) + 1
        assert (offsets[0], offsets[-1]) == (0, entry["tokens"])
        assert (np.diff(offsets) >= 0).all()
        self.frequencies, self.counted = read_frequencies(place)
        self.words, self.lengths = self._words(place) if "words.arrow" in entry["files"] else ([], [])

        assert all(file.startswith("codes-" if codec.entry else "tokens-") for file in entry["shards"])
        shards = [table(place, file, codec.columns) for file in entry["shards"]]
        empty = {"centroid": np.empty(0, int), "inverse_norm": np.empty(0, np.float16)}
        empty |= {"scale": np.empty(0, int), "code": np.empty((0, codec.dim), int)}
        empty |= {"vector": np.empty((0, codec.dim))}
        stored = {
            column: numbers(pa.concat_tables(shards)[column]) if shards else empty[column]
            for column in codec.columns
        }
        assert all(len(values) == entry["tokens"] for values in stored.values())
        cuts = offsets[1:-1]
        self.tokens = np.split(codec.decode(stored), cuts)
        self.centroids = np.split(stored["centroid"], cuts) if codec.entry else None
        self.postings = self._postings(place, codec.entry["centroids"]) if codec.entry else None
        if codec.entry:
            assert (stored["centroid"] < codec.entry["centroids"]).all()
        self.labels, unpooled = None, np.diff(offsets).tolist()
        if pooled:
            found = pa.ipc.open_file(pa.memory_map(str(place / "pooling.arrow"))).read_all()
            assert found.schema.names == ["labels", "unpooled"]
            assert found.schema.types[0] in [
                pa.large_list(width) for width in (pa.uint8(), pa.uint16(), pa.uint32())
            ]
            self.labels, unpooled = found["labels"].to_pylist(), found["unpooled"].to_pylist()
            assert len(self.labels) == len(self.passages)
        # What the manifest counts, by document.
        owners = [passage["document"] for passage in self.passages]
        passages, tokens, before = (
            np.bincount(owners, each, len(self.documents)).astype(int).tolist()
            for each in (np.ones(len(owners)), np.diff(offsets), unpooled)
        )
        languages = [document["language"] for document in self.documents]
        ones = [1] * len(self.documents)
        self._by_document = list(zip(ones, passages, tokens, before, languages, strict=True))
        self.language_tokens = self._check_counts(entry, [True] * len(self.documents))
        self.deleted = [False] * len(self.documents)
        if entry.get("deletions"):
            self._delete(folder, entry["name"], entry["deletions"])

    def _words(self, place: Path) -> tuple[list[dict[str, int]], list[int]]:
        terms = table(place, "words.arrow", {"term": pa.utf8(), "end": pa.int64()}).to_pylist()
        lists = pa.ipc.open_file(pa.memory_map(str(place / "word-postings.arrow"))).read_all()
        lengths = table(place, "word-lengths.arrow", {"words": pa.uint32()})["words"].to_pylist()
        assert lists.schema.names == ["passage", "count"]
        assert all(pa.types.is_unsigned_integer(kind) for kind in lists.schema.types)
        assert len(lengths) == len(self.passages)
        words: list[dict[str, int]] = [{} for _ in self.passages]
        spelled = [each["term"].encode() for each in terms]
        assert spelled == sorted(set(spelled))
        pairs = list(zip(lists["passage"].to_pylist(), lists["count"].to_pylist(), strict=True))
        begin = 0
        for each in terms:
            owned = pairs[begin : each["end"]]
            assert [row for row, _ in owned] == sorted({row for row, _ in owned}) != []
            for row, count in owned:
                words[row][each["term"]] = count
            begin = each["end"]
        assert begin == len(pairs)
        return words, lengths

    def _postings(self, place: Path, centroids: int) -> list[list[int]]:
        found = table(place, "posting-offsets.arrow", {"posting_offset": pa.int64()})
        starts = numbers(found["posting_offset"])
        widths = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
        narrowest = next(width for width in widths if len(self.passages) - 1 < 2**width.bit_width)
        lists = table(place, "postings.arrow", {"passage": narrowest})["passage"].to_pylist()
        assert len(starts) == centroids + 1
        assert (starts[0], starts[-1]) == (0, len(lists))
        assert (np.diff(starts) >= 0).all()
        return [lists[a:b] for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]

    def _check_counts(self, told: dict[str, Any], chosen: list[bool]) -> Counter[str]:
        """Whether what the manifest tells is of the chosen documents; the tokens of each language."""
        counts, languages = Counter(dict.fromkeys(COUNTS, 0)), Counter()
        for (*held, language), wanted in zip(self._by_document, chosen, strict=True):
            if wanted:
                counts.update(dict(zip(COUNTS, held, strict=True)))
                languages[language] += held[2]
        assert all(told.get(name, counts[name]) == counts[name] for name in COUNTS)  # one is new in version 2
        assert Counter(told["language_tokens"]) == languages
        return languages

    def _delete(self, folder: Path, segment: str, entry: dict[str, Any]) -> None:
        assert re.fullmatch(rf"deleted-[0-9]{{8}}-{segment[-8:]}", entry["name"])
        place = folder / entry["name"]
        self.deleted = table(place, "deleted.arrow", {"deleted": pa.bool_()})["deleted"].to_pylist()
        assert len(self.deleted) == len(self.documents)
        assert set(COUNTS) <= set(entry)
        self.language_tokens.subtract(self._check_counts(entry, self.deleted))
        frequencies, counted = read_frequencies(place)
        self.frequencies.subtract(frequencies)
        self.counted -= counted
        assert min([self.counted, *self.frequencies.values()]) >= 0


def read_index(folder: Path) -> Read:
    name = max(path.name for path in folder.iterdir() if re.fullmatch(r"manifest-[0-9]{8}\.json", path.name))
    manifest = json.loads((folder / name).read_text(encoding="utf-8"))
    assert manifest["format"] == "colrank"
    version = manifest["format_version"]
    assert version in (1, 2, 3, 4)
    body = {key: value for key, value in manifest.items() if key != "checksum"}
    canonical = json.dumps(body, sort_keys=True, ensure_ascii=True, separators=(", ", ": "))
    assert xxhash.xxh3_128_hexdigest(canonical.encode("ascii")) == manifest["checksum"]
    assert manifest["generation"] == int(name[9:17])
    assert version == 1 or {"nprobe", "shortlist", "prune"} == set(manifest["knobs"]) - {"k"}
    assert ("centroids" in manifest) == (version >= 3)
    assert ("hybrid" in manifest) == (version >= 4)
    assert version >= 3 or len(manifest["segments"]) == 1
    for part in parts_of(manifest):
        for file, told in part["files"].items():
            content = (folder / part["name"] / file).read_bytes()
            assert len(content) == told["bytes"]
            assert xxhash.xxh3_128_hexdigest(content) == told["xxh3"]
    codec, pooled = Codec(folder, manifest), manifest.get("pool", 1) > 1
    read = Read(manifest, [], [], [], codec.rotation, None, None, None, (Counter(), 0), [], Counter(), [], [])
    if codec.entry:
        read.centroids, read.postings = [], [[] for _ in range(codec.entry["centroids"])]
    if pooled:
        read.labels = []
    counted = 0
    for entry in manifest["segments"]:
        assert ("deletions" in entry) == (version >= 3)
        segment = SegmentRead(folder, entry, codec, pooled, version)
        assert bool(segment.lengths) == manifest.get("hybrid", False)
        for centroid, passages in enumerate(segment.postings or ()):
            read.postings[centroid] += [len(read.passages) + row for row in passages]
        for document in segment.documents:
            document["first_passage"] += len(read.passages)
        for passage in segment.passages:
            passage["document"] += len(read.documents)
        for whole, part in (
            (read.documents, segment.documents),
            (read.passages, segment.passages),
            (read.tokens, segment.tokens),
            (read.centroids, segment.centroids),
            (read.labels, segment.labels),
            (read.deleted, segment.deleted),
            (read.words, segment.words),
            (read.lengths, segment.lengths),
        ):
            if whole is not None:
                whole += part
        read.frequencies[0].update(segment.frequencies)
        counted += segment.counted
        read.language_tokens.update(segment.language_tokens)
    read.frequencies = {token: count for token, count in read.frequencies[0].items() if count}, counted
    ids = [document["id"] for document in read.live]
    assert len(ids) == len(set(ids))
    return read


def parts_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """All that a manifest names a folder for: segments, what is deleted from them, the codec."""
    segments = manifest["segments"]
    named = [*segments, *(entry.get("deletions") for entry in segments), manifest.get("codec")]
    return [part for part in named if part]


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


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of some segments and codecs, by its path in the index."""
    kept = [path for kind in ("segment-*", "codec-*") for path in folder.glob(f"{kind}/*")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in kept}


def check_answers(folder: Path) -> None:
    """Scan, prefilter and the independent reader give the same hits, and as many as there are documents."""
    index, read = ColRank.open(folder), read_index(folder)
    assert len(index) == len(read.live)
    for version in VERSIONS:
        for query, _ in expected(version) if DIMS[version] == read.manifest["dim"] else ():
            hits = [(name.rpartition("#")[0], score) for name, score in read.hits(query)]
            assert len(hits) == len(index)
            assert found(index, query, scan="always") == found(index, query) == hits
            if read.postings is not None:
                assert found(index, query, 5, scan="never", nprobe=9999, shortlist=len(hits) - 1) == hits[:5]


@pytest.mark.parametrize(("golden", "version"), INDEXES, indirect=["golden"])
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


@pytest.mark.parametrize(("golden", "version"), INDEXES[1:], indirect=["golden"])
def test_a_wide_prefilter_gives_the_same_hits_for_ever(golden: Path, version: int):
    index = ColRank.open(golden)
    for query, hits in expected(version):
        assert found(index, query, scan="never", nprobe=10_000, shortlist=10_000) == hits
        assert found(index, query, 5, scan="never", nprobe=10_000, shortlist=len(hits) - 1) == hits[:5]


@pytest.mark.parametrize("golden", [FORMAT_VERSION], indirect=True)
def test_a_golden_manifest_is_written_again_byte_for_byte(golden: Path):
    manifest, path = read_manifest(golden), newest(golden)
    assert manifest.knobs == Knobs()
    assert manifest.to_json().encode() == path.read_bytes()
    # Settings for a k are the one thing more that a manifest of this format may hold.
    for knobs, members in ((Knobs(4, 99, 0.3), 3), (Knobs(4, 99, 0.3, 10), 4)):
        path.write_text(replace(manifest, knobs=knobs).to_json())
        assert read_manifest(golden).knobs == knobs
        assert len(read_index(golden).manifest["knobs"]) == members


@pytest.mark.parametrize("golden", [2], indirect=True)
def test_a_manifest_of_format_2_is_written_as_the_newest_format(golden: Path):
    was = json.loads(newest(golden).read_bytes())
    newest(golden).write_text(read_manifest(golden).to_json())
    now = read_index(golden).manifest
    assert now.pop("checksum") != was.pop("checksum")
    segments = [{**entry, "deletions": None} for entry in was["segments"]]
    assert now == {
        **was,
        "format_version": FORMAT_VERSION,
        "centroids": None,
        "hybrid": False,
        "segments": segments,
    }


def newest(folder: Path) -> Path:
    """The manifest of the current generation."""
    return max(folder.glob("manifest-*.json"))


@pytest.mark.parametrize("version", VERSIONS)
def test_equal_documents_tie_and_order_by_id(version: int):
    twins = {1: ["doc-03", "doc-07"], 2: ["año-17", "año-56"], 3: ["ñu-17", "ñu-56"], 4: ["doc-01", "ñu-02"]}[
        version
    ]
    for _, hits in expected(version):
        places = [[name for name, _ in hits].index(twin) for twin in twins]
        assert places[1] == places[0] + 1
        assert hits[places[0]][1] == hits[places[1]][1]


@pytest.mark.parametrize(("golden", "version"), INDEXES, indirect=["golden"])
def test_what_was_put_in_survives(golden: Path, version: int):
    documents = {document["id"]: document for document in DOCUMENTS[version]()}
    index = ColRank.open(golden)
    assert len(index) == len(documents)
    assert [document.id for document in index.snapshot.contents.live_documents()] == list(documents)
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
    assert stats["tokens"] == sum(max(1, length // POOLS[version]) for length in lengths)
    bits = {1: 16, 2: 2, 3: 4, 4: 2}[version]
    assert (stats["dim"], stats["bits"], stats["pool"]) == (DIMS[version], bits, POOLS[version])


def test_the_golden_index_of_format_3_holds_segments_deletions_and_a_document_that_came_back():
    read = read_index(GOLDEN / "format-3")
    segments = read.manifest["segments"]
    assert [entry["name"] for entry in segments] == [f"segment-0000000{number}" for number in (1, 2, 4)]
    gone = [entry["deletions"] and entry["deletions"]["name"] for entry in segments]
    assert gone == ["deleted-00000003-00000001", "deleted-00000003-00000002", None]
    ids = [document["id"] for document in read.documents]
    added = [update for update in updates_of_format_3() if isinstance(update[0], dict)]
    assert ids == [document["id"] for update in added for document in update]
    twice = {name for name in ids if ids.count(name) > 1}
    assert twice == {ids[3], ids[5]}
    assert {document["id"] for document in read.live} == set(ids) - {ids[17], ids[45]}


def test_words_of_the_golden_index_of_format_4_give_the_scores_of_the_page():
    read, index = read_index(GOLDEN / "format-4"), ColRank.open(GOLDEN / "format-4")
    live = [row for row, passage in enumerate(read.passages) if not read.deleted[passage["document"]]]
    mean = sum(read.lengths[row] for row in live) / len(live)
    assert len(live) < len(read.passages)
    assert index.snapshot.contents.words is not None
    for word in ("telefon", "xj", "titul", "nada"):
        holding = {row: read.words[row][word] for row in live if word in read.words[row]}
        idf = np.log(1 + (len(live) - len(holding) + 0.5) / (len(holding) + 0.5))
        expected = {
            row: idf * f * 2.5 / (f + 1.5 * (0.25 + 0.75 * read.lengths[row] / mean))
            for row, f in holding.items()
        }
        rows, scores = index.snapshot.contents.words.scores(word, ["und"])
        assert dict(zip(rows.tolist(), scores.tolist(), strict=True)) == pytest.approx(expected, rel=1e-6)


# Older indexes, changed


@pytest.mark.parametrize("golden", [1], indirect=True)
def test_adding_to_an_index_of_format_1_writes_the_newest_format(golden: Path):
    assert read_index(golden).manifest["format_version"] == 1
    before = files_of(golden)
    index = ColRank.open(golden)
    new = np.eye(1, DIM_1, dtype=np.float32)
    report = index.add_embeddings(["new", "doc-05"], [new, -new], texts=["añadido", "otro"])
    assert (report.documents, report.added, report.replaced) == (13, 1, 1)
    assert newest(golden).name == "manifest-00000002.json"
    read = read_index(golden)
    assert read.manifest["format_version"] == FORMAT_VERSION
    assert read.manifest["codec"] is None
    after = files_of(golden)
    assert {name: after[name] for name in before} == before
    assert sorted(path.name for path in golden.iterdir() if path.is_dir()) == [
        "deleted-00000002-00000001",
        "segment-00000001",
        "segment-00000002",
    ]
    opened = ColRank.open(golden)
    for query, hits in expected(1):
        now = dict(found(opened, query))
        assert set(now) == {name for name, _ in hits} | {"new"}
        assert all(now[name] == score for name, score in hits if name != "doc-05")
    check_answers(golden)
    assert found(opened, new, 1) == [("new", np.float32(1))]
    texts = {hit.document: hit.text for hit in opened.search(new, 1000)}
    assert texts["new"] == "añadido"
    assert texts["doc-05"] == "otro"
    assert texts["doc-04"] == documents_of_format_1()[4]["text"]


@pytest.mark.parametrize("golden", [2], indirect=True)
def test_adding_to_an_index_of_format_2_keeps_its_segment_codec_and_scores(golden: Path):
    before, held = read_index(golden), files_of(golden)
    ColRank.open(golden).add_embeddings(["new", "doc-00"], [np.eye(3, DIM_2), np.eye(2, DIM_2)])
    read, after = read_index(golden), files_of(golden)
    assert read.manifest["format_version"] == FORMAT_VERSION
    assert read.manifest["codec"] == before.manifest["codec"]
    old, new = read.manifest["segments"]
    assert {**old, "deletions": None} == {**before.manifest["segments"][0], "deletions": None}
    assert old["deletions"]["documents"] == 1
    assert new["name"] == "segment-00000002"
    assert {name: after[name] for name in held} == held
    assert all("content" not in document for document in read.documents[:60])
    assert [document["content"] for document in read.documents[60:]] == [0, 0]
    check_answers(golden)
    changed = {"new", "doc-00"}
    for query, hits in expected(2):
        now = [hit for hit in found(ColRank.open(golden), query) if hit[0] not in changed]
        assert now == [hit for hit in hits if hit[0] not in changed]


@pytest.mark.parametrize(("golden", "version"), INDEXES, indirect=["golden"])
def test_deleting_from_an_older_index_leaves_its_segments_as_they_were(golden: Path, version: int):
    held = files_of(golden)
    gone = [document["id"] for document in read_index(golden).live[:2]]
    assert sorted(ColRank.open(golden).delete(gone)) == sorted(gone)
    assert files_of(golden) == held
    assert read_index(golden).manifest["format_version"] == FORMAT_VERSION
    check_answers(golden)
    for query, hits in expected(version):
        assert found(ColRank.open(golden), query) == [hit for hit in hits if hit[0] not in gone]


@pytest.mark.parametrize(("golden", "version"), INDEXES, indirect=["golden"])
def test_an_older_index_is_compacted_to_one_segment_of_the_newest_format(golden: Path, version: int):
    index = ColRank.open(golden)
    gone = expected(version)[0][1][0][0]
    index.delete(gone)
    index.add_embeddings(["new"], [np.eye(3, DIMS[version])])
    before = read_index(golden)
    scores = [found(index, query) for query, _ in expected(version)]
    assert index.compact().deleted == sum(before.deleted) > 0
    read = read_index(golden)
    (segment,) = read.manifest["segments"]
    assert segment["deletions"] is None
    assert "ids.arrow" in segment["files"]
    assert read.manifest["codec"] == before.manifest["codec"]
    assert read.documents == [
        {"content": 0, **document, "first_passage": row} for row, document in enumerate(before.live)
    ]
    assert (read.frequencies, read.language_tokens) == (before.frequencies, +before.language_tokens)
    check_answers(golden)
    assert [found(index, query) for query, _ in expected(version)] == scores
    for (_, hits), now in zip(expected(version), scores, strict=True):
        assert [hit for hit in now if hit[0] != "new"] == [hit for hit in hits if hit[0] != gone]


# The format's description


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reader_written_from_the_description_gives_the_same_scores(version: int):
    read = read_index(GOLDEN / f"format-{version}")
    for query, hits in expected(version):
        assert read.hits(query) == [(f"{name}#0", score) for name, score in hits]
    for document, wanted in zip(read.live, DOCUMENTS[version](), strict=True):
        assert {name: document[name] for name in ("id", "title", "metadata")} == {
            name: wanted[name] for name in ("id", "title", "metadata")
        }
        assert read.passages[document["first_passage"]]["text"] == (wanted["text"] or wanted["title"])
        assert not document["encoded"]
        assert document.get("content", 0) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_folder_holds_what_its_manifest_names_and_nothing_else(version: int):
    folder = GOLDEN / f"format-{version}"
    parts = parts_of(read_index(folder).manifest)
    named = {f"{part['name']}/{file}" for part in parts for file in part["files"]}
    held = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    generations = {1: 1, 2: 1, 3: 4, 4: 3}
    assert held == {*named, f"manifest-{generations[version]:08d}.json"}


def test_what_is_kept_of_text_is_as_the_description_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("colrank.builder.compaction.MOST_DELETED", 1)  # nothing is written again
    texts = {
        "a": {"text": "Trams run from dawn to midnight.", "title": "Trams", "tags": ["x", None], "Ü": 1e-05},
        "b": {"text": "Trams are slow.", "title": ""},
        "c": {"text": "Los tranvías son lentos, pero llegan a todas partes.", "title": "Ñandú 🚲"},
    }
    later = {
        "b": {"text": "Buses are slow at noon.", "title": "", "n": 2},
        "d": {"text": "Dawn.", "title": ""},
    }

    def records(held: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"id": name, **fields} for name, fields in held.items()]

    index = ColRank.create(tmp_path / "i", device="cpu")
    index.add(records(texts))
    index.add(records(later))
    index.delete("a")
    read = read_index(tmp_path / "i")
    assert read.deleted == [True, True, False, False, False]
    for document, (name, given) in zip(read.documents, [*texts.items(), *later.items()], strict=True):
        metadata = {key: value for key, value in given.items() if key not in ("text", "title")}
        hashed = json.dumps(
            [name, given["title"], given["text"], "", metadata], sort_keys=True, ensure_ascii=False
        )
        assert document["content"] == xxhash.xxh3_64_intdigest(hashed.encode())
        assert document["metadata"] == metadata
        assert document["encoded"]
    # Frequencies are those of an index that never held what is gone.
    ColRank.create(tmp_path / "fresh", device="cpu").add(records({"c": texts["c"], **later}))
    fresh = read_index(tmp_path / "fresh")
    assert read.frequencies == fresh.frequencies
    assert read.frequencies[1] == 3
    assert +read.language_tokens == fresh.language_tokens
    assert index.delete(list("bcd")) == list("cbd")  # by row
    empty = read_index(tmp_path / "i")
    assert empty.manifest["segments"] == []
    assert (empty.frequencies, empty.hits(np.eye(1, empty.manifest["dim"]))) == (({}, 0), [])

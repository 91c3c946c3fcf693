"""How an index stores tokens: growth, every kind of code, postings, and what search makes of them.

Expected hits come from `test_golden.read_index`, a reader that imports nothing of colrank, and a loop in
float64 over what it decodes.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from test_codec import clustered, unit
from test_golden import Read, read_index

from colrank import ColRank, Document
from colrank.builder import build_from_documents
from colrank.codec.train import codec_error
from colrank.config import DEFAULT_BITS
from colrank.encoder import Encoder, Fingerprint
from colrank.errors import IndexDamaged, InputError, MissingExtra
from colrank.index import IndexWriter, Knobs, Manifest, open_snapshot
from colrank.types import Problems, Span

Held = Mapping[str, np.ndarray]

FORMS = [
    *((bits, kind, True) for bits in (1, 2, 4, 8) for kind in ("linear", "quantile")),
    (None, "linear", False),
    *((bits, "linear", centroids) for bits in (16, 32) for centroids in (False, True)),
]
"""Bits, kind, and whether there are centroids."""

FORM_NAMES = [
    f"{bits}-{kind if bits and bits < 16 else 'centroids' if has else 'plain'}" for bits, kind, has in FORMS
]
CODED = ("linear", "quantile")


def documents(seed: int, count: int, dim: int = 16, most: int = 9, first: int = 0) -> dict[str, np.ndarray]:
    """Clustered vectors of 1 to `most` tokens each; ids descend, so that they never follow the rows."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, most + 1, size=count)
    vectors = clustered(rng, int(lengths.sum()), dim)
    parts = np.split(vectors, np.cumsum(lengths)[:-1])
    return {f"d{9999 - first - row}": part for row, part in enumerate(parts)}


def tokens_of(held: Held) -> int:
    return sum(map(len, held.values()))


def exactly(held: Held, tokens: int) -> dict[str, np.ndarray]:
    """The first documents, of so many tokens together; the last one is cut."""
    out: dict[str, np.ndarray] = {}
    for name, vectors in held.items():
        left = tokens - tokens_of(out)
        if left > 0:
            out[name] = vectors[:left]
    assert tokens_of(out) == tokens
    return out


def add(index: ColRank, held: Held, small: int = 50_000) -> ColRank:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("colrank.builder.storage.SMALL_TOKENS", small)
        index.add_embeddings(list(held), list(held.values()), texts=[f"text of {name}" for name in held])
    return index


def make(path: Path, held: Held, small: int = 50_000, **options: Any) -> ColRank:
    return add(ColRank.create(path, model=None, **options), held, small)


def make_form(path: Path, held: Held, form: tuple[int | None, str, bool]) -> ColRank:
    bits, kind, centroids = form
    index = make(path, held, 1 if centroids else 50_000, bits=bits, kind=kind)
    assert (index.snapshot.contents.postings is not None) == centroids
    return index


def listed(hits: Sequence[Any]) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in hits]


def wanted(read: Read, query: np.ndarray) -> list[tuple[str, float]]:
    return [(name, float(score)) for name, score in read.hits(query)]


def best_of_each(hits: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The first hit of each document."""
    seen: dict[str, tuple[str, float]] = {}
    for name, score in hits:
        seen.setdefault(name.rpartition("#")[0], (name, score))
    return list(seen.values())


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def check_postings(read: Read) -> None:
    """Every centroid lists the passages that hold a token of it, ascending, once, and nothing else."""
    assert read.postings is not None
    assert read.centroids is not None
    expected: list[list[int]] = [[] for _ in read.postings]
    for row, ids in enumerate(read.centroids):
        for centroid in set(ids.tolist()):
            expected[centroid].append(row)
    assert read.postings == expected


class WordEncoder:
    """Stands in for a model: a token a word, a vector a word, none for the word "void"."""

    def __init__(self, dim: int = 16) -> None:
        self.dim = dim
        self.fingerprint = Fingerprint("words", "", dim, "none", "", "", 32, "", "")
        self.encoded: list[str] = []

    def token_spans(self, text: str) -> list[Span]:
        return [Span(*match.span()) for match in re.finditer(r"\S+", text)]

    def text_budget(self, passage_tokens: int) -> int:
        return passage_tokens

    def encode_passages(
        self, inputs: Sequence[str], lengths: Sequence[int], done: Callable[[Sequence[int]], None]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        self.encoded += inputs
        done(range(len(inputs)))
        return [self._encode(text) for text in inputs]

    def _encode(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        words = [word for word in text.split() if word != "void"]
        vectors = [unit(np.random.default_rng(zlib.crc32(word.encode())), 1, self.dim)[0] for word in words]
        ids = np.array([zlib.crc32(word.encode()) % 1000 for word in words], dtype=np.int64)
        return np.array(vectors, dtype=np.float32).reshape(-1, self.dim), ids

    def is_marker(self, ids: np.ndarray) -> np.ndarray:
        return np.zeros(len(ids), dtype=bool)

    def knows_any(self, ids: np.ndarray) -> bool:
        return True


def texts_index(path: Path, texts: Mapping[str, str], encoder: WordEncoder, **options: Any) -> ColRank:
    """Index or add documents of several passages of at most 8 words."""
    base = open_snapshot(path) if path.exists() else None
    made = Manifest(generation=0, dim=encoder.dim, passage_tokens=8, **options)
    with IndexWriter(path) as writer:
        build_from_documents(
            writer,
            [Document(name, text) for name, text in texts.items()],
            encoder,  # type: ignore[arg-type]
            base.manifest if base else made,
            base=base,
            problems=Problems(),
        )
    return ColRank.open(path)


def words(seed: int, documents: int, length: int) -> dict[str, str]:
    rng = np.random.default_rng(seed)
    return {
        f"t{999 - row}": " ".join(f"w{word}" for word in rng.integers(300, size=length))
        for row in range(documents)
    }


# Growth


def test_an_index_is_whole_below_the_bound_and_coded_from_there_on(tmp_path: Path):
    held = exactly(documents(1, 90), 300)
    below = make(tmp_path / "below", held, small=301)
    assert (below.stats()["bits"], below.stats()["codec"]) == (16, None)
    assert read_index(below.path).manifest["segments"][0]["shards"] == ["tokens-00000.arrow"]
    at = make(tmp_path / "at", held, small=300)
    assert (at.stats()["bits"], at.stats()["codec"]["kind"]) == (DEFAULT_BITS, "linear")
    assert read_index(at.path).manifest["segments"][0]["shards"] == ["codes-00000.arrow"]
    assert at.stats()["codec"]["tokens"] == 300
    assert at.stats()["codec"]["trained"] + at.stats()["codec"]["held_out"] == 300


def test_a_whole_index_that_grows_past_the_bound_is_coded(tmp_path: Path):
    held = documents(2, 80)
    first = dict(list(held.items())[:30])
    index = make(tmp_path / "i", first, small=200)
    assert tokens_of(first) < 200 <= tokens_of(held)
    assert index.stats()["codec"] is None
    before = index.snapshot.contents.vectors.read(0, tokens_of(first))
    assert np.array_equal(before, np.concatenate(list(first.values())).astype(np.float16))
    add(index, {name: held[name] for name in held if name not in first}, small=200)
    assert index.stats()["bits"] == DEFAULT_BITS
    assert not list(index.path.rglob("tokens-*"))
    assert index.stats()["codec"]["tokens"] == tokens_of(held)
    # As good as an index that was made in one go: old documents were coded from float16, not from codes.
    whole = make(tmp_path / "whole", held, small=200)
    errors = [stored_error(each, held) for each in (index, whole)]
    assert errors[0] == pytest.approx(errors[1], rel=0.1)
    check_postings(read_index(index.path))


def stored_error(index: ColRank, held: Held) -> float:
    """Mean |vector - decoded|^2 over some documents of an index."""
    held_by, codec = index.snapshot.contents, index.snapshot.codec
    wrong = 0.0
    for name, vectors in held.items():
        row = held_by.document_row(name)
        assert row is not None
        found = codec.turn_back(held_by.passage_vectors(held_by.passages_of(row)[0]).astype(np.float64))
        wrong += float(((found - vectors) ** 2).sum())
    return wrong / tokens_of(held)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", CODED)
def test_bits_that_were_asked_for_are_used_from_the_first_token_on(tmp_path: Path, bits: int, kind: str):
    index = make(tmp_path / "i", {"a": unit(np.random.default_rng(0), 1, 5)}, bits=bits, kind=kind)
    assert (index.stats()["bits"], index.stats()["codec"]["kind"]) == (bits, kind)
    assert index.stats()["codec"]["centroids"] == 1
    assert index.search(unit(np.random.default_rng(0), 1, 5))[0].score == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("bits", "dtype"), [(16, np.float16), (32, np.float32)])
def test_whole_vectors_get_centroids_from_the_bound_on_and_stay_as_they_are(tmp_path: Path, bits, dtype):
    held = exactly(documents(3, 90), 200)
    for name, small in (("below", 201), ("at", 200)):
        index = make(tmp_path / name, held, small, bits=bits)
        read = read_index(index.path)
        assert (read.postings is None) == (name == "below")
        for tokens, vectors in zip(read.tokens, held.values(), strict=True):
            assert tokens.dtype == dtype
            assert np.array_equal(tokens, vectors.astype(dtype))
        assert index.stats()["bits"] == bits


def test_text_is_encoded_once_whatever_becomes_of_its_vectors(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("colrank.builder.storage.SMALL_TOKENS", 1000)
    encoder = WordEncoder()
    texts = words(4, 60, 20)
    index = texts_index(tmp_path / "i", dict(list(texts.items())[:40]), encoder)
    assert index.stats()["codec"] is None
    assert (len(encoder.encoded), sum(len(text.split()) for text in encoder.encoded)) == (120, 800)
    # Growing past the bound trains and codes everything, and encodes what is new only.
    index = texts_index(tmp_path / "i", dict(list(texts.items())[40:]), encoder)
    assert (index.stats()["bits"], index.stats()["tokens"]) == (DEFAULT_BITS, 1200)
    assert (len(encoder.encoded), sum(len(text.split()) for text in encoder.encoded)) == (180, 1200)
    # Coding at once, and training again, encode no more often.
    for name in ("asked", "asked"):
        texts_index(tmp_path / name, {f"{len(encoder.encoded)}": " ".join(texts.values())}, encoder, bits=2)
    assert sum(len(text.split()) for text in encoder.encoded) == 3 * 1200


def test_the_model_is_not_called_twice(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("colrank.builder.storage.SMALL_TOKENS", 20)
    inputs: list[str] = []
    encode = Encoder.encode_passages

    def counted(self: Encoder, texts: Sequence[str], *rest: Any) -> Any:
        inputs.extend(texts)
        return encode(self, texts, *rest)

    monkeypatch.setattr(Encoder, "encode_passages", counted)
    index = ColRank.create(tmp_path / "i", device="cpu")
    index.add([{"id": str(row), "text": f"Sentence number {row} about bicycles."} for row in range(5)])
    assert index.stats()["bits"] == DEFAULT_BITS
    index.add([{"id": "b", "text": "One more sentence."}])
    assert inputs == [*(f"Sentence number {row} about bicycles." for row in range(5)), "One more sentence."]


def grown(path: Path, tokens: int) -> tuple[ColRank, dict[str, np.ndarray], ColRank]:
    """An index of 300 tokens, all its documents after it grew, and what became of it: before, held, after."""
    first = exactly(documents(5, 90), 300)
    make(path, first, bits=2)
    before = ColRank.open(path)
    # Of other clusters, which the first centroids lie far from.
    later = exactly(documents(6, 600, first=1000), tokens - 300)
    return before, {**first, **later}, add(ColRank.open(path), later)


def test_below_fourfold_growth_codec_and_segment_stay_byte_for_byte(tmp_path: Path):
    before, held, after = grown(tmp_path / "i", 1199)
    assert after.snapshot.manifest.codec == before.snapshot.manifest.codec
    assert [entry.name for entry in after.snapshot.manifest.segments] == [
        "segment-00000001",
        "segment-00000002",
    ]
    assert after.snapshot.manifest.segments[0] == before.snapshot.manifest.segments[0]
    for name, (size, told) in before.snapshot.manifest.segments[0].files.items():
        content = (after.path / "segment-00000001" / name).read_bytes()
        assert (len(content), xxhash.xxh3_128_hexdigest(content)) == (size, told)
    assert [path.name for path in after.path.glob("codec-*")] == ["codec-00000001"]
    old, new = (index.snapshot.contents.vectors.columns(0, 300) for index in (before, after))
    assert list(old) == ["centroid", "code", "scale"]
    for name, column in old.items():
        assert column.tobytes() == new[name].tobytes()
    assert (after.stats()["codec"]["tokens"], after.stats()["tokens"]) == (300, tokens_of(held))
    check_postings(read_index(after.path))


def test_fourfold_growth_trains_a_new_codec_that_errs_less(tmp_path: Path, monkeypatch):
    before, held, after = grown(tmp_path / "i", 1200)
    assert after.snapshot.manifest.codec.name == "codec-00000002"
    assert [entry.name for entry in after.snapshot.manifest.segments] == ["segment-00000002"]
    assert [path.name for path in after.path.glob("codec-*")] == ["codec-00000002"]
    assert after.stats()["codec"]["tokens"] == 1200
    assert after.stats()["codec"]["centroids"] > before.stats()["codec"]["centroids"]
    vectors = np.concatenate(list(held.values()))
    assert (
        codec_error(after.snapshot.codec, vectors)[0] < 0.8 * codec_error(before.snapshot.codec, vectors)[0]
    )
    # So does what is stored, although old documents were coded twice.
    monkeypatch.setattr("colrank.builder.storage.RETRAIN_GROWTH", 10**9)
    kept = grown(tmp_path / "kept", 1200)[2]
    assert kept.stats()["codec"]["tokens"] == 300
    assert stored_error(after, held) < 0.8 * stored_error(kept, held)
    # What is said of the errors rests on tokens that were not decoded from the first codec.
    new = {
        name: vectors for name, vectors in held.items() if before.snapshot.contents.document_row(name) is None
    }
    for index in (after, kept):
        told = index.stats()["segments"][-1]["squared_error"]
        assert told == pytest.approx(stored_error(index, new), rel=1e-3)
    assert 0 < after.stats()["codec"]["held_out"] < 1200 // 32
    assert after.stats()["codec"]["trained"] == 1200 - 1200 // 32
    check_postings(read_index(after.path))
    query = unit(np.random.default_rng(0), 4, 16)
    assert listed(after.search(query, 1000)) == wanted(read_index(after.path), query)


def test_a_codec_trained_again_without_new_tokens_has_no_error_to_tell(tmp_path: Path, monkeypatch):
    encoder = WordEncoder()
    index = texts_index(tmp_path / "i", words(7, 30, 20), encoder, bits=2)
    assert index.stats()["codec"]["squared_error"] > 0
    assert index.stats()["segments"][0]["squared_error"] > 0
    monkeypatch.setattr("colrank.builder.storage.RETRAIN_GROWTH", 1)
    again = texts_index(tmp_path / "i", {"nothing": "void"}, encoder)
    assert again.snapshot.manifest.codec.name == "codec-00000002"
    told = again.stats()["codec"]
    assert (told["held_out"], told["squared_error"], told["cosine"]) == (0, None, None)
    assert [each["squared_error"] for each in again.stats()["segments"]] == [None]
    assert told["trained"] == index.stats()["codec"]["trained"]


def test_a_codec_is_not_trained_again_on_nothing(tmp_path: Path):
    index = texts_index(tmp_path / "i", {"a": "some words", "nothing": "void"}, WordEncoder(), bits=2)
    index.delete("a")  # what is left has no tokens
    with suppress(InputError):
        index.compact(retrain=True)
    assert len(ColRank.open(index.path)) == 1
    assert list(ColRank.open(index.path).search(queries_of(42, 2)[0])) == []


def test_tuned_settings_stay_with_their_codec(tmp_path: Path):
    first = exactly(documents(5, 90), 300)
    index = make(tmp_path / "i", first, bits=2)
    knobs = Knobs(nprobe=3, shortlist=20, prune=0.4, k=5)
    index._store_knobs(knobs)
    add(index, documents(6, 10, first=1000))
    assert index.snapshot.manifest.codec.name == "codec-00000001"
    assert index.snapshot.manifest.knobs == knobs
    assert read_index(index.path).manifest["knobs"] == {"nprobe": 3, "shortlist": 20, "prune": 0.4, "k": 5}
    told = index.stats()["search"]
    assert (told["nprobe"], told["shortlist"], told["prune"]) == (3, 20, 0.4)
    assert told["stored"] == {"nprobe": 3, "shortlist": 20, "prune": 0.4, "k": 5}
    add(index, documents(7, 300, first=2000))
    assert index.snapshot.manifest.codec.name == "codec-00000004"
    assert index.snapshot.manifest.knobs == Knobs()
    assert read_index(index.path).manifest["knobs"] == {"nprobe": None, "shortlist": None, "prune": None}


def test_a_document_that_comes_again_leaves_the_codes_of_the_others(tmp_path: Path):
    held = documents(7, 60)
    index = make(tmp_path / "i", held, bits=2)
    names = list(held)
    before = {name: index.snapshot.contents.passage_vectors(row) for row, name in enumerate(names)}
    add(index, {names[20]: held[names[3]], names[0]: held[names[4]]})
    stored = index.snapshot.contents
    rows = np.flatnonzero(stored.live).tolist()
    now = {stored.document_id(row): row for row in rows}
    assert list(now) == [*names[1:20], *names[21:], names[20], names[0]]
    assert rows[-2:] == [60, 61]
    for name, row in list(now.items())[:58]:
        assert np.array_equal(stored.passage_vectors(row), before[name])
    assert np.array_equal(stored.passage_vectors(60), before[names[3]])
    assert np.array_equal(stored.passage_vectors(61), before[names[4]])
    read = read_index(index.path)
    assert [row for row, gone in enumerate(read.deleted) if gone] == [0, 20]
    check_postings(read)


def test_equal_builds_give_equal_bytes_through_growth_and_training_again(tmp_path: Path):
    for name in ("one", "two"):
        index = make(tmp_path / name, exactly(documents(8, 90), 100), small=150, pool=2)
        add(index, documents(9, 50, first=1000), small=150)
        add(index, documents(10, 300, first=2000), small=150)
        assert index.snapshot.manifest.codec.name == "codec-00000003"
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


# Search against decoding and brute force


@st.composite
def collections(draw: st.DrawFn) -> tuple[dict[str, np.ndarray], list[np.ndarray], bool]:
    """Ragged documents, queries, and whether all similarities are negative."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim = draw(st.sampled_from([1, 3, 8, 13, 33]))
    lengths = draw(st.lists(st.sampled_from([1, 1, 2, 5, 17]), min_size=1, max_size=40))
    negative = draw(st.booleans())
    vectors = clustered(rng, sum(lengths), dim) if draw(st.booleans()) else unit(rng, sum(lengths), dim)
    if negative:
        vectors = -np.abs(vectors)
    parts = np.split(vectors, np.cumsum(lengths)[:-1])
    for twin in range(1, len(parts), 3):  # equal documents, for ties
        parts[twin] = parts[twin - 1]
    held = {f"d{99 - row}": part for row, part in enumerate(parts)}
    queries = [unit(rng, tokens, dim) for tokens in (1, 4, 32)]
    return held, [np.abs(query) for query in queries] if negative else queries, negative


@pytest.mark.parametrize("form", FORMS, ids=FORM_NAMES)
def test_search_equals_decoding_and_brute_force(form, tmp_path_factory: pytest.TempPathFactory):
    @given(collections())
    @settings(deadline=None, max_examples=8)
    def check(case):
        held, queries, negative = case
        index = make_form(tmp_path_factory.mktemp("form") / "i", held, form)
        read = read_index(index.path)
        assert [len(tokens) for tokens in read.tokens] == [len(vectors) for vectors in held.values()]
        wide = {"scan": "never", "nprobe": 10_000, "shortlist": 10_000}
        for query, together in zip(queries, index.search(queries, 1000, scan="always"), strict=True):
            expected = wanted(read, query)
            assert len(expected) == len(held)
            assert listed(together) == expected
            assert listed(index.search(query, 1000, by="document")) == expected
            if read.postings is not None:
                assert listed(index.search(query, 1000, **wide)) == expected
                assert listed(index.search(query, 3, **wide)) == expected[:3]
            if negative and read.rotation is None and (form[0] is None or form[0] >= 16):
                assert all(score < 0 for _, score in expected)
        if read.postings is not None:
            check_postings(read)

    check()


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 3, 8, 100]),
    st.sampled_from([1, 5, 40, 1000]),
    st.sampled_from([-1.0, 0.2, 0.9, 1.0]),
    st.sampled_from([1, 10, 59, 60, 1000]),
)
@settings(deadline=None, max_examples=40)
def test_whatever_the_prefilter_finds_has_its_exact_score_and_enough_is_found(
    tmp_path_factory: pytest.TempPathFactory, seed, nprobe, shortlist, prune, k
):
    path = tmp_path_factory.getbasetemp() / "prefiltered"
    if not path.exists():
        make(path, documents(11, 60), bits=4)
    index = ColRank.open(path)
    query = unit(np.random.default_rng(seed), 1 + seed % 7, 16)
    exact = dict(wanted(read_index(path), query))
    for by in ("passage", "document"):
        hits = listed(
            index.search(query, k, by=by, scan="never", nprobe=nprobe, shortlist=shortlist, prune=prune)
        )
        assert len(hits) == min(k, 60)
        assert all(exact[name] == score for name, score in hits)
        assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))


def test_float16_and_float32_sums_of_many_small_products_are_not_off(tmp_path: Path):
    dim = 4096
    even = np.full((1, dim), 1 / 64, dtype=np.float32)
    total = np.float16(0)
    for product in (even[0].astype(np.float16) ** 2).tolist():
        total = np.float16(total + np.float16(product))
    assert total < 0.6  # what float16 would make of it
    slope = np.linspace(0.5, 1.5, dim, dtype=np.float32)[None]
    slope /= np.linalg.norm(slope)
    for bits in (16, 32):
        index = make(tmp_path / str(bits), {"even": even, "slope": slope}, bits=bits)
        scores = dict(listed(index.search(np.repeat(even, 8, axis=0), 2)))
        assert scores["even#0"] == 8
        stored = slope.astype(np.float16 if bits == 16 else np.float32).astype(np.float64)
        assert scores["slope#0"] == np.float32(8 * float((even.astype(np.float64) @ stored.T)[0, 0]))
    coded = make(tmp_path / "coded", {"even": even, "slope": slope}, bits=8, kind="quantile")
    scores = dict(listed(coded.search(np.repeat(even, 8, axis=0), 2)))
    assert scores == dict(wanted(read_index(coded.path), np.repeat(even, 8, axis=0)))
    assert scores["slope#0"] == pytest.approx(8 * float(even[0] @ slope[0]), rel=0.01)


def test_postings_of_many_passages_over_many_blocks(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("colrank.index.postings._BLOCK_TOKENS", 7)
    held = documents(12, 300, most=10)  # some longer than a block, and too many for one byte
    for bits in (2, 16):
        index = make(tmp_path / str(bits), held, 1, bits=bits)
        read = read_index(index.path)
        check_postings(read)
        assert pa.ipc.open_file(next(index.path.rglob("postings.arrow"))).schema.types == [pa.uint16()]
        assert {row for listing in read.postings for row in listing} == set(range(300))


# What hits do not depend on


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> ColRank:
    return make(tmp_path_factory.mktemp("coded") / "i", documents(13, 200), bits=2)


def queries_of(seed: int, *lengths: int, dim: int = 16) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [unit(rng, length, dim) for length in lengths]


@pytest.mark.parametrize("scan", ["always", "never"])
def test_hits_do_not_depend_on_company_or_threads(coded: ColRank, scan: str):
    queries = queries_of(14, 3, 17, 1, 40, 8, 32)
    options: dict[str, Any] = {"scan": scan, "shortlist": 60}
    alone = [listed(coded.search(query, 50, **options)) for query in queries]
    assert [listed(hits) for hits in coded.search(queries, 50, **options)] == alone
    assert [listed(hits) for hits in coded.search(queries[::-1], 50, **options)] == alone[::-1]
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert [listed(hits) for hits in coded.search(queries, 50, **options)] == alone
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("bits", [2, 16, 32])
def test_hits_do_not_depend_on_batches_and_shards(tmp_path: Path, monkeypatch, bits: int):
    held = documents(13, 200)
    one = make(tmp_path / "one", held, 1, bits=bits)
    monkeypatch.setattr("colrank.shards.BATCH_BYTES", 300)
    monkeypatch.setattr("colrank.shards.SHARD_TOKENS", 64)
    many = make(tmp_path / "many", held, 1, bits=bits)
    shards = many.snapshot.manifest.segments[0].shards
    assert len(shards) == -(-tokens_of(held) // 64)
    assert pa.ipc.open_file(many.path / "segment-00000001" / shards[0]).num_record_batches > 1
    read = read_index(many.path)
    check_postings(read)
    for query in queries_of(15, 1, 5, 33):
        expected = wanted(read, query)
        for scan in ("always", "never"):
            for k in (50, 200):
                hits = [listed(index.search(query, k, scan=scan, shortlist=60)) for index in (one, many)]
                assert hits[0] == hits[1]
        assert listed(many.search(query, 200, scan="always")) == expected
    # What was written in small pieces is added to and read back in pieces, too.
    more = documents(16, 20, first=1000)
    for index in (one, many):
        add(index, more, 1)
    query = queries_of(17, 6)[0]
    assert listed(one.search(query, 300)) == listed(many.search(query, 300))


@pytest.mark.parametrize("options", [{}, {"bits": 32}, {"bits": 2}, {"bits": 4, "kind": "quantile"}])
def test_hits_do_not_depend_on_the_order_of_adding(tmp_path: Path, options: dict[str, Any]):
    base = documents(18, 60)
    later = list(documents(19, 20, first=1000).items())
    orders = [later, later[::-1], later[10:] + later[:10]]
    found = []
    for number, order in enumerate(orders):
        index = make(tmp_path / str(number), base, **options)
        add(index, dict(order[:7]))
        add(index, dict(order[7:]))
        queries = queries_of(20, 2, 9)
        found += [[listed(hits) for hits in index.search(queries, 100)]]
        if options.get("bits") in (2, 4):
            found += [[listed(hits) for hits in index.search(queries, 100, scan="never")]]
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("form", FORMS, ids=FORM_NAMES)
def test_equal_scores_order_by_id(tmp_path: Path, form):
    held = documents(21, 40)
    twin = held["d9990"]
    names = ["b", "a", "ä", "B", "10", "9", "a b", "日本", "🚲"]
    index = make_form(tmp_path / "i", {**held, **dict.fromkeys(names, twin)}, form)
    expected = [f"{name}#0" for name in sorted([*names, "d9990"])]
    scans = ["always", "never"] if index.snapshot.contents.postings else ["always"]
    for scan in scans:
        for by in ("passage", "document"):
            hits = listed(index.search(twin, 60, by=by, scan=scan))
            assert [name for name, score in hits if score == hits[0][1]] == expected
            assert hits[:4] == listed(index.search(twin, 4, by=by, scan=scan, shortlist=20))


# How many hits


@pytest.mark.parametrize("scan", ["always", "never"])
@pytest.mark.parametrize(
    "narrow", [{}, {"nprobe": 1, "shortlist": 1}, {"nprobe": 1, "shortlist": 1, "prune": 1.0}]
)
def test_a_thousand_hits_of_eight_hundred_documents_are_all(
    tmp_path_factory, scan: str, narrow: dict[str, Any]
):
    path = tmp_path_factory.getbasetemp() / "eight-hundred"
    if not path.exists():
        make(path, documents(22, 800, most=3), bits=2)
    index = ColRank.open(path)
    query = queries_of(23, 3)[0]
    expected = wanted(read_index(path), query)
    for by in ("passage", "document"):
        assert listed(index.search(query, 1000, by=by, scan=scan, **narrow)) == expected
        assert listed(index.search(query, 800, by=by, scan=scan, **narrow)) == expected
        for k in (1, 20, 799):
            hits = index.search(query, k, by=by, scan=scan, **narrow)
            assert len({hit.document for hit in hits}) == len(hits) == k


@pytest.mark.parametrize("bits", [2, 16])
def test_documents_stand_by_their_best_passage_and_empty_passages_are_never_found(
    tmp_path: Path, monkeypatch, bits: int
):
    monkeypatch.setattr("colrank.builder.storage.SMALL_TOKENS", 1)
    texts = words(24, 100, 30)
    texts["nothing"] = "void void"
    texts["half"] = " ".join(["void"] * 8 + [f"w{word}" for word in range(8)])
    texts["later"] = texts["t950"]
    index = texts_index(tmp_path / "i", texts, WordEncoder(), bits=bits)
    read = read_index(index.path)
    check_postings(read)
    filled = sum(len(tokens) > 0 for tokens in read.tokens)
    assert index.stats()["passages"] == len(read.tokens) > filled > 400
    for query in queries_of(25, 1, 6):
        expected = wanted(read, query)
        assert len(expected) == filled
        for options in ({"scan": "always"}, {"scan": "never", "nprobe": 1, "shortlist": 1}):
            assert listed(index.search(query, 1000, **options)) == expected
            everything = listed(index.search(query, 1000, by="document", **options))
            assert len(best_of_each(everything)) == len(everything) == 102  # all but "nothing"
            # A narrow prefilter may find another passage of a document than its best one.
            assert set(everything) <= set(expected)
            if options["scan"] == "always":
                assert everything == best_of_each(expected)
            found = index.search(query, 40, by="document", **options)
            assert len({hit.document for hit in found}) == len(found) == 40
        wide = {"scan": "never", "nprobe": 999, "shortlist": 999}
        assert listed(index.search(query, 40, by="document", **wide)) == best_of_each(expected)[:40]


@pytest.mark.parametrize("options", [{}, {"bits": 16}, {"bits": 32}])
def test_the_prefilter_asked_of_an_index_without_centroids_is_one_sentence(tmp_path: Path, options):
    index = make(tmp_path / "i", documents(26, 5), **options)
    with pytest.raises(InputError, match=r"^scan is 'never', .*no prefilter; .*bits 1, 2, 4 or 8\.$"):
        index.search(queries_of(27, 2)[0], scan="never")
    assert len(index.search(queries_of(27, 2)[0])) == 5


# Without FAISS


@pytest.fixture
def without_faiss(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.import_module

    def absent(name: str, package: str | None = None) -> Any:
        if name == "faiss":
            raise ImportError(name)
        return found(name, package)

    # Nor are there native kernels, which cluster without it.
    monkeypatch.setattr("colrank.centroids.native_is_there", lambda: False)
    monkeypatch.setattr("colrank.centroids.importlib.import_module", absent)


@pytest.mark.usefixtures("without_faiss")
def test_without_faiss_a_small_index_is_built_and_searched(tmp_path: Path):
    held = documents(28, 30)
    index = make(tmp_path / "i", held)
    add(index, documents(29, 5, first=1000))
    query = queries_of(30, 4)[0]
    assert listed(ColRank.open(index.path).search(query, 99)) == wanted(read_index(index.path), query)


@pytest.mark.usefixtures("without_faiss")
@pytest.mark.parametrize("bits", [16, 32])
def test_without_faiss_whole_vectors_stay_without_centroids_past_the_bound(tmp_path: Path, bits: int):
    index = make(tmp_path / "i", documents(28, 30), 1, bits=bits)
    assert (index.stats()["codec"], index.stats()["bits"]) == (None, bits)
    assert len(index.search(queries_of(30, 4)[0], 99)) == 30


@pytest.mark.usefixtures("without_faiss")
@pytest.mark.parametrize("kind", CODED)
def test_without_faiss_bits_fail_before_anything_is_written(tmp_path: Path, kind: str):
    with pytest.raises(
        match=r"install FAISS with: pip install 'colrank\[cpu\]'.*, or do without: .*bits 16\.$",
    ):
        make(tmp_path / "new" / "i", documents(28, 30), bits=2, kind=kind)
    assert list(tmp_path.iterdir()) == []
    encoder = WordEncoder()
    with pytest.raises(MissingExtra):
        texts_index(tmp_path / "new" / "i", words(1, 3, 9), encoder, bits=2, kind=kind)
    assert encoder.encoded == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("without_faiss")
def test_without_faiss_growth_past_the_bound_leaves_the_earlier_generation(tmp_path: Path, monkeypatch):
    index = make(tmp_path / "i", exactly(documents(28, 60), 99), 100)
    before = contents(index.path)
    query = queries_of(30, 4)[0]
    hits = listed(index.search(query, 99))
    with pytest.raises(MissingExtra, match=r"colrank\[cpu\]"):
        add(index, {"one more": unit(np.random.default_rng(0), 1, 16)}, 100)
    assert contents(index.path) == before
    assert listed(index.search(query, 99)) == listed(ColRank.open(index.path).search(query, 99)) == hits
    # The same where text is encoded.
    monkeypatch.setattr("colrank.builder.storage.SMALL_TOKENS", 100)
    texts = texts_index(tmp_path / "texts", words(1, 9, 11), WordEncoder())
    before = contents(texts.path)
    with pytest.raises(MissingExtra):
        texts_index(texts.path, {"one more": "word"}, WordEncoder())
    # What was encoded stays for the next build, which goes on from there.
    after = contents(texts.path)
    (left,) = set(after) - set(before)
    assert left.startswith("building/encoded/")
    assert {name: after[name] for name in before} == before
    assert len(ColRank.open(texts.path)) == 9


def test_without_faiss_a_coded_index_is_still_searched(coded: ColRank, request: pytest.FixtureRequest):
    query = queries_of(31, 5)[0]
    asked = [{"scan": "always"}, {"scan": "never", "shortlist": 30}]
    hits = [listed(coded.search(query, 20, **options)) for options in asked]
    request.getfixturevalue("without_faiss")
    opened = ColRank.open(coded.path)
    assert [listed(opened.search(query, 20, **options)) for options in asked] == hits
    with pytest.raises(MissingExtra, match=r"colrank\[cpu\]"):
        add(opened, documents(29, 5, first=1000))


# Devices


def test_no_file_names_a_device_or_needs_one(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", bits=2, pool=2, device="cpu")
    index.add([{"id": str(row), "text": f"Sentence number {row} of a few about trams."} for row in range(8)])
    for name, content in contents(index.path).items():
        if name.startswith("manifest-"):
            text = content.decode()
            assert not any(device in text for device in ("cuda", "cpu", "mps", "device"))
            json.loads(text)
        elif name == "colrank.lock":
            assert content == b""
        else:  # an Arrow file from the first byte to the last, no pickled tensor
            assert content.startswith(b"ARROW1\0\0")
            assert content.endswith(b"ARROW1")
            assert not any(word in content for word in (b"cuda", b"torch", b"pickle"))
    script = (
        "import json, sys, numpy as np\nfrom colrank import ColRank\n"
        "index, query = ColRank.open(sys.argv[1]), np.array(json.loads(sys.argv[2]), np.float32)\n"
        "found = [index.search(query, 9, scan=scan) for scan in ('always', 'never')]\n"
        "print(json.dumps([[(hit.id, hit.score) for hit in hits] for hits in found]))"
    )
    query = queries_of(32, 3, dim=128)[0]
    done = subprocess.run(
        [sys.executable, "-c", script, str(index.path), json.dumps(query.astype(float).tolist())],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    for scan, hits in zip(("always", "never"), json.loads(done.stdout), strict=True):
        assert [tuple(hit) for hit in hits] == listed(index.search(query, 9, scan=scan))


# Stopped and damaged


STEPS = [
    "colrank.builder.merging.train_codec",
    "colrank.codec.codec.even_codes",
    "colrank.index.store.write_codec",
    "colrank.index.segment_writer.write_postings",
    "colrank.index.segment_writer.checksums",
    "colrank.index.store.write_manifest",
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_build_stopped_at_training_or_coding_leaves_the_earlier_generation(
    tmp_path: Path, monkeypatch, step: str, error: type[BaseException]
):
    def stopped(*args: Any, **options: Any) -> None:
        raise error

    index = make(tmp_path / "i", exactly(documents(33, 60), 50), bits=2)
    before = contents(index.path)
    query = queries_of(34, 3)[0]
    hits = listed(index.search(query, 99))
    later = documents(35, 100, first=1000)  # enough that the codec is trained again
    with monkeypatch.context() as patch:
        patch.setattr(step, stopped)
        with pytest.raises(error):
            add(index, later)
        patch.setattr(step.replace("merging", "storage"), stopped)  # where a first codec is trained
        with pytest.raises(error):
            make(tmp_path / "new" / "i", later, bits=2)
    assert contents(index.path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["i"]
    assert sorted(path.name for path in index.path.iterdir() if path.is_dir()) == [
        "codec-00000001",
        "segment-00000001",
    ]
    assert listed(ColRank.open(index.path).search(query, 99)) == hits
    add(index, later)
    assert index.snapshot.manifest.codec.name == "codec-00000002"


@pytest.mark.parametrize(
    "name",
    ["centroids", "rotation", "levels", "scales", "codes-00000", "postings", "posting-offsets", "pooling"],
)
@pytest.mark.parametrize("how", ["missing", "short", "long", "empty"])
def test_a_damaged_file_of_codec_or_postings_is_named(tmp_path: Path, name: str, how: str):
    index = make(tmp_path / "i", documents(36, 20), bits=2, pool=2)
    (file,) = index.path.rglob(f"{name}.arrow")
    size = file.stat().st_size
    if how == "missing":
        file.unlink()
    else:
        with file.open("r+b") as handle:
            handle.truncate({"short": size - 8, "long": size + 8, "empty": 0}[how])
    with pytest.raises(IndexDamaged, match=rf"^{name}\.arrow .*; index again with --overwrite\.$"):
        ColRank.open(index.path)


def overwrite(folder: Path, file: str, column: str, change: Callable[[np.ndarray], None]) -> None:
    """Change a column of an Arrow file in place; its size stays as it was."""
    (path,) = folder.rglob(file)
    values = pa.ipc.open_file(pa.OSFile(str(path))).read_all()[column].to_numpy()
    content, changed = path.read_bytes(), values.copy()
    change(changed)
    assert content.count(values.tobytes()) == 1
    path.write_bytes(content.replace(values.tobytes(), changed.tobytes()))


def setter(place: int, value: int) -> Callable[[np.ndarray], None]:
    def change(values: np.ndarray) -> None:
        values[place] = value

    return change


@pytest.mark.parametrize("value", [200, 201, 255])
def test_a_posting_beyond_the_last_passage_is_an_error_not_a_wild_read(
    lists: None, tmp_path: Path, value: int
):
    index = make(tmp_path / "i", documents(37, 200), bits=2)
    overwrite(index.path, "postings.arrow", "passage", setter(17, value))
    opened = ColRank.open(index.path)
    assert len(opened.search(queries_of(38, 2)[0], 5, scan="always")) == 5
    with pytest.raises(IndexDamaged, match="posting names a passage that is not there"):
        opened.search(queries_of(38, 2)[0], 5, scan="never", nprobe=999, shortlist=10)


@pytest.mark.parametrize(("place", "value"), [(0, 1), (0, -1), (2, 2**40), (2, -5), (-1, 2**40), (-1, 3)])
def test_posting_offsets_that_leave_the_postings_are_refused(tmp_path: Path, place: int, value: int):
    index = make(tmp_path / "i", documents(37, 200), bits=2)
    overwrite(index.path, "posting-offsets.arrow", "posting_offset", setter(place, value))
    with pytest.raises(IndexDamaged, match="postings"):
        ColRank.open(index.path)


def no_such_centroid(path: Path, bits: int) -> ColRank:
    index = make(path, documents(37, 200), 1, bits=bits)
    overwrite(index.path, "codes-00000.arrow", "centroid", setter(slice(None), 60_000))  # type: ignore[arg-type]
    return ColRank.open(index.path)


def test_a_token_of_no_centroid_is_an_error_when_it_is_decoded(tmp_path: Path):
    with pytest.raises(IndexDamaged, match="names centroid 60000 of"):
        no_such_centroid(tmp_path / "i", 2).search(queries_of(38, 2)[0], 5, scan="always")


@pytest.mark.parametrize("bits", [2, 16])
@pytest.mark.parametrize("prune", [-1.0, 0.1])
def test_a_token_of_no_centroid_is_an_error_in_the_prefilter(tmp_path: Path, bits: int, prune: float):
    index = no_such_centroid(tmp_path / "i", bits)
    with pytest.raises(IndexDamaged, match="centroid"):
        index.search(queries_of(38, 2)[0], 5, scan="never", nprobe=999, shortlist=10, prune=prune)


def sign_again(path: Path) -> None:
    """Make sizes and checksums of a manifest fit files that were changed."""
    file = path / "manifest-00000001.json"
    body = json.loads(file.read_text())
    del body["checksum"]
    for part in (body["codec"], *body["segments"]):
        for name in part["files"]:
            content = (path / part["name"] / name).read_bytes()
            part["files"][name] = {"bytes": len(content), "xxh3": xxhash.xxh3_128_hexdigest(content)}
    body["checksum"] = xxhash.xxh3_128_hexdigest(json.dumps(body, sort_keys=True).encode())
    file.write_text(json.dumps(body))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("centroids", "tables of .*codec-00000001 do not fit"),
        ("rotation", "tables of .*codec-00000001 do not fit"),
        ("levels", "tables of .*codec-00000001 do not fit"),
        ("postings", "postings of .*segment-00000001 do not fit"),
        ("posting-offsets", "postings of .*segment-00000001 do not fit"),
        ("codes-00000", r"codes-00000\.arrow does not hold the columns .*code"),
        ("pooling", "rows of .*segment-00000001 do not fit"),
    ],
)
def test_files_of_another_shape_than_the_manifest_says_are_refused(tmp_path: Path, name: str, told: str):
    index = make(tmp_path / "i", documents(36, 100), bits=2, pool=2)
    sign_again(index.path)
    query = queries_of(38, 2)[0]
    assert listed(ColRank.open(index.path).search(query, 99)) == listed(index.search(query, 99))
    other = make(tmp_path / "other", documents(36, 150, dim=9), bits=4, pool=2)
    (source,), (target,) = other.path.rglob(f"{name}.arrow"), index.path.rglob(f"{name}.arrow")
    target.write_bytes(source.read_bytes())
    sign_again(index.path)
    with pytest.raises(IndexDamaged, match=f"{told}.*index again"):
        ColRank.open(index.path)


def test_postings_reach_every_passage(coded: ColRank):
    read = read_index(coded.path)
    check_postings(read)
    postings = coded.snapshot.contents.postings
    for row, ids in enumerate(read.centroids):
        for centroid in ids.tolist():
            assert row in postings.gather(np.array([centroid]))[0]
    # Several centroids at once come one list after the other, an empty selection as nothing.
    some = np.array([5, 0, 5])
    rows, places = postings.gather(some)
    assert rows.tolist() == [*read.postings[5], *read.postings[0], *read.postings[5]]
    lengths = [len(read.postings[centroid]) for centroid in some]
    assert places.tolist() == [place for place, length in enumerate(lengths) for _ in range(length)]
    assert [part.tolist() for part in postings.gather(some[:0])] == [[], []]
    (segment,) = coded.snapshot.contents.segments
    assert all(a <= b for a, b in pairwise(segment.postings.offsets.tolist()))


def test_postings_of_several_segments_leave_out_what_is_deleted(tmp_path: Path):
    index = make(tmp_path / "i", documents(13, 60), bits=2)
    add(index, documents(14, 40, first=1000))
    index.delete(["d9999", "d9950", "d8990"])
    read = read_index(index.path)
    check_postings(read)
    found = index.snapshot.contents
    assert len(found.segments) == 2
    assert np.flatnonzero(~found.live).tolist() == [0, 49, 69]
    for centroid, passages in enumerate(read.postings):
        expected = [row for row in passages if not read.deleted[read.passages[row]["document"]]]
        assert found.postings.gather(np.array([centroid]))[0].tolist() == expected


@pytest.mark.parametrize(
    ("file", "column", "place", "value"),
    [
        ("passages.arrow", "document", 3, 10**6),
        ("passages.arrow", "document", 3, 0),
        ("documents.arrow", "first_passage", 3, 9999),
        ("documents.arrow", "first_passage", 3, -1),
        ("documents.arrow", "first_passage", 0, 1),
    ],
)
def test_documents_and_passages_that_do_not_fit_each_other_are_refused(
    tmp_path: Path, file: str, column: str, place: int, value: int
):
    index = make(tmp_path / "i", documents(37, 20), bits=2)
    overwrite(index.path, file, column, setter(place, value))
    with pytest.raises(IndexDamaged, match="do not fit each other"):
        ColRank.open(index.path)


def test_options_of_numpy_are_written_as_plain_numbers(tmp_path: Path):
    held = documents(38, 12)
    index = make(tmp_path / "i", held, bits=np.int64(2), pool=np.uint8(2), seed=np.int32(3))
    plain = make(tmp_path / "plain", held, bits=2, pool=2, seed=3)
    assert contents(index.path) == contents(plain.path)
    body = json.loads((index.path / "manifest-00000001.json").read_text())
    assert (body["bits"], body["pool"], body["seed"]) == (2, 2, 3)
    query = queries_of(39, 3)[0]
    chosen = {"nprobe": np.int64(4), "shortlist": np.int32(6), "prune": np.float64(0.1)}
    wanted_hits = plain.search(query, 5, scan="never", nprobe=4, shortlist=6, prune=0.1)
    assert listed(index.search(query, np.int64(5), scan="never", **chosen)) == listed(wanted_hits)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"bits": 16.0}, "bits is 16.0; choose one of 1, 2, 4, 8, 16, 32."),
        ({"bits": "4"}, "bits is '4'; choose one of"),
        ({"pool": 2.0}, "pool is 2.0; it is how many tokens become one"),
        ({"seed": "0"}, "seed is '0'; give a whole number"),
    ],
)
def test_options_that_are_no_whole_numbers_are_refused_before_anything_is_written(
    tmp_path: Path, given: dict[str, Any], told: str
):
    with pytest.raises(InputError, match=told):
        ColRank.create(tmp_path / "i", model=None, **given)
    assert list(tmp_path.iterdir()) == []


def test_vectors_of_nan_are_named_with_what_they_belong_to(tmp_path: Path):
    broken = np.full((2, 16), np.nan, dtype=np.float32)
    index = make(tmp_path / "i", documents(40, 3))
    with pytest.raises(InputError, match=r"^The vectors of document 'x' .*; leave that document out or enc"):
        index.add_embeddings(["x"], [broken])
    with pytest.raises(InputError, match=r"^The vectors of query 2 .*; leave that query out or encode it"):
        index.search([queries_of(41, 3)[0], broken])
    np.savez(tmp_path / "queries.npz", q7=broken)
    with pytest.raises(InputError, match=r"^Query 'q7': .*; leave that query out or encode it again\.$"):
        index.evaluate(tmp_path / "queries.npz", {"q7": {next(iter(documents(40, 3))): 1}})

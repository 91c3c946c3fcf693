"""Token pooling: what a pooled vector is, and what an index of pooled tokens says of its text."""

from __future__ import annotations

import tracemalloc
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_codec import unit
from test_golden import read_index

from colrank import ColRank
from colrank.passages import encoder_input
from colrank.pooling import WINDOW_TOKENS, pool_tokens


def check_pooled(vectors: np.ndarray, factor: int, markers: np.ndarray | None) -> np.ndarray:
    """Pool, hold the result against what is promised, and return the labels."""
    before = vectors.copy()
    pooled, labels = pool_tokens(vectors, factor, markers)
    assert np.array_equal(vectors, before)
    assert pooled.dtype == np.float32
    assert labels.shape == (len(vectors),)
    alone = np.zeros(len(vectors), dtype=bool) if markers is None else markers
    free = int((~alone).sum())
    assert len(pooled) == (max(1, free // factor) if free else 0) + int(alone.sum())
    # Every row has a token, and rows come in the order of their first tokens.
    assert list(dict.fromkeys(labels.tolist())) == list(range(len(pooled)))
    if len(pooled):
        assert np.abs(np.linalg.norm(pooled.astype(np.float64), axis=1) - 1).max() < 1e-6
    for row, vector in enumerate(pooled):
        members = np.flatnonzero(labels == row)
        assert len(members) == 1 or not alone[members].any()
        mean = vectors[members].astype(np.float64).sum(axis=0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)
    return labels


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 60),
    st.sampled_from([2, 3, 16, 48]),
    st.integers(1, 16),
    st.data(),
)
@settings(deadline=None, max_examples=150)
def test_pooled_vectors_are_means_of_unit_length_in_order(seed, tokens, dim, factor, data):
    rng = np.random.default_rng(seed)
    chance = data.draw(st.sampled_from([None, 0.0, 0.1, 0.7, 1.0]))
    markers = None if chance is None else rng.random(tokens) < chance
    check_pooled(unit(rng, tokens, dim), factor, markers)


@pytest.mark.parametrize("tokens", [0, 1, 2, 31])
def test_factor_one_is_the_identity(tokens: int):
    vectors = unit(np.random.default_rng(0), tokens, 8)
    pooled, labels = pool_tokens(vectors, 1, np.arange(tokens) == 0)
    assert np.array_equal(pooled, vectors)
    assert labels.tolist() == list(range(tokens))


def test_similar_tokens_become_one_and_markers_stay_alone():
    rng = np.random.default_rng(1)
    means = unit(rng, 3, 16)
    kinds = np.array([2, 0, 2, 1, 1, 0, 0, 2, 1, 2, 0, 1])
    vectors = means[kinds] + 0.02 * unit(rng, 12, 16)
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    assert check_pooled(vectors, 4, None).tolist() == [{2: 0, 0: 1, 1: 2}[kind] for kind in kinds]
    # The same with a marker at both ends, each as near to a cluster as can be.
    framed = np.concatenate([vectors[:1], vectors, vectors[-1:]])
    markers = np.array([True, *[False] * 12, True])
    inner = [{2: 1, 0: 2, 1: 3}[kind] for kind in kinds]
    assert check_pooled(framed, 4, markers).tolist() == [0, *inner, 4]


def test_the_nearest_are_joined_first_and_one_vector_is_left_at_least():
    angles = np.radians([0.0, 50.0, 93.0, 120.0, 121.0, 180.0, 358.0, 52.0])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    assert check_pooled(vectors, 2, None).tolist() == [0, 1, 2, 2, 2, 3, 0, 1]
    assert check_pooled(vectors[:3], 2, None).tolist() == [0, 0, 0]
    assert check_pooled(vectors[:5], 16, None).tolist() == [0] * 5


def test_opposite_vectors_keep_the_first_and_give_no_nan():
    vectors = unit(np.random.default_rng(2), 3, 8)
    for first, second in ((vectors[0], -vectors[0]), (-vectors[0], vectors[0])):
        pooled, labels = pool_tokens(np.stack([first, second]), 2)
        np.testing.assert_allclose(pooled, [first], atol=1e-7)
        assert labels.tolist() == [0, 0]
    # Beside other clusters, before and after.
    near = (vectors[1] + 0.01 * vectors[2]) / np.linalg.norm(vectors[1] + 0.01 * vectors[2])
    axes = np.eye(8, dtype=np.float32)
    pooled, labels = pool_tokens(np.stack([axes[0], -axes[0], axes[0], -axes[0]]), 4)
    np.testing.assert_array_equal(pooled, axes[:1])
    assert labels.tolist() == [0] * 4
    pooled, labels = pool_tokens(np.stack([vectors[1], near, axes[0], -axes[0]]).astype(np.float32), 2)
    assert np.isfinite(pooled).all()
    np.testing.assert_allclose(np.linalg.norm(pooled, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("vectors", "factor", "count"),
    [(np.eye(12), 3, 4), (np.repeat(np.eye(4), 3, axis=0), 2, 6), (np.full((8, 4), 0.5), 2, 4)],
    ids=["orthogonal", "repeated", "equal"],
)
def test_ties_pool_to_the_number_that_was_asked_for(vectors, factor, count):
    assert len(pool_tokens(vectors.astype(np.float32), factor)[0]) == count


@pytest.mark.parametrize(("factor", "marked"), [(2, False), (3, True), (16, False)])
def test_many_tokens_are_pooled_window_by_window_in_bounded_memory(factor: int, marked: bool):
    rng = np.random.default_rng(4)
    vectors = unit(rng, 5000, 16)
    markers = rng.random(5000) < 0.02 if marked else np.zeros(5000, dtype=bool)
    tracemalloc.start()
    pooled, labels = pool_tokens(vectors, factor, markers)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6  # the distances between all 5,000 would take 100 MB
    free = np.flatnonzero(~markers)
    assert len(pooled) == len(free) // factor + markers.sum()
    assert np.array_equal(check_pooled(vectors, factor, markers), labels)
    # Three windows: none shares a vector with another, and each has its share of them.
    windows = np.array_split(free, 3)
    assert all(len(window) <= WINDOW_TOKENS for window in windows)
    held = [set(labels[window].tolist()) for window in windows]
    assert len(set().union(*held)) == sum(map(len, held)) == len(free) // factor
    for window, rows in zip(windows, held, strict=True):
        assert abs(len(rows) - len(window) / factor) <= 1


def test_windows_that_divide_evenly_are_pooled_as_if_alone():
    vectors = unit(np.random.default_rng(5), 2 * WINDOW_TOKENS, 8)
    pooled, labels = pool_tokens(vectors, 4)
    halves = [pool_tokens(half, 4) for half in np.split(vectors, 2)]
    assert np.array_equal(pooled, np.concatenate([rows for rows, _ in halves]))
    assert labels.tolist() == [*halves[0][1].tolist(), *(halves[1][1] + WINDOW_TOKENS // 4).tolist()]


@pytest.mark.parametrize("tokens", [2, 33, 700])
def test_a_passage_of_one_window_is_clustered_at_once(tokens: int):
    """As the definition has it: the first merges of Ward's linkage of all tokens."""
    from scipy.cluster.hierarchy import linkage

    vectors = unit(np.random.default_rng(6), tokens, 8)
    groups = [[row] for row in range(tokens)]
    left = set(range(tokens))
    for one, other, *_ in linkage(vectors.astype(np.float64), method="ward")[: tokens - tokens // 2]:
        left = (left - {int(one), int(other)}) | {len(groups)}
        groups.append(sorted(groups[int(one)] + groups[int(other)]))
    _, labels = pool_tokens(vectors, 2)
    assert sorted(groups[group] for group in left) == [
        np.flatnonzero(labels == row).tolist() for row in range(tokens // 2)
    ]


# An index of pooled tokens


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> ColRank:
    index = ColRank.create(tmp_path_factory.mktemp("pooled") / "i", pool=2, bits=2, device="cpu")
    index.add_files(sample)
    return index


def spelled(text: str) -> str:
    """A text as the embedded model's word pieces spell it: lower case, without accents."""
    kept = unicodedata.normalize("NFD", text.lower())
    return "".join(character for character in kept if not unicodedata.combining(character))


def test_stats_tell_tokens_before_and_after_pooling(pooled: ColRank):
    stats = pooled.stats()
    read = read_index(pooled.path)
    encoder = pooled.encoder
    for passage, tokens, labels in zip(read.passages, read.tokens, read.labels, strict=True):
        document = read.documents[passage["document"]]
        prefix = document["title"].strip()[: passage["prefix"]]
        named = encoder.document_tokens(encoder_input(prefix, passage["text"]))
        assert len(labels) == len(named)
        assert list(dict.fromkeys(labels)) == list(range(len(tokens)))
        markers = [at for at, (token, _) in enumerate(named) if token in ("[CLS]", "[SEP]")]
        assert markers == [0, len(named) - 1]
        assert [labels.count(labels[at]) for at in markers] == [1, 1]
        assert len(tokens) == (len(named) - 2) // 2 + 2
    assert stats["tokens"] == sum(map(len, read.tokens))
    assert stats["unpooled_tokens"] == sum(map(len, read.labels))
    assert (stats["pool"], stats["bits"], stats["documents"]) == (2, 2, 24)


def test_an_explanation_names_every_range_behind_a_pooled_token(pooled: ColRank):
    seen_several = seen_title = seen_marker = 0
    hits = pooled.search("¿Cuánto cuesta guardar la bicicleta en invierno?", 60)
    assert len(hits) == 52
    for hit in hits[::4]:
        explanation = pooled.explain("cost of the deposit and winter storage", hit)
        assert explanation.text == hit.text
        for token in explanation.tokens:
            pieces = token.match.split()
            if pieces in (["[CLS]"], ["[SEP]"]):
                assert token.spans == ()
                seen_marker += 1
                continue
            assert not {"[CLS]", "[SEP]"} & set(pieces)
            body = explanation.title if token.in_title else explanation.text
            assert [spelled(body[slice(*span)]) for span in token.spans] == [
                piece.removeprefix("##") for piece in pieces
            ]
            assert (token.start, token.end) == token.spans[0]
            assert list(token.spans) == sorted(set(token.spans))
            seen_several += len(token.spans) > 1
            seen_title += token.in_title
        assert explanation.score == pytest.approx(sum(t.contribution for t in explanation.tokens), abs=1e-5)
    assert seen_several > 10
    assert seen_title > 0
    assert seen_marker > 0


def test_every_pooled_token_names_its_tokens(pooled: ColRank):
    """A query of a passage's own stored vectors meets each of them once."""
    snapshot = pooled.snapshot
    for row in (0, 17, 51):
        passage = snapshot.contents.passage(row)
        document = snapshot.contents.document(passage.document)
        stored = snapshot.codec.turn_back(snapshot.contents.passage_vectors(row))
        explanation = pooled.explain(stored, f"{document.id}#{passage.ordinal}")
        labels = read_index(pooled.path).labels[row]
        named = pooled.encoder.document_tokens(encoder_input(document.prefix_of(passage), passage.text))
        shift = len(document.prefix_of(passage)) + 1 if passage.prefix else 0
        for at, token in enumerate(explanation.tokens):
            behind = [named[t] for t in range(len(labels)) if labels[t] == at]
            in_text = [(name, span) for name, span in behind if span.start >= shift]
            if in_text:  # the title's part of a vector that text is part of is not shown
                assert token.match.split() == [name for name, _ in in_text]
                assert list(token.spans) == [(span.start - shift, span.end - shift) for _, span in in_text]
                assert not token.in_title
            elif behind[0][1].start >= 0:
                assert token.match.split() == [name for name, _ in behind]
                assert list(token.spans) == [tuple(span) for _, span in behind]
                assert token.in_title
            else:
                assert (token.match, token.spans) == (behind[0][0], ())


def test_highlights_of_pooled_tokens_are_words_of_the_text(pooled: ColRank):
    hits = pooled.search("winter storage of the bike", 5, highlight=True)
    assert sum(len(hit.highlights) for hit in hits) > 5
    marked = [hit.text[slice(*span)] for hit in hits for span in hit.highlights]
    assert [text for text in marked if not any(map(str.isalnum, text))] == []


def test_equal_builds_give_equal_bytes(pooled: ColRank, tmp_path: Path, sample: Path):
    again = ColRank.create(tmp_path / "again", pool=2, bits=2, device="cpu")
    again._encoder = pooled.encoder  # loading it once more would only take time
    again.add_files(sample)
    files = {path.relative_to(pooled.path) for path in pooled.path.rglob("*") if path.is_file()}
    assert files == {path.relative_to(again.path) for path in again.path.rglob("*") if path.is_file()}
    assert len(files) == 15
    for file in files:
        assert (pooled.path / file).read_bytes() == (again.path / file).read_bytes(), file


def given_vectors(path: Path, documents: int) -> ColRank:
    rng = np.random.default_rng(3)
    index = ColRank.create(path, model=None, pool=2)
    index.add_embeddings(
        [f"d{row}" for row in range(documents)], [unit(rng, 8, 12) for _ in range(documents)]
    )
    return index


def test_given_vectors_are_pooled_and_counted(tmp_path: Path):
    index = given_vectors(tmp_path / "i", 10)
    assert (index.stats()["tokens"], index.stats()["unpooled_tokens"]) == (40, 80)
    read = read_index(index.path)
    rng = np.random.default_rng(3)
    for tokens, labels in zip(read.tokens, read.labels, strict=True):
        wanted, _ = pool_tokens(unit(rng, 8, 12), 2)
        assert np.array_equal(tokens, wanted.astype(np.float16))
        assert labels == []


def test_given_vectors_stay_counted_after_a_later_add(tmp_path: Path):
    index = given_vectors(tmp_path / "i", 10)
    index.add_embeddings(["z"], [unit(np.random.default_rng(4), 8, 12)])
    assert (index.stats()["tokens"], index.stats()["unpooled_tokens"]) == (44, 88)

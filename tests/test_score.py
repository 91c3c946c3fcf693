"""MaxSim against brute force, over ragged random input."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colrank.codec import whole_vectors
from colrank.score import QueryVectors, Scores, contenders, exact_scores, scan, score_rows
from colrank.shards import ShardWriter, TokenVectors


def unit(rng: np.random.Generator, rows: int, dim: int, sign: float = 0.0) -> np.ndarray:
    vectors = rng.standard_normal((rows, dim)).astype(np.float32)
    if sign:
        vectors = sign * np.abs(vectors)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def stored(vectors: np.ndarray, block: int, first: int = 0) -> TokenVectors:
    """Whole token vectors in memory, cut into blocks as shards cut them."""
    blocks = [{"vector": vectors[at : at + block]} for at in range(0, len(vectors), block)]
    return TokenVectors(whole_vectors(vectors.shape[1]), blocks, first)


def brute_force(query: QueryVectors, passages: list[np.ndarray]) -> np.ndarray:
    """The definition, in float64, with loops."""
    out = []
    for passage in passages:
        if not len(passage):
            out.append(-np.inf)
            continue
        total = 0.0
        for vector, weight in zip(query.vectors, query.weights, strict=True):
            total += float(weight) * max(
                float(np.dot(vector.astype(np.float64), token.astype(np.float64))) for token in passage
            )
        out.append(total)
    return np.array(out)


@st.composite
def ragged(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim = draw(st.sampled_from([1, 3, 8, 48, 96, 128, 129]))
    lengths = draw(st.lists(st.sampled_from([0, 1, 2, 5, 17]), min_size=1, max_size=12))
    negative = draw(st.booleans())
    flat = unit(rng, sum(lengths), dim, -1.0 if negative else 0.0).astype(np.float16)
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    queries = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.sampled_from([1, 2, 32]))
        weights = np.abs(rng.standard_normal(rows)).astype(np.float32)
        if draw(st.booleans()):
            weights = np.ones(rows, dtype=np.float32)
        queries.append(QueryVectors(unit(rng, rows, dim, 1.0 if negative else 0.0), weights))
    return queries, flat, offsets, draw(st.sampled_from([1, 3, 1000]))


@given(ragged())
@settings(deadline=None, max_examples=120)
def test_scan_and_exact_scores_equal_brute_force(case):
    queries, flat, offsets, block = case
    tokens = stored(flat, block)
    passages = [flat[a:b] for a, b in pairwise(offsets)]
    scanned = scan(queries, tokens, offsets)
    for query, row in zip(queries, scanned, strict=True):
        expected = brute_force(query, passages)
        filled = np.isfinite(expected)
        assert np.array_equal(np.isfinite(row.values), filled)
        assert np.all(np.abs(row.values[filled] - expected[filled]) <= row.slack[filled])
        rows = np.flatnonzero(filled)
        exact = exact_scores(query, rows, tokens, offsets)
        near = score_rows(query, rows, tokens, offsets)
        assert np.all(np.abs(near.values - expected[filled]) <= near.slack)
        np.testing.assert_allclose(exact, expected[filled], rtol=0, atol=1e-6 * (1 + query.weights.sum()))


def test_all_similarities_negative_stay_negative():
    rng = np.random.default_rng(1)
    flat = unit(rng, 9, 16, -1.0).astype(np.float16)
    query = QueryVectors(unit(rng, 4, 16, 1.0), np.ones(4, dtype=np.float32))
    scores = scan([query], stored(flat, 4), np.array([0, 3, 9], dtype=np.int64))
    assert (scores[0].values < 0).all()


def test_more_query_tokens_and_passages_than_one_group_and_block():
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, 60, size=400)
    lengths[7] = 5000  # longer than a block
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = unit(rng, int(offsets[-1]), 8).astype(np.float16)
    queries = [QueryVectors(unit(rng, 700, 8), np.ones(700, dtype=np.float32)) for _ in range(7)]
    scanned = scan(queries, stored(flat, 3000), offsets)
    for query, scores in zip(queries, scanned, strict=True):
        row = scores.values
        similarity = query.vectors.astype(np.float64) @ flat.astype(np.float64).T
        for passage in (0, 7, 8, 399):
            a, b = offsets[passage], offsets[passage + 1]
            if a == b:
                assert row[passage] == -np.inf
            else:
                assert row[passage] == pytest.approx(similarity[:, a:b].max(axis=1).sum(), abs=1e-3)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_exact_scores_do_not_depend_on_threads_batch_or_position(threads):
    rng = np.random.default_rng(3)
    passage = unit(rng, 37, 96).astype(np.float16)
    flat = np.concatenate([passage, unit(rng, 51, 96).astype(np.float16), passage, passage])
    offsets = np.array([0, 37, 88, 125, 162], dtype=np.int64)
    query = QueryVectors(unit(rng, 23, 96), rng.random(23).astype(np.float32))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        alone = [exact_scores(query, np.array([row]), stored(flat, 1000), offsets)[0] for row in range(4)]
        together = exact_scores(query, np.arange(4), stored(flat, 20), offsets)
    finally:
        torch.set_num_threads(before)
    assert alone == together.tolist()
    assert together[0] == together[2] == together[3]
    assert together[0] == np.float32(brute_force(query, [passage])[0])


def test_contenders_hold_all_that_may_be_among_the_best():
    values = np.array([0.5, 0.9, -np.inf, 0.8, 0.79, 0.1], dtype=np.float32)
    same = np.full(6, 0.006, dtype=np.float32)
    assert contenders(Scores(values, 0 * same), 2).tolist() == [1, 3]
    assert contenders(Scores(values, same), 2).tolist() == [1, 3, 4]
    assert contenders(Scores(values, 0 * same), 9).tolist() == [0, 1, 3, 4, 5]
    own = np.array([0.31, 0, 0, 0, 0, 0], dtype=np.float32)
    assert contenders(Scores(values, own), 2).tolist() == [0, 1, 3]


def test_offsets_beyond_two_to_the_31_are_read_right():
    rng = np.random.default_rng(4)
    before = 2**31 + 2**20  # so many tokens lie before the ones that are there
    flat = unit(rng, 12, 16).astype(np.float16)
    query = QueryVectors(unit(rng, 3, 16), np.ones(3, dtype=np.float32))
    near = np.array([0, 5, 5, 12], dtype=np.int64)
    expected = scan([query], stored(flat, 100), near)
    far = scan([query], stored(flat, 5, before), near + before)
    assert np.array_equal(far[0].values, expected[0].values)
    rows = np.array([0, 2])
    exact = exact_scores(query, rows, stored(flat, 100), near)
    assert np.array_equal(exact_scores(query, rows, stored(flat, 5, before), near + before), exact)


def test_shards_give_back_what_was_written_across_batches_and_files(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("colrank.shards.BATCH_BYTES", 8 * 12)
    monkeypatch.setattr("colrank.shards.SHARD_TOKENS", 32)
    rng = np.random.default_rng(5)
    blocks = [unit(rng, rows, 6) for rows in (1, 0, 25, 3, 44, 9)]
    codec = whole_vectors(6)
    with ShardWriter(tmp_path, codec.schema) as writer:
        for block in blocks:
            writer.write(codec.encode(block))
    whole = np.concatenate(blocks).astype(np.float16)
    tokens = TokenVectors.open(tmp_path, writer.files, codec, len(whole))
    assert len(writer.files) == 3
    for start in range(0, 82, 7):
        for end in range(start, 83, 9):
            assert np.array_equal(tokens.read(start, end), whole[start:end])
    rows = np.array([0, 3, 9, 10, 31, 32, 80], dtype=np.int64)
    assert np.array_equal(tokens.take(rows)["vector"], whole[rows])
    assert tokens.take(rows[:0])["vector"].shape == tokens.columns(4, 4)["vector"].shape == (0, 6)

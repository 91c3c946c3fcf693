"""The native kernels against brute force in float64: every instruction set of this processor in turn."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import colrank_kernels
import numpy as np
import pytest
from colrank_kernels import NativeLists, NativeQuery, NativeTokens
from hypothesis import given, settings
from hypothesis import strategies as st

from colrank.codec import Codec, whole_vectors
from colrank.codec.bits import row_bytes
from colrank.codec.codec import even_levels, scale_table
from colrank.score import QueryVectors
from colrank.shards import TokenVectors

pytestmark = pytest.mark.skipif(
    not colrank_kernels.native_is_there(), reason="this installation has no native kernels"
)
DIMS = [1, 3, 8, 13, 32, 48, 64, 96, 128, 129, 384, 768]


@pytest.fixture(params=colrank_kernels.variants() or ["none"], autouse=True)
def instruction_set(request: pytest.FixtureRequest) -> Iterator[None]:
    before = colrank_kernels.variant()
    colrank_kernels.use_variant(request.param)
    yield
    colrank_kernels.use_variant(before)


def unit(rng: np.random.Generator, rows: int, dim: int) -> np.ndarray:
    vectors = rng.standard_normal((rows, dim)).astype(np.float32)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def random_codec(rng: np.random.Generator, dim: int, bits: int, kind: str, centroids: int = 7) -> Codec:
    if kind == "none":
        return whole_vectors(dim, bits)
    table = unit(rng, centroids, dim) * np.float32(0.8)
    if kind == "quantile":
        return Codec(
            dim, bits, kind, table, levels=np.sort(rng.standard_normal(2**bits) * 0.1).astype(np.float32)
        )
    return Codec(dim, bits, kind, table, None, even_levels(bits), scale_table(dim, bits))


def random_tokens(
    rng: np.random.Generator, codec: Codec, count: int, block: int, first: int = 0
) -> TokenVectors:
    """Tokens of any codes, cut into blocks as shards cut them."""
    columns: dict[str, np.ndarray] = {}
    if codec.coded:
        assert codec.centroids is not None
        columns["centroid"] = rng.integers(0, len(codec.centroids), count).astype(np.uint16)
        columns["code"] = rng.integers(0, 256, (count, row_bytes(codec.dim, codec.bits))).astype(np.uint8)
        if codec.kind == "linear":
            columns["scale"] = rng.integers(0, 256, count).astype(np.uint8)
        else:
            columns["inverse_norm"] = rng.uniform(0.5, 2, count).astype(np.float16)
    else:
        columns["vector"] = unit(rng, count, codec.dim).astype(np.float16 if codec.bits == 16 else np.float32)
    blocks = [
        {name: values[at : at + block] for name, values in columns.items()} for at in range(0, count, block)
    ]
    return TokenVectors(codec, blocks, first)


def oracle(query: QueryVectors, tokens: TokenVectors, offsets: np.ndarray) -> np.ndarray:
    """MaxSim by its definition over decoded tokens, in float64."""
    first = int(offsets[0])
    decoded = tokens.read(first, int(offsets[-1])).astype(np.float64)
    similarity = query.vectors.astype(np.float64) @ decoded.T
    return np.array(
        [
            query.weights.astype(np.float64) @ similarity[:, a - first : b - first].max(axis=1)
            if a < b
            else -np.inf
            for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        ]
    )


def prepared(query: QueryVectors, tokens: TokenVectors) -> NativeQuery:
    made = NativeQuery()
    native = tokens.native
    assert native is not None
    made.set(native, query.vectors.astype(np.float64), query.weights)
    return made


def all_scores(
    query: QueryVectors, tokens: TokenVectors, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, slack and exact scores of all passages."""
    native = prepared(query, tokens)
    count = len(offsets) - 1
    scores, slack, exact = (np.empty(count, dtype=np.float32) for _ in range(3))
    assert native.maxsim(offsets, None, scores, slack)
    assert native.exact(offsets, None, query.rounding(), exact)
    return scores, slack + np.float32(query.error_bound()), exact


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind, bits = draw(
        st.sampled_from(
            [
                ("linear", 1),
                ("linear", 2),
                ("linear", 4),
                ("linear", 8),
                ("quantile", 2),
                ("none", 16),
                ("none", 32),
            ]
        )
    )
    codec = random_codec(rng, draw(st.sampled_from(DIMS)), bits, kind)
    lengths = draw(st.lists(st.sampled_from([0, 1, 2, 5, 17, 70, 300]), min_size=1, max_size=9))
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    tokens = random_tokens(rng, codec, int(offsets[-1]), draw(st.sampled_from([1, 3, 64, 1000])))
    rows = draw(st.sampled_from([1, 2, 7, 8, 9, 16, 23, 32, 33, 40, 70]))
    vectors = unit(rng, rows, codec.dim)
    if draw(st.booleans()):  # all similarities negative, and ties
        vectors = -np.abs(vectors)
    weights = np.abs(rng.standard_normal(rows)).astype(np.float32)
    if draw(st.booleans()):
        weights[:] = 1
    return QueryVectors(vectors, weights), tokens, offsets


@given(cases())
@settings(deadline=None, max_examples=150)
def test_scores_are_as_near_to_brute_force_as_they_say(case):
    query, tokens, offsets = case
    expected = oracle(query, tokens, offsets)
    scores, slack, exact = all_scores(query, tokens, offsets)
    filled = np.isfinite(expected)
    assert np.array_equal(scores == -np.inf, ~filled)
    assert np.array_equal(exact == -np.inf, ~filled)
    # A random code is longer than any that a unit vector gets; rounding grows with it.
    long = 1 + (
        tokens.codec.dim * 40 * float(tokens.codec.scales.max()) if tokens.codec.scales is not None else 0
    )
    assert np.all(
        np.abs(scores[filled] - expected[filled]) <= slack[filled] * 1.001 + 1e-6 * long * query.weights.sum()
    )
    np.testing.assert_allclose(exact[filled], expected[filled], rtol=2e-7, atol=1e-7 * query.weights.sum())
    native = prepared(query, tokens)
    closer = np.empty(len(scores), dtype=np.float32)
    assert native.closer_slack(offsets, None, closer)
    assert np.all(closer <= slack + 1e-6)
    error = np.abs(scores[filled] - expected[filled])
    assert np.all(error <= closer[filled] + query.error_bound() + 1e-6 * long * query.weights.sum())


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16, 32])
def test_slack_is_small_for_codes_of_unit_vectors(bits: int):
    from colrank.codec import StreamSample, train_codec

    rng = np.random.default_rng(bits)
    near = unit(rng, 40, 64)
    vectors = near[rng.integers(0, 40, 6000)] + 0.05 * rng.standard_normal((6000, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    codec = whole_vectors(64, bits)
    if bits < 16:
        sample = StreamSample(64, 0)
        sample.add(vectors)
        codec = train_codec(sample, bits=bits)[0]
    tokens = TokenVectors(codec, [codec.encode(vectors)])
    offsets = np.arange(0, 6001, 60).astype(np.int64)
    query = QueryVectors(unit(rng, 32, 64), np.ones(32, dtype=np.float32))
    turned = QueryVectors(query.turned(codec).astype(np.float32), query.weights)
    scores, slack, exact = all_scores(turned, tokens, offsets)
    expected = oracle(turned, tokens, offsets)
    # What a query token loses by eight bits, times a residual: far less than what tells passages apart.
    assert slack.max() < {1: 0.15, 2: 0.2, 4: 0.35, 8: 0.02, 16: 0.002, 32: 0.002}[bits]
    assert np.abs(scores - expected).max() < 0.02
    np.testing.assert_array_equal(exact, expected.astype(np.float32))


@pytest.mark.parametrize("rows", [513, 2048])
def test_very_long_queries(rows: int):
    rng = np.random.default_rng(rows)
    codec = random_codec(rng, 40, 2, "linear")
    tokens = random_tokens(rng, codec, 300, 100)
    offsets = np.array([0, 0, 1, 130, 300], dtype=np.int64)
    query = QueryVectors(unit(rng, rows, 40), np.ones(rows, dtype=np.float32))
    scores, slack, exact = all_scores(query, tokens, offsets)
    expected = oracle(query, tokens, offsets)
    assert np.all(np.abs(scores[1:] - expected[1:]) <= slack[1:] + 1e-3)
    np.testing.assert_allclose(exact[1:], expected[1:], rtol=1e-6)


def test_scores_do_not_depend_on_threads_rows_or_blocks():
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 200, 300)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    for kind, bits in (("linear", 2), ("linear", 8), ("none", 16)):
        codec = random_codec(rng, 64, bits, kind)
        state = rng.bit_generator.state
        whole = random_tokens(rng, codec, int(offsets[-1]), 10**9)
        rng.bit_generator.state = state
        cut = random_tokens(rng, codec, int(offsets[-1]), 77)
        query = QueryVectors(unit(rng, 23, 64), rng.random(23).astype(np.float32))
        found = []
        before = colrank_kernels.threads()
        try:
            for threads in (1, 2, 8):
                colrank_kernels.set_threads(threads)
                found += [all_scores(query, whole, offsets), all_scores(query, cut, offsets)]
        finally:
            colrank_kernels.set_threads(before)
        for other in found[1:]:
            for one, two in zip(found[0], other, strict=True):
                assert np.array_equal(one, two)
        rows = np.flatnonzero(lengths)[::3]
        scores, slack = np.empty(len(rows), dtype=np.float32), np.empty(len(rows), dtype=np.float32)
        assert prepared(query, cut).maxsim(offsets, rows, scores, slack)
        assert np.array_equal(scores, found[0][0][rows])


def test_many_threads_at_once_and_a_forked_process_get_the_same():
    rng = np.random.default_rng(6)
    codec = random_codec(rng, 64, 2, "linear")
    tokens = random_tokens(rng, codec, 4000, 500)
    offsets = np.arange(0, 4001, 40).astype(np.int64)
    queries = [QueryVectors(unit(rng, 8, 64), np.ones(8, dtype=np.float32)) for _ in range(6)]
    expected = [all_scores(query, tokens, offsets)[0] for query in queries]
    wrong: list[int] = []

    def work(at: int) -> None:
        same = [np.array_equal(all_scores(queries[at], tokens, offsets)[0], expected[at]) for _ in range(20)]
        wrong.extend([at] * same.count(False))

    threads = [threading.Thread(target=work, args=(at,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    child = os.fork()
    if child == 0:  # the parent's pool has no threads here
        same = np.array_equal(all_scores(queries[0], tokens, offsets)[0], expected[0])
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_byte_positions_beyond_two_to_the_32_in_a_sparse_file(tmp_path: Path):
    rng = np.random.default_rng(7)
    count, dim = 2**25 + 400, 128  # at one byte a dimension more than 4 GB, of which a few pages are there
    codec = random_codec(rng, dim, 8, "linear")
    few = random_tokens(rng, codec, 400, 400)
    columns = few.columns(0, 400)
    files = {}
    for name, values in columns.items():
        files[name] = np.memmap(
            tmp_path / name, dtype=values.dtype, mode="w+", shape=(count, *values.shape[1:])
        )
        files[name][-400:] = values
    far = TokenVectors(codec, [files])
    near = np.array([0, 1, 140, 400], dtype=np.int64)
    offsets = np.concatenate([[0], near + 2**25]).astype(np.int64)
    query = QueryVectors(unit(rng, 9, dim), np.ones(9, dtype=np.float32))
    expected = all_scores(query, few, near)
    native = prepared(query, far)
    rows = np.arange(1, 4)
    scores, slack, exact = (np.empty(3, dtype=np.float32) for _ in range(3))
    assert native.maxsim(offsets, rows, scores, slack)
    assert native.exact(offsets, rows, query.rounding(), exact)
    assert np.array_equal(scores, expected[0])
    assert np.array_equal(exact, expected[2])


@pytest.mark.parametrize("bits", [2, 8])
def test_damaged_ids_and_offsets_are_refused(bits: int):
    rng = np.random.default_rng(8)
    codec = random_codec(rng, 16, bits, "linear")
    tokens = random_tokens(rng, codec, 50, 20)
    offsets = np.array([0, 10, 30, 50], dtype=np.int64)
    query = QueryVectors(unit(rng, 3, 16), np.ones(3, dtype=np.float32))

    def refused(tokens: TokenVectors, offsets: np.ndarray, rows: np.ndarray | None = None) -> bool:
        native = prepared(query, tokens)
        count = len(offsets) - 1 if rows is None else len(rows)
        one, two = np.empty(count, dtype=np.float32), np.empty(count, dtype=np.float32)
        said = [
            native.maxsim(offsets, rows, one, two),
            native.exact(offsets, rows, 1e-6, one),
            native.centroid_scores(offsets, rows, -1.0, one),
        ]
        assert len(set(said)) == 1
        return not said[0]

    assert not refused(tokens, offsets)
    for wrong in ([0, 10, 30, 51], [0, 10, 5, 50], [-1, 10, 30, 50], [0, 10, 2**40, 50]):
        assert refused(tokens, np.array(wrong, dtype=np.int64))
    assert refused(tokens, offsets, np.array([0, 3]))
    assert refused(tokens, offsets, np.array([-1]))
    tokens._blocks[1]["centroid"] = tokens._blocks[1]["centroid"].copy()
    tokens._blocks[1]["centroid"][4] = 7
    damaged = TokenVectors(codec, tokens._blocks)
    assert refused(damaged, offsets)
    assert not refused(damaged, offsets, np.array([0]))
    lists = NativeLists(2)
    lists.add(np.array([0, 1, 2], dtype=np.int64), np.array([0, 3], dtype=np.uint8), 3)
    codec = random_codec(rng, 16, bits, "linear", centroids=2)
    native = prepared(query, random_tokens(rng, codec, 9, 9))
    probed = np.array([[0, 1]] * 3, dtype=np.int64)
    assert native.listed(lists, probed, None, 5) is None
    with pytest.raises(ValueError, match="no such centroid"):
        native.listed(lists, probed + 1, None, 5)
    with pytest.raises(ValueError, match="offsets do not fit"):
        NativeLists(2).add(np.array([0, 2, 1], dtype=np.int64), np.array([0], dtype=np.uint8), 3)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 3, 8, 33]),
    st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]),
)
@settings(deadline=None, max_examples=40)
def test_lists_give_the_best_by_their_definition(seed: int, rows: int, width: type):
    rng = np.random.default_rng(seed)
    centroids, passages, nprobe = 12, 40, int(rng.integers(1, 12))
    codec = random_codec(rng, 16, 2, "linear", centroids)
    query = QueryVectors(unit(rng, rows, 16), rng.integers(0, 3, rows).astype(np.float32))
    native = prepared(query, random_tokens(rng, codec, 5, 5))
    lists = NativeLists(centroids)
    held: list[set[int]] = [set() for _ in range(passages)]
    for first in (0, 25):  # two segments
        count = 25 if first == 0 else 15
        members = [np.flatnonzero(rng.random(count) < 0.2) for _ in range(centroids)]
        for centroid, some in enumerate(members):
            for passage in some.tolist():
                held[first + passage].add(centroid)
        offsets = np.cumsum([0, *map(len, members)]).astype(np.int64)
        lists.add(offsets, np.concatenate(members).astype(width), count)
    probed = np.empty((rows, nprobe), dtype=np.int64)
    native.probe(probed)
    similarity = query.vectors.astype(np.float64) @ codec.centroids.T.astype(np.float64)
    for token in range(rows):
        best = np.argsort(-similarity[token], kind="stable")[:nprobe]
        np.testing.assert_allclose(similarity[token, probed[token]], similarity[token, best], atol=1e-5)
    allowed = (rng.random(passages) < 0.8).astype(np.uint8)
    looked = query.weights > 0 if query.weights.any() else np.ones(rows, dtype=bool)
    expected = {}
    for passage in np.flatnonzero(allowed).tolist():
        score, listed = 0.0, False
        for token in np.flatnonzero(looked).tolist():
            inside = [similarity[token, c] for c in probed[token].tolist() if c in held[passage]]
            listed |= bool(inside)
            score += float(query.weights[token]) * max(inside, default=similarity[token, probed[token, -1]])
        if listed:
            expected[passage] = score
    found = native.listed(lists, probed, allowed, 10**6)
    assert found.tolist() == sorted(expected)
    wanted = int(rng.integers(0, 20))
    some = native.listed(lists, probed, allowed, wanted).tolist()
    assert len(some) == min(wanted, len(expected))
    left = [expected[passage] for passage in expected if passage not in some]
    assert not some or not left or min(expected[passage] for passage in some) >= max(left) - 1e-4
    # Marks of one query are gone at the next.
    assert native.listed(lists, probed, allowed, 10**6).tolist() == sorted(expected)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 8, 24, 33, 70]))
@settings(deadline=None, max_examples=30)
def test_centroid_scores_are_within_half_a_step(seed: int, rows: int):
    rng = np.random.default_rng(seed)
    codec = random_codec(rng, 24, 2, "linear", 50)
    tokens = random_tokens(rng, codec, 400, 150)
    offsets = np.array([0, 0, 1, 30, 280, 400], dtype=np.int64)
    query = QueryVectors(unit(rng, rows, 24), rng.random(rows).astype(np.float32))
    native = prepared(query, tokens)
    similarity = query.vectors.astype(np.float64) @ codec.centroids.T.astype(np.float64)
    ids = tokens.columns(0, 400, ["centroid"])["centroid"]
    for prune in (-1.0, 0.2):
        scores = np.empty(5, dtype=np.float32)
        assert native.centroid_scores(offsets, None, prune, scores)
        assert scores[0] == -np.inf
        kept = similarity.max(axis=0) >= prune
        for passage in range(1, 5):
            held = [c for c in ids[offsets[passage] : offsets[passage + 1]].tolist() if kept[c]]
            if held:
                expected = query.weights.astype(np.float64) @ similarity[:, held].max(axis=1)
                step = 2 * np.linalg.norm(codec.centroids, axis=1).max() / 255
                floor = -np.linalg.norm(codec.centroids, axis=1).max()
                assert floor * query.weights.sum() < expected
                assert abs(scores[passage] - expected) <= query.weights.sum() * step * 0.51


@given(st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0]), max_size=30), st.integers(0, 35))
def test_largest_is_that_of_numpy(values: list[float], count: int):
    scores = np.array(values, dtype=np.float32)
    native = colrank_kernels._cpu
    said = colrank_kernels.largest(scores, count)
    try:
        colrank_kernels._cpu = None
        assert colrank_kernels.largest(scores, count).tolist() == said.tolist()
    finally:
        colrank_kernels._cpu = native


def test_what_cannot_be_is_refused_in_words():
    with pytest.raises(ValueError, match=r"names 'sse9', which this machine cannot run; it can: .*plain"):
        colrank_kernels.use_variant("sse9")
    with pytest.raises(ValueError, match="threads is 0; it must be at least 1"):
        colrank_kernels.set_threads(0)
    rng = np.random.default_rng(9)
    codec = random_codec(rng, 16, 2, "linear")
    tokens = random_tokens(rng, codec, 5, 5)
    with pytest.raises(ValueError, match="other dimensions"):
        prepared(QueryVectors(unit(rng, 2, 15), np.ones(2, dtype=np.float32)), tokens)
    with pytest.raises(ValueError, match="at least one token"):
        prepared(QueryVectors(unit(rng, 0, 16), np.ones(0, dtype=np.float32)), tokens)
    with pytest.raises(ValueError, match="one id a token"):
        NativeTokens(16, 2, "linear", codec.centroids, codec._byte_levels, codec.scales).add(
            np.zeros(4, dtype=np.uint16), np.zeros((5, 4), dtype=np.uint8), np.zeros(5, dtype=np.uint8)
        )

"""MaxSim as reranker: exact against loops, scores in [0, 1], nothing cut in silence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from checkpoints import DOCUMENT_LENGTH, QUERY_LENGTH, native
from hypothesis import given, settings
from hypothesis import strategies as st

from colrank.config import CascadeConfig, EncoderConfig
from colrank.encoder import load_encoder
from colrank.errors import InputError, ModelError, StageFailed
from colrank.rerankers import late
from colrank.rerankers.base import MAXSIM, Reranker
from colrank.rerankers.late import LateReranker, load_late
from colrank.score import QueryVectors


def unit(rng: np.random.Generator, rows: int, dim: int) -> np.ndarray:
    vectors = rng.standard_normal((rows, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def brute_force(query: QueryVectors, passage: np.ndarray) -> float:
    total = 0.0
    for vector, weight in zip(query.vectors.astype(np.float64), query.weights, strict=True):
        total += float(weight) * max(float(vector @ token) for token in passage.astype(np.float64))
    return total


def of_vectors(query: QueryVectors, passages: list[np.ndarray]) -> LateReranker:
    """A reranker whose texts are numbers of passages."""
    return LateReranker("exact", lambda _: query, lambda texts: [passages[int(text)] for text in texts])


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from([0, 1, 2, 7]), min_size=1, max_size=8),
    st.booleans(),
)
@settings(deadline=None, max_examples=30)
def test_scores_are_those_of_loops(seed, lengths, weighted):
    rng = np.random.default_rng(seed)
    dim, tokens = 16, int(rng.integers(1, 6))
    weights = rng.uniform(0.1, 3, tokens) if weighted else np.ones(tokens)
    query = QueryVectors(unit(rng, tokens, dim), weights.astype(np.float32))
    passages = [unit(rng, length, dim) if length else np.empty((0, dim), np.float32) for length in lengths]
    found = of_vectors(query, passages).score("q", [str(row) for row in range(len(passages))])
    for passage, score, raw in zip(passages, found.scores, found.raw, strict=True):
        if not len(passage):
            assert np.isnan([score, raw]).all()
            continue
        expected = brute_force(query, passage)
        assert raw == np.float32(expected)
        mean = expected / float(query.weights.sum(dtype=np.float64))
        assert score == pytest.approx((1 + mean) / 2, abs=1e-6)
        assert 0 <= score <= 1
    assert found.raw_name == MAXSIM
    assert found.usage.pairs == len(passages)
    assert found.usage.tokens == tokens + sum(lengths)
    assert found.usage.cut == 0


def test_the_ends_of_the_scale():
    query = QueryVectors(np.eye(2, dtype=np.float32), np.ones(2, np.float32))
    same, opposite = np.eye(2, dtype=np.float32), np.full((1, 2), -(0.5**0.5), dtype=np.float32)
    found = of_vectors(query, [same, opposite]).score("q", ["0", "1"])
    assert found.scores == pytest.approx([1, (1 - 0.5**0.5) / 2])
    mute = QueryVectors(query.vectors, np.zeros(2, np.float32))
    assert np.isnan(of_vectors(mute, [same]).score("q", ["0"]).scores).all()


def test_no_texts_ask_no_model():
    def fail(_: object) -> list[np.ndarray]:
        raise AssertionError

    found = LateReranker("exact", fail, fail).score("q", [])
    assert found.scores.shape == (0,)


def test_a_model_that_breaks_fails_the_stage():
    def broken(texts: Sequence[str]) -> list[np.ndarray]:
        raise RuntimeError("out of memory\nmore")

    query = QueryVectors(np.eye(2, dtype=np.float32), np.ones(2, np.float32))
    with pytest.raises(StageFailed, match=r"exact failed while it encoded \(out of memory\)\.$") as raised:
        LateReranker("exact", lambda _: query, broken).score("q", ["a"])
    assert isinstance(raised.value.__cause__, RuntimeError)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return native(tmp_path_factory.mktemp("late") / "model")


TEXTS = ["the sea is cold in winter", "a dog", "la garantía legal dura seis meses."]


def test_another_model_scores_as_its_encoder_does(folder):
    reranker = load_late(str(folder), CascadeConfig())
    assert isinstance(reranker, Reranker)
    assert (reranker.name, reranker.listwise, reranker.steady) == (f"colbert:{folder}", False, True)
    found = reranker.score("how cold is the sea", TEXTS)
    encoder = load_encoder(EncoderConfig(str(folder)))
    encoder.text_budget(None)
    (query,) = encoder.encode_queries(["how cold is the sea"])
    passages = encoder.encode_passages(TEXTS, [len(encoder.token_spans(text)) for text in TEXTS])
    asked = QueryVectors(query.vectors, np.ones(len(query.vectors), np.float32))
    expected = [brute_force(asked, vectors) for vectors, _ in passages]
    np.testing.assert_allclose(found.raw, expected, atol=1e-5)
    assert found.usage.tokens == len(query.vectors) + sum(len(vectors) for vectors, _ in passages)
    assert (found.usage.pairs, found.usage.cut, found.warnings) == (3, 0, ())
    assert found.usage.seconds > 0


def test_it_is_loaded_once_a_process(folder, monkeypatch):
    loads = []
    load = late.load_encoder
    monkeypatch.setattr(late, "_loaded", {})
    monkeypatch.setattr(late, "load_encoder", lambda config: loads.append(config) or load(config))
    for _ in range(3):
        load_late(str(folder), CascadeConfig()).score("sea", ["the sea"])
    assert len(loads) == 1


def test_what_is_too_long_is_counted_or_read_in_windows(folder):
    tail = "the guarantee lasts a year and a day"
    long = "the cold water of the river " * 20
    texts = ["the sea", long, long + tail]
    cut = load_late(str(folder), CascadeConfig()).score("how long lasts the guarantee", texts)
    assert cut.usage.cut == 2
    assert cut.raw[1] == pytest.approx(cut.raw[2], abs=1e-5)
    assert "2 of 3 texts are longer than colbert:" in cut.warnings[0]
    whole = load_late(str(folder), CascadeConfig(rerank="colbert:model", rerank_windows=True))
    read = whole.score("how long lasts the guarantee", texts)
    assert read.usage.cut == 0
    assert read.usage.pairs > 3
    assert not read.warnings
    assert read.raw[0] == pytest.approx(cut.raw[0], abs=1e-5)
    # The words at the end are those of the query: seen, they make the text better.
    assert read.raw[2] > read.raw[1]


def test_a_shorter_limit_is_kept(folder):
    text = "the sea is cold " * 5
    found = load_late(str(folder), CascadeConfig(rerank="colbert:model", rerank_max_length=12)).score(
        "sea", [text]
    )
    assert found.usage.cut == 1
    assert load_late(str(folder), CascadeConfig()).score("sea", [text]).usage.cut == 0
    assert DOCUMENT_LENGTH > 20


def test_a_query_that_is_too_long_is_said(folder):
    found = load_late(str(folder), CascadeConfig()).score("the sea is cold " * 10, ["the sea"])
    assert len(found.warnings) == 1
    assert f"reads at most {QUERY_LENGTH}" in found.warnings[0]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            CascadeConfig(rerank="colbert:model", rerank_max_length=5000),
            "rerank_max_length is 5000, but colbert:.* reads at most",
        ),
        (CascadeConfig(rerank="colbert:model", rerank_max_length=3), "rerank_max_length is 3, which leaves"),
        (CascadeConfig(rerank="colbert:model", rerank_backend="onnx"), "backend torch, not onnx"),
        (CascadeConfig(rerank="colbert:model", rerank_url="http://localhost"), "no use for rerank_url"),
        (
            CascadeConfig(rerank="colbert:model", rerank_instruction="prefer new ones"),
            "no use for rerank_instruction",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(folder, config, sentence):
    with pytest.raises(InputError, match=sentence):
        load_late(str(folder), config)


def test_bad_queries_and_models_are_said(folder, tmp_path):
    with pytest.raises(InputError, match="query is empty"):
        load_late(str(folder), CascadeConfig()).score(" ", ["the sea"])
    with pytest.raises(ModelError, match="no model folder"):
        load_late(str(tmp_path / "nowhere"), CascadeConfig())

"""Cross-encoders: one sigmoid, no dependence on the batch, nothing cut in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import ENGLISH, POSITIONS
from cross_encoders import LONG, QUERY, TEXTS, cross_encoder, pairs_of, reference, reranker
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import CrossEncoder

from colrank.encoder.encoder import length_batches
from colrank.errors import InputError, StageFailed
from colrank.rerankers import cross_encoder as module
from colrank.rerankers import pair_model
from colrank.rerankers.base import LOGIT, Reranker, sigmoid
from colrank.rerankers.cross_encoder import BATCH_PAIRS, BATCH_TOKENS
from colrank.rerankers.windows import windows

WORDS = ENGLISH.split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cross_encoder(tmp_path_factory.mktemp("cross") / "plain")


def test_scores_are_the_sigmoid_of_the_library_s_logits(folder):
    made = reranker(folder)
    assert isinstance(made, Reranker)
    assert (made.name, made.listwise, made.steady) == (f"hf:{folder}", False, True)
    found = made.score(QUERY, TEXTS)
    expected = reference(folder, TEXTS)
    assert np.ptp(expected) > 0.2
    np.testing.assert_allclose(found.raw, expected, atol=1e-5)
    np.testing.assert_allclose(found.scores, 1 / (1 + np.exp(-expected)), atol=1e-6)
    assert found.raw_name == LOGIT
    lengths = [len(ids) for ids in pairs_of(folder, TEXTS)]
    assert (found.usage.pairs, found.usage.tokens) == (len(TEXTS), sum(lengths))
    assert (found.usage.cut, found.warnings) == (0, ())
    assert found.usage.seconds > 0


@pytest.mark.parametrize("activation", ["linear.Identity", "activation.Sigmoid"])
def test_the_checkpoint_s_activation_changes_nothing(folder, tmp_path, activation):
    other = cross_encoder(tmp_path / "other", activation=f"torch.nn.modules.{activation}")
    model: Any = CrossEncoder(str(other), device="cpu")
    assert type(model.activation_fn).__name__ == activation.partition(".")[2]
    expected = reranker(folder).score(QUERY, TEXTS)
    found = reranker(other).score(QUERY, TEXTS)
    np.testing.assert_array_equal(found.scores, expected.scores)
    np.testing.assert_array_equal(found.raw, expected.raw)


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=60), min_size=1, max_size=6), st.data())
@settings(deadline=None, max_examples=6)
def test_a_score_does_not_depend_on_its_company(folder, lists, data):
    texts = [" ".join(words) for words in lists]
    made = reranker(folder)
    together = made.score(QUERY, texts)
    order = data.draw(st.permutations(range(len(texts))))
    turned = made.score(QUERY, [texts[row] for row in order])
    np.testing.assert_allclose(turned.scores, together.scores[list(order)], atol=1e-5)
    alone = np.array([made.score(QUERY, [text]).scores[0] for text in texts])
    np.testing.assert_allclose(alone, together.scores, atol=1e-5)


@given(st.lists(st.integers(1, 512), max_size=60), st.integers(1, 4096), st.integers(1, 40))
def test_batches_hold_each_pair_once_within_their_bounds(lengths, tokens, pairs):
    found = list(length_batches(lengths, tokens, pairs))
    assert sorted(row for batch in found for row in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) <= pairs
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= tokens
    flat = [lengths[row] for batch in found for row in batch]
    assert flat == sorted(lengths, reverse=True)


def test_batches_by_length_pad_little():
    """Padded tokens are what a batch costs; in one batch as they come they are more than twice as many."""
    rng = np.random.default_rng(0)
    lengths = np.clip(np.exp(rng.normal(4.7, 0.8, 50)), 16, 512).astype(int).tolist()
    padded = sum(
        len(rows) * max(lengths[row] for row in rows)
        for rows in length_batches(lengths, BATCH_TOKENS, BATCH_PAIRS)
    )
    assert padded < 1.25 * sum(lengths)
    assert len(lengths) * max(lengths) > 2 * padded


def test_half_precision_stays_near(folder):
    exact = reranker(folder).score(QUERY, TEXTS)
    rough = reranker(folder, rerank_dtype="bfloat16").score(QUERY, TEXTS)
    assert 0 < np.abs(rough.scores - exact.scores).max() < 0.1


def test_texts_that_are_cut_are_counted(folder):
    made = reranker(folder)
    texts = [*TEXTS, LONG, LONG + "seis meses"]
    found = made.score(QUERY, texts)
    lengths = [len(ids) for ids in pairs_of(folder, texts)]
    assert found.usage.cut == sum(length > POSITIONS for length in lengths) == 2
    assert found.usage.tokens == sum(min(length, POSITIONS) for length in lengths)
    assert found.raw[-1] == pytest.approx(found.raw[-2], abs=1e-5)
    np.testing.assert_allclose(found.raw, reference(folder, texts), atol=1e-5)
    (told,) = found.warnings
    assert told.startswith(f"2 of 7 texts are longer than the {POSITIONS} tokens that hf:")
    assert "--rerank-windows" in told


def test_a_shorter_limit_is_counted_exactly(folder):
    texts = ["the sea " * count for count in range(12)]
    found = reranker(folder, rerank_max_length=20).score("sea", texts)
    lengths = [len(ids) for ids in pairs_of(folder, texts, "sea")]
    assert found.usage.cut == sum(length > 20 for length in lengths)
    assert 0 < found.usage.cut < len(texts)
    assert found.usage.tokens == sum(min(length, 20) for length in lengths)


def test_it_is_the_text_that_loses_its_end(folder):
    """The library alone would take the tokens off the longer side, here the query."""
    query = "the guarantee lasts " * 25
    text = "sea river winter"
    found = reranker(folder).score(query, [text, "sea " * 60])
    room = POSITIONS - len(pairs_of(folder, [""], query)[0])
    assert 3 < room < 60
    assert found.usage.cut == 1
    np.testing.assert_allclose(found.raw, reference(folder, [text, "sea " * room], query), atol=1e-5)


def test_a_query_that_leaves_no_room_is_refused(folder):
    query = "the guarantee lasts " * 60
    with pytest.raises(InputError, match=r"query takes 183 of the 96 tokens .* no room .* shorten it\.$"):
        reranker(folder).score(query, TEXTS)
    with pytest.raises(InputError, match="shorten it, or raise rerank_max_length"):
        reranker(folder, rerank_max_length=8).score(QUERY, TEXTS)


def test_a_limit_above_the_model_s_own_is_refused(folder):
    with pytest.raises(InputError, match=f"is 97, but hf:.* reads at most {POSITIONS} tokens"):
        reranker(folder, rerank_max_length=POSITIONS + 1).score(QUERY, TEXTS)
    assert reranker(folder, rerank_max_length=POSITIONS).score(QUERY, TEXTS).usage.cut == 0


def test_windows_give_the_best_of_their_scores(folder):
    texts = [*TEXTS, LONG + "the legal guarantee lasts six months", LONG]
    found = reranker(folder, rerank_windows=True).score(QUERY, texts)
    plain = reranker(folder).score(QUERY, texts)
    np.testing.assert_allclose(found.raw[:5], plain.raw[:5], atol=1e-5)
    model = pair_model.load_pair_model(str(folder), "cpu", "float32", "torch")
    room = POSITIONS - len(pairs_of(folder, [""])[0])
    number = len(TEXTS)
    for row in (5, 6):
        spans = model.spans(texts[row])
        parts = [texts[row][start:end] for start, end in windows(texts[row], spans, room, room // 4)]
        number += len(parts)
        assert len(parts) > 2
        assert "".join(parts[-1][-8:]) == texts[row][-8:]
        assert found.raw[row] == pytest.approx(reference(folder, parts).max(), abs=1e-5)
    assert found.raw[5] != pytest.approx(found.raw[6], abs=1e-4)
    assert (found.usage.pairs, found.usage.cut, found.warnings) == (number, 0, ())
    np.testing.assert_array_equal(found.scores, sigmoid(found.raw))


def test_windows_fit_where_a_word_cut_in_two_is_spelled_anew(folder):
    """Inside a word the tokenizer writes ##x; alone the same letters are one token or several."""
    text = " ".join(["guaranteelastsmonthszzz" * 3] * 12)
    found = reranker(folder, rerank_windows=True, rerank_max_length=24).score("sea", [text])
    assert (found.usage.cut, found.warnings) == (0, ())
    assert found.usage.pairs > 5
    assert found.usage.tokens <= 24 * found.usage.pairs


def test_windows_need_some_room(folder):
    limit = len(pairs_of(folder, [""])[0]) + 5
    with pytest.raises(InputError, match="no room"):
        reranker(folder, rerank_windows=True, rerank_max_length=limit).score(QUERY, [LONG])


def test_no_texts_load_no_model(folder, monkeypatch):
    monkeypatch.setattr(module, "load_pair_model", None)
    found = reranker(folder).score(QUERY, [])
    assert found.scores.shape == found.raw.shape == (0,)
    assert (found.usage.pairs, found.usage.tokens, found.usage.cut) == (0, 0, 0)


def test_a_model_that_breaks_fails_the_stage(folder, monkeypatch):
    made = reranker(folder)

    def broken(self: Any, pairs: Any, rows: Any) -> Any:
        raise RuntimeError("out of memory\nand a trace")

    monkeypatch.setattr(pair_model.PairModel, "logits", broken)
    with pytest.raises(StageFailed, match=r"failed while it scored \(out of memory\)\.$") as raised:
        made.score(QUERY, TEXTS)
    assert isinstance(raised.value.__cause__, RuntimeError)
    assert not made.load().lock.locked()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_fail_the_stage(folder, monkeypatch, value):
    monkeypatch.setattr(
        pair_model.PairModel, "logits", lambda self, pairs, rows: (np.full(len(rows), value), 0.0)
    )
    with pytest.raises(StageFailed, match="not finite numbers; try rerank_dtype float32"):
        reranker(folder).score(QUERY, TEXTS)


def test_options_that_do_not_fit_are_refused(folder):
    with pytest.raises(InputError, match="leave rerank_url out"):
        reranker(folder, rerank_url="http://localhost")
    with pytest.raises(InputError, match="takes no instruction in words"):
        reranker(folder, rerank_instruction="prefer new documents").score(QUERY, TEXTS)
    with pytest.raises(InputError, match="no device 'toaster'"):
        reranker(folder, rerank_device="toaster").score(QUERY, TEXTS)

"""Cross-encoders: one sigmoid, no dependence on the batch, nothing cut or made up in silence."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import ENGLISH, POSITIONS, bare_transformer, sentence_transformer, stanford
from cross_encoders import CHAT_POSITIONS, chat_reranker, cross_encoder, edit, modular
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import CrossEncoder

from colrank.config import CascadeConfig
from colrank.errors import InputError, MissingExtra, ModelError, StageFailed
from colrank.rerankers import cross_encoder as module
from colrank.rerankers import pair_model
from colrank.rerankers.base import LOGIT, Reranker, sigmoid
from colrank.rerankers.cross_encoder import CrossEncoderReranker, batches
from colrank.rerankers.windows import windows

QUERY = "how long lasts the guarantee"
TEXTS = [
    "the legal guarantee lasts six months",
    "",
    "la garantía legal dura seis meses, en el mar frío del invierno",
    "the sea is cold",
    "zebra!",
]
LONG = "the cold water of the river in winter " * 30
WORDS = ENGLISH.split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cross_encoder(tmp_path_factory.mktemp("cross") / "plain")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_reranker(tmp_path_factory.mktemp("cross") / "chat")


def reranker(folder: Path, **options: Any) -> CrossEncoderReranker:
    return CrossEncoderReranker(str(folder), CascadeConfig(**options))


def reference(folder: Path, texts: list[str], query: str = QUERY) -> np.ndarray:
    """The library's own logits, in one batch."""
    model: Any = CrossEncoder(str(folder), device="cpu")
    pairs = [(query, text) for text in texts]
    logits = model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
    return np.asarray(logits, dtype=np.float64)


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


def pairs_of(folder: Path, texts: list[str], query: str = QUERY) -> list[list[int]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer([query] * len(texts), texts, truncation=False, verbose=False)["input_ids"]


@pytest.mark.parametrize("activation", ["linear.Identity", "activation.Sigmoid"])
def test_the_checkpoint_s_activation_changes_nothing(folder, tmp_path, activation):
    other = cross_encoder(tmp_path / "other", activation=f"torch.nn.modules.{activation}")
    model: Any = CrossEncoder(str(other), device="cpu")
    assert type(model.activation_fn).__name__ == activation.partition(".")[2]
    expected = reranker(folder).score(QUERY, TEXTS)
    found = reranker(other).score(QUERY, TEXTS)
    np.testing.assert_array_equal(found.scores, expected.scores)
    np.testing.assert_array_equal(found.raw, expected.raw)


def test_an_activation_inside_the_head_is_taken_off(tmp_path):
    plain = modular(tmp_path / "plain", activation="Identity")
    squeezed = modular(tmp_path / "squeezed", activation="Sigmoid")
    expected = reference(plain, TEXTS)
    np.testing.assert_allclose(reference(squeezed, TEXTS), sigmoid(expected), atol=1e-6)
    for folder in (plain, squeezed):
        np.testing.assert_allclose(reranker(folder).score(QUERY, TEXTS).raw, expected, atol=1e-5)


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=60), min_size=1, max_size=8), st.data())
@settings(deadline=None, max_examples=10)
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
    found = list(batches(lengths, tokens, pairs))
    assert sorted(row for batch in found for row in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) <= pairs
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= tokens
    flat = [lengths[row] for batch in found for row in batch]
    assert flat == sorted(lengths, reverse=True)


def test_half_precision_stays_near(folder):
    exact = reranker(folder).score(QUERY, TEXTS)
    rough = reranker(folder, rerank_dtype="bfloat16").score(QUERY, TEXTS)
    assert 0 < np.abs(rough.scores - exact.scores).max() < 0.1


def test_two_labels_become_log_odds(tmp_path):
    folder = cross_encoder(tmp_path / "two", labels=2)
    logits = reference(folder, TEXTS)
    found = reranker(folder).score(QUERY, TEXTS)
    np.testing.assert_allclose(found.raw, logits[:, 1] - logits[:, 0], atol=1e-5)
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.scores, softmax[:, 1], atol=1e-6)
    assert found.warnings == (
        f"The reranker {folder} tells two labels apart; label 1 (LABEL_1) is taken as the relevant one.",
    )


@pytest.mark.parametrize(
    ("names", "relevant"),
    [
        (("relevant", "not relevant"), 0),
        (("Yes", "other"), 0),
        (("other", "irrelevant"), 0),
        (("irrelevant", "relevant"), 1),
        (("true", "yes"), 1),
        (("apple", "pear"), 1),
    ],
)
def test_names_may_say_that_the_first_of_two_labels_is_relevant(tmp_path, names, relevant):
    folder = cross_encoder(tmp_path / "two", names=dict(enumerate(names)))
    logits = reference(folder, TEXTS)
    found = reranker(folder).score(QUERY, TEXTS)
    np.testing.assert_allclose(found.raw, logits[:, relevant] - logits[:, 1 - relevant], atol=1e-5)
    assert f"label {relevant} ({names[relevant]})" in found.warnings[0]


def test_three_labels_are_refused(tmp_path):
    names = {0: "contradiction", 1: "entailment", 2: "neutral"}
    folder = cross_encoder(tmp_path / "nli", names=names)
    with pytest.raises(ModelError, match=r"3 labels apart \(contradiction, entailment, neutral\).*name a"):
        reranker(folder).score(QUERY, TEXTS)


@pytest.mark.parametrize("make", [bare_transformer, sentence_transformer, stanford])
def test_a_model_without_a_head_is_refused(tmp_path, make):
    folder = make(tmp_path / "encoder")
    with pytest.raises(ModelError, match=r"lacks classifier\.\w+, without which a score is a random number"):
        reranker(folder).score(QUERY, TEXTS)


def test_a_pooler_that_is_missing_is_refused_too(folder, tmp_path):
    from safetensors.torch import load_file, save_file

    other = cross_encoder(tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "pooler" not in name}
    assert len(kept) < len(weights)
    save_file(kept, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks bert\.pooler"):
        reranker(other).score(QUERY, TEXTS)


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


def test_positions_that_padding_takes_do_not_count(folder, tmp_path):
    other = cross_encoder(tmp_path / "other")
    edit(other / "tokenizer_config.json", model_max_length=10**30)
    model = pair_model.load_pair_model(str(other), "cpu", "float32", "torch")
    assert model.most_tokens == POSITIONS

    class Roberta:
        model_type = "xlm-roberta"
        max_position_embeddings = 514

    class Tokenizer:
        model_max_length = 514

    assert pair_model._most_tokens(Roberta, Tokenizer) == 512


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


def test_a_model_is_loaded_once_a_process(folder, monkeypatch):
    made = []
    load = pair_model._load
    monkeypatch.setattr(pair_model, "_loaded", {})
    monkeypatch.setattr(pair_model, "_load", lambda *key: made.append(key) or load(*key))
    for _ in range(2):
        for options in ({}, {"rerank_windows": True}, {"rerank_device": "cpu"}):
            reranker(folder, **options).score(QUERY, TEXTS)
    reranker(folder / ".." / folder.name).score(QUERY, TEXTS)
    assert len(made) == 1
    reranker(folder, rerank_dtype="bfloat16").score(QUERY, TEXTS)
    assert len(made) == 2


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


def test_models_that_cannot_be_loaded_are_said_in_one_sentence(folder, tmp_path):
    for name in (str(tmp_path / "nowhere"), "./nowhere", "~/nowhere", "a/b/c", " "):
        with pytest.raises(ModelError, match="There is no model folder"):
            CrossEncoderReranker(name, CascadeConfig())
    with pytest.raises(ModelError, match="Cannot load the cross-encoder 'no-such/model'") as raised:
        CrossEncoderReranker("no-such/model", CascadeConfig()).score(QUERY, TEXTS)
    assert "\n" not in str(raised.value)
    damaged = cross_encoder(tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"Cannot load the cross-encoder .*; give the folder of"):
        reranker(damaged).score(QUERY, TEXTS)


def test_options_that_do_not_fit_are_refused(folder):
    with pytest.raises(InputError, match="leave rerank_url out"):
        reranker(folder, rerank_url="http://localhost")
    with pytest.raises(InputError, match="takes no instruction in words"):
        reranker(folder, rerank_instruction="prefer new documents").score(QUERY, TEXTS)
    with pytest.raises(InputError, match="no device 'toaster'"):
        reranker(folder, rerank_device="toaster").score(QUERY, TEXTS)


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_a_backend_that_is_not_installed_is_said(folder, monkeypatch, backend):
    def importing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(pair_model.importlib, "import_module", importing)
    with pytest.raises(MissingExtra, match=rf"pip install 'sentence-transformers\[{backend}\]'"):
        reranker(folder, rerank_backend=backend)
    monkeypatch.setattr(pair_model.importlib, "import_module", lambda name: builtins)
    with pytest.raises(InputError, match="rerank_dtype is bfloat16"):
        reranker(folder, rerank_backend=backend, rerank_dtype="bfloat16")


def test_a_causal_model_scores_yes_against_no(chat):
    found = reranker(chat).score(QUERY, TEXTS)
    np.testing.assert_allclose(found.raw, reference(chat, TEXTS), atol=1e-4)
    told = reranker(chat, rerank_instruction="the sea is cold").score(QUERY, TEXTS)
    assert told.usage.tokens > found.usage.tokens
    assert np.abs(told.raw - found.raw).max() > 1e-3
    alone = [reranker(chat).score(QUERY, [text]).scores[0] for text in TEXTS]
    np.testing.assert_allclose(alone, found.scores, atol=1e-5)


def test_a_chat_keeps_its_query_and_its_end(chat):
    found = reranker(chat).score(QUERY, ["the sea", LONG])
    assert found.usage.cut == 1
    model = pair_model.load_pair_model(str(chat), "cpu", "float32", "torch")
    assert model.most_tokens == CHAT_POSITIONS
    room = CHAT_POSITIONS - model.pairs(QUERY, [""]).lengths[0]
    kept = LONG[: model.spans(LONG)[room - 1].end]
    np.testing.assert_allclose(found.raw, reference(chat, ["the sea", kept]), atol=1e-4)
    read = reranker(chat, rerank_windows=True).score(QUERY, ["the sea", LONG])
    assert (read.usage.cut, read.warnings) == (0, ())
    assert read.usage.pairs > 3


def test_a_template_without_a_query_is_refused(tmp_path):
    folder = chat_reranker(tmp_path / "chat", template="{{ messages | length }}")
    with pytest.raises(ModelError, match=r"Cannot load the cross-encoder .*chat template"):
        reranker(folder).score(QUERY, TEXTS)


def test_importing_loads_no_torch():
    code = (
        "import sys, colrank.rerankers.cross_encoder, colrank.rerankers.late, colrank.rerankers.languages; "
        "import json; print(json.dumps([name for name in ('torch', 'sentence_transformers', 'transformers') "
        "if name in sys.modules]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == []

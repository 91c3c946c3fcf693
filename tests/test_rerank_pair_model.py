"""How cross-encoders are loaded: once, with their own head, or refused in one sentence."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import POSITIONS, bare_transformer, sentence_transformer, stanford
from cross_encoders import (
    CHAT_POSITIONS,
    LONG,
    QUERY,
    TEXTS,
    chat_reranker,
    cross_encoder,
    edit,
    modular,
    reference,
    reranker,
)

from colrank.config import CascadeConfig
from colrank.errors import InputError, MissingExtra, ModelError
from colrank.rerankers import pair_model
from colrank.rerankers.base import sigmoid
from colrank.rerankers.cross_encoder import CrossEncoderReranker


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cross_encoder(tmp_path_factory.mktemp("cross") / "plain")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_reranker(tmp_path_factory.mktemp("cross") / "chat")


def test_an_activation_inside_the_head_is_taken_off(tmp_path):
    plain = modular(tmp_path / "plain", activation="Identity")
    squeezed = modular(tmp_path / "squeezed", activation="Sigmoid")
    expected = reference(plain, TEXTS)
    np.testing.assert_allclose(reference(squeezed, TEXTS), sigmoid(expected), atol=1e-6)
    for folder in (plain, squeezed):
        np.testing.assert_allclose(reranker(folder).score(QUERY, TEXTS).raw, expected, atol=1e-5)


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

    assert pair_model.most_tokens(Roberta, Tokenizer) == 512


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


def test_importing_loads_no_torch():
    code = (
        "import sys, colrank.rerankers.cross_encoder, colrank.rerankers.late, colrank.rerankers.languages; "
        "import json; print(json.dumps([name for name in ('torch', 'sentence_transformers', 'transformers') "
        "if name in sys.modules]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == []

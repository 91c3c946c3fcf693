"""The list of models that read few languages: right values, and silence elsewhere."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from colrank.rerankers.languages import _known, language_warning, languages_read

SPANISH = {"es": 900, "en": 100}


def test_spanish_text_and_the_embedded_model():
    told = language_warning("embedded", SPANISH, "encoder")
    assert told == (
        "The encoder embedded reads English only, and 90% of the text is in Spanish, where it does worse "
        "without any error; name a multilingual one, such as jinaai/jina-colbert-v2, "
        "LiquidAI/LFM2-ColBERT-350M, lightonai/mLateOn."
    )


def test_a_reranker_of_two_languages_names_both():
    told = language_warning("BAAI/bge-reranker-base", SPANISH, "reranker")
    assert told is not None
    assert "reads English and Chinese only" in told
    assert "hf:BAAI/bge-reranker-v2-m3" in told
    assert language_warning("BAAI/bge-reranker-base", {"zh": 5, "en": 1}, "reranker") is None


@pytest.mark.parametrize(
    "model",
    [
        "embedded",
        "all-MiniLM-L6-v2 (embedded)",
        "sentence-transformers/all-MiniLM-L6-v2",
        "colbert-ir/colbertv2.0",
        "answerdotai/answerai-colbert-small-v1",
        "lightonai/GTE-ModernColBERT-v1",
        "cross-encoder/ms-marco-MiniLM-L6-v2",
        "cross-encoder/ms-marco-MiniLM-L-12-v2",
        "ms-marco-TinyBERT-L2-v2",
        "/srv/models/ms-marco-electra-base/",
        "mixedbread-ai/mxbai-rerank-large-v1",
        "jinaai/jina-reranker-v1-turbo-en",
        "rerank-english-v3.0",
    ],
)
def test_models_that_read_english_only(model):
    assert languages_read(model) == ("en",)
    assert language_warning(model, ["es"], "reranker") is not None
    assert language_warning(model, ["en"], "reranker") is None


@pytest.mark.parametrize(
    "model",
    [
        "BAAI/bge-reranker-v2-m3",
        "cross-encoder/mmarco-mMiniLMv2-L12-H384-v1",
        "mixedbread-ai/mxbai-rerank-base-v2",
        "jina-reranker-v2-base-multilingual",
        "Qwen/Qwen3-Reranker-0.6B",
        "rerank-v3.5",
        "rerank-multilingual-v3.0",
        "rerank-2.5",
        "jinaai/jina-colbert-v2",
        "somebody/ms-marco-MiniLM-L6-v2-spanish",
        "never-heard-of",
        "",
    ],
)
def test_other_models_are_not_warned_of(model):
    assert language_warning(model, SPANISH, "reranker") is None


@pytest.mark.parametrize(
    ("languages", "warned"),
    [
        ({"en": 95, "es": 5}, False),
        ({"en": 90, "es": 10}, True),
        ({"en": 85, "es": 5, "pt": 5, "fr": 5}, False),  # no language of its own, as wrong guesses have
        ({"und": 900, "en": 95, "es": 5}, False),
        ({"und": 900, "en": 60, "es": 40}, True),
        ({"und": 10}, False),
        ({}, False),
        (["en", "es"], True),
        (["en"] * 19 + ["es"], False),
    ],
)
def test_the_share_decides(languages, warned):
    assert (language_warning("embedded", languages, "encoder") is not None) == warned


def test_only_models_that_read_the_language_are_named():
    told = language_warning("embedded", {"eu": 1}, "encoder")
    assert told is not None
    assert "Basque" in told
    assert told.endswith("such as jinaai/jina-colbert-v2.")
    assert "the language 'xx'" in (language_warning("embedded", {"xx": 1}, "encoder") or "")


def test_the_list_holds_together():
    known = _known()
    patterns = [pattern for pattern, _ in known.patterns]
    assert len(patterns) == len(set(patterns))
    assert all(pattern == pattern.lower() for pattern in patterns)
    assert all(code in known.names for _, reads in known.patterns for code in reads)
    for choice in known.choices:
        assert choice.role in ("encoder", "reranker")
        assert languages_read(choice.name.partition(":")[2] or choice.name) is None
        assert not any(fnmatchcase(choice.name.lower(), pattern) for pattern in patterns)
    for role in ("encoder", "reranker"):
        assert sum(choice.role == role for choice in known.choices) >= 2

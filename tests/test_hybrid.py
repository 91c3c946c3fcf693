"""BM25 beside MaxSim: its formula, its stems, fusion by definition, and that updates equal a fresh build."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from colrank import ColRank
from colrank.errors import InputError
from colrank.fusion import RANK_CONSTANT, fused
from colrank.lexical import passage_terms, query_terms
from colrank.lexical.bm25 import K1, B
from colrank.types import Hit

TEXTS = {
    "a": "La garantía del teléfono dura seis meses desde el día de la compra, con su factura.",
    "b": "Las garantías de los árboles del jardín no cubren las heladas del invierno en España.",
    "c": "The guarantee of the telephone lasts six months, counted from the day of the purchase.",
    "d": "Trees in the garden are not covered by any guarantee against the frost of the winter.",
    "e": "Cada año se revisan los precios de los teléfonos y de sus baterías en la tienda.",
    "f": "The compressor code is XJ-4711, and the fan is ordered by the code ZQ-0815 alone.",
}


def made(folder: Path, texts: dict[str, str], name: str = "index") -> ColRank:
    index = ColRank.create(folder / name, hybrid=True, bits=16)
    index.add([{"id": key, "text": text} for key, text in texts.items()])
    return index


def hit(document: str, score: float, place: int = 0) -> Hit:
    return Hit(f"{document}#{place}", document, score, {"s": score}, "", "", place, place + 1, "", {})


def answers(index: ColRank, query: str, **options: object) -> list[tuple[str, float, dict[str, float]]]:
    return [(h.id, h.score, dict(h.scores)) for h in index.search(query, 10, **options)]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("document", "query", "language"),
    [
        ("garantía", "garantias", "es"),
        ("garantías", "garantía", "es"),
        ("canción", "canciones", "es"),
        ("España", "espana", "es"),
        ("niño", "NIÑOS", "es"),
        ("¿cuánto?", "cuanto", "es"),
        ("guarantees", "guarantee", "en"),
        ("café", "cafe", "en"),
    ],
)
def test_a_word_is_found_by_its_other_forms(document: str, query: str, language: str) -> None:
    terms = passage_terms(document, language)[0]
    (forms,) = query_terms(query, [language])
    assert set(terms) & set(forms)


def test_a_tilde_that_is_asked_for_must_be_there() -> None:
    (forms,) = query_terms("año", ["es"])
    assert not set(passage_terms("ano", "es")[0]) & set(forms)


def test_a_script_without_spaces_is_cut_into_pairs() -> None:
    assert passage_terms("保修期限", "zh") == (Counter({"保修": 1, "修期": 1, "期限": 1}), 3)


def test_scores_are_those_of_the_formula(tmp_path: Path) -> None:
    index = made(tmp_path, TEXTS)
    index.delete("d")
    found = {
        h.document: h.scores["bm25"]
        for h in index.search("the code guarantee", 10, hybrid=True)
        if "bm25" in h.scores
    }
    live = {key: text for key, text in TEXTS.items() if key != "d"}
    language = {key: "es" if key in "abe" else "en" for key in TEXTS}
    bags = {key: passage_terms(text, language[key]) for key, text in live.items()}
    mean = sum(words for _, words in bags.values()) / len(bags)
    expected: dict[str, float] = {}
    for forms in query_terms("the code guarantee", ["en", "es"]):
        counts = {key: sum(terms[form] for form in forms) for key, (terms, _) in bags.items()}
        holding = sum(count > 0 for count in counts.values())
        idf = math.log(1 + (len(bags) - holding + 0.5) / (holding + 0.5))
        for key, count in counts.items():
            if count:
                norm = K1 * (1 - B + B * bags[key][1] / mean)
                expected[key] = expected.get(key, 0) + idf * count * (K1 + 1) / (count + norm)
    assert found == pytest.approx(expected, rel=1e-6)
    assert set(found) == {"c", "f"}


def test_a_code_that_the_encoder_does_not_know_is_found(tmp_path: Path) -> None:
    index = made(tmp_path, TEXTS)
    hits = index.search("zq 0815", 3, hybrid=True)
    assert hits[0].document == "f"
    assert hits.timings.keys() >= {"bm25", "fuse"}


def test_reciprocal_rank_by_its_definition() -> None:
    one, two = [hit("x", 9.0), hit("y", 8.0)], [hit("y", 3.0), hit("z", 2.0)]
    found = fused([(one, 1.0), (two, 0.5)], 10, "passage", "rrf")
    place = RANK_CONSTANT
    assert {h.document: h.score for h in found} == pytest.approx(
        {"x": 1 / (place + 1), "y": 1 / (place + 2) + 0.5 / (place + 1), "z": 0.5 / (place + 2)}
    )
    assert [h.document for h in found] == ["y", "x", "z"]


def test_scores_are_moved_to_one_scale() -> None:
    one, two = [hit("x", 9.0), hit("y", 7.0), hit("w", 5.0)], [hit("y", 3.0)]
    found = fused([(one, 1.0), (two, 2.0)], 10, "passage", "score")
    assert [(h.document, h.score) for h in found] == [("y", 2.5), ("x", 1.0), ("w", 0.0)]


def test_equal_ones_stand_by_document_and_place() -> None:
    found = fused([([hit("b", 1.0)], 1.0), ([hit("a", 1.0, 5)], 1.0)], 10, "passage", "rrf")
    assert [h.id for h in found] == ["a#5", "b#0"]


def test_a_document_is_one_in_both_branches() -> None:
    found = fused([([hit("a", 1.0, 0)], 1.0), ([hit("a", 4.0, 7)], 1.0)], 10, "document", "rrf")
    assert [(h.id, h.score) for h in found] == [("a#0", 2 / (RANK_CONSTANT + 1))]


@pytest.mark.parametrize(
    "options", [{"hybrid": True}, {"retrieve": "bm25"}, {"hybrid": True, "by": "document"}]
)
def test_updates_equal_a_fresh_build(tmp_path: Path, options: dict[str, object]) -> None:
    grown = made(tmp_path, dict(list(TEXTS.items())[:3]), "grown")
    grown.add([{"id": "b", "text": "Otra cosa, sin garantía alguna."}, {"id": "d", "text": TEXTS["d"]}])
    grown.add([{"id": key, "text": TEXTS[key]} for key in "ef"])
    grown.add([{"id": "b", "text": TEXTS["b"]}, {"id": "x", "text": "Esto se borra: garantía, code, año."}])
    grown.delete("x")
    fresh = made(tmp_path, TEXTS, "fresh")
    queries = ["garantía del teléfono", "the guarantee", "code", "años", "espana", "nada de esto: qwxz"]

    def same() -> None:
        for query in queries:
            ours, theirs = answers(grown, query, **options), answers(fresh, query, **options)
            assert [name for name, _, _ in ours] == [name for name, _, _ in theirs]
            for (_, _, left), (_, _, right) in zip(ours, theirs, strict=True):
                # Words are counted; vectors that were encoded beside others differ in their last bits.
                assert left.get("bm25") == right.get("bm25")
                assert left == pytest.approx(right, abs=1e-5)

    same()
    grown.compact()
    same()
    assert not grown.verify().faults


def test_words_are_added_to_an_index_without_them(tmp_path: Path) -> None:
    index = ColRank.create(tmp_path / "plain", bits=16)
    index.add([{"id": key, "text": text} for key, text in TEXTS.items()])
    with pytest.raises(InputError, match="keeps no words for BM25; colrank compact --hybrid"):
        index.search("code", hybrid=True)
    assert index.stats()["bytes"]["words"] == 0
    index.compact(hybrid=True)
    assert index.compact(hybrid=True) is None
    assert index.stats()["bytes"]["words"] > 0
    assert answers(index, "guarantee code", hybrid=True) == answers(
        made(tmp_path, TEXTS), "guarantee code", hybrid=True
    )


def test_a_filter_holds_for_both_branches(tmp_path: Path) -> None:
    index = made(tmp_path, TEXTS)
    hits = index.search("guarantee garantía", 10, hybrid=True, filter="language = 'en'")
    assert {h.document for h in hits} == {"c", "d", "f"}


def test_bm25_alone_says_when_it_finds_too_little(tmp_path: Path) -> None:
    index = made(tmp_path, TEXTS)
    hits = index.search("zq", 5, retrieve="bm25")
    assert [h.document for h in hits] == ["f"]
    assert set(hits[0].scores) == {"maxsim"}
    assert hits.warnings == ["BM25 found 1 of 5 hits: no other passage holds a word of the query."]


def test_vectors_have_no_words(tmp_path: Path) -> None:
    index = made(tmp_path, TEXTS)
    with pytest.raises(InputError, match="BM25 reads text"):
        index.search(np.ones((2, 128), dtype=np.float32), hybrid=True)


@pytest.mark.parametrize(
    "options",
    [
        {"retrieve": "words"},
        {"fusion": "sum"},
        {"bm25_weight": -1},
        {"branch": 0},
        {"hybrid": True, "retrieve": "bm25"},
    ],
)
def test_impossible_values_are_refused(tmp_path: Path, options: dict[str, object]) -> None:
    index = made(tmp_path, TEXTS)
    with pytest.raises(InputError):
        answers(index, "code", **options)

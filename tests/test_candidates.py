"""Somebody else's candidates through the stages, without an index."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import ANSWERS, read_cases, solved
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import NAN, Bare, Planted, hit, ids, reranked

import colrank
from colrank.candidates import read_candidates
from colrank.config import EncoderConfig
from colrank.encoder import load_encoder
from colrank.errors import InputError, StageFailed
from colrank.judge import FALLBACKS
from colrank.types import Hits

CASES = read_cases()
ENGLISH_ONLY = "hf:cross-encoder/ms-marco-MiniLM-L6-v2"
TEXTS = ["first text", "second text", "third text"]


# What is a candidate


def test_texts_are_named_by_their_place_and_score_by_it():
    hits = colrank.rerank("q", TEXTS)
    assert [(each.id, each.document, each.text) for each in hits] == [
        ("1", "1", "first text"),
        ("2", "2", "second text"),
        ("3", "3", "third text"),
    ]
    assert [each.score for each in hits] == [1.0, 1 - 1 / 3, 1 - 2 / 3]
    assert [dict(each.scores) for each in hits] == [{"place": each.score} for each in hits]
    assert (hits.query, hits.warnings, hits.left_out, hits.verdict) == ("q", [], {}, None)
    assert ids(colrank.rerank("q", TEXTS, 2)) == ["1", "2"]
    assert ids(colrank.rerank("q", tuple(TEXTS), k=np.int64(1))) == ["1"]
    assert ids(colrank.rerank("q", (text for text in TEXTS))) == ["1", "2", "3"]  # type: ignore[arg-type]


def test_what_a_dictionary_holds_is_kept():
    hits = colrank.rerank(
        "q",
        [
            {"text": "one", "id": 7, "document": 3, "title": "T", "lang": "es", "year": 2024},
            {"text": "two", "_id": "x", "title": None},
            {"text": "three"},
        ],
    )
    assert [(each.id, each.document, each.title, each.text) for each in hits] == [
        ("7", "3", "T", "one"),
        ("x", "x", "", "two"),
        ("3", "3", "", "three"),
    ]
    assert [dict(each.metadata) for each in hits] == [{"lang": "es", "year": 2024}, {}, {}]
    assert [(each.start, each.end, each.source) for each in hits] == [(0, 3, ""), (0, 3, ""), (0, 5, "")]


def test_scores_decide_where_there_are_some_and_equal_ones_stand_as_given():
    given_scores = [0.5, 9, 0.5, -1.0, np.float32(0.5)]
    hits = colrank.rerank("q", [{"text": "t", "id": at, "score": s} for at, s in enumerate(given_scores)])
    assert ids(hits) == ["1", "0", "2", "4", "3"]
    assert [dict(each.scores) for each in hits] == [{"given": each.score} for each in hits]
    assert hits[0].score == 9.0
    blended = colrank.rerank(
        "q", [{"text": "a", "score": 1}, {"text": "b", "score": 3}], rerank=Bare([0.5, 0.5]), blend=0.5
    )
    # The second came first; .5 x .5 + .5 x 1.
    assert [(each.text, each.score) for each in blended] == [("b", 0.75), ("a", 0.25)]


def test_hits_are_judged_afresh():
    first = colrank.rerank("q", TEXTS, reranker=Planted({"second text": 0.9, "third text": 0.6}), judge=0.5)
    assert [(each.id, each.tier) for each in first] == [("2", "high"), ("3", "topical")]
    again = colrank.rerank("q", first, reranker=Planted({"second text": 0.1, "third text": 0.2}))
    assert [(each.id, each.tier, dict(each.scores)) for each in again] == [
        ("3", "", {"given": 0.6, "rerank": 0.2}),
        ("2", "", {"given": 0.9, "rerank": 0.1}),
    ]
    assert again.verdict is None
    assert [each.scores for each in colrank.rerank("q", first)] == [{"given": 0.9}, {"given": 0.6}]


def test_unscored_hits_stand_where_they_stood():
    """Their score is of an earlier stage, and larger than any reranker's."""
    mixed = Hits([reranked("a", 0.9), reranked("b", 0.4), reranked("c", NAN)])
    assert mixed[2].score > 1
    hits = colrank.rerank("q", mixed, mmr=1.0)
    assert ids(hits) == ["a", "b", "c"]
    assert (
        [each.scores["place"] for each in hits] == [each.score for each in hits] == [1, 1 - 1 / 3, 1 - 2 / 3]
    )
    assert not any(each.unscored for each in hits)
    failed = Hits([hit("b", 4.0, unscored=True), hit("a", 8.0, unscored=True)])
    assert [(each.id, each.score) for each in colrank.rerank("q", failed)] == [("a", 8.0), ("b", 4.0)]


@pytest.mark.parametrize("options", [{}, {"mmr": 0.5}, {"rerank": Planted({})}, {"dedupe": True}])
def test_no_candidates_are_no_hits(options: dict[str, Any]):
    hits = colrank.rerank("q", [], **options)
    assert len(hits) == 0
    assert hits.verdict is None


def test_no_candidates_are_refused_by_the_judge_and_a_wrong_name_is_told_all_the_same():
    hits = colrank.rerank("which documents are there", [], rerank=Planted({}), judge=0.5)
    assert hits.verdict is not None
    assert (hits.verdict.status, hits.verdict.reason) == ("refused", "There was no candidate.")
    assert hits.verdict.fallback == FALLBACKS["en"]
    with pytest.raises(InputError, match="no reranker 'nonsense:x'"):
        colrank.rerank("q", [], rerank="nonsense:x")


BAD: dict[str, tuple[Any, str]] = {
    "one text": ("a text", "The candidates are str"),
    "one dictionary": ({"text": "a"}, "The candidates are dict"),
    "a number": (3, "The candidates are int"),
    "nothing": (None, "The candidates are NoneType"),
    "a number among texts": (["a", 3], "Candidate 2 is int; give a text or a dictionary."),
    "no text": ([{"id": "a"}], "Candidate 1 has no text"),
    "a text that is a number": (["a", {"text": 3}], "Candidate 2 has no text"),
    "half a surrogate pair": (["\ud800"], "Candidate 1 has no text"),
    "a title that is a number": ([{"text": "a", "title": 3}], "Candidate 1 has no title"),
    "an id twice": ([{"text": "a", "id": "x"}, {"text": "b", "_id": "x"}], "Two candidates have the id 'x'"),
    "an id that is a place": (["a", {"text": "b", "id": 1}], "Two candidates have the id '1'"),
    "some scores": ([{"text": "a", "score": 1}, "b"], "1 of 2 candidates have a score"),
    "a score of words": ([{"text": "a", "score": "high"}], "Candidate 1 has the score 'high'"),
    "a score of truth": ([{"text": "a", "score": True}], "Candidate 1 has the score True"),
    "a score of nothing": ([{"text": "a", "score": NAN}], "Candidate 1 has the score nan"),
    "an endless score": ([{"text": "a", "score": -float("inf")}], "Candidate 1 has the score -inf"),
    "a score of several": ([{"text": "a", "score": [1]}], "Candidate 1 has the score"),
    "a huge whole score": ([{"text": "a", "score": 10**400}], "Candidate 1 has the score"),
    "a hit without a score": ([hit("a", NAN)], "Candidate 1 has the score nan"),
    "some vectors": ([{"text": "a", "vector": [1.0]}, "b"], "1 of 2 candidates have vectors"),
    "vectors of two sizes": (
        [{"text": "a", "vector": [1.0]}, {"text": "b", "vector": [1.0, 0.0]}],
        "not all of one dimension",
    ),
    "a ragged vector": ([{"text": "a", "vector": [[1.0, 2.0], [3.0]]}], "vector of candidate 1"),
    "a vector of words": ([{"text": "a", "vector": ["x"]}], "vector of candidate 1"),
    "a vector of nothing": ([{"text": "a", "vector": [NAN, 1.0]}], "candidate 1 hold NaN"),
    "a zero vector": ([{"text": "a", "vector": [0.0, 0.0]}], "candidate 1 hold a zero vector"),
    "an empty vector": ([{"text": "a", "vector": []}], "candidate 1"),
    "a cube": ([{"text": "a", "vector": np.ones((1, 1, 1))}], "candidate 1 have shape"),
    "one number": ([{"text": "a", "vector": 3.0}], "candidate 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_candidate_is_one_sentence(name: str):
    candidates, said = BAD[name]
    with pytest.raises(InputError) as raised:
        colrank.rerank("q", candidates, mmr=0.5)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("query", ["", " \n", None, 3, "\ud800", ["q"]])
def test_a_query_is_a_text_that_is_not_empty(query: Any):
    with pytest.raises(InputError, match="The query is"):
        colrank.rerank(query, TEXTS)


def test_options_that_contradict_are_refused():
    planted = Planted({})
    with pytest.raises(InputError, match="named twice"):
        colrank.rerank("q", TEXTS, reranker=planted, rerank="exact")
    with pytest.raises(InputError, match="judge needs a reranker"):
        colrank.rerank("q", TEXTS, judge=0.5)
    with pytest.raises(InputError, match="k is 0"):
        colrank.rerank("q", TEXTS, 0)


# The stages


def test_all_candidates_are_read_however_many():
    planted = Planted(lambda _, text: int(text) / 1000)
    hits = colrank.rerank("q", [str(at) for at in range(230)], 3, reranker=planted)
    assert len(planted.asked[0][1]) == 230
    assert [each.text for each in hits] == ["229", "228", "227"]
    assert len(hits.left_out["k"]) == 227
    assert [warning.split()[0] for warning in hits.warnings] == ["230"]


def test_a_failing_reranker_keeps_the_order_or_raises():
    hits = colrank.rerank("q", TEXTS, reranker=Bare(OSError("gone")), judge=0.5)
    assert ids(hits) == ["1", "2", "3"]
    assert hits.verdict is not None
    assert hits.verdict.status == "unjudged"
    with pytest.raises(StageFailed, match="gone"):
        colrank.rerank("q", TEXTS, reranker=Bare(OSError("gone")), on_rerank_error="fail")


def test_given_vectors_are_compared_for_mmr_one_or_several_a_candidate():
    # The second is like the first, the third is not; lengths do not matter.
    single = [[3.0, 0.0], [2.9, 0.1], [0.0, 0.5]]
    for vectors in (
        single,
        [np.array(vector, dtype=np.float64) for vector in single],
        [[vector, vector] for vector in single],
        [np.array([vector] * length) for length, vector in enumerate(single, start=1)],
    ):
        candidates = [{"text": text, "vector": v} for text, v in zip(TEXTS, vectors, strict=True)]
        hits = colrank.rerank("q", candidates, 2, mmr=0.5)
        assert ids(hits) == ["1", "3"]
        # Its place counts 0, and its cosine with the first is 0.
        np.testing.assert_allclose([each.scores["mmr"] for each in hits], [0.5, 0.0], atol=1e-6)
        assert all("vector" not in each.metadata for each in hits)
        assert ids(colrank.rerank("q", candidates, 2, mmr=1.0)) == ["1", "2"]


def test_vectors_stay_with_their_candidates_when_scores_turn_the_order():
    vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 0.0]}
    scores = {"a": 0.1, "b": 0.2, "c": 0.3}
    candidates = [{"text": n, "id": n, "score": scores[n], "vector": vectors[n]} for n in "abc"]
    # c first; then b, unlike it, before a, the same.
    assert ids(colrank.rerank("q", candidates, mmr=0.5)) == ["c", "b", "a"]
    turned = colrank.rerank("q", candidates, 2, mmr=0.5, reranker=Planted({"a": 0.9, "c": 0.8, "b": 0.1}))
    assert ids(turned) == ["a", "b"]


def test_without_vectors_the_model_encodes_them():
    texts = [
        "The legal guarantee lasts six months.",
        "The legal guarantee lasts six months!",
        "Parcels leave the warehouse on Mondays.",
    ]
    hits = colrank.rerank("q", texts, 3, mmr=0.5, mmr_exact=True)
    assert ids(hits) == ["1", "3", "2"]
    encoder = load_encoder(EncoderConfig())
    encoder.text_budget(None)
    encoded = encoder.encode_passages(texts, [len(encoder.token_spans(text)) for text in texts])
    first, second, third = (vectors.astype(np.float64) for vectors, _ in encoded)

    def alike(one: np.ndarray, other: np.ndarray) -> float:
        products = one @ other.T
        return float((products.max(axis=1).mean() + products.max(axis=0).mean()) / 2)

    expected = [
        0.5,
        0.5 * 0 - 0.5 * alike(first, third),
        0.5 * 0.5 - 0.5 * max(alike(first, second), alike(third, second)),
    ]
    np.testing.assert_allclose([each.scores["mmr"] for each in hits], expected, atol=1e-4)


def test_texts_that_are_blank_are_like_no_other():
    hits = colrank.rerank("q", ["", " ", "A text."], mmr=0.5)
    assert ids(hits) == ["1", "2", "3"]
    assert ids(colrank.rerank("q", ["", " "], mmr=0.0)) == ["1", "2"]


def test_a_long_text_is_compared_whole():
    """Longer than the model reads, so that it is split and no part is lost."""
    long = " ".join(f"Sentence {at} speaks of parcels and ships." for at in range(120))
    tail = long + " The legal guarantee lasts six months."
    hits = colrank.rerank("q", [long, tail, "The legal guarantee lasts six months."], mmr=0.0, mmr_exact=True)
    assert len(hits) == 3
    assert hits[1].scores["mmr"] < 0


def test_exact_scores_texts_by_the_late_interaction_model():
    texts = ["Parcels leave the warehouse on Mondays.", "The legal guarantee lasts six months."]
    hits = colrank.rerank("how long is the legal guarantee", texts, rerank="exact")
    assert ids(hits) == ["2", "1"]
    encoder = load_encoder(EncoderConfig())
    encoder.text_budget(None)
    query = encoder.encode_queries(["how long is the legal guarantee"])[0].vectors.astype(np.float64)
    for each in hits:
        ((vectors, _),) = encoder.encode_passages([each.text], [len(encoder.token_spans(each.text))])
        expected = (query @ vectors.astype(np.float64).T).max(axis=1)
        assert each.scores["rerank_maxsim"] == pytest.approx(expected.sum(), abs=1e-4)
        assert each.score == pytest.approx((1 + expected.mean()) / 2, abs=1e-5)


def test_languages_are_those_of_the_candidates():
    spanish = ["La garantía legal dura seis meses.", "El envío a las regiones tarda cinco días hábiles."]
    hits = colrank.rerank(
        "cuánto dura la garantía", spanish, reranker=Planted({}, name=ENGLISH_ONLY), judge=0.5
    )
    assert hits.verdict is not None
    assert hits.verdict.fallback == FALLBACKS["es"]
    (told,) = hits.warnings
    assert "reads English only" in told
    assert "100% of the text is in Spanish" in told
    english = ["The legal guarantee lasts six months.", "Parcels leave on Mondays from the warehouse."]
    assert colrank.rerank("q", english, reranker=Planted({}, name=ENGLISH_ONLY)).warnings == []


@given(
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from("xyz"), st.integers(0, 8)), min_size=1, max_size=9),
    st.integers(1, 10),
    st.sampled_from([None, 1.0, 0.6, 0.0]),
    st.sampled_from([None, 0.25, 0.75]),
)
@settings(max_examples=100, deadline=None)
def test_every_candidate_is_among_the_hits_or_left_out_once(rows, k, mmr, floor):
    candidates = [
        {"text": f"text {at}", "document": owner, "score": score, "vector": [1.0, planted]}
        for at, (score, owner, planted) in enumerate(rows)
    ]
    planted = Planted({f"text {at}": row[2] / 8 for at, row in enumerate(rows)})
    hits = colrank.rerank("q", candidates, k, reranker=planted, mmr=mmr, judge=floor)
    left = [name for names in hits.left_out.values() for name in names]
    assert sorted(ids(hits) + left) == sorted(str(at + 1) for at in range(len(rows)))


# Files


def test_a_file_holds_a_candidate_a_line(tmp_path: Path):
    path = tmp_path / "found.jsonl"
    path.write_text('\ufeff{"text": "uno", "id": "a"}\n\n{"text": "d\\nos\u2028tres"}\r\n', encoding="utf-8")
    assert read_candidates(path) == [{"text": "uno", "id": "a"}, {"text": "d\nos\u2028tres"}]
    path.write_text("\n")
    assert read_candidates(path) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"text": "a"}\n{"text": ', "line 2 is not valid JSON"),
        (b'["a"]', "line 1 is not a JSON object"),
        (b'"a"', "line 1 is not a JSON object"),
        (b"[" * 100_000, "line 1 is not valid JSON"),
        (b'{"text": "\xe9"}', "not UTF-8"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, content: bytes, said: str):
    path = tmp_path / "found.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_candidates(path)
    with pytest.raises(InputError, match="Cannot read"):
        read_candidates(tmp_path / "nowhere.jsonl")


# Cases that practitioners use


def grades(case: Any) -> Mapping[str, float]:
    return {passage.text: passage.grade / ANSWERS for passage in case.passages}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_good_reranker_and_a_judge_solve_every_case(case: Any):
    texts = {passage.id: passage for passage in case.passages}
    hits = colrank.rerank(case.query, case.candidates(), 20, reranker=Planted(grades(case)))
    found = [texts[name].grade for name in ids(hits)]
    assert found == sorted(found, reverse=True)
    # Equal grades stand as the retriever had them.
    expected = sorted(case.passages, key=lambda passage: -passage.grade)
    assert ids(hits) == [passage.id for passage in expected]
    judged = colrank.rerank(case.query, case.candidates(), 20, reranker=Planted(grades(case)), judge=0.75)
    assert judged.verdict is not None
    assert judged.verdict.status == ("approved" if case.answerable else "refused")
    assert solved(case, ids(judged), judged.verdict.status == "refused")
    assert ids(judged) == [passage.id for passage in case.passages if passage.grade == ANSWERS]
    assert judged.left_out.get("judge", []) == [p.id for p in expected if p.grade < ANSWERS]
    assert {each.tier for each in judged} <= {"high"}
    if not case.answerable:
        assert judged.verdict.fallback == FALLBACKS[case.lang]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_no_more_than_two_passages_of_a_document_under_mmr(case: Any):
    vectors = {passage.id: np.eye(len(case.passages))[at] for at, passage in enumerate(case.passages)}
    candidates = [{**each, "vector": vectors[each["id"]]} for each in case.candidates()]
    hits = colrank.rerank(case.query, candidates, 20, reranker=Planted(grades(case)), mmr=0.7)
    texts = {passage.id: passage for passage in case.passages}
    # Nothing is like anything else here: relevance alone decides, under the cap.
    order = sorted(case.passages, key=lambda passage: -passage.grade)
    kept: list[str] = []
    for passage in order:
        if sum(texts[name].document == passage.document for name in kept) < 2:
            kept.append(passage.id)
    assert ids(hits) == kept
    assert sorted(hits.left_out.get("max_per_document", [])) == sorted(set(texts) - set(kept))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.kind == "near_duplicate"], ids=lambda case: case.id
)
def test_passages_that_state_the_same_do_not_crowd_the_top_three(case: Any):
    """With vectors that are alike within a group, and like none outside of it, MMR takes one of each."""
    groups = sorted({passage.same or passage.id for passage in case.passages})
    vectors = {p.id: np.eye(len(groups))[groups.index(p.same or p.id)] for p in case.passages}
    candidates = [{**each, "vector": vectors[each["id"]]} for each in case.candidates()]
    texts = {passage.id: passage for passage in case.passages}

    def groups_of(hits: Hits) -> list[str]:
        return [texts[name].same or name for name in ids(hits)]

    plain = groups_of(colrank.rerank(case.query, candidates, 3, reranker=Planted(grades(case))))
    # At .4 a repeat gains .4 x 1 - .6 x 1 at most, and any other passage 0 at least.
    hits = colrank.rerank(case.query, candidates, 3, reranker=Planted(grades(case)), mmr=0.4)
    assert len(set(groups_of(hits))) == 3
    assert texts[hits[0].id].grade == ANSWERS
    assert len(set(plain)) <= 3

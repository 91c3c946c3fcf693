"""The judge: what passes, what is refused, and what was never judged."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import NAN, ids, reranked

from colrank.errors import StageFailed
from colrank.judge import FALLBACKS, fallback_sentence, judge, tier_of
from colrank.language import detect_language
from colrank.types import Hits, Usage

FLOOR = 0.75
GIVEN = {
    "reranker": "planted",
    "steady": True,
    "fallback": "Nothing is known of it.",
    "on_error": "return-unjudged",
}


def hits(*scores: float) -> Hits:
    """Named a, b, c, ... in this order."""
    return Hits([reranked(chr(ord("a") + at), score) for at, score in enumerate(scores)], query="q")


def judged(*scores: float, floor: float = FLOOR, **more: object) -> Hits:
    return judge(hits(*scores), floor, **{**GIVEN, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("score", "tier"),
    [
        (1.0, "high"),
        (0.8, "high"),
        (math.nextafter(0.8, 0), "topical"),
        (0.78, "topical"),
        (0.75, "topical"),
        (0.5, "topical"),
        (math.nextafter(0.5, 0), "noise"),
        (0.42, "noise"),
        (0.0, "noise"),
    ],
)
def test_tiers(score: float, tier: str):
    assert tier_of(score) == tier


def test_a_hit_of_78_passes_the_usual_floor_and_is_marked_topical():
    out = judged(0.92, 0.78, 0.74)
    assert [(hit.id, hit.tier, hit.scores["judge"]) for hit in out] == [
        ("a", "high", 0.92),
        ("b", "topical", 0.78),
    ]
    assert out.verdict is not None
    assert (out.verdict.status, out.verdict.best, out.verdict.floor) == ("approved", 0.92, FLOOR)
    assert out.verdict.reason == "2 of 3 hits reach 0.75."
    assert out.verdict.fallback == ""
    assert out.left_out == {"judge": ["c"]}
    assert out.warnings == []


def test_the_published_scores_of_delayed_flights():
    """Storms cancelled them, not one was late, a software fault: .94, .21, .42."""
    out = judged(0.94, 0.42, 0.21)
    assert ids(out) == ["a"]
    alone = judged(0.42, 0.21)
    assert len(alone) == 0
    assert alone.verdict is not None
    assert (alone.verdict.status, alone.verdict.best) == ("refused", 0.42)
    assert alone.verdict.reason == "The best score is 0.4200, below 0.75."
    assert alone.verdict.fallback == "Nothing is known of it."
    assert alone.left_out == {"judge": ["a", "b"]}


@pytest.mark.parametrize(("floor", "kept"), [(0.0, "abc"), (0.5, "ab"), (0.8, "a"), (0.9, "a"), (1.0, "")])
def test_the_floor_itself_passes(floor: float, kept: str):
    assert ids(judged(0.9, 0.5, 0.0, floor=floor)) == list(kept)


def test_the_order_and_what_is_known_of_the_query_stay():
    given = Hits(
        [reranked("x", 0.8), reranked("y", 0.99), reranked("z", 0.8)],
        query="q",
        timings={"scan": 1.0},
        warnings=["before"],
        left_out={"earlier": ["w"]},
        usage=Usage(pairs=3),
    )
    out = judge(given, 0.8, **GIVEN)
    assert ids(out) == ["x", "y", "z"]
    assert (out.query, out.timings, out.warnings) == ("q", {"scan": 1.0}, ["before"])
    assert (out.left_out, out.usage) == ({"earlier": ["w"]}, Usage(pairs=3))
    assert out[0].scores == {"maxsim": 7.0, "rerank": 0.8, "judge": 0.8}
    assert [hit.tier for hit in given] == ["", "", ""]  # what was handed in stays as it was


@pytest.mark.parametrize("scores", [(NAN,), (NAN, NAN, NAN), (0.7, NAN), (0.1, NAN, NAN)])
def test_a_query_that_was_not_judged_is_neither_approved_nor_refused(scores: tuple[float, ...]):
    out = judged(*scores)
    assert ids(out) == ids(hits(*scores))
    assert out.verdict is not None
    assert out.verdict.status == "unjudged"
    assert out.verdict.fallback == ""
    assert out.left_out == {}
    assert out.warnings == [out.verdict.reason]
    assert [hit.tier for hit in out if hit.unscored] == [""] * sum(map(math.isnan, scores))
    assert all("judge" not in hit.scores for hit in out if hit.unscored)
    known = [score for score in scores if not math.isnan(score)]
    assert ("none of the others reaches 0.75" in out.verdict.reason) == bool(known)
    assert out.verdict.best == (max(known) if known else None)
    with pytest.raises(StageFailed, match="nothing was judged"):
        judged(*scores, on_error="fail")


@pytest.mark.parametrize("on_error", ["return-unjudged", "fail"])
def test_unscored_hits_do_not_pass_beside_approved_ones(on_error: str):
    out = judged(0.9, 0.3, NAN, NAN, on_error=on_error)
    assert ids(out) == ["a"]
    assert out.verdict is not None
    assert out.verdict.status == "approved"
    assert out.left_out == {"judge": ["b"], "unscored": ["c", "d"]}
    assert len(out.warnings) == 1
    assert out.warnings[0].startswith("2 hits without a score")


def test_no_candidate_is_refused():
    out = judged()
    assert out.verdict is not None
    assert (out.verdict.status, out.verdict.best) == ("refused", None)
    assert out.verdict.reason == "There was no candidate."
    assert out.verdict.fallback == "Nothing is known of it."
    assert out.left_out == {}


def test_the_note_says_that_the_floor_is_not_calibrated():
    for scores in ((0.9,), (0.1,), (NAN,)):
        verdict = judged(*scores).verdict
        assert verdict is not None
        assert "planted" in verdict.note
        assert "0.75" in verdict.note
        assert "calibrated" in verdict.note


@pytest.mark.parametrize("scores", [(0.9,), (0.1,), (NAN,)])
def test_a_language_model_is_warned_of(scores: tuple[float, ...]):
    told = judged(*scores, steady=False).warnings
    assert told[:-1] == judged(*scores).warnings
    assert "drift" in told[-1]


@given(
    st.lists(st.floats(0, 1) | st.just(NAN), max_size=12),
    st.floats(0, 1),
)
def test_a_verdict_follows_from_the_scores_alone(scores: list[float], floor: float):
    out = judged(*scores, floor=floor)
    unscored = [at for at, score in enumerate(scores) if math.isnan(score)]
    passing = [at for at, score in enumerate(scores) if score >= floor]
    names = ids(hits(*scores))
    expected, kept = "refused", []
    if passing:
        expected, kept = "approved", [names[at] for at in passing]
    elif unscored:
        expected, kept = "unjudged", names
    assert out.verdict is not None
    assert out.verdict.status == expected
    assert ids(out) == kept
    assert bool(out.verdict.fallback) == (expected == "refused")
    assert sorted(ids(out) + [name for left in out.left_out.values() for name in left]) == sorted(names)
    if expected == "approved":
        assert all(hit.scores["judge"] >= floor and not hit.unscored for hit in out)


def test_fallback_sentences_are_in_the_language_that_they_are_filed_under():
    assert {"en", "es"} <= FALLBACKS.keys()
    for language, sentence in FALLBACKS.items():
        assert fallback_sentence(language) == sentence
        assert sentence.endswith(".")
        if language != "gl":  # which the detector takes for Portuguese
            assert detect_language(sentence) == language
    assert len(set(FALLBACKS.values())) == len(FALLBACKS)
    assert fallback_sentence("fi") == fallback_sentence("und") == FALLBACKS["en"]

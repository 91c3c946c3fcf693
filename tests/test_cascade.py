"""The stages after a search: who decides the order, what failure does, and that nothing gets lost unseen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import NAN, Bare, Planted, hit, ids, searched

from colrank import ColRank
from colrank.cascade import run_stages, steps, titled, wanted_hits
from colrank.config import CascadeConfig
from colrank.errors import InputError, ModelError, StageFailed
from colrank.judge import FALLBACKS
from colrank.passages import encoder_input
from colrank.rerankers import Reranked, load_reranker
from colrank.types import Hits, Usage, Vectors

ENGLISH_ONLY = "hf:cross-encoder/ms-marco-MiniLM-L6-v2"
SCORES = st.integers(0, 16).map(lambda step: step / 16)


class Asked:
    def __init__(self, text: str) -> None:
        self.text = text


def no_vectors(hits: Sequence[Any]) -> list[Vectors]:
    raise AssertionError("no stage needs vectors")


def put(hits: Hits, k: int = 10, *, vectors: Any = no_vectors, by: Any = "passage", **options: Any) -> Hits:
    """Hits through the stages that the options ask for."""
    warnings = options.pop("warnings", ())
    config = CascadeConfig(**{"candidates": max(1, len(hits)), **options})

    def exact() -> Any:
        raise AssertionError

    made = steps(
        config,
        k,
        by=by,
        reranker=load_reranker(config, exact),
        vectors=vectors,
        fallback="Nothing is known of it.",
        warnings=warnings,
    )
    return run_stages(Asked("q"), hits, made)


# The order


def test_the_order_is_the_reranker_s_alone():
    out = put(searched("abc"), rerank=Planted({"a": 0.1, "b": 0.3, "c": 0.2}))
    assert [(each.id, each.score, dict(each.scores)) for each in out] == [
        ("b", 0.3, {"maxsim": 2.0, "rerank": 0.3}),
        ("c", 0.2, {"maxsim": 1.0, "rerank": 0.2}),
        ("a", 0.1, {"maxsim": 3.0, "rerank": 0.1}),
    ]


def test_equal_scores_keep_the_earlier_order_and_what_they_were_made_from_tells_saturated_ones_apart():
    scores = {"a": 1.0, "b": 1.0, "c": 0.5, "d": 1.0, "e": 0.5}
    assert ids(put(searched("abcde"), rerank=Planted(scores))) == list("abdce")
    raw = {"a": 40.0, "b": 50.0, "c": 0.0, "d": 45.0, "e": 0.0}
    out = put(searched("abcde"), rerank=Planted(scores, raw=raw))
    assert ids(out) == list("bdace")
    assert [each.scores["rerank_logit"] for each in out] == [50, 45, 40, 0, 0]


@given(
    st.lists(
        st.tuples(SCORES | st.just(NAN), st.integers(-3, 3)),
        min_size=1,
        max_size=12,
    ),
    st.booleans(),
)
@settings(max_examples=100)
def test_scored_hits_by_score_then_unscored_ones_as_they_stood(pairs, has_raw):
    names = [f"t{at}" for at in range(len(pairs))]
    raw = {name: float(value) for name, (_, value) in zip(names, pairs, strict=True)} if has_raw else None
    planted = Planted({name: score for name, (score, _) in zip(names, pairs, strict=True)}, raw=raw)
    given_hits = searched(names)
    out = put(given_hits, 20, rerank=planted)

    def key(at: int) -> tuple[float, ...]:
        score, value = pairs[at]
        return (1.0, at) if math.isnan(score) else (0.0, -score, -value if has_raw else 0, at)

    expected = sorted(range(len(pairs)), key=key)
    assert ids(out) == [names[at] for at in expected]
    for each, at in zip(out, expected, strict=True):
        score = pairs[at][0]
        assert each.unscored == math.isnan(score)
        if each.unscored:
            # An earlier score is never shown as the reranker's.
            assert (each.score, each.scores) == (given_hits[at].score, given_hits[at].scores)
        else:
            assert each.score == each.scores["rerank"] == score


def test_blend_mixes_in_the_earlier_score_scaled_to_0_and_1():
    # Earlier scores 3, 2, 1 count 1, .5, 0.
    planted = Planted({"a": 0.2, "b": 0.9, "c": 0.8})
    out = put(searched("abc"), rerank=planted, blend=0.5)
    assert [each.id for each in out] == ["b", "a", "c"]
    np.testing.assert_allclose([each.score for each in out], [0.7, 0.6, 0.4])
    assert [each.scores["blend"] for each in out] == [each.score for each in out]
    assert [each.scores["rerank"] for each in out] == [0.9, 0.2, 0.8]
    assert ids(put(searched("abc"), rerank=planted, blend=1.0)) == list("abc")
    assert ids(put(searched("abc"), rerank=planted, blend=0.0)) == list("bca")
    unscored = Planted({"a": NAN, "b": 0.1, "c": 0.8})
    assert ids(put(searched("abc"), rerank=unscored, blend=0.2)) == ["c", "b", "a"]


def test_a_blend_decides_the_order_and_not_what_the_judge_sees():
    planted = Planted({"a": 0.7, "b": 0.8, "c": 0.9})
    out = put(searched("abc"), rerank=planted, blend=0.9, judge=0.75)
    assert ids(out) == ["b", "c"]
    assert [each.scores["judge"] for each in out] == [0.8, 0.9]
    assert out.left_out == {"judge": ["a"]}


def test_a_reranker_reads_the_title_and_the_passage():
    hits = [
        hit("a", text="The text.", title=" A title "),
        hit("b", text="No title."),
        hit("c", text=" Itself", title="Itself"),
        hit("d", text="", title="Title"),
    ]
    expected = ["A title\nThe text.", "No title.", " Itself", "Title\n"]
    assert titled(hits) == expected
    planted = Planted({})
    put(Hits(hits), rerank=planted)
    assert planted.asked == [("q", expected)]


# Failure

BROKEN = {
    "an exception": (ValueError("no"), "Bare failed: ValueError: no."),
    "too few": ([0.5], "Bare gave 1 scores for 3 texts."),
    "too many": ([0.5] * 4, "Bare gave 4 scores for 3 texts."),
    "a matrix": ([[0.5] * 3], "Bare gave 3 scores for 3 texts."),
    "nothing": (None, "Bare gave 1 scores for 3 texts."),
    "words": (["a", "b", "c"], "Bare failed: ValueError"),
    "a dictionary": ({"a": 1.0}, "Bare failed: TypeError"),
    "above 1": ([0.5, 1.01, 0.5], "Bare gave scores that do not lie between 0 and 1."),
    "below 0": ([0.5, -0.01, 0.5], "Bare gave scores that do not lie between 0 and 1."),
    "infinite": ([0.5, math.inf, NAN], "Bare gave scores that do not lie between 0 and 1."),
    "short raw numbers": (Reranked(np.full(3, 0.5), np.zeros(2)), "Bare gave 2 scores for 3 texts."),
    "a service": (StageFailed("The service did not answer."), "The service did not answer."),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_failed_reranker_leaves_the_order_and_one_warning(name: str):
    given_answer, said = BROKEN[name]
    out = put(searched("abc"), 2, rerank=Bare(given_answer))
    assert ids(out) == ["a", "b"]
    assert [(each.score, each.unscored, "rerank" in each.scores) for each in out] == [
        (3.0, True, False),
        (2.0, True, False),
    ]
    assert len(out.warnings) == 1
    assert out.warnings[0].startswith(said)
    assert out.warnings[0].endswith("The order before reranking was kept.")
    assert out.left_out == {"k": ["c"]}
    assert "rerank" in out.timings


@pytest.mark.parametrize("name", BROKEN)
def test_a_failed_reranker_raises_when_that_is_asked_for(name: str):
    given_answer, said = BROKEN[name]
    with pytest.raises(StageFailed) as raised:
        put(searched("abc"), rerank=Bare(given_answer), on_rerank_error="fail")
    assert str(raised.value).startswith(said)
    assert raised.value.exit_code == 4


@pytest.mark.parametrize("error", [InputError("The query is too long."), ModelError("There is no model.")])
def test_what_is_no_failure_of_the_model_is_told_at_once(error: Exception):
    """A mistake of the user would be hidden by an order that looks as if it had been reranked."""
    with pytest.raises(type(error), match=str(error)):
        put(searched("abc"), rerank=Bare(error))


@pytest.mark.parametrize(
    "answer",
    [
        [0.2, 0.9, NAN],
        (0.2, 0.9, None),
        np.array([0.2, 0.9, NAN], dtype=np.float32),
        Reranked(np.array([0.2, 0.9, NAN])),
        Reranked([0.2, 0.9, NAN]),  # type: ignore[arg-type]
    ],
)
def test_a_reranker_of_one_s_own_gives_numbers_in_any_form(answer: Any):
    out = put(searched("abc"), rerank=Bare(answer))
    assert ids(out) == ["b", "a", "c"]
    np.testing.assert_allclose([each.score for each in out], [0.9, 0.2, 1.0], rtol=1e-6)
    assert [each.unscored for each in out] == [False, False, True]


def test_texts_without_a_score_are_told_unless_the_reranker_told_so_itself():
    some = put(searched("abc"), rerank=Bare([0.5, NAN, NAN]))
    assert some.warnings == ["Bare gave no score to 2 of 3 texts, which keep their order."]
    every = put(searched("abc"), rerank=Bare([NAN] * 3))
    assert (ids(every), [each.unscored for each in every]) == (["a", "b", "c"], [True] * 3)
    assert every.warnings == ["Bare gave no score to 3 of 3 texts, which keep their order."]
    own = put(searched("abc"), rerank=Planted({"a": NAN}, warnings=["a has no score."]))
    assert own.warnings == ["a has no score."]


@pytest.mark.parametrize("given_object", [3, object(), ["hf:x"], len])
def test_what_is_no_reranker_is_refused(given_object: Any):
    with pytest.raises(InputError, match=r"object with a method score\(query, texts\)"):
        put(searched("abc"), rerank=given_object)


def test_a_reranker_without_any_candidate_is_not_asked():
    planted = Planted({})
    out = put(Hits([], query="q"), rerank=planted, mmr=0.5, dedupe=True)
    assert (len(out), planted.asked, out.usage) == (0, [], None)


# What is said


def test_what_was_sent_and_said_is_passed_on():
    planted = Planted({}, tokens=30, calls=2, cut=1, warnings=["1 of 2 texts was cut."])
    out = put(searched("ab"), rerank=planted, warnings=["It reads English only."])
    assert out.usage == Usage(pairs=2, tokens=30, calls=2, cut=1)
    assert out.warnings == ["It reads English only.", "1 of 2 texts was cut."]
    bare = put(searched("ab"), rerank=Bare([0.5, 0.5])).usage
    assert bare is not None
    assert (bare.pairs, bare.tokens, bare.calls, bare.cut) == (2, None, 0, None)
    assert put(searched("ab"), mmr=1.0, warnings=["It reads English only."]).warnings == []


@pytest.mark.parametrize(
    ("count", "said"), [(50, ""), (51, "1.02 times"), (199, "3.98 times"), (200, "4 times")]
)
def test_many_candidates_are_told_with_what_they_cost(count: int, said: str):
    out = put(searched([f"t{at}" for at in range(count)]), rerank=Planted({}))
    assert len(out.warnings) == bool(said)
    if said:
        assert out.warnings[0].startswith(f"{count} candidates are {count} pairs a query, {said}")
        assert ("colrank eval" in out.warnings[0]) == (count >= 200)


def test_what_is_told_of_candidates_is_what_there_was():
    """An index may hold fewer passages than were asked for."""
    assert put(searched("abc"), candidates=500, rerank=Planted({})).warnings == []
    many = searched([f"t{at}" for at in range(60)])
    assert put(many, candidates=500, rerank=Planted({})).warnings[0].startswith("60 candidates are 60 pairs")
    assert put(many, mmr=1.0).warnings == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, []),
        ({"mmr": 1.0}, ["mmr"]),
        ({"dedupe": True}, ["dedupe", "cut"]),
        ({"max_per_document": 1}, ["cut"]),
        ({"rerank": Planted({})}, ["rerank", "cut"]),
        (
            {"rerank": Planted({}), "judge": 0.0, "dedupe": True, "mmr": 1.0},
            ["rerank", "judge", "dedupe", "mmr"],
        ),
    ],
)
def test_each_stage_is_timed_under_its_name_in_its_order(options: dict, named: list[str]):
    out = put(searched("abc"), **options)
    assert list(out.timings) == named
    assert all(spent >= 0 for spent in out.timings.values())
    assert ids(out) == list("abc")


def test_a_stage_that_runs_twice_adds_up():
    def stage(query: Asked, hits: Hits) -> Hits:
        return hits.having(hits[:])

    begun = Hits([], timings={"scan": 1.0, "again": 2.0})
    seen: list[str] = []
    out = run_stages(
        Asked("q"), begun, [("again", stage), ("again", stage)], lambda name, _: seen.append(name)
    )
    assert out.timings["again"] > 2.0
    assert out.timings["scan"] == 1.0
    assert begun.timings == {"scan": 1.0, "again": 2.0}
    assert seen == ["again", "again"]


@pytest.mark.parametrize(
    ("options", "k", "wanted"),
    [({}, 5, 5), ({"mmr": 0.7}, 5, 50), ({"mmr": 0.7}, 80, 80), ({"mmr": 0.7, "candidates": 7}, 5, 7)],
)
def test_the_search_brings_the_candidates_and_at_least_k(options: dict, k: int, wanted: int):
    assert wanted_hits(CascadeConfig(**options), k) == wanted


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"judge": 0.5}, "judge needs a reranker"),
        ({"blend": 0.5}, "blend mixes a reranker"),
        ({"mmr_exact": True}, "mmr_exact says how mmr"),
        ({"mmr": 1.1}, "mmr is 1.1"),
        ({"mmr": -0.1}, "mmr is -0.1"),
        ({"mmr": NAN}, "mmr is nan"),
        ({"mmr": True}, "mmr is True"),
        ({"mmr": "0.7"}, "mmr is '0.7'"),
        ({"rerank": "exact", "judge": 75}, "judge is 75"),
        ({"rerank": "exact", "blend": 2}, "blend is 2"),
        ({"candidates": 0}, "candidates is 0"),
        ({"candidates": 2.5}, "candidates is 2.5"),
        ({"max_per_document": 0}, "max_per_document is 0"),
        ({"on_rerank_error": "ignore"}, "on_rerank_error is 'ignore'"),
        ({"on_judge_error": "pass"}, "on_judge_error is 'pass'"),
        ({"rerank_timeout": 0}, "rerank_timeout is 0"),
        ({"rerank_retries": -1}, "rerank_retries is -1"),
    ],
)
def test_options_that_make_no_sense_are_one_sentence(options: dict, said: str):
    with pytest.raises(InputError, match=said) as raised:
        CascadeConfig(**options)
    assert str(raised.value).count("\n") == 0
    assert str(raised.value).endswith(".")


# Judge


def test_a_failed_reranking_is_unjudged_and_stays():
    out = put(searched("abc"), 2, rerank=Bare(ValueError("no")), judge=0.75)
    assert ids(out) == ["a", "b"]
    assert out.verdict is not None
    assert (out.verdict.status, out.verdict.best, out.verdict.fallback) == ("unjudged", None, "")
    assert out.left_out == {"k": ["c"]}
    with pytest.raises(StageFailed, match="nothing was judged"):
        put(searched("abc"), rerank=Bare(ValueError("no")), judge=0.75, on_judge_error="fail")


def test_a_refused_query_hands_nothing_on_and_says_so():
    out = put(searched("abc"), rerank=Planted({}, default=0.7), judge=0.75, mmr=0.7, dedupe=True)
    assert len(out) == 0
    assert out.verdict is not None
    assert (out.verdict.status, out.verdict.fallback) == ("refused", "Nothing is known of it.")
    assert out.left_out == {"judge": ["a", "b", "c"]}
    own = put(searched("abc"), rerank=Planted({}), judge=0.75, fallback="Ask a person.")
    assert own.verdict is not None
    assert own.verdict.fallback == "Ask a person."


# The last hits


def square(names: Sequence[str], vectors: dict[str, list[float]]) -> Any:
    """Gives each hit one vector, and keeps what was asked for."""
    asked: list[list[str]] = []

    def of(hits: Sequence[Any]) -> list[Vectors]:
        asked.append(ids(hits))
        return [np.array([vectors[each.id]], dtype=np.float32) for each in hits]

    of.asked = asked  # type: ignore[attr-defined]
    return of


def test_mmr_looks_at_all_that_passed_the_judge_before_the_cut_to_k():
    scores = {"a": 0.95, "b": 0.94, "c": 0.93, "d": 0.8, "e": 0.2}
    same, other = [1.0, 0.0], [0.0, 1.0]
    vectors = square("abcde", {"a": same, "b": same, "c": same, "d": other, "e": other})
    out = put(searched("abcde"), 2, rerank=Planted(scores), judge=0.75, mmr=0.5, vectors=vectors)
    assert vectors.asked == [["a", "b", "c", "d"]]
    assert ids(out) == ["a", "d"]
    # .5 x 1; and of d .5 x 0 - .5 x 0.
    np.testing.assert_allclose([each.scores["mmr"] for each in out], [0.5, 0.0])
    assert out.left_out == {"judge": ["e"], "k": ["b", "c"]}
    assert {"mmr", "mmr_vectors", "mmr_reduce"} <= out.timings.keys()
    assert out.timings["mmr_vectors"] + out.timings["mmr_reduce"] <= out.timings["mmr"]


def test_repeats_are_left_out_before_the_choice():
    given_hits = Hits([hit("a", 3.0, text="Same."), hit("b", 2.0, text="same."), hit("c", 1.0)], query="q")
    vectors = square("abc", {"a": [1.0, 0.0], "c": [0.0, 1.0]})
    out = put(given_hits, 2, dedupe=True, mmr=0.5, vectors=vectors)
    assert vectors.asked == [["a", "c"]]
    assert ids(out) == ["a", "c"]
    assert out.left_out == {"dedupe": ["b"]}


@pytest.mark.parametrize(
    ("options", "by", "kept"),
    [
        ({"mmr": 1.0}, "passage", "abd"),
        ({"mmr": 1.0, "max_per_document": 1}, "passage", "ad"),
        ({"mmr": 1.0, "max_per_document": 3}, "passage", "abc"),
        ({"rerank": Planted({})}, "passage", "abc"),
        ({"max_per_document": 1}, "passage", "ad"),
        ({"mmr": 1.0}, "document", "abc"),
    ],
)
def test_the_cap_is_2_a_document_under_mmr_unless_said_otherwise(options: dict, by: str, kept: str):
    documents = {"a": "x", "b": "x", "c": "x", "d": "y"}
    given_hits = Hits([hit(name, 9.0 - at, document=documents[name]) for at, name in enumerate("abcd")])
    assert ids(put(given_hits, 3, by=by, **options)) == list(kept)


@given(st.lists(st.tuples(SCORES | st.just(NAN), st.integers(-2, 2)), min_size=1, max_size=10), st.booleans())
@settings(max_examples=100)
def test_lambda_1_is_exactly_the_order_of_the_last_stage(pairs, has_raw):
    names = [f"t{at}" for at in range(len(pairs))]
    options: dict[str, Any] = {
        "rerank": Planted(
            {name: score for name, (score, _) in zip(names, pairs, strict=True)},
            raw={name: float(raw) for name, (_, raw) in zip(names, pairs, strict=True)} if has_raw else None,
        )
    }
    plain = put(searched(names), 20, **options)
    assert ids(put(searched(names), 20, mmr=1.0, **options)) == ids(plain)
    blended = put(searched(names), 20, blend=0.25, **options)
    assert ids(put(searched(names), 20, blend=0.25, mmr=1.0, **options)) == ids(blended)


def test_unscored_hits_are_chosen_after_scored_ones():
    vectors = square("abc", {"a": [1.0, 0.0], "b": [1.0, 0.0], "c": [0.6, 0.8]})
    planted = Planted({"a": NAN, "b": 0.9, "c": 0.8})
    assert ids(put(searched("abc"), rerank=planted, mmr=0.9, vectors=vectors)) == ["b", "c", "a"]


@st.composite
def cascades(draw: st.DrawFn) -> tuple[Hits, int, dict[str, Any], str]:
    count = draw(st.integers(0, 9))
    hits = Hits(
        [
            hit(
                f"h{at}",
                float(count - at),
                document=draw(st.sampled_from("xyz")),
                text=draw(st.sampled_from(["", "one", "two", "ONE", f"text {at}"])),
            )
            for at in range(count)
        ],
        query="q",
    )
    options: dict[str, Any] = {
        "mmr": draw(st.none() | SCORES),
        "max_per_document": draw(st.none() | st.integers(1, 3)),
        "dedupe": draw(st.booleans()),
    }
    if draw(st.booleans()):
        by_place = draw(st.lists(SCORES | st.just(NAN), min_size=count, max_size=count))
        answer: Any = by_place if draw(st.integers(0, 4)) else ValueError("broken")
        options |= {"rerank": Bare(answer), "blend": draw(SCORES)}
        options["judge"] = draw(st.none() | SCORES)
    return hits, draw(st.integers(1, 10)), options, draw(st.sampled_from(["passage", "document"]))


@given(cascades(), st.integers(0, 100))
@settings(max_examples=150)
def test_every_candidate_is_among_the_hits_or_left_out_once(cascade, seed):
    hits, k, options, by = cascade
    rng = np.random.default_rng(seed)

    def vectors(asked: Sequence[Any]) -> list[Vectors]:
        made = rng.standard_normal((len(asked), 3, 4)).astype(np.float32)
        return list(made / np.linalg.norm(made, axis=2, keepdims=True))

    out = put(hits, k, by=by, vectors=vectors, **options)
    if not CascadeConfig(**options).active:
        assert ids(out) == ids(hits)
        return
    left = [name for names in out.left_out.values() for name in names]
    assert sorted(ids(out) + left) == sorted(ids(hits))
    assert len(out) <= k
    assert set(out.left_out) <= {"judge", "unscored", "dedupe", "max_per_document", "k"}
    status = None if out.verdict is None else out.verdict.status
    assert (status is None) == (options.get("judge") is None)
    if status == "approved":
        assert all(each.scores["rerank"] >= options["judge"] and not each.unscored for each in out)
    if status == "refused":
        assert len(out) == 0


# On an index

CORPUS = [
    {"id": "guarantee", "text": "The legal guarantee lasts six months and covers faults of the factory."},
    {"id": "maker", "text": "The maker's own guarantee is a courtesy and lasts as long as the maker says."},
    {"id": "refund", "title": "Refunds", "text": "Money is given back within thirty days of the purchase."},
    {"id": "repeat", "text": "the legal guarantee lasts SIX months and covers faults of the factory."},
    {
        "id": "shipping",
        "title": "Shipping",
        "text": "Parcels leave the warehouse on Mondays. They reach the regions within five working days. "
        "Islands wait for the next ship, which takes two more days. Express parcels cost twice as much. "
        "A parcel that is lost on the way is sent again without any cost to the buyer.",
    },
]
QUERY = "how long does the guarantee last"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ColRank:
    made = ColRank.create(tmp_path_factory.mktemp("cascade") / "i", device="cpu", passage_tokens=24)
    made.add(CORPUS)
    assert made.stats()["passages"] >= 7
    return made


@pytest.fixture(scope="module")
def plain(index: ColRank) -> Hits:
    """The search alone, all passages."""
    return index.search(QUERY, 100)


def test_a_search_is_reranked(index: ColRank, plain: Hits):
    planted = Planted(lambda _, text: 0.9 if "Islands" in text else 0.5 if "Money" in text else 0.1)
    hits = index.search(QUERY, 3, rerank=planted)
    assert planted.asked == [(QUERY, titled(plain[:]))]
    assert [each.document for each in hits][:2] == ["shipping", "refund"]
    assert "Islands" in hits[0].text
    assert hits[2].id == plain[0].id
    assert [each.score for each in hits] == [0.9, 0.5, 0.1]
    assert hits[2].scores == {"maxsim": plain[0].score, "rerank": 0.1}
    assert set(hits.left_out["k"]) == set(ids(plain)) - set(ids(hits))
    assert list(hits.timings) == ["encode", "scan", "select", "rerank", "cut"]
    assert hits.usage == Usage(pairs=len(plain))


def test_only_the_candidates_are_read(index: ColRank, plain: Hits):
    planted = Planted({}, default=0.5)
    hits = index.search(QUERY, 2, rerank=planted, candidates=3)
    assert planted.asked == [(QUERY, titled(plain[:3]))]
    assert ids(hits) == ids(plain)[:2]
    assert hits.left_out == {"k": [plain[2].id]}
    more = index.search(QUERY, 4, rerank=Planted({}, default=0.5), candidates=3)
    assert ids(more) == ids(plain)[:4]
    every = index.search(QUERY, 100, rerank=Planted({}, default=0.5), candidates=3)
    assert ids(every) == ids(plain)
    assert every.left_out == {}


def test_queries_together_are_as_each_alone_and_one_that_fails_fails_alone(index: ColRank):
    queries = [QUERY, "when do parcels leave", "money back"]
    planted = Planted(lambda query, text: (len(text) * len(query) % 17) / 17)
    together = index.search(queries, 4, rerank=planted)
    for query, hits in zip(queries, together, strict=True):
        alone = index.search(query, 4, rerank=planted)
        assert hits.query == query
        assert [(each.id, each.score) for each in hits] == [(each.id, each.score) for each in alone]
    failing = Planted(lambda _, text: 0.5, fails=RuntimeError("busy"), failing=[queries[1]])
    found = index.search(queries, 4, rerank=failing, judge=0.4)
    assert [hits.verdict.status for hits in found if hits.verdict] == ["approved", "unjudged", "approved"]
    assert ids(found[1]) == ids(index.search(queries[1], 4))
    assert [len(hits.warnings) for hits in found] == [0, 2, 0]
    assert "planted failed: RuntimeError: busy." in found[1].warnings[0]
    with pytest.raises(StageFailed, match="busy"):
        index.search(queries, 4, rerank=failing, on_rerank_error="fail")
    assert index.search([], 4, rerank=planted) == []


def test_by_document_the_best_passage_of_each_is_read(index: ColRank):
    documents = index.search(QUERY, 100, by="document")
    planted = Planted(lambda _, text: len(text) / 1000)
    hits = index.search(QUERY, 5, by="document", rerank=planted, mmr=1.0)
    assert planted.asked == [(QUERY, titled(documents[:]))]
    expected = sorted(documents, key=lambda each: -len(titled([each])[0]))
    assert ids(hits) == ids(expected)
    assert len({each.document for each in hits}) == len(hits) == 5


def test_all_stages_at_once(index: ColRank, plain: Hits):
    def score(_: str, text: str) -> float:
        return 0.9 if "legal" in text else 0.85 if "Shipping" in text else 0.3

    hits = index.search(QUERY, 4, rerank=Planted(score), judge=0.75, dedupe=True, mmr=0.7)
    assert hits.verdict is not None
    assert hits.verdict.status == "approved"
    assert hits[0].document in ("guarantee", "repeat")
    assert [each.document for each in hits][1:] == ["shipping", "shipping"]
    assert {each.tier for each in hits} == {"high"}
    assert len(hits.left_out["dedupe"]) == 1
    assert len(hits.left_out["max_per_document"]) >= 1
    left = [name for names in hits.left_out.values() for name in names]
    assert sorted(ids(hits) + left) == sorted(ids(plain))
    stages = [name for name in hits.timings if not name.startswith("mmr_")]
    assert stages == ["encode", "scan", "select", "rerank", "judge", "dedupe", "mmr"]


def test_words_are_marked_in_the_hits_that_are_left(index: ColRank):
    hits = index.search("legal guarantee", 2, highlight=True, rerank=Planted({}, default=0.5), judge=0.4)
    assert len(hits) == 2
    assert hits[0].highlights
    assert (hits[0].tier, hits[0].scores["judge"]) == ("topical", 0.5)
    assert list(hits.timings)[-1] == "highlight"


def test_exact_is_maxsim_of_float32_vectors(index: ColRank):
    hits = index.search(QUERY, 100, rerank="exact")
    encoder = index.encoder
    query = encoder.encode_queries([QUERY])[0]
    weights = np.ones(len(query.vectors))
    if index.snapshot.weighted:
        weights = index.snapshot.frequencies.weights(query.token_ids, query.special)
    for each in hits:
        text = encoder_input(each.title.strip(), each.text)
        (vectors, _), *_ = encoder.encode_passages([text], [len(encoder.token_spans(text))])
        products = query.vectors.astype(np.float64) @ vectors.astype(np.float64).T
        expected = float(products.max(axis=1) @ weights)
        assert each.scores["rerank_maxsim"] == pytest.approx(expected, abs=2e-4)
        assert each.score == pytest.approx((1 + expected / weights.sum()) / 2, abs=1e-5)
    raw = [each.scores["rerank_maxsim"] for each in hits]
    assert raw == sorted(raw, reverse=True)
    assert hits.usage is not None
    assert hits.usage.pairs == len(hits)


def test_the_sentence_for_a_refused_query_is_in_the_language_of_query_and_texts(tmp_path: Path):
    spanish = ColRank.create(tmp_path / "es", device="cpu")
    spanish.add(
        [
            {"id": "a", "text": "La garantía legal dura seis meses y cubre los fallos de fábrica."},
            {"id": "b", "text": "Los envíos a las regiones tardan cinco días hábiles desde la compra."},
        ]
    )
    asked = "cuánto dura la garantía legal de un producto"
    hits = spanish.search(asked, 2, rerank=Planted({}), judge=0.75)
    assert hits.verdict is not None
    assert hits.verdict.fallback == FALLBACKS["es"]
    own = spanish.search(asked, 2, rerank=Planted({}), judge=0.75, fallback="Pregunte en la tienda.")
    assert own.verdict is not None
    assert own.verdict.fallback == "Pregunte en la tienda."
    # English only, on Spanish text: told once, however many candidates there are.
    warned = spanish.search(asked, 2, rerank=Planted({}, name=ENGLISH_ONLY))
    (told,) = warned.warnings
    assert told.startswith("The reranker cross-encoder/ms-marco-MiniLM-L6-v2 reads English only")
    assert "Spanish" in told
    for name in ("hf:BAAI/bge-reranker-v2-m3", "planted"):
        assert spanish.search(asked, 2, rerank=Planted({}, name=name)).warnings == []


def test_an_english_reranker_is_fine_for_english_text(index: ColRank):
    hits = index.search(QUERY, 2, rerank=Planted({}, name=ENGLISH_ONLY), judge=0.75)
    assert hits.warnings == []
    assert hits.verdict is not None
    assert hits.verdict.fallback == FALLBACKS["en"]


# On an index of given vectors

DIM = 8


def vectors_of(rng: np.random.Generator, count: int) -> np.ndarray:
    made = rng.standard_normal((count, DIM)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.mark.parametrize("bits", [None, 8])
def test_given_vectors_are_chosen_by_mmr(tmp_path: Path, bits: int | None):
    rng = np.random.default_rng(0)
    held = {f"d{row:02d}": vectors_of(rng, int(rng.integers(1, 60))) for row in range(24)}
    index = ColRank.create(tmp_path / "i", model=None, bits=bits)
    index.add_embeddings(list(held), list(held.values()))
    query = vectors_of(rng, 3)
    plain = index.search(query, 24)
    hits = index.search(query, 8, mmr=0.5, mmr_exact=True, candidates=20)
    # By the definition, over the scores of the search and the vectors as they were given.
    scores = np.array([each.score for each in plain[:20]])
    relevance = (scores - scores.min()) / (scores.max() - scores.min())
    names = [each.document for each in plain[:20]]

    def alike(one: str, other: str) -> float:
        products = held[one].astype(np.float64) @ held[other].astype(np.float64).T
        return float((products.max(axis=1).mean() + products.max(axis=0).mean()) / 2)

    chosen: list[int] = []
    gains: list[float] = []
    while len(chosen) < 8:
        gain = [
            0.5 * relevance[at] - 0.5 * max((alike(names[at], names[other]) for other in chosen), default=0)
            for at in range(20)
        ]
        best = max((at for at in range(20) if at not in chosen), key=lambda at: (gain[at], -at))
        chosen.append(best)
        gains.append(gain[best])
    assert [each.document for each in hits] == [names[at] for at in chosen]
    found = [each.scores["mmr"] for each in hits]
    np.testing.assert_allclose(found, gains, atol=2e-3 if bits is None else 3e-2)
    assert len(hits.left_out["k"]) == 12
    reduced = index.search(query, 8, mmr=0.5, candidates=20)
    assert reduced[0].id == hits[0].id
    assert [each.scores["mmr"] for each in reduced] != found  # passages of up to 59 vectors
    assert ids(index.search(query, 8, mmr=1.0, candidates=20)) == ids(plain)[:8]


def test_a_reranker_is_not_asked_about_vectors(tmp_path: Path, index: ColRank):
    given_vectors = ColRank.create(tmp_path / "i", model=None)
    given_vectors.add_embeddings(["a", "b"], [np.eye(2, DIM), np.eye(3, DIM)], texts=["one", "one"])
    query = np.eye(2, DIM)
    with pytest.raises(InputError, match="reads text"):
        given_vectors.search(query, 2, rerank=Planted({}))
    with pytest.raises(InputError, match="from given vectors; name another one"):
        given_vectors.search("a text", 2, rerank="exact")
    with pytest.raises(InputError, match="given vectors"):
        given_vectors.search("a text", 2, rerank=Planted({}))
    with pytest.raises(InputError, match="reads text"):
        index.search([np.ones((1, 128)), QUERY], 2, rerank=Planted({}))
    assert ids(given_vectors.search(query, 2, dedupe=True)) == ["a#0"]


def test_a_document_of_given_vectors_cannot_be_encoded_again(tmp_path: Path):
    mixed = ColRank.create(tmp_path / "i", device="cpu")
    mixed.add([{"id": "text", "text": "The legal guarantee lasts six months."}])
    mixed.add_embeddings(["array"], [np.eye(2, 128)], texts=["Given."])
    with pytest.raises(InputError, match="'array' was added as vectors"):
        mixed.search(QUERY, 2, rerank="exact")
    assert len(mixed.search(QUERY, 2, rerank=Planted({}), mmr=0.5)) == 2


def test_a_name_that_means_nothing_is_one_sentence(index: ColRank):
    for name, said in (
        ("nonsense", "a model on the hub or a folder is hf:nonsense"),
        ("nonsense:model", "There is no reranker 'nonsense:model'"),
        ("hf:", "There is no reranker 'hf:'"),
        ("", "There is no reranker ''"),
    ):
        with pytest.raises(InputError, match=said):
            index.search(QUERY, 2, rerank=name)


def test_stages_work_on_hits_that_carry_everything(plain: Hits):
    """What a stage does not know of is handed on."""
    out = put(plain, 2, rerank=Planted({}, default=0.5))
    for before, after in zip(plain, out, strict=False):
        assert (after.source, after.metadata, after.start, after.end) == (
            before.source,
            before.metadata,
            before.start,
            before.end,
        )

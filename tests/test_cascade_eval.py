"""A cascade judged: measures of each stage by hand, lifts, candidates, prices, and the verdict's rules."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import NAN, Planted

from colrank import ColRank
from colrank.errors import InputError, StageFailed
from colrank.evaluate import Evaluation, paired
from colrank.evaluate.cascade_result import CascadeResult
from colrank.evaluate.intervals import Paired, holm
from colrank.evaluate.prices import Price, read_prices
from colrank.evaluate.verdict import Evidence, verdict

THINGS = (
    "river",
    "engine",
    "violin",
    "harbour",
    "garden",
    "invoice",
    "glacier",
    "kitchen",
    "satellite",
    "bridge",
)
DEEDS = ("was painted", "broke down", "grew slowly", "was sold", "froze over", "made a noise", "was measured",
         "caught fire", "stood empty", "was rebuilt", "smelled of salt")  # fmt: skip
LONG = (
    "The harbour master writes down every ship. He counts the crates and the barrels as well. On Sundays "
    "nobody works and the gulls have the quay for themselves. In winter the ice is broken with iron poles. "
    "A lamp burns at the end of the pier until the morning comes."
)
QUERIES = {
    f"q{at}": f"which {thing} {deed}" for at, (thing, deed) in enumerate(zip(THINGS, DEEDS, strict=False))
}
RANKS = {"q0": 1, "q1": 2, "q2": 3, "q3": 4, "q4": 6, "q5": 9, "q6": 11, "q7": 15, "q8": 19, "q9": 33}
"""Where the search has each query's relevant document."""
CANDIDATES = 20


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ColRank:
    made = ColRank.create(tmp_path_factory.mktemp("judged") / "i", device="cpu", passage_tokens=24)
    made.add(
        {"id": f"{thing}-{at}", "text": f"The {thing} {deed}."}
        for thing in THINGS
        for at, deed in enumerate(DEEDS)
    )
    made.add([{"id": "long", "text": LONG}])
    assert made.stats()["passages"] > 112
    return made


def once(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


def documents(index: ColRank, query: str, k: int, **options: Any) -> list[str]:
    return once([hit.document for hit in index.search(query, k, **options)])


@pytest.fixture(scope="module")
def qrels(index: ColRank) -> dict[str, dict[str, int]]:
    """One relevant document a query, at a known rank of the search, and one that is not relevant."""
    found = {}
    for name, text in QUERIES.items():
        order = documents(index, text, 100)
        found[name] = {order[RANKS[name] - 1]: 1, order[40]: 0}
    return found


# Measures, written out once more


def ndcg(ranked: Sequence[str], grades: Mapping[str, int], cut: int) -> float:
    gained = sum(grades.get(name, 0) / math.log2(at + 2) for at, name in enumerate(ranked[:cut]))
    best = sorted(grades.values(), reverse=True)[:cut]
    return gained / sum(grade / math.log2(at + 2) for at, grade in enumerate(best))


def recall(ranked: Sequence[str], grades: Mapping[str, int], cut: int) -> float:
    relevant = {name for name, grade in grades.items() if grade > 0}
    return len(relevant & set(ranked[:cut])) / len(relevant)


def reciprocal(ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    return next((1 / at for at, name in enumerate(ranked[:10], start=1) if grades.get(name, 0) > 0), 0.0)


def measured(
    run: Mapping[str, Sequence[str]], qrels: Mapping[str, Mapping[str, int]], names: Sequence[str]
) -> dict[str, float]:
    def one(name: str, query: str) -> float:
        kind, _, cut = name.partition("@")
        ranked, grades = run[query], qrels[query]
        if kind == "nDCG":
            return ndcg(ranked, grades, int(cut))
        return recall(ranked, grades, int(cut)) if kind == "R" else reciprocal(ranked, grades)

    return {name: float(np.mean([one(name, query) for query in qrels])) for name in names}


def perfect(index: ColRank, qrels: Mapping[str, Mapping[str, int]], **more: Any) -> Planted:
    """Gives .9 to what is relevant and .1 to all else."""
    texts = {hit.text: hit.document for hit in index.search("the", 1000)}
    queries = {text: name for name, text in QUERIES.items()}
    return Planted(lambda query, text: 0.9 if qrels[queries[query]].get(texts[text], 0) else 0.1, **more)


def cascade_of(found: Evaluation) -> CascadeResult:
    assert found.cascade is not None
    return found.cascade


@pytest.fixture(scope="module")
def judged(index: ColRank, qrels: dict[str, dict[str, int]]) -> Evaluation:
    return index.evaluate(
        QUERIES, qrels, rerank=perfect(index, qrels, tokens=700, calls=2, cut=3), candidates=CANDIDATES, k=5
    )


def test_each_stage_by_hand(index: ColRank, qrels: dict, judged: Evaluation):
    found = cascade_of(judged)
    assert (found.reranker, found.candidates, found.k) == ("planted", CANDIDATES, 5)
    assert found.measures == ("R@20", "nDCG@10", "nDCG@5", "RR@10", "R@5")
    assert [stage.name for stage in found.stages] == ["search", "rerank", "cut"]
    run = {name: documents(index, text, CANDIDATES) for name, text in QUERIES.items()}
    best = {
        name: sorted(ranked, key=lambda document, name=name: -qrels[name].get(document, 0))
        for name, ranked in run.items()
    }
    cut = {name: ranked[:5] for name, ranked in best.items()}
    for stage, expected in zip(found.stages, (run, best, cut), strict=True):
        assert stage.means == pytest.approx(measured(expected, qrels, found.measures)), stage.name
    # Worked out from the ranks alone: nine of ten are among the candidates, six among the first ten.
    search, rerank, last = found.stages
    assert search.means["R@20"] == rerank.means["R@20"] == pytest.approx(0.9)
    assert search.means["RR@10"] == pytest.approx(sum(1 / r for r in RANKS.values() if r <= 10) / 10)
    assert search.means["nDCG@10"] == pytest.approx(
        sum(1 / math.log2(r + 1) for r in RANKS.values() if r <= 10) / 10
    )
    assert search.means["R@5"] == pytest.approx(0.4)
    assert rerank.means["nDCG@10"] == rerank.means["RR@10"] == pytest.approx(0.9)
    assert [stage.hits for stage in found.stages] == [CANDIDATES, CANDIDATES, 5]
    assert all(stage.milliseconds > 0 for stage in found.stages)
    assert last.means["R@5"] == pytest.approx(0.9)


def test_lifts_are_over_the_stage_before(judged: Evaluation):
    search, rerank, cut = cascade_of(judged).stages
    assert search.lift is None
    lift = rerank.lift
    assert lift is not None
    gains = [1 / math.log2(rank + 1) if rank <= 10 else 0.0 for rank in RANKS.values()]
    after = [1.0 if rank <= CANDIDATES else 0.0 for rank in RANKS.values()]
    assert lift.baseline == pytest.approx(np.mean(gains))
    assert lift.difference == pytest.approx(np.mean(after) - np.mean(gains))
    assert 0 < lift.low < lift.difference < lift.high
    # Of two that are tested, the smaller p counts twice.
    assert lift.p == pytest.approx(2 * paired(after, gains).p)
    assert cut.lift is not None
    assert (cut.lift.difference, cut.lift.p) == (0.0, 1.0)


def test_ranks_before_and_after(judged: Evaluation):
    expected = {name: (rank, 1) if rank <= CANDIDATES else (None, None) for name, rank in RANKS.items()}
    assert cascade_of(judged).ranks == expected


def test_what_a_query_costs(judged: Evaluation):
    found = cascade_of(judged)
    assert (found.pairs, found.tokens, found.calls, found.cut, found.price) == (CANDIDATES, 700, 2, 3, None)
    assert (found.refused, found.unjudged, found.refused_wrongly) == (0, 0, 0)
    assert found.warnings == []
    assert found.beyond is None
    assert found.sweep == []


def test_a_perfect_reranker_is_worth_it(judged: Evaluation):
    found = cascade_of(judged)
    lift = found.stages[1].lift
    assert lift is not None
    assert lift.p < 0.05
    assert found.verdict == "worth it"
    assert found.sentence.startswith(
        f"Worth it: nDCG@10 {lift.difference:+.4f} (interval {lift.low:+.4f} to "
    )
    assert "10 queries" in found.sentence


def test_it_is_all_plain_values(judged: Evaluation):
    held = json.loads(json.dumps(judged.to_json()))["cascade"]
    assert held["ranks"]["q1"] == [2, 1]
    assert held["stages"][1]["lift"]["difference"] > 0


def test_mmr_and_judge_are_stages_too(index: ColRank, qrels: dict):
    options: dict[str, Any] = {
        "rerank": perfect(index, qrels), "candidates": CANDIDATES, "judge": 0.05, "mmr": 0.3, "dedupe": True
    }  # fmt: skip
    found = cascade_of(index.evaluate(QUERIES, qrels, k=4, **options))
    assert [stage.name for stage in found.stages] == ["search", "rerank", "judge", "dedupe", "mmr"]
    last = {name: documents(index, text, 4, **options) for name, text in QUERIES.items()}
    assert found.stages[-1].means == pytest.approx(measured(last, qrels, found.measures))
    assert found.stages[2].means == found.stages[1].means
    without = cascade_of(index.evaluate(QUERIES, qrels, k=4, candidates=30, mmr=0.3))
    assert (without.reranker, without.verdict, without.sentence) == ("", "", "")
    assert [stage.name for stage in without.stages] == ["search", "mmr"]
    assert (without.pairs, without.tokens, without.cut) == (0, None, None)
    last = {name: documents(index, text, 4, candidates=30, mmr=0.3) for name, text in QUERIES.items()}
    assert without.stages[-1].means == pytest.approx(measured(last, qrels, without.measures))


def test_by_document(index: ColRank, qrels: dict):
    found = cascade_of(
        index.evaluate(QUERIES, qrels, rerank=perfect(index, qrels), candidates=12, k=3, by="document")
    )
    run = {name: documents(index, text, 12, by="document") for name, text in QUERIES.items()}
    assert found.stages[0].means == pytest.approx(measured(run, qrels, found.measures))
    assert [stage.hits for stage in found.stages] == [12, 12, 3]


# The judge


def test_refused_queries_are_counted_and_those_that_had_an_answer(index: ColRank, qrels: dict):
    good = perfect(index, qrels)
    queries = {text: name for name, text in QUERIES.items()}

    def score(query: str, text: str) -> float:
        # q1 is refused though its answer is there, q9 has none among the candidates; q2 fails in part.
        if queries[query] == "q1":
            return 0.2
        if queries[query] == "q2":
            return NAN if good.of(query, text) > 0.5 else 0.1
        return good.of(query, text)

    planted = Planted(score, fails=OSError("gone"), failing=[QUERIES["q3"]])
    found = cascade_of(index.evaluate(QUERIES, qrels, rerank=planted, candidates=CANDIDATES, judge=0.75, k=5))
    assert (found.refused, found.refused_wrongly, found.unjudged) == (2, 1, 2)
    assert found.ranks["q1"] == (2, None)
    assert found.ranks["q9"] == (None, None)
    assert found.ranks["q2"] == (3, None)  # it stands last, below the five
    assert found.ranks["q3"] == (4, 4)
    # A failed query was sent nothing that is known of.
    assert found.pairs == CANDIDATES
    assert sum("OSError: gone" in warning for warning in found.warnings) == 1
    assert all(warning.endswith("(1 queries)") for warning in found.warnings)


def test_a_reranker_that_fails_for_every_query_measured_nothing(index: ColRank, qrels: dict):
    planted = Planted({}, fails=OSError("gone"))
    found = cascade_of(index.evaluate(QUERIES, qrels, rerank=planted, candidates=CANDIDATES, k=5))
    assert (found.verdict, found.sentence) == (
        "not worth it",
        "Nothing was measured: the reranker failed for every query.",
    )
    (told,) = found.warnings
    assert told.endswith("(10 queries)")
    with pytest.raises(StageFailed, match="gone"):
        index.evaluate(QUERIES, qrels, rerank=planted, on_rerank_error="fail")


def test_a_text_left_unscored_here_and_there_is_no_failure(index: ColRank, qrels: dict):
    good = perfect(index, qrels)
    last = {text: documents(index, text, CANDIDATES)[-1] for text in QUERIES.values()}
    texts = {hit.text: hit.document for hit in index.search("the", 1000)}
    gold = {QUERIES[name]: next(iter(grades)) for name, grades in qrels.items()}

    def score(query: str, text: str) -> float:
        return NAN if texts[text] == last[query] != gold[query] else good.of(query, text)

    found = cascade_of(
        index.evaluate(QUERIES, qrels, rerank=Planted(score), candidates=CANDIDATES, k=CANDIDATES)
    )
    assert found.stages[1].means["RR@10"] == pytest.approx(0.9)
    assert found.verdict == "worth it"


def test_a_warning_is_counted_by_query(index: ColRank, qrels: dict):
    planted = perfect(index, qrels, warnings=["Something is odd."])
    found = cascade_of(index.evaluate(QUERIES, qrels, rerank=planted, candidates=20, k=5, sweep=(5, 10, 20)))
    assert found.warnings == ["Something is odd. (10 queries)"]
    varied = Planted(lambda query, text: 0.5, warnings=[f"Warning {at}." for at in range(12)])
    told = cascade_of(index.evaluate(QUERIES, qrels, rerank=varied, candidates=20, k=5)).warnings
    assert len(told) == 9
    assert told[-1].startswith("4 more warnings")


# Numbers of candidates


def test_a_sweep_asks_for_each_text_once_and_is_judged_at_each_number(index: ColRank, qrels: dict):
    planted = perfect(index, qrels)
    counts = (40, 5, 10, 10)
    found = cascade_of(
        index.evaluate(QUERIES, qrels, rerank=planted, candidates=CANDIDATES, k=5, sweep=counts)
    )
    assert [row.candidates for row in found.sweep] == [5, 10, 40]
    gains = [1 / math.log2(rank + 1) if rank <= 10 else 0.0 for rank in RANKS.values()]
    raw = []
    for row in found.sweep:
        run = {}
        for name, text in QUERIES.items():
            hits = documents(index, text, row.candidates)
            run[name] = sorted(hits, key=lambda document, name=name: -qrels[name].get(document, 0))
        assert row.means == pytest.approx(measured(run, qrels, found.measures[1:]))
        within = [rank <= row.candidates for rank in RANKS.values()]
        assert row.ceiling == pytest.approx(np.mean(within))
        after = [
            float(inside) if inside or rank > 10 or row.candidates >= 10 else 0.0
            for inside, rank in zip(within, RANKS.values(), strict=True)
        ]
        assert row.lift.difference == pytest.approx(np.mean(after) - np.mean(gains))
        assert row.lift.baseline == pytest.approx(np.mean(gains))
        assert not row.measured
        raw.append(paired(after, gains).p)
    assert [row.ceiling for row in found.sweep] == pytest.approx([0.4, 0.6, 1.0])
    assert found.sweep[0].milliseconds < found.sweep[1].milliseconds < found.sweep[2].milliseconds
    # Every lift is tested beside the others: rerank, cut, and three numbers of candidates.
    rerank_p = paired([float(rank <= CANDIDATES) for rank in RANKS.values()], gains).p
    expected = holm_by_hand([rerank_p, 1.0, *raw])
    lifts = [stage.lift for stage in found.stages[1:]] + [row.lift for row in found.sweep]
    assert [lift.p for lift in lifts if lift] == pytest.approx(expected)
    # Asked once for the stages, and once more for each text of the largest number.
    for text in QUERIES.values():
        asked = [texts for query, texts in planted.asked if query == text]
        assert len(asked[0]) == CANDIDATES
        assert sum(map(len, asked[1:])) == len({each for texts in asked[1:] for each in texts}) == 40


def test_a_reranker_that_looks_at_lists_is_asked_for_each_number(index: ColRank, qrels: dict):
    planted = perfect(index, qrels, listwise=True)
    found = cascade_of(index.evaluate(QUERIES, qrels, rerank=planted, candidates=10, k=5, sweep=(5, 10)))
    asked = [len(texts) for query, texts in planted.asked if query == QUERIES["q0"]]
    assert asked == [10, 10, 5]
    assert all(row.measured for row in found.sweep)


def test_more_candidates_than_there_are(index: ColRank, qrels: dict):
    planted = perfect(index, qrels)
    found = cascade_of(index.evaluate(QUERIES, qrels, rerank=planted, candidates=300, k=5, sweep=(5, 300)))
    assert found.measures[0] == "R@300"
    assert found.stages[0].means["R@300"] == found.sweep[-1].ceiling == 1.0
    assert len(planted.asked[0][1]) == index.stats()["passages"]
    assert found.beyond == 0.0
    far = {
        name: {documents(index, QUERIES[name], 100)[at - 1]: 1 for at in (1, 50, 60, 70)}
        for name in ("q0", "q1")
    }
    beyond = cascade_of(index.evaluate(QUERIES, far, rerank=planted_any(), candidates=65, k=5)).beyond
    # Of three that are found, the one at rank 60 lies beyond 50.
    assert beyond == pytest.approx(1 / 3)


def planted_any() -> Planted:
    return Planted(lambda query, text: len(text) / 1000)


def test_five_candidates_are_measured_once(index: ColRank, qrels: dict):
    """R@5 is both the candidates' recall and a measure."""
    found = cascade_of(
        index.evaluate(QUERIES, qrels, rerank=perfect(index, qrels), candidates=5, k=5, sweep=(2, 5))
    )
    assert found.measures == ("R@5", "nDCG@10", "nDCG@5", "RR@10")
    assert found.stages[0].means["R@5"] == found.sweep[1].ceiling == pytest.approx(0.4)
    assert found.sweep[0].ceiling == pytest.approx(0.2)
    # Four of ten are among five candidates: the retriever is what has to be mended.
    assert found.verdict == "mend the retriever first"
    assert "only for 40% of the queries" in found.sentence


# Prices


def test_prices_by_searches_and_by_tokens():
    cohere = Price(usd_per_1000_searches=2.0, documents_per_search=100)
    assert [cohere.of_1000_queries(pairs, None) for pairs in (0, 1, 50, 100, 101, 250)] == [0, 2, 2, 2, 4, 6]
    voyage = Price(usd_per_million_tokens=0.05)
    # 1,000 queries of 10,000 tokens are 10 million.
    assert voyage.of_1000_queries(50, 10_000) == pytest.approx(0.5)
    assert voyage.of_1000_queries(50, None) is None
    both = Price(1.0, 10, 0.1)
    assert both.of_1000_queries(25, 500) == pytest.approx(3 + 0.05)
    assert Price().of_1000_queries(50, None) == 0


def test_the_price_of_the_reranker_is_told(index: ColRank, qrels: dict, tmp_path: Path):
    path = tmp_path / "prices.toml"
    path.write_text('["voyage:x"]\nusd_per_million_tokens = 0.05\n["cohere:y"]\nusd_per_1000_searches = 2\n')
    for name, price in (("voyage:x", 700 * 0.05 / 1000), ("cohere:y", 2.0), ("planted", None)):
        found = index.evaluate(
            QUERIES,
            qrels,
            rerank=perfect(index, qrels, tokens=700, name=name),
            candidates=10,
            k=5,
            prices=path,
        )
        assert cascade_of(found).price == (None if price is None else pytest.approx(price))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[a]\nusd = 1\n", "usd of a is 1"),
        ("[a]\nusd_per_1000_searches = -1\n", "usd_per_1000_searches of a is -1"),
        ("[a]\nusd_per_1000_searches = true\n", "usd_per_1000_searches of a is True"),
        ('[a]\nusd_per_1000_searches = "2"\n', "usd_per_1000_searches of a is '2'"),
        ("[a]\nusd_per_million_tokens = nan\n", "usd_per_million_tokens of a is nan"),
        ("[a]\nusd_per_million_tokens = inf\n", "usd_per_million_tokens of a is inf"),
        ("[a]\ndocuments_per_search = 0\n", "documents_per_search of a is 0"),
        ("usd_per_1000_searches = 2\n", "usd_per_1000_searches"),
        ("[a", "not valid TOML"),
    ],
)
def test_a_bad_table_of_prices_is_one_sentence(tmp_path: Path, content: str, said: str):
    path = tmp_path / "prices.toml"
    path.write_text(content)
    with pytest.raises(InputError, match=said):
        read_prices(path)
    with pytest.raises(InputError, match="Cannot read"):
        read_prices(tmp_path / "nowhere.toml")


# The verdict


def evidence(
    low: float = 0.02, difference: float = 0.05, high: float = 0.08, p: float = 0.01, **more: Any
) -> Evidence:
    usual: dict[str, Any] = {
        "ceiling": 0.9, "queries": 100, "failed": 0, "candidates": 50, "passages": 1000, "k": 5,
        "milliseconds": 120.0, "search_milliseconds": 20.0, "max_ms": None,
    }  # fmt: skip
    return Evidence(lift=Paired(0.5, difference, low, high, p), **{**usual, **more})


@pytest.mark.parametrize(
    ("seen", "expected", "said"),
    [
        (evidence(), "worth it", "nDCG@10 +0.0500 (interval +0.0200 to +0.0800, 100 queries), at 120 ms"),
        (evidence(p=0.06), "not worth it", "may be chance"),
        (evidence(low=-0.01, p=0.04), "not worth it", "may be chance"),
        (evidence(-0.08, -0.05, -0.02), "not worth it", "orders worse, nDCG@10 -0.0500"),
        (evidence(ceiling=0.59), "mend the retriever first", "only for 59% of the queries"),
        (evidence(ceiling=0.6), "worth it", "Worth it"),
        (evidence(ceiling=0.1, max_ms=1.0, k=1), "mend the retriever first", "no reranker finds what"),
        (evidence(max_ms=120.0), "worth it", "120 ms a query instead of 20"),
        (evidence(max_ms=119.0), "not worth it", "more than the 119 that were asked for"),
        (evidence(passages=99), "not worth it", "with 99 passages there is little to choose from"),
        (evidence(passages=100), "worth it", "Worth it"),
        (evidence(k=1), "not worth it", "only the first hit is wanted; it brought nDCG@10 +0.0500"),
        (evidence(k=1, passages=3, max_ms=1.0), "not worth it", "and only the first hit is wanted"),
        (evidence(failed=100), "not worth it", "failed for every query"),
        (evidence(failed=100, ceiling=0.1), "not worth it", "failed for every query"),
    ],
)  # fmt: skip
def test_the_verdict_follows_the_rules_of_when_not_to_rerank(seen: Evidence, expected: str, said: str):
    found, sentence = verdict(seen)
    assert found == expected
    assert said in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    if not seen.failed:
        assert sentence.startswith(expected.capitalize())


def test_a_budget_and_a_single_hit_speak_against_reranking(index: ColRank, qrels: dict):
    planted = perfect(index, qrels)
    tight = cascade_of(index.evaluate(QUERIES, qrels, rerank=planted, candidates=20, k=1, max_ms=1e-6))
    assert tight.verdict == "not worth it"
    assert "asked for" in tight.sentence
    assert "only the first hit is wanted" in tight.sentence
    wide = cascade_of(index.evaluate(QUERIES, qrels, rerank=planted, candidates=20, k=2, max_ms=1e9))
    assert wide.verdict == "worth it"


# Corrected p-values


def holm_by_hand(values: Sequence[float]) -> list[float]:
    """The smallest of n counts n times, the next n - 1 times, and none less than one before it."""
    out = [0.0] * len(values)
    before = 0.0
    for done, (value, at) in enumerate(sorted((value, at) for at, value in enumerate(values))):
        before = max(before, min(1.0, (len(values) - done) * value))
        out[at] = before
    return out


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([0.04], [0.04]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.5, 0.5, 0.5], [1.0, 1.0, 1.0]),
        ([0.02, 0.02], [0.04, 0.04]),
        ([0.9, 0.001], [0.9, 0.002]),
        ([0.01, 0.02, 0.022, 0.09], [0.04, 0.06, 0.06, 0.09]),
    ],
)
def test_holm_against_a_table_worked_out_by_hand(values: list[float], expected: list[float]):
    assert holm(values) == pytest.approx(expected)
    assert holm_by_hand(values) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_corrected_values_keep_their_order_and_never_shrink(values: list[float]):
    found = holm(values)
    assert found == pytest.approx(holm_by_hand(values))
    assert all(value <= corrected <= 1 for value, corrected in zip(values, found, strict=True))
    assert all(
        min(1, len(values) * value) >= each - 1e-12 or each <= 1
        for value, each in zip(values, found, strict=True)
    )
    for one in range(len(values)):
        for other in range(len(values)):
            if values[one] < values[other]:
                assert found[one] <= found[other]


# Errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sweep": (5, 10)}, "name one with rerank"),
        ({"max_ms": 10.0}, "name one with rerank"),
        ({"prices": "prices.toml"}, "name one with rerank"),
        ({"rerank": Planted({}), "sweep": (0, 10)}, "k is 0"),
        ({"rerank": Planted({}), "k": 0}, "k is 0"),
        ({"rerank": Planted({}), "prices": "nowhere.toml"}, "Cannot read"),
        ({"judge": 0.5}, "judge needs a reranker"),
    ],
)
def test_options_without_sense_are_one_sentence(index: ColRank, qrels: dict, options: dict, said: str):
    with pytest.raises(InputError, match=said):
        index.evaluate(QUERIES, qrels, **options)


def test_queries_given_as_vectors_are_not_reranked(index: ColRank, qrels: dict):
    query = np.ones((1, 128))
    with pytest.raises(InputError, match="reads text"):
        index.evaluate({"q0": query}, qrels, rerank=Planted({}))
    found = cascade_of(index.evaluate({"q0": query}, qrels, mmr=1.0, candidates=10, k=5))
    assert [stage.hits for stage in found.stages] == [10, 5]

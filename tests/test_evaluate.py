"""The judge of quality: measures by hand, intervals, files and their errors, stages, the command."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from colrank import ColRank, Evaluation
from colrank.cli.main import main
from colrank.codec import whole_vectors
from colrank.config import SearchConfig
from colrank.errors import InputError, MissingExtra
from colrank.evaluate import (
    MEASURES,
    bootstrap_interval,
    evaluate_run,
    failures,
    paired,
    read_qrels,
    read_run,
    write_run,
)
from colrank.evaluate.judgements import judged_queries, judgements
from colrank.evaluate.ranking import BestDocuments
from colrank.prefilter import candidates, plan
from colrank.score import QueryVectors, exact_scores, scan
from colrank.shards import TokenVectors

DIM = 24
DOCUMENTS = 240


def ndcg(ranked: list[str], grades: dict[str, int], cut: int = 10) -> float:
    """Gain grade, discount log2(rank + 1), over that of the best order."""
    best = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:cut]
    gained = sum(
        max(0, grades.get(name, 0)) / math.log2(rank + 1) for rank, name in enumerate(ranked[:cut], start=1)
    )
    return gained / sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best, start=1))


def run_of(*names: str) -> list[tuple[str, float]]:
    return [(name, float(100 - rank)) for rank, name in enumerate(names)]


# Measures


def test_measures_against_values_worked_out_by_hand():
    found = evaluate_run(
        {"q": run_of("x", "b", "y", "a", "z", "w", "c")},
        {"q": {"a": 2, "b": 1, "c": 1, "d": 3, "x": 0, "y": -1}},
    )["q"]
    # Gains 1, 2, 1 at ranks 2, 4, 7; at best 3, 2, 1, 1 at ranks 1 to 4.
    gained = 1 / math.log2(3) + 2 / math.log2(5) + 1 / math.log2(8)
    assert found["nDCG@10"] == pytest.approx(gained / (3 + 2 / math.log2(3) + 1 / 2 + 1 / math.log2(5)))
    assert found["RR@10"] == 1 / 2
    assert found["R@5"] == 2 / 4
    assert found["R@10"] == found["R@50"] == found["R@100"] == 3 / 4


def test_what_lies_beyond_a_measures_depth_does_not_count():
    names = [f"n{rank}" for rank in range(1, 151)]
    for rank, wanted in ((5, 5), (6, 10), (10, 10), (11, 50), (51, 100), (100, 100), (101, 1000)):
        found = evaluate_run({"q": run_of(*names)}, {"q": {f"n{rank}": 1}})["q"]
        assert found["RR@10"] == (pytest.approx(1 / rank) if rank <= 10 else 0)
        assert found["nDCG@10"] == (pytest.approx(1 / math.log2(rank + 1)) if rank <= 10 else 0)
        assert [found[f"R@{cut}"] for cut in (5, 10, 50, 100)] == [
            float(cut >= wanted) for cut in (5, 10, 50, 100)
        ]


@pytest.mark.parametrize("scores", [[1.0] * 4, [0.0, 5.0, 5.0, 9.0], [1 + 1e-12, 1 + 1e-12, 1.0, 1.0]])
def test_the_order_of_the_list_is_judged_whatever_the_scores(scores):
    for order in (["a", "b", "c", "d"], ["d", "c", "b", "a"], ["b", "d", "a", "c"]):
        found = evaluate_run({"q": list(zip(order, scores, strict=True))}, {"q": {"a": 1}})["q"]
        assert found["RR@10"] == 1 / (order.index("a") + 1)
        assert found["nDCG@10"] == pytest.approx(1 / math.log2(order.index("a") + 2))


def test_a_query_missing_from_the_run_counts_0_and_one_without_a_relevant_document_is_left_out():
    qrels = {"first": {"a": 1}, "gone": {"a": 1}, "empty": {"a": 1}, "none": {"a": 0, "b": -2}}
    found = evaluate_run({"first": run_of("a"), "empty": [], "other": run_of("a")}, qrels)
    assert list(found) == ["first", "gone", "empty"]
    assert found["first"] == dict.fromkeys(MEASURES, 1.0)
    assert found["gone"] == found["empty"] == dict.fromkeys(MEASURES, 0.0)


def test_a_document_twice_in_a_list_is_refused():
    with pytest.raises(InputError, match="ranks document 'a' twice for query 'q'"):
        evaluate_run({"q": run_of("a", "b", "a")}, {"q": {"a": 1}})


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtra, match=r"pip install 'colrank\[eval\]'"):
        evaluate_run({}, {})


def test_failures_come_worst_first():
    far = [f"n{rank}" for rank in range(1, 121)]
    run = {
        "fine": run_of(*far),
        "low": run_of(*far),
        "lower": run_of(*far),
        "beyond": run_of(*far),
        "empty": [],
    }
    qrels = {
        "fine": {"n10": 1},
        "low": {"n11": 1, "n50": 2},
        "beyond": {"n101": 1},
        "lower": {"n0": 1, "n30": 1, "n1": 0},
        "empty": {"a": 1},
        "unjudged": {"n1": 0},
    }
    found = failures(run, qrels, {"low": "what is low", "lower": np.ones((1, 2))})
    assert [(f.query, f.kind, f.rank) for f in found] == [
        ("beyond", "never retrieved", None),
        ("empty", "never retrieved", None),
        ("lower", "ranked low", 30),
        ("low", "ranked low", 11),
    ]
    assert [f.text for f in found] == ["", "", "", "what is low"]
    assert [f.relevant for f in found] == [("n101",), ("a",), ("n0", "n30"), ("n11", "n50")]
    assert [f.found for f in found] == ["n1", "", "n1", "n1"]


# Intervals


def test_the_interval_of_equal_values_has_no_width():
    low, high = bootstrap_interval([0.375] * 20)
    assert low == high == 0.375
    assert bootstrap_interval([0.25]) == (0.25, 0.25)


def test_the_interval_of_many_values_is_the_normal_one():
    values = np.random.default_rng(0).uniform(size=400)
    error = values.std() / math.sqrt(400)
    low, high = bootstrap_interval(values)
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.05 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.05 * error)
    low, high = bootstrap_interval(values, level=0.5)
    assert high - low == pytest.approx(2 * 0.6745 * error, rel=0.05)


def test_the_interval_depends_on_the_seed_alone(monkeypatch):
    values = np.random.default_rng(1).uniform(size=50)
    assert bootstrap_interval(values, seed=3) == bootstrap_interval(values, seed=3)
    assert bootstrap_interval(values, seed=3) != bootstrap_interval(values, seed=4)
    whole = bootstrap_interval(values)
    monkeypatch.setattr("colrank.evaluate.intervals._DRAWN_AT_ONCE", 700)
    assert bootstrap_interval(values) == pytest.approx(whole)


def test_identical_runs_do_not_differ():
    values = np.random.default_rng(2).uniform(size=30)
    same = paired(values, values)
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)
    assert same.baseline == pytest.approx(values.mean())


def test_the_randomisation_test_agrees_with_counting_all_signs():
    ours, theirs = np.array([0.9, 0.5, 0.8, 0.4, 0.6]), np.array([0.5, 0.4, 0.5, 0.5, 0.6])
    differences = ours - theirs
    signs = np.array(np.meshgrid(*[[-1, 1]] * 5)).reshape(5, -1).T
    wanted = (np.abs(signs @ differences) >= differences.sum() - 1e-9).mean()
    found = paired(ours, theirs)
    assert found.p == pytest.approx(wanted, abs=0.02)
    assert found.difference == pytest.approx(0.14)
    assert found.low < 0.14 < found.high
    # Five differences of one sign: two of 32 assignments are as large.
    assert paired([1, 1, 1, 1, 1], [0] * 5).p == pytest.approx(2 / 32, abs=0.01)


def test_a_strong_difference_has_a_small_p_to_either_side():
    random = np.random.default_rng(3)
    worse = random.uniform(size=60)
    better = worse + random.uniform(0.1, 0.3, size=60)
    up, down = paired(better, worse), paired(worse, better)
    assert up.p == down.p == pytest.approx(1 / 10_001)
    assert up.low > 0.1
    assert down.high < -0.1
    assert down.difference == pytest.approx(-up.difference)
    noise = paired(worse, random.permutation(worse))
    assert noise.p > 0.05


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: bootstrap_interval([]), "no value"),
        (lambda: bootstrap_interval([1.0], rounds=0), "rounds is 0"),
        (lambda: bootstrap_interval([1.0], level=1.0), "level 1.0"),
        (lambda: paired([1.0, 2.0], [1.0]), "2 values and 1 of the baseline"),
    ],
)
def test_intervals_of_nothing_are_refused(call, told):
    with pytest.raises(InputError, match=told):
        call()


# Judgements and queries


@pytest.mark.parametrize(
    "content",
    [
        "query-id\tcorpus-id\tscore\nq1\ta b\t2\nq1\tc\t0\nq2\tc\t-1\n",
        "\ufeffq1\ta b\t2\r\nq1\tc\t0.0\r\n\r\nq2\tc\t-1",
        "q1\t0\ta b\t2\nq1\t0\tc\t0\nq2 0 c -1\n",
    ],
)
def test_judgements_of_every_kind_of_file(tmp_path: Path, content: str):
    (tmp_path / "qrels").write_bytes(content.encode())
    assert read_qrels(tmp_path / "qrels") == {"q1": {"a b": 2, "c": 0}, "q2": {"c": -1}}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"q\td\t1\nq\td2\n", "qrels line 2 is not a query, a document and a grade"),
        (b"q\td\tgood\n", "qrels line 1 is not a query, a document and a grade"),
        (b"query-id\tcorpus-id\tscore\nq\td\t0.5\n", "qrels line 2 is not a query, a document and a grade"),
        (b"q\t\t1\n", "qrels line 1"),
        (b"q 0 d 1\nq 0 d\n", "qrels line 2 is not a query, an iteration, a document and a grade"),
        (b"q 0 d inf\n", "qrels line 1"),
        (b"q\td\tnan\n", "qrels line 1"),
        (b"q\td\t1\nq\te\t9999999999999999999\n", "qrels line 2 is not .* from -1,000,000 to 1,000,000"),
        (b"q 0 d 1e300\n", "qrels line 1 is not a query, an iteration, .* from -1,000,000 to 1,000,000"),
        (b"q\td\t1000001\n", "qrels line 1 is not"),
        (b"q\td\t-1000001.0\n", "qrels line 1 is not"),
        (b"q\td\t" + b"9" * 5000 + b"\n", "qrels line 1 is not"),
        (b"q\td\t1\nq\td\t1\nq\td\t2\n", "qrels line 3 gives document 'd' a second grade for query 'q'"),
        (b"query-id\tcorpus-id\tscore\n", "no judgement in"),
        (b"", "no judgement in"),
        (b"q\tcaf\xe9\t1\n", "not UTF-8"),
    ],
)
def test_broken_judgements_are_named(tmp_path: Path, content: bytes, told: str):
    (tmp_path / "qrels").write_bytes(content)
    with pytest.raises(InputError, match=told):
        read_qrels(tmp_path / "qrels")


def test_a_folder_in_beir_layout_gives_both(tmp_path: Path):
    with pytest.raises(InputError, match=r"no queries\.jsonl in"):
        judged_queries(tmp_path)
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "one"}\n')
    assert judged_queries(tmp_path) == {"q": "one"}
    with pytest.raises(InputError, match=r"no \.tsv file in .*qrels"):
        judgements(tmp_path)
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "dev.tsv").write_text("q\td\t1\n")
    assert judgements(tmp_path) == {"q": {"d": 1}}
    (tmp_path / "qrels" / "train.tsv").write_text("q\td\t2\n")
    with pytest.raises(InputError, match=r"holds dev\.tsv, train\.tsv and no test\.tsv"):
        judgements(tmp_path)
    (tmp_path / "qrels" / "test.tsv").write_text("q\td\t3\n")
    assert judgements(tmp_path) == {"q": {"d": 3}}


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("q.txt", "one\n", r"q\.txt has no id \('one'\)"),
        ("q.jsonl", '{"_id": "", "text": "one"}', "has no id"),
        ("q.tsv", "q\tone\nq\ttwo\n", "holds the query 'q' twice"),
        ("q.npz", "no archive", "no .npz file"),
        ("absent.npz", None, "Cannot read the vectors"),
        ("absent.jsonl", None, "Cannot read the queries"),
    ],
)
def test_queries_without_an_id_of_their_own_are_refused(tmp_path: Path, name: str, content, told: str):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=told):
        judged_queries(tmp_path / name)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"q": {"d": 0.5}}, "grade of document 'd' for query 'q' is 0.5"),
        ({"q": {"d": True}}, "is True"),
        ({"q": {"a": 1, "d": 10**19}}, "document 'd' for query 'q' is 10{19}; give a whole number"),
        ({"q": {"d": -(10**19)}}, "is -10{19}; give"),
        ({"q": {"d": np.int64(1_000_001)}}, "1000001.*; give"),
        ({"q": {"d": np.int64(-(2**63))}}, "-9223372036854775808.*; give"),
        ({"q": {"d": float("nan")}}, "is nan; give"),
        ({"q": {"d": float("inf")}}, "is inf; give"),
    ],
)
def test_grades_of_a_mapping_are_whole_numbers(given, told):
    with pytest.raises(InputError, match=told):
        judgements(given)
    assert judgements({"q": {"d": np.int32(2)}}) == {"q": {"d": 2}}


def test_the_largest_grade_is_read_and_measured(tmp_path: Path):
    (tmp_path / "qrels").write_text("q\ta\t1000000\nq\tb\t1e6\nq\tc\t1\nq\td\t-1000000\n")
    grades = {"q": {"a": 1_000_000, "b": 1_000_000, "c": 1, "d": -1_000_000}}
    assert judgements(tmp_path / "qrels") == judgements(grades) == grades
    values = evaluate_run({"q": [("c", 3.0), ("a", 2.0), ("d", 1.0)]}, grades)["q"]
    gain = 1 + 1e6 / np.log2(3)
    assert values["nDCG@10"] == pytest.approx(gain / (1e6 + 1e6 / np.log2(3) + 0.5))
    assert (values["RR@10"], values["R@5"]) == (1, pytest.approx(2 / 3))


# Runs


def test_a_run_goes_through_a_file_unchanged(tmp_path: Path):
    tied = float(np.float32(1 / 3))
    run = {"q1": [("b", 2.5), ("z", tied), ("a", tied), ("m", tied)], "q2": [("é", -1e-7)]}
    write_run(tmp_path / "out.run", run, "mine")
    assert (tmp_path / "out.run").read_text(encoding="utf-8").splitlines()[0] == "q1 Q0 b 1 2.5 mine"
    assert read_run(tmp_path / "out.run") == run
    assert [path.name for path in tmp_path.iterdir()] == ["out.run"]


def test_scores_decide_the_order_of_a_run_and_ranks_among_equal_ones(tmp_path: Path):
    (tmp_path / "r").write_text("q Q0 a 9 1.0 t\nq Q0 b 1 0.5 t\nq Q0 c 3 2 t\nq\tQ0\td\t2\t1.0\tt\n")
    assert [name for name, _ in read_run(tmp_path / "r")["q"]] == ["c", "d", "a", "b"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("q Q0 a 1 1.0 t\nq Q0 b 2 0.5\n", "r line 2 is not a query, Q0, a document, a rank, a score and a"),
        ("q Q0 a one 1.0 t\n", "r line 1 is not"),
        ("q Q0 a 1 high t\n", "r line 1 is not"),
        ("q Q0 a 1 nan t\n", "r line 1 is not"),
        ("q Q0 a 1 1.0 t u\n", "r line 1 is not"),
        (
            "q Q0 a 1 1.0 t\np Q0 a 1 1.0 t\nq Q0 a 2 0.5 t\n",
            "r line 3 ranks document 'a' for query 'q' a sec",
        ),
        ("\n", "no line in the run"),
    ],
)
def test_a_broken_run_is_named(tmp_path: Path, content: str, told: str):
    (tmp_path / "r").write_text(content)
    with pytest.raises(InputError, match=told):
        read_run(tmp_path / "r")


def test_a_run_that_cannot_be_written_leaves_what_was_there(tmp_path: Path):
    write_run(tmp_path / "r", {"q": [("a", 1.0)]})
    for run, tag in (
        ({"q": [("a b", 1.0)]}, "t"),
        ({"q 1": [("a", 1.0)]}, "t"),
        ({"q": []}, ""),
        ({"": []}, "t"),
    ):
        with pytest.raises(InputError, match="ids without spaces"):
            write_run(tmp_path / "r", run, tag)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="Cannot write the run"):
        write_run(tmp_path / "folder", {"q": [("a", 1.0)]})
    with pytest.raises(InputError, match="Cannot write the run"):
        write_run(tmp_path / "none" / "r", {"q": [("a", 1.0)]})
    assert read_run(tmp_path / "r") == {"q": [("a", 1.0)]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "r"]


# An index of given vectors


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def vectors() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    means = unit(random.standard_normal((60, DIM)))
    return {
        f"d{row:03d}": unit(
            means[random.integers(60, size=count)] + 0.25 * random.standard_normal((count, DIM))
        )
        for row, count in enumerate(random.integers(8, 20, size=DOCUMENTS))
    }


@pytest.fixture(scope="module")
def queries(vectors) -> dict[str, np.ndarray]:
    """Some tokens of a document each, with so much noise that others come near."""
    random = np.random.default_rng(1)
    return {
        f"q{row}": unit(vectors[f"d{row * 7:03d}"][:6] + 0.35 * random.standard_normal((6, DIM)))
        for row in range(30)
    }


@pytest.fixture(scope="module")
def qrels(queries) -> dict[str, dict[str, int]]:
    return {name: {f"d{row * 7:03d}": 2, f"d{row * 7 + 1:03d}": 1} for row, name in enumerate(queries)}


@pytest.fixture(scope="module")
def coded(vectors, tmp_path_factory) -> ColRank:
    index = ColRank.create(tmp_path_factory.mktemp("evaluate") / "coded", model=None, bits=2)
    index.add_embeddings(list(vectors), list(vectors.values()))
    return index


def brute_force(vectors: dict[str, np.ndarray], query: np.ndarray) -> list[tuple[str, float]]:
    scores = {
        name: float((query.astype(float) @ v.T.astype(float)).max(axis=1).sum())
        for name, v in vectors.items()
    }
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def test_an_evaluation_judges_what_search_finds(coded, queries, qrels):
    found = coded.evaluate(queries, qrels)
    assert isinstance(found, Evaluation)
    assert (found.queries, found.depth, found.warnings) == (30, 100, [])
    for name, query in queries.items():
        hits = coded.search(query, 100, by="document")
        assert found.run[name] == [(hit.document, hit.score) for hit in hits]
        ranked = [hit.document for hit in hits]
        assert found.per_query[name]["nDCG@10"] == pytest.approx(ndcg(ranked, qrels[name]))
        assert found.per_query[name]["R@50"] == sum(d in ranked[:50] for d in qrels[name]) / 2
    assert 0.2 < found.means["nDCG@10"] < 1
    for name in MEASURES:
        values = [held[name] for held in found.per_query.values()]
        assert found.means[name] == pytest.approx(np.mean(values))
        assert found.intervals[name] == bootstrap_interval(values)
    assert found.failures == failures(found.run, qrels)
    assert found.comparison is None
    assert found.stages is None


def test_the_table_and_the_plain_values(coded, queries, qrels):
    found = coded.evaluate(queries, qrels)
    assert found.table.column_names == ["measure", "mean", "low", "high"]
    assert found.table["measure"].to_pylist() == list(MEASURES)
    assert found.table["mean"].to_pylist() == list(found.means.values())
    plain = json.loads(json.dumps(found.to_json()))
    assert plain["measures"]["R@5"]["mean"] == found.means["R@5"]
    assert plain["measures"]["R@5"]["high"] == found.intervals["R@5"][1]
    assert plain["per_query"] == found.per_query
    assert [failure["query"] for failure in plain["failures"]] == [f.query for f in found.failures]
    assert plain["comparison"] is plain["stages"] is None


def test_a_baseline_is_compared_query_by_query(coded, queries, qrels, tmp_path):
    found = coded.evaluate(queries, qrels)
    write_run(tmp_path / "same.run", found.run)
    same = coded.evaluate(queries, qrels, baseline=tmp_path / "same.run")
    assert same.table.column_names[4:] == ["baseline", "difference", "difference_low", "difference_high", "p"]
    assert same.table["difference"].to_pylist() == [0.0] * len(MEASURES)
    assert same.table["p"].to_pylist() == [1.0] * len(MEASURES)
    assert same.table["baseline"].to_pylist() == pytest.approx(list(found.means.values()))
    # Turned round, and half of the queries left out, which count 0 there.
    worse = {name: ranked[::-1] for name, ranked in list(found.run.items())[:15]}
    compared = coded.evaluate(queries, qrels, baseline=worse)
    assert compared.warnings == [
        "15 queries that the baseline lacks, which count 0 there: q15, q16, q17, and 12 more."
    ]
    ours = [held["nDCG@10"] for held in found.per_query.values()]
    theirs = [ndcg([d for d, _ in worse.get(q, [])], qrels[q]) for q in queries]
    assert compared.comparison["nDCG@10"] == paired(ours, theirs)
    assert compared.comparison["nDCG@10"].p < 0.001
    with pytest.raises(InputError, match=r"none of the 30 judged queries \(such as 'q0'\)"):
        coded.evaluate(queries, qrels, baseline={"other": run_of("d000")})


def test_what_is_left_out_is_counted_and_named(coded, queries, qrels):
    some = {name: queries[name] for name in ("q0", "q1", "q2", "q3")}
    judged = {
        "q0": {"d000": 1, "lost": 1, "gone": 0},
        "q1": {"d007": 0},
        "q2": {"d014": 1},
        "absent": {"d000": 1},
    }
    found = coded.evaluate(some, judged)
    assert list(found.per_query) == ["q0", "q2"]
    assert found.per_query["q0"]["R@100"] == 0.5  # what is lost is still to be found
    assert found.warnings == [
        "1 judged queries that are not among the queries, left out: absent.",
        "1 judged queries without a relevant document, left out: q1.",
        "1 queries without a judgement, not searched for: q3.",
        "2 judged documents that are not in the index, where nothing can find them: lost, gone.",
    ]


@pytest.mark.parametrize(
    ("judged", "options", "told"),
    [
        ({"q0": {"x": 1, "y": 1}}, {}, r"None of the 2 judged documents \(such as 'x'\).*such as 'd000'"),
        ({"p": {"d000": 1}}, {}, r"None of the 1 judged queries \(such as 'p'\) is among the 30 queries"),
        ({}, {}, "None of the 0 judged queries"),
        ({"q0": {"d000": 0}}, {}, "None of the 1 judged queries has a relevant document"),
        ({"q0": {"d000": 1}}, {"depth": 50}, "depth is 50"),
        ({"q0": {"d000": 1}}, {"depth": 0}, "k is 0"),
        ({"q0": {"d000": 1}}, {"scan": "sometimes"}, "scan is 'sometimes'"),
        ({"q0": {"d000": 1}}, {"vectors": {}}, "only needed to measure stages"),
        ({"q0": {"d000": 1}}, {"stages": True}, "'d000' was added as vectors.*--vectors"),
        ({"q0": {"d000": 1}}, {"stages": True, "vectors": {"d000": 1}}, "no array for the document 'd001'"),
    ],
)
def test_judgements_that_fit_nothing_are_refused(coded, queries, judged, options, told):
    with pytest.raises(InputError, match=told):
        coded.evaluate(queries, judged, **options)


def test_a_query_that_cannot_be_used_is_named(coded, queries, qrels):
    broken = {**queries, "q3": np.ones((2, 5))}
    with pytest.raises(InputError, match=r"^Query 'q3': .*5 dimensions"):
        coded.evaluate(broken, qrels)
    with pytest.raises(InputError, match="can encode no text; give the vectors of the queries"):
        coded.evaluate({**queries, "q3": "text"}, qrels)
    with pytest.raises(InputError, match="The id of a query is 7"):
        coded.evaluate({7: queries["q0"]}, qrels)


# Stages


def by_name(found: Evaluation) -> dict:
    return {stage.name: stage for stage in found.stages}


def test_stages_against_brute_force_and_against_searches(lists, coded, vectors, queries, qrels, monkeypatch):
    config = {"nprobe": 3, "shortlist": 150}
    found = coded.evaluate(queries, qrels, stages=True, vectors=vectors, **config)
    assert found.warnings == []
    stages = by_name(found)
    assert list(stages) == ["float32 exact", "codes, full scan", "probe", "prune"]
    exact = {name: [d for d, _ in brute_force(vectors, query)][:100] for name, query in queries.items()}
    full = coded.evaluate(queries, qrels, scan="always")
    pruned = coded.evaluate(queries, qrels, scan="never", **config)
    wanted = np.array([ndcg(exact[name], qrels[name]) for name in queries])
    coded_gain = np.array([held["nDCG@10"] for held in full.per_query.values()])
    assert stages["float32 exact"].means["nDCG@10"] == pytest.approx(wanted.mean())
    assert stages["codes, full scan"].means == {n: full.means[n] for n in ("nDCG@10", "R@10", "R@100")}
    assert stages["prune"].means == {n: pruned.means[n] for n in ("nDCG@10", "R@10", "R@100")}
    assert stages["float32 exact"].loss is None
    assert stages["codes, full scan"].loss == pytest.approx((wanted - coded_gain).mean())
    assert (stages["codes, full scan"].low, stages["codes, full scan"].high) == pytest.approx(
        bootstrap_interval(wanted - coded_gain)
    )
    assert stages["float32 exact"].of_exact == {"recall@10": 1, "recall@100": 1}
    assert stages["codes, full scan"].of_full == {"recall@10": 1, "recall@100": 1}
    for cut in (10, 100):
        shares = [len(set(exact[q][:cut]) & {d for d, _ in full.run[q][:cut]}) / cut for q in queries]
        assert stages["codes, full scan"].of_exact[f"recall@{cut}"] == pytest.approx(np.mean(shares))
        assert 0.5 < np.mean(shares) < 1
    # Every passage in the probed lists, scored from its codes and by nothing else.
    settings = plan(coded.snapshot, SearchConfig(**config), 100)
    kept = []
    for query, prepared in zip(queries, coded.prepare(list(queries.values()), coded.snapshot), strict=True):
        rows = candidates(prepared.vectors, coded.snapshot.contents, settings, prune=False)
        probed = {f"d{row:03d}" for row in rows}
        kept.append(len([d for d, _ in full.run[query] if d in probed]) / 100)
    assert stages["probe"].of_full["recall@100"] == pytest.approx(np.mean(kept))
    assert np.mean(kept) < 1
    for stage in list(stages.values())[1:]:
        assert np.isfinite([stage.loss, stage.low, stage.high]).all()
        assert stage.low <= stage.loss + 1e-12
        assert stage.loss <= stage.high + 1e-12
    assert sum(stage.loss for stage in list(stages.values())[1:]) == pytest.approx(
        stages["float32 exact"].means["nDCG@10"] - stages["prune"].means["nDCG@10"]
    )
    # However the passages are windowed, the rows are the same.
    monkeypatch.setattr("colrank.evaluate.originals.WINDOW_PASSAGES", 7)
    assert coded.evaluate(queries, qrels, stages=True, vectors=vectors, **config).stages == found.stages
    assert json.loads(json.dumps(found.to_json()))["stages"][2]["of_full_scan"] == stages["probe"].of_full


def test_probing_every_centroid_is_the_full_scan(coded, vectors, queries, qrels):
    found = coded.evaluate(
        queries, qrels, stages=True, vectors=vectors, scan="never", nprobe=10_000, shortlist=10_000
    )
    _, full, probe, prune = found.stages
    assert probe.means == full.means == prune.means
    assert probe.of_full == prune.of_full == {"recall@10": 1, "recall@100": 1}
    assert (probe.loss, probe.low, probe.high) == (prune.loss, prune.low, prune.high) == (0, 0, 0)
    assert probe.of_exact == full.of_exact


def test_whole_vectors_lose_nothing_and_have_no_prefilter(vectors, queries, qrels, tmp_path):
    index = ColRank.create(tmp_path / "whole", model=None, bits=32)
    index.add_embeddings(list(vectors), list(vectors.values()))
    np.savez(tmp_path / "v.npz", **vectors, stranger=np.ones((1, DIM)))
    found = index.evaluate(queries, qrels, stages=True, vectors=tmp_path / "v.npz", depth=120)
    assert [stage.name for stage in found.stages] == ["float32 exact", "vectors, full scan"]
    exact, full = found.stages
    assert exact.means == full.means
    assert (full.loss, full.low, full.high) == (0, 0, 0)
    assert full.of_exact == exact.of_full == {"recall@10": 1, "recall@100": 1}
    assert {len(ranked) for ranked in found.run.values()} == {120}
    assert found.warnings == [
        "1 arrays of the vectors that belong to no document of given vectors, not used: stranger."
    ]
    with pytest.raises(InputError, match="scan is 'never'"):
        index.evaluate(queries, qrels, scan="never")


def test_vectors_of_the_wrong_kind_name_the_document(coded, vectors, queries, qrels, tmp_path):
    for broken, told in (
        (np.ones((2, 3)), "document 'd005' have 3 dimensions and the index has 24"),
        (np.full((2, DIM), np.nan), "document 'd005' hold NaN"),
        (np.array(["a"]), "document 'd005' are not an array of numbers"),
    ):
        np.savez(tmp_path / "v.npz", **{**vectors, "d005": broken})
        with pytest.raises(InputError, match=told):
            coded.evaluate(queries, qrels, stages=True, vectors=tmp_path / "v.npz")
    np.savez(tmp_path / "v.npz", **{**vectors, "d005": np.array([{}], dtype=object)})
    with pytest.raises(InputError, match="holds no array of numbers as 'd005'"):
        coded.evaluate(queries, qrels, stages=True, vectors=tmp_path / "v.npz")
    np.save(tmp_path / "one.npy", np.ones((2, DIM)))
    for path, told in ((tmp_path / "one.npy", "no .npz file"), (tmp_path / "absent.npz", "Cannot read")):
        with pytest.raises(InputError, match=told):
            coded.evaluate(queries, qrels, stages=True, vectors=path)


@pytest.mark.parametrize("window", [1, 5, 40])
def test_the_best_documents_of_passages_that_stream_by(window):
    random = np.random.default_rng(window)
    # Few distinct passages, so that many documents tie and only their ids tell them apart.
    kinds = [unit(random.standard_normal((count, 8))) for count in (1, 2, 3, 5, 2, 4)]
    blocks = [kinds[kind] for kind in random.integers(6, size=120)]
    owners = np.sort(random.integers(50, size=120))
    query = QueryVectors(unit(random.standard_normal((4, 8))), np.array([1, 0.5, 2, 0], dtype=np.float32))

    class Order:
        ids = [f"id{row * 37 % 50}" for row in range(50)]  # noqa: RUF012
        places = np.argsort(np.argsort(np.array(ids)))

    def tokens_of(chosen: list[np.ndarray]) -> tuple[TokenVectors, np.ndarray]:
        codec = whole_vectors(8, 32)
        offsets = np.concatenate([[0], np.cumsum([len(block) for block in chosen])]).astype(np.int64)
        return TokenVectors(codec, [codec.encode(np.concatenate(chosen))]), offsets

    tokens, offsets = tokens_of(blocks)
    exact = exact_scores(query, np.arange(120), tokens, offsets)
    best = {int(owner): float(exact[owners == owner].max()) for owner in np.unique(owners)}
    wanted = sorted(((Order.ids[o], s) for o, s in best.items()), key=lambda item: (-item[1], item[0]))
    held = BestDocuments(query, Order(), 12)
    for first in range(0, 120, window):
        tokens, offsets = tokens_of(blocks[first : first + window])
        rows = np.arange(len(offsets) - 1)
        scores = scan([query], tokens, offsets)[0]
        held.offer(rows, scores, owners[first : first + window], tokens, offsets)
    assert held.ranked() == wanted[:12]


# An index of text

TEXTS = {
    "bread": "Knead the dough for ten minutes. Let it rest until it has doubled. Bake it in a hot oven.",
    "bees": "Bees dance to tell where flowers are. A hive holds one queen. Honey keeps for years.",
    "rail": "The night train leaves at nine. Sleeping cars must be booked. Bicycles travel free of charge.",
    "river": "The river rises in spring. Floods reach the old bridge. The ferry stops in winter.",
}
ASKED = {"a": "how long to knead dough", "b": "where does honey come from", "c": "bicycles on the train"}
ANSWERS = {"a": {"bread": 1}, "b": {"bees": 1}, "c": {"rail": 1}}


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> ColRank:
    index = ColRank.create(
        tmp_path_factory.mktemp("texts") / "i", device="cpu", bits=32, passage_tokens=14, token_weights="none"
    )
    index.add([{"id": name, "title": name, "text": text} for name, text in TEXTS.items()])
    return index


def test_passages_of_text_are_encoded_again_for_the_stages(texts):
    assert texts.stats()["passages"] > len(TEXTS)
    found = texts.evaluate(ASKED, ANSWERS, stages=True)
    exact, full = found.stages
    assert exact.means == full.means == {"nDCG@10": 1, "R@10": 1, "R@100": 1}
    assert full.of_exact == {"recall@10": 1, "recall@100": 1}
    assert found.failures == []
    with pytest.raises(InputError, match="No document of the index was added as vectors"):
        texts.evaluate(ASKED, ANSWERS, stages=True, vectors={"bread": np.ones((1, 128))})
    with pytest.raises(InputError, match=r"^Query 'b': The query is empty"):
        texts.evaluate({**ASKED, "b": " "}, ANSWERS)


def test_documents_of_given_vectors_beside_text_need_theirs(texts, tmp_path):
    index = ColRank.create(tmp_path / "both", device="cpu", bits=32)
    index.add([{"id": name, "text": text} for name, text in TEXTS.items()])
    own = texts.prepare(["bicycles on the train"], texts.snapshot)[0].vectors.vectors
    index.add_embeddings(["own"], [own])
    with pytest.raises(InputError, match="'own' was added as vectors"):
        index.evaluate(ASKED, ANSWERS, stages=True)
    found = index.evaluate(ASKED, {"c": {"own": 1}}, stages=True, vectors={"own": own})
    assert found.means["RR@10"] == 1
    assert [stage.means["nDCG@10"] for stage in found.stages] == [1, 1]
    assert found.stages[1].of_exact == {"recall@10": 1, "recall@100": 1}


# The command


@pytest.fixture
def files(coded, queries, qrels, tmp_path: Path) -> list[str]:
    np.savez(tmp_path / "q.npz", **queries)
    lines = [f"{q}\t{d}\t{grade}" for q, grades in qrels.items() for d, grade in grades.items()]
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(lines) + "\n")
    asked = ["--queries", str(tmp_path / "q.npz"), "--qrels", str(tmp_path / "qrels.tsv")]
    return ["eval", *asked, "--index", str(coded.path)]


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments), env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.exception
    return done.output


def test_the_command_prints_measures_and_writes_a_run(coded, queries, qrels, files, tmp_path):
    found = coded.evaluate(queries, qrels)
    shown = printed(*files, "--run", str(tmp_path / "out.run"))
    assert "Judged 30 queries, the best 100 documents of each" in shown
    for name, mean in found.means.items():
        low, high = found.intervals[name]
        assert f"{name.ljust(7)}  {mean:.4f}  {low:.4f} {high:.4f}" in shown
    never = sum(failure.rank is None for failure in found.failures)
    assert f"{len(found.failures)} of 30 queries have no relevant document" in shown
    assert f"{never} never retrieved (not among 100 either)" in shown
    assert read_run(tmp_path / "out.run") == found.run
    compared = printed(*files, "--baseline", str(tmp_path / "out.run"))
    assert compared.count("+0.0000  +0.0000 +0.0000  1.0000") == len(MEASURES)


def test_the_command_lists_failures_and_stages_and_fits_the_terminal(
    coded, queries, qrels, vectors, files, tmp_path
):
    np.savez(tmp_path / "v.npz", **vectors)
    options = ["--stages", "--vectors", str(tmp_path / "v.npz"), "--nprobe", "2", "--prune", "0.1"]
    shown = printed(*files, "--failures", *options)
    found = coded.evaluate(queries, qrels, stages=True, vectors=vectors, nprobe=2, prune=0.1)
    assert found.failures
    for failure in found.failures:
        rank = "never" if failure.rank is None else str(failure.rank)
        assert f"{rank}  {failure.query.ljust(5)}" in shown
    for stage in found.stages:
        assert f"{stage.name.ljust(16)}   {stage.means['nDCG@10']:.4f}" in shown
        assert f"{stage.of_exact['recall@100']:.4f}" in shown
    assert max(len(line) for line in shown.splitlines() if "ranked low:" not in line) <= 80
    plain = json.loads(printed(*files, *options, "--json"))
    assert plain == json.loads(json.dumps(found.to_json()))


def test_the_command_reads_a_folder_in_beir_layout(texts, tmp_path):
    (tmp_path / "qrels").mkdir()
    lines = [json.dumps({"_id": name, "text": text}) for name, text in ASKED.items()]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    (tmp_path / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\na\tbread\t1\nb\tbees\t1\nc\triver\t1\n"
    )
    shown = printed("eval", str(tmp_path), "--index", str(texts.path), "--device", "cpu")
    assert "Judged 3 queries" in shown
    assert "Every query has a relevant document among the best 10." in shown
    (tmp_path / "all.tsv").write_text("a 0 bread 1\n")
    other = ["--qrels", str(tmp_path / "all.tsv"), "--json"]
    plain = json.loads(printed("eval", str(tmp_path), "--index", str(texts.path), "--device", "cpu", *other))
    assert plain["queries"] == 1
    assert plain["measures"]["nDCG@10"]["mean"] == 1
    assert plain["warnings"] == ["2 queries without a judgement, not searched for: b, c."]


def test_bad_input_to_the_command_is_one_sentence(coded, files, tmp_path):
    def told(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["eval", *arguments])
        assert isinstance(done.exception, InputError), done.exception
        assert done.stdout == ""
        return str(done.exception)

    index = ["--index", str(coded.path)]
    assert "Name a folder with queries.jsonl and qrels/" in told(*index)
    assert "Name a folder" in told("--qrels", str(tmp_path / "qrels.tsv"), *index)
    assert "is not a folder" in told(str(tmp_path / "nowhere"), *index)
    assert "There is no queries.jsonl" in told(str(tmp_path), *index)
    assert "nothing is read from" in told(str(tmp_path), *files[1:])
    assert "name a file in a folder that is there" in told(*files[1:], "--run", str(tmp_path / "no" / "r"))
    assert "name a file in a folder that is there" in told(*files[1:], "--run", str(tmp_path))
    assert "Cannot read the run" in told(*files[1:], "--baseline", str(tmp_path / "absent"))
    assert "prune is 2.0" in told(*files[1:], "--prune", "2")
    assert "nprobe is 0" in told(*files[1:], "--nprobe", "0")
    assert "--vectors" in told(*files[1:], "--stages")
    done = subprocess.run(
        [sys.executable, "-m", "colrank", *files, "--depth", "7"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: depth is 7; ")
    assert len(done.stderr.splitlines()) == 1


def test_a_preset_takes_whole_and_other_numbers_for_a_similarity(files, tmp_path):
    preset = tmp_path / "c.toml"
    for value, told in (("0.2", None), ("-1", None), ("true", "give a number"), ('"1"', "give a number")):
        preset.write_text(f"[eval]\nprune = {value}\nscan = 'never'\n")
        done = CliRunner().invoke(main, ["--config", str(preset), *files])
        assert (told in str(done.exception)) if told else done.exit_code == 0


def test_the_command_tells_what_each_option_does():
    shown = printed("eval", "--help")
    for parameter in main.get_command(click.Context(main), "eval").params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert parameter.opts[0] in shown

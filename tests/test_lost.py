"""Where a known right passage was lost: each way of losing one, and a passage that is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import CORPUS, NAN, QUERY, Bare, Planted, ids

from colrank import ColRank, Trace
from colrank.config import SearchConfig
from colrank.errors import InputError, StageFailed
from colrank.prefilter import candidates, plan
from colrank.types import Hits


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ColRank:
    made = ColRank.create(tmp_path_factory.mktemp("lost") / "i", device="cpu", passage_tokens=24)
    made.add(CORPUS)
    return made


@pytest.fixture(scope="module")
def plain(index: ColRank) -> Hits:
    hits = index.search(QUERY, 100)
    assert hits[-1].document == "shipping"
    return hits


def place(hits: Hits, name: str) -> int:
    """Rank of a passage, or of a document's first one."""
    return next(at for at, each in enumerate(hits, start=1) if name in (each.id, each.document))


def planted(**scores: float) -> Planted:
    """Scores by a word of the text."""
    return Planted(lambda _, text: next((s for word, s in scores.items() if word in text), 0.0))


def test_found(index: ColRank, plain: Hits):
    found = index.trace(QUERY, "refund", 10)
    at = place(plain, "refund")
    assert found == Trace(QUERY, "refund", "", "", found.sentence, {"search": at})
    assert found.sentence == f"It was not lost: it is hit {at} of {len(plain)}."
    staged = index.trace(QUERY, "refund#0", 2, rerank=planted(Money=0.9, legal=0.95), judge=0.5)
    assert (staged.lost, staged.stage, staged.id) == ("", "", "refund#0")
    assert staged.ranks == {"search": at, "rerank": 2, "judge": 2, "cut": 2}
    assert staged.sentence == "It was not lost: it is hit 2 of 2."


@pytest.mark.parametrize(
    "name", ["nothing", "guarantee#1", "guarantee#", "guarantee#-1", "#0", "", "nothing#0"]
)
def test_not_indexed(index: ColRank, name: str):
    found = index.trace(QUERY, name)
    assert (found.lost, found.stage, found.ranks) == ("not indexed", "index", {})
    assert repr(name) in found.sentence
    assert "index it" in found.sentence


def test_ranked_low_by_the_search_alone(index: ColRank, plain: Hits):
    name = plain[4].id
    found = index.trace(QUERY, name, 3)
    assert (found.lost, found.stage, found.ranks) == ("ranked low", "search", {})
    assert "below the 3 hits" in found.sentence
    assert f"ranked 5 of {len(plain)} passages" in found.sentence


def test_below_the_candidates(index: ColRank, plain: Hits):
    name = plain[4].id
    found = index.trace(QUERY, name, 2, rerank=planted(), candidates=3)
    assert (found.lost, found.stage, found.ranks) == ("below the candidates", "search", {})
    assert "among the 3 candidates" in found.sentence
    assert f"ranked 5 of {len(plain)} passages" in found.sentence
    # k is never below the candidates that are looked at.
    assert index.trace(QUERY, name, 5, rerank=planted(), candidates=3).lost == ""


def test_ranked_low_by_the_reranker(index: ColRank, plain: Hits):
    at = place(plain, "refund")
    found = index.trace(QUERY, "refund", 2, rerank=planted(legal=0.9, maker=0.8, LEGAL=0.7, Money=0.6))
    assert (found.lost, found.stage) == ("ranked low", "rerank")
    assert found.ranks == {"search": at, "rerank": 4}
    assert "ranked 4 by rerank, below the 2 hits" in found.sentence


def test_refused(index: ColRank):
    scores = {"legal": 0.9, "Money": 0.6}
    found = index.trace(QUERY, "refund", rerank=planted(**scores), judge=0.75)
    assert (found.lost, found.stage) == ("refused", "judge")
    assert found.ranks["rerank"] == 2
    assert "0.6000, is below the floor, 0.75" in found.sentence
    assert "stood at 2 after rerank" in found.sentence
    every = index.trace(QUERY, "refund", rerank=planted(), judge=0.75, mmr=0.5)
    assert (every.lost, every.stage) == ("refused", "judge")


def test_unscored(index: ColRank, plain: Hits):
    found = index.trace(QUERY, "refund", rerank=planted(legal=0.9, Money=NAN), judge=0.75)
    assert (found.lost, found.stage) == ("unscored", "judge")
    assert found.ranks["rerank"] == len(plain)
    # Where nothing was judged, it stays.
    kept = index.trace(QUERY, "refund", rerank=planted(legal=0.5, Money=NAN), judge=0.75)
    assert (kept.lost, kept.ranks["judge"]) == ("", len(plain))


def test_a_failed_reranker_loses_nothing_but_stops_where_that_is_asked_for(index: ColRank, plain: Hits):
    at = place(plain, "refund")
    found = index.trace(QUERY, "refund", rerank=Bare(OSError("gone")), judge=0.75)
    assert (found.lost, found.ranks) == ("", {"search": at, "rerank": at, "judge": at, "cut": at})
    with pytest.raises(StageFailed, match="gone"):
        index.trace(QUERY, "refund", rerank=Bare(OSError("gone")), on_rerank_error="fail")


def test_repeats_a_better_hit(index: ColRank, plain: Hits):
    better, worse = sorted(("again", "guarantee"), key=lambda name: place(plain, name))
    found = index.trace(QUERY, worse, dedupe=True)
    assert (found.lost, found.stage) == ("repeats a better hit", "dedupe")
    assert found.ranks == {"search": place(plain, worse)}
    assert index.trace(QUERY, better, dedupe=True).lost == ""


def test_removed_by_the_cap(index: ColRank, plain: Hits):
    parts = [each.id for each in plain if each.document == "shipping"]
    assert len(parts) >= 3
    found = index.trace(QUERY, parts[2], 10, max_per_document=2)
    assert (found.lost, found.stage) == ("removed by the cap", "cut")
    assert found.ranks == {"search": place(plain, parts[2])}
    assert index.trace(QUERY, parts[1], 10, max_per_document=2).lost == ""
    usual = index.trace(QUERY, parts[2], 10, mmr=1.0)
    assert (usual.lost, usual.stage) == ("removed by the cap", "mmr")
    # Any passage of a document will do, when the document was named.
    assert index.trace(QUERY, "shipping", 10, max_per_document=1).lost == ""


def test_by_document_the_best_passage_stands_for_it(index: ColRank, plain: Hits):
    parts = [each.id for each in plain if each.document == "shipping"]
    documents = list(dict.fromkeys(each.document for each in plain))
    found = index.trace(QUERY, parts[-1], 5, by="document", mmr=1.0)
    assert (found.lost, found.ranks["mmr"]) == ("", documents.index("shipping") + 1)
    assert index.trace(QUERY, "shipping", 3, by="document").lost == "ranked low"


def test_an_id_of_a_document_and_of_a_passage_is_refused(tmp_path: Path):
    made = ColRank.create(tmp_path / "i", model=None)
    made.add_embeddings(["a", "a#0"], [np.eye(2, 4), np.eye(1, 4)])
    with pytest.raises(InputError, match="id of a document and of a passage"):
        made.trace(np.eye(1, 4), "a#0")
    assert made.trace(np.eye(1, 4), "a").lost == ""


def test_a_reranker_reads_text(index: ColRank):
    with pytest.raises(InputError, match="reads text"):
        index.trace(np.ones((1, 128)), "refund", rerank=planted())
    with pytest.raises(InputError, match="k is 0"):
        index.trace(QUERY, "refund", 0)


# Through the prefilter, and by MMR, over given vectors

DIM = 16


def unit(array: np.ndarray) -> np.ndarray:
    return (array / np.linalg.norm(array, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> ColRank:
    rng = np.random.default_rng(0)
    made = ColRank.create(tmp_path_factory.mktemp("coded") / "i", model=None, bits=4)
    arrays = [unit(rng.standard_normal((int(rng.integers(1, 6)), DIM))) for _ in range(300)]
    made.add_embeddings([f"d{row:03d}" for row in range(300)], arrays)
    return made


@pytest.mark.parametrize(("settings_", "staged"), [({}, False), ({"mmr": 1.0, "candidates": 6}, True)])
def test_not_probed_pruned_or_ranked_low_by_the_prefilter(
    lists: None, coded: ColRank, settings_: dict, staged: bool
):
    query = unit(np.random.default_rng(1).standard_normal((2, DIM)))
    k = 6
    options: dict[str, Any] = {"scan": "never", "nprobe": 3, "shortlist": 10, **settings_}
    snapshot = coded.snapshot
    vectors = coded.prepare([query], snapshot)[0].vectors
    narrow = plan(snapshot, SearchConfig("never", 3, 10), k)
    probed = candidates(vectors, snapshot.contents, narrow, prune=False)
    listed = candidates(vectors, snapshot.contents, narrow)
    assert k < len(listed) == 10 < len(probed) < 300
    hits = ids(coded.search(query, k, **options))
    order = [each.document for each in coded.search(query, 300, scan="always")]
    kinds = set()
    for row in range(300):
        name = snapshot.contents.document_id(row)
        found = coded.trace(query, name, k, **options)
        if f"{name}#0" in hits:
            expected: tuple[str, str] = ("", "")
        elif row not in probed:
            expected = ("not probed", "prefilter")
        elif row not in listed:
            expected = ("pruned", "prefilter")
        else:
            expected = ("below the candidates" if staged else "ranked low", "search")
        kinds.add(expected[0])
        assert (found.lost, found.stage) == expected
        if expected[0]:
            assert found.ranks == {}
            assert f"ranked {order.index(name) + 1} of 300 passages" in found.sentence
        if expected[0] == "not probed":
            assert "nprobe 3" in found.sentence
        if expected[0] == "pruned":
            assert "shortlist of 10" in found.sentence
    assert len(kinds) == 4


def test_removed_by_mmr(tmp_path: Path):
    made = ColRank.create(tmp_path / "i", model=None)
    # Against (1, 0): b is nearly a, c is something else and farther off.
    rows = {"a": [1.0, 0.0], "b": [0.99, 0.01], "c": [0.5, 0.8], "d": [0.0, 1.0]}
    made.add_embeddings(list(rows), [unit(np.array([row])) for row in rows.values()])
    query = np.array([[1.0, 0.0]])
    chosen = [each.document for each in made.search(query, 2, mmr=0.4)]
    assert chosen[0] == "a"
    assert chosen[1] != "b"
    found = made.trace(query, "b", 2, mmr=0.4)
    assert (found.lost, found.stage) == ("removed by MMR", "mmr")
    assert found.ranks == {"search": 2}
    assert "stood at 2 after search" in found.sentence
    # What was below k before is no work of MMR's.
    low = next(name for name in ("d", "c") if name not in chosen)
    other = made.trace(query, low, 2, mmr=0.4)
    assert (other.lost, other.stage) == ("ranked low", "search")
    assert made.trace(query, "b", 2, mmr=1.0).lost == ""


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_what_is_said_to_be_lost_is_not_among_the_hits(index: ColRank, plain: Hits, data: st.DataObject):
    shares = st.integers(0, 8).map(lambda step: step / 8)
    scores = {each.text: data.draw(shares | st.just(NAN)) for each in plain}
    options: dict[str, Any] = {
        "rerank": Planted(lambda _, text: scores[text.removeprefix("Refunds\n")]),
        "candidates": data.draw(st.integers(1, 8)),
        "judge": data.draw(st.none() | shares),
        "mmr": data.draw(st.none() | shares),
        "max_per_document": data.draw(st.none() | st.integers(1, 2)),
        "dedupe": data.draw(st.booleans()),
    }
    k = data.draw(st.integers(1, 8))
    by: Any = data.draw(st.sampled_from(["passage", "document"]))
    hits = index.search(QUERY, k, by=by, **options)
    gold = data.draw(st.sampled_from([*ids(plain), *dict.fromkeys(each.document for each in plain)]))
    found = index.trace(QUERY, gold, k, by=by, **options)
    document = gold.partition("#")[0]
    wanted = "#" not in gold or by == "document"
    here = [
        at
        for at, each in enumerate(hits, start=1)
        if (each.document == document if wanted else each.id == gold)
    ]
    assert (found.lost == "") == bool(here)
    if here:
        assert list(found.ranks.values())[-1] == here[0]
    elif found.lost == "refused":
        assert options["judge"] is not None
    elif found.lost == "removed by the cap":
        assert any(left.startswith(document) for left in hits.left_out["max_per_document"])
    elif found.lost == "repeats a better hit":
        assert options["dedupe"]
    elif found.lost == "removed by MMR":
        assert options["mmr"] is not None
        assert list(found.ranks.values())[-1] <= k


def test_a_search_that_looked_further_by_itself_is_followed_there(tmp_path: Path):
    """With one list a token the search finds too few and widens: what it then scored was looked up."""
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=(int(rng.integers(2, 6)), 16)).astype(np.float32) for _ in range(300)]
    index = ColRank.create(tmp_path / "given", model=None, bits=4)
    index.add_embeddings([f"d{at}" for at in range(len(arrays))], arrays)
    query = rng.normal(size=(1, 16)).astype(np.float32)
    options: dict[str, Any] = {"scan": "never", "nprobe": 1, "shortlist": 60}
    hits = [hit.document for hit in index.search(query, 60, **options)]
    assert len(hits) == 60
    lost = {name: index.trace(query, name, 60, **options) for name in (f"d{at}" for at in range(300))}
    assert {name for name, found in lost.items() if not found.lost} == {*hits}
    told = [found.sentence for found in lost.values() if found.lost == "not probed"]
    assert not any("With nprobe 1 none" in sentence for sentence in told)

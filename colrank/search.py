"""From queries to hits: scan or prefilter, selection, fusion with BM25, stages of one shape; each timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from colrank.cascade import run_stages
from colrank.config import By, SearchConfig, check_choice, check_k
from colrank.encoder import EncodedQuery
from colrank.errors import InputError
from colrank.fusion import fused
from colrank.index import Contents, Snapshot
from colrank.prefilter import Plan, candidates, plan, widened
from colrank.score import QueryVectors, Scores, best_documents, best_passages, scan, score_rows
from colrank.stored_hits import best_hits
from colrank.timing import timed
from colrank.types import Hit, Hits
from colrank.word_search import require_words, word_hits, word_rows

Stage = Callable[["Query", Hits], Hits]
"""A step after the first scoring: `stage(query, hits) -> hits`."""

_SCORES_AT_ONCE = 1 << 24

_FEW = 4
"""Where at most one passage in so many may be found, these are gathered, and the others not decoded."""

SCAN_BELOW_TOKENS = 200_000
"""Below so many tokens scoring every passage is as fast as the prefilter (`bench/prefilter.py`)."""


class Query:
    """A query on its way through the stages; `encoded` is None where vectors were given."""

    def __init__(self, vectors: QueryVectors, encoded: EncodedQuery | None = None) -> None:
        self.vectors = vectors
        self.encoded = encoded

    @property
    def text(self) -> str:
        """The query's text, or "" where vectors were given."""
        return self.encoded.text if self.encoded else ""

    def warnings(self) -> list[str]:
        """What was done to the query that the user should know."""
        if self.encoded and self.encoded.cut:
            kept = len(self.encoded.token_ids)
            return [f"The query was cut to {kept} tokens; the last {self.encoded.cut} were not searched for."]
        return []


def search(
    snapshot: Snapshot,
    queries: Sequence[Query],
    *,
    k: int,
    by: By = "passage",
    config: SearchConfig | None = None,
    stages: Sequence[tuple[str, Stage]] = (),
    among: NDArray[np.int64] | None = None,
) -> list[Hits]:
    """Find the best k passages, or documents, of each query.

    Every passage is scored, or those that the prefilter finds, as `config.scan` says; `among` are the rows of
    those that may be found, ascending, all with tokens (None: every one). A document stands by its best
    passage. Equal scores order by document id, then by place in the document. As many hits
    come back as there are passages (documents) with tokens, at most k: where the prefilter finds too few
    it looks further. `config.retrieve` hybrid fuses these hits with those of BM25; bm25 takes only what BM25
    finds, which may be fewer than k.

    Raises:
        InputError: k is below 1, `by` is neither passage nor document, or the prefilter is asked of an
            index that keeps no centroids; BM25 of one that keeps no words, or for a query of vectors.
        MissingExtra: BM25 is asked for and words cannot be stemmed.
    """
    k = check_k(k)
    check_choice("by", by, ("passage", "document"))
    config = config or SearchConfig()
    found: Iterable[tuple[list[Hit], dict[str, float]]]
    if config.retrieve == "hybrid":
        found = _hybrid(snapshot, queries, k, by, config, among)
    elif config.retrieve == "bm25":
        found = _reranked_words(snapshot, queries, k, by, config, among)
    else:
        found = _by_maxsim(snapshot, queries, k, by, config, among)
    out = []
    for query, (hit_list, spent) in zip(queries, found, strict=True):
        told = [*query.warnings(), *_found_little(config, hit_list, k)]
        hits = Hits(hit_list, query=query.text, warnings=told, timings=spent)
        out.append(run_stages(query, hits, stages))
    return out


def _by_maxsim(
    snapshot: Snapshot,
    queries: Sequence[Query],
    k: int,
    by: By,
    config: SearchConfig,
    among: NDArray[np.int64] | None,
) -> Iterator[tuple[list[Hit], dict[str, float]]]:
    if scans(snapshot, config):
        return _scanned(snapshot.contents, queries, k, by, among)
    return _prefiltered(snapshot.contents, queries, k, by, plan(snapshot, config, k), among)


def _hybrid(
    snapshot: Snapshot,
    queries: Sequence[Query],
    k: int,
    by: By,
    config: SearchConfig,
    among: NDArray[np.int64] | None,
) -> Iterator[tuple[list[Hit], dict[str, float]]]:
    """MaxSim and BM25 side by side, each for the best of a branch, then one ranking."""
    _check_words(snapshot, queries)
    depth = max(k, config.branch)

    def worded() -> list[tuple[list[Hit], dict[str, float]]]:
        found = []
        for query in queries:
            spent: dict[str, float] = {}
            with timed(spent, "bm25"):
                found.append((word_hits(snapshot.contents, query.text, depth, by, among), spent))
        return found

    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(worded)
        late = list(_by_maxsim(snapshot, queries, depth, by, config, among))
        lexical = waiting.result()
    for (hits, spent), (words, spent_on_words) in zip(late, lexical, strict=True):
        spent |= spent_on_words
        with timed(spent, "fuse"):
            best = fused([(hits, 1.0), (words, config.bm25_weight)], k, by, config.fusion)
        yield best, spent


def _reranked_words(
    snapshot: Snapshot,
    queries: Sequence[Query],
    k: int,
    by: By,
    config: SearchConfig,
    among: NDArray[np.int64] | None,
) -> Iterator[tuple[list[Hit], dict[str, float]]]:
    """MaxSim over what BM25 finds."""
    _check_words(snapshot, queries)
    contents, count = snapshot.contents, plan(snapshot, config, k).shortlist
    for query in queries:
        spent: dict[str, float] = {}
        with timed(spent, "bm25"):
            rows = word_rows(contents, query.text, count, among)
        with timed(spent, "score"):
            scores = score_rows(query.vectors, rows, contents.vectors, contents.offsets)
        with timed(spent, "select"):
            hits = _select(contents, query.vectors, rows, scores, k, by)
        yield hits, spent


def _check_words(snapshot: Snapshot, queries: Sequence[Query]) -> None:
    require_words(snapshot)
    if not all(query.text for query in queries):
        raise InputError("BM25 reads text, and a query was given as vectors; give its text, or no BM25.")


def _found_little(config: SearchConfig, hits: Sequence[Hit], k: int) -> list[str]:
    """What to say where BM25 found nothing: too little would look like an answer."""
    if config.retrieve == "maxsim" or any("bm25" in hit.scores for hit in hits):
        return []
    if config.retrieve == "bm25":
        if len(hits) >= k:
            return []
        return [f"BM25 found {len(hits)} of {k} hits: no other passage holds a word of the query."]
    return ["BM25 has no part in these hits: none of them holds a word of the query."] if hits else []


def scans(snapshot: Snapshot, config: SearchConfig) -> bool:
    """Whether a search scores every passage.

    Raises:
        InputError: the prefilter is asked of an index without centroids.
    """
    without = snapshot.contents.postings is None
    if config.scan == "never" and without:
        raise InputError(
            "scan is 'never', but the index keeps whole vectors without centroids, so there is no prefilter; "
            "leave scan at auto, or index again with bits 1, 2, 4 or 8."
        )
    if config.scan != "auto":
        return config.scan == "always"
    return without or len(snapshot.contents.vectors) < SCAN_BELOW_TOKENS


def _scanned(
    contents: Contents, queries: Sequence[Query], k: int, by: By, among: NDArray[np.int64] | None
) -> Iterator[tuple[list[Hit], dict[str, float]]]:
    rows = contents.filled if among is None else among
    if _FEW * len(rows) < contents.passage_rows:
        for query in queries:
            spent: dict[str, float] = {}
            with timed(spent, "scan"):
                found = score_rows(query.vectors, rows, contents.vectors, contents.offsets)
            with timed(spent, "select"):
                hits = _select(contents, query.vectors, rows, found, k, by)
            yield hits, spent
        return
    at_once = max(1, _SCORES_AT_ONCE // max(1, contents.passage_rows))
    for first in range(0, len(queries), at_once):
        group = queries[first : first + at_once]
        timings: dict[str, float] = {}
        with timed(timings, "scan"):
            scanned = scan([query.vectors for query in group], contents.vectors, contents.offsets)
        # The scan is shared: each query carries its share.
        share = timings["scan"] / len(group)
        for query, scores in zip(group, scanned, strict=True):
            spent = {"scan": share}
            with timed(spent, "select"):
                hits = _select(contents, query.vectors, rows, scores.at(rows), k, by)
            yield hits, spent


def _prefiltered(
    contents: Contents,
    queries: Sequence[Query],
    k: int,
    by: By,
    settings: Plan,
    among: NDArray[np.int64] | None,
) -> Iterator[tuple[list[Hit], dict[str, float]]]:
    for query in queries:
        spent: dict[str, float] = {}
        rows, _ = prefiltered_rows(contents, query.vectors, k, by, settings, among, spent)
        with timed(spent, "score"):
            if among is None and len(rows) == len(contents.filled):
                scores = scan([query.vectors], contents.vectors, contents.offsets)[0].at(rows)
            else:
                scores = score_rows(query.vectors, rows, contents.vectors, contents.offsets)
        with timed(spent, "select"):
            hits = _select(contents, query.vectors, rows, scores, k, by)
        yield hits, spent


def prefiltered_rows(
    contents: Contents,
    query: QueryVectors,
    k: int,
    by: By,
    settings: Plan,
    among: NDArray[np.int64] | None = None,
    spent: dict[str, float] | None = None,
) -> tuple[NDArray[np.int64], Plan | None]:
    """Passages that a search through the prefilter scores, and the settings that it ended with.

    It looks further until there are as many as were asked for, and adds the seconds of its parts to `spent`.
    The settings are None where every passage in question is scored, as the lists hardly leave any out.
    """
    owners = contents.passage_documents
    findable = contents.filled if among is None else among
    if by == "passage":
        matching = len(findable)
    else:
        matching = contents.filled_documents if among is None else len(np.unique(owners[among]))
    centroids = contents.vectors.codec.centroids
    assert centroids is not None
    if k >= matching:
        return findable, None
    rows = candidates(query, contents, settings, among=among, spent=spent)
    while (len(rows) if by == "passage" else len(np.unique(owners[rows]))) < k:
        settings = widened(settings)
        # To look into that many lists once more costs as much as to score every passage.
        if 4 * settings.nprobe >= len(centroids):
            return findable, None
        rows = candidates(query, contents, settings, among=among, spent=spent)
    return rows, settings


def _select(
    contents: Contents,
    query: QueryVectors,
    rows: NDArray[np.int64],
    scores: Scores,
    k: int,
    by: By,
) -> list[Hit]:
    """The k best hits of some passages with tokens, from scores that may err."""
    tokens, offsets = contents.vectors, contents.offsets
    if by == "document":
        owners = contents.passage_documents[rows]
        near, exact = best_documents(query, rows, scores, owners, k, tokens, offsets)
    else:
        near, exact = best_passages(query, rows, scores, k, tokens, offsets)
    return best_hits(contents, exact, rows[near], k, by, "maxsim")

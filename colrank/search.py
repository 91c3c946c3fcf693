"""From query vectors to hits: scan, selection, and then stages of one shape, each with its own timer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from colrank.config import By, check_choice, check_k
from colrank.encoder import EncodedQuery
from colrank.index import Segment, Snapshot, StoredDocument, StoredPassage
from colrank.score import QueryVectors, contenders, exact_scores, scan
from colrank.types import Hit, Hits

Stage = Callable[["Query", Hits], Hits]
"""A step after the first scoring: `stage(query, hits) -> hits`."""

_SCORES_AT_ONCE = 1 << 24


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
    stages: Sequence[tuple[str, Stage]] = (),
) -> list[Hits]:
    """Find the best k passages, or documents, of each query by a full scan.

    A document stands by its best passage. Equal scores order by document id, then by place in the
    document. As many hits come back as there are passages (documents) with tokens, at most k.

    Raises:
        InputError: k is below 1, or `by` is neither passage nor document.
    """
    k = check_k(k)
    check_choice("by", by, ("passage", "document"))
    segment = snapshot.segment
    out = []
    at_once = max(1, _SCORES_AT_ONCE // max(1, segment.entry.passages))
    for first in range(0, len(queries), at_once):
        group = queries[first : first + at_once]
        timings: dict[str, float] = {}
        with _timed(timings, "scan"):
            scores = scan([query.vectors for query in group], segment.vectors, segment.offsets)
        # The scan is shared: each query carries its share.
        share = timings["scan"] / len(group)
        for query, row in zip(group, scores, strict=True):
            spent = {"scan": share}
            with _timed(spent, "select"):
                hits = Hits(
                    _select(segment, query.vectors, row, k, by), query=query.text, warnings=query.warnings()
                )
            for name, stage in stages:
                with _timed(spent, name):
                    hits = stage(query, hits)
            hits.timings = spent
            out.append(hits)
    return out


def _select(segment: Segment, query: QueryVectors, scores: NDArray[np.float32], k: int, by: By) -> list[Hit]:
    """The k best hits, from scores that may err by the query's error bound."""
    bound = query.error_bound()
    if by == "document":
        best = np.maximum.reduceat(scores, segment.first_passages)
        near_best = contenders(best, k, bound)
        # A passage that the bound cannot tell from its document's best one may be the best.
        owner = segment.passage_documents
        near = scores >= best[owner] - 2 * bound
        rows = np.flatnonzero(near & np.isin(owner, near_best) & (scores > -np.inf))
    else:
        rows = contenders(scores, k, bound)
    exact = exact_scores(query, rows, segment.vectors, segment.offsets)
    best_rows: list[int] = []
    best_scores: list[float] = []
    seen: set[int] = set()
    for score, row in _ordered(segment, exact, rows):
        document_row = int(segment.passage_documents[row])
        if by == "document" and document_row in seen:
            continue
        seen.add(document_row)
        best_rows.append(row)
        best_scores.append(score)
        if len(best_rows) == k:
            break
    passages = segment.passages(best_rows)
    documents = segment.documents([passage.document for passage in passages])
    return list(map(_hit, passages, documents, best_scores))


def _ordered(
    segment: Segment, scores: NDArray[np.float32], rows: NDArray[np.int64]
) -> Iterator[tuple[float, int]]:
    """Rows best first; ids are looked up only among equal scores."""
    order = np.argsort(-scores, kind="stable")
    at = 0
    while at < len(order):
        end = at + 1
        while end < len(order) and scores[order[end]] == scores[order[at]]:
            end += 1
        tied = [int(rows[index]) for index in order[at:end]]
        if len(tied) > 1:
            tied.sort(key=lambda row: (segment.document_id(int(segment.passage_documents[row])), row))
        for row in tied:
            yield float(scores[order[at]]), row
        at = end


def _hit(passage: StoredPassage, document: StoredDocument, score: float) -> Hit:
    return Hit(
        id=f"{document.id}#{passage.ordinal}",
        document=document.id,
        score=score,
        scores={"maxsim": score},
        title=document.title,
        text=passage.text,
        start=passage.start,
        end=passage.end,
        source=document.source,
        metadata=document.metadata,
    )


@contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    begin = time.perf_counter()
    try:
        yield
    finally:
        timings[name] = timings.get(name, 0.0) + time.perf_counter() - begin

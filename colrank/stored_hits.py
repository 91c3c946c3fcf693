"""From scored passages to hits: best first, equal scores by document id and place, by passage or document."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from colrank.config import By
from colrank.index import Contents, StoredDocument, StoredPassage
from colrank.types import Hit


def best_hits(
    contents: Contents,
    scores: NDArray[np.float32],
    rows: NDArray[np.int64],
    k: int,
    by: By,
    name: str,
) -> list[Hit]:
    """The k best of some passages as hits, or fewer where there are fewer.

    Args:
        scores, rows: of the passages, in the same order.
        by: what k counts; a document stands by its best passage.
        name: of the score.
    """
    best_rows: list[int] = []
    best_scores: list[float] = []
    seen: set[int] = set()
    for score, row in _ordered(contents, scores, rows):
        document_row = int(contents.passage_documents[row])
        if by == "document" and document_row in seen:
            continue
        seen.add(document_row)
        best_rows.append(row)
        best_scores.append(score)
        if len(best_rows) == k:
            break
    passages = contents.passages(best_rows)
    found = contents.documents([passage.document for passage in passages])
    return [
        _hit(passage, document, score, name)
        for passage, document, score in zip(passages, found, best_scores, strict=True)
    ]


def _ordered(
    contents: Contents, scores: NDArray[np.float32], rows: NDArray[np.int64]
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
            tied.sort(key=lambda row: (contents.document_id(int(contents.passage_documents[row])), row))
        for row in tied:
            yield float(scores[order[at]]), row
        at = end


def _hit(passage: StoredPassage, document: StoredDocument, score: float, name: str) -> Hit:
    return Hit(
        id=f"{document.id}#{passage.ordinal}",
        document=document.id,
        score=score,
        scores={name: score},
        title=document.title,
        text=passage.text,
        start=passage.start,
        end=passage.end,
        source=document.source,
        metadata=document.metadata,
    )

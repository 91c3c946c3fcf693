"""Why a passage matched: for each query token the passage token that is nearest, and its characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from colrank.encoder import Encoder
from colrank.errors import InputError
from colrank.index import Snapshot
from colrank.passages import encoder_input
from colrank.score import exact_scores
from colrank.search import Query
from colrank.types import Explanation, Hit, Hits, Span, TokenMatch

_HIGHLIGHT_SIMILARITY = 0.45
"""A match of less similarity is not shown in bold: it is the best there is, not a good one."""


class _Place(NamedTuple):
    token: str
    span: Span
    in_title: bool


def resolve_passage(snapshot: Snapshot, name: str) -> tuple[int, bool]:
    """Find what an id names.

    Args:
        name: a document's id, or a passage's (`document#ordinal`). A document of that very id wins.

    Returns:
        The row of the passage, or of the document's first passage, and whether a document was named.

    Raises:
        InputError: the index holds neither.
    """
    segment = snapshot.segment
    row = segment.document_row(name)
    if row is not None:
        return segment.passages_of(row)[0], True
    document, mark, ordinal = name.rpartition("#")
    if mark and ordinal.isdecimal():
        row = segment.document_row(document)
        if row is not None and int(ordinal) < len(segment.passages_of(row)):
            return segment.passages_of(row)[int(ordinal)], False
    raise InputError(f"The index holds no document or passage {name!r}; ids are those that search prints.")


def explain(snapshot: Snapshot, query: Query, name: str, encoder: Encoder | None) -> Explanation:
    """Explain the score of a passage, or of the best passage of a document, for a query.

    Raises:
        InputError: there is no such id, or the passage has no token vectors.
    """
    segment = snapshot.segment
    row, is_document = resolve_passage(snapshot, name)
    if is_document:
        owned = segment.passages_of(int(segment.passage_documents[row]))
        rows = np.array([r for r in owned if len(segment.passage_vectors(r))], dtype=np.int64)
        if len(rows):
            scores = exact_scores(query.vectors, rows, segment.vectors, segment.offsets)
            row = int(rows[int(np.argmax(scores))])
    vectors = segment.passage_vectors(row)
    if not len(vectors):
        raise InputError(f"The passage {name!r} has no token vectors: nothing of it can match.")
    passage = segment.passage(row)
    document = segment.document(passage.document)
    places = _places(document.title.strip()[: passage.prefix], passage.text, len(vectors), encoder if document.encoded else None)
    similarity = query.vectors.vectors.astype(np.float64) @ vectors.astype(np.float64).T
    best = similarity.argmax(axis=1)
    count = len(best)
    tokens = query.encoded.tokens if query.encoded else tuple(f"vector {i}" for i in range(count))
    matches = []
    for at in range(count):
        place = places[int(best[at])]
        matches.append(
            TokenMatch(
                token=tokens[at],
                weight=float(query.vectors.weights[at]),
                match=place.token,
                similarity=float(similarity[at, best[at]]),
                start=place.span.start,
                end=place.span.end,
                in_title=place.in_title,
            )
        )
    score = exact_scores(query.vectors, np.array([row]), segment.vectors, segment.offsets)[0]
    return Explanation(
        query=query.text,
        id=f"{document.id}#{passage.ordinal}",
        document=document.id,
        score=float(score),
        title=document.title,
        text=passage.text,
        tokens=tuple(matches),
    )


def highlight(snapshot: Snapshot, query: Query, hits: Hits, encoder: Encoder) -> Hits:
    """Mark in each hit the words that matched a query token best (a search stage)."""
    return Hits(
        [replace(hit, highlights=_highlights(snapshot, query, hit, encoder)) for hit in hits],
        query=hits.query,
        timings=hits.timings,
        warnings=hits.warnings,
    )


def _highlights(snapshot: Snapshot, query: Query, hit: Hit, encoder: Encoder) -> tuple[Span, ...]:
    explanation = explain(snapshot, query, hit.id, encoder)
    special = query.encoded.special if query.encoded else np.zeros(len(explanation.tokens), dtype=bool)
    words = set()
    for match, is_special in zip(explanation.tokens, special, strict=True):
        worth_it = match.similarity >= _HIGHLIGHT_SIMILARITY and not is_special and not match.in_title
        if worth_it and match.start >= 0 and any(c.isalnum() for c in match.token):
            word = _whole_word(explanation.text, match.start, match.end)
            if any(c.isalnum() for c in explanation.text[word.start : word.end]):
                words.add(word)
    return merge_spans(sorted(words))


def _whole_word(text: str, start: int, end: int) -> Span:
    while start > 0 and text[start - 1].isalnum() and text[start].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        end += 1
    return Span(start, end)


def merge_spans(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Spans in ascending order, those that overlap made one."""
    merged: list[Span] = []
    for span in spans:
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return tuple(merged)


def _places(prefix: str, text: str, count: int, encoder: Encoder | None) -> list[_Place]:
    """Token and characters behind each vector of a passage; unnamed where the text does not tell."""
    tokens = encoder.document_tokens(encoder_input(prefix, text)) if encoder else []
    if len(tokens) != count:
        return [_Place("", Span(-1, -1), False)] * count
    shift = len(prefix) + 1 if prefix else 0
    places = []
    for token, span in tokens:
        in_title = 0 <= span.start < shift
        if span.start >= 0 and not in_title:
            span = Span(span.start - shift, span.end - shift)
        places.append(_Place(token, span, in_title))
    return places

"""Why a passage matched: for each query token the passage token that is nearest, and its characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colrank.encoder import Encoder
from colrank.errors import InputError
from colrank.index import Contents, Snapshot, StoredDocument, StoredPassage
from colrank.passages import encoder_input
from colrank.score import exact_scores
from colrank.search import Query
from colrank.types import Explanation, Hit, Hits, Span, TokenMatch

_HIGHLIGHT_SIMILARITY = 0.6
"""A match of less similarity is not shown in bold: it is the best there is, not a good one."""


class _Place(NamedTuple):
    token: str
    spans: tuple[Span, ...]
    in_title: bool


_NOWHERE = _Place("", (), False)


def resolve_passage(snapshot: Snapshot, name: str) -> tuple[int, bool]:
    """Find what an id names.

    Args:
        name: a document's id, or a passage's (`document#ordinal`).

    Returns:
        The row of the passage, or of the document's first passage, and whether a document was named.

    Raises:
        InputError: the index holds neither, or both.
    """
    document = snapshot.contents.document_row(name)
    passage = passage_row(snapshot, *name.rpartition("#")[::2])
    if document is not None and passage is not None:
        raise InputError(
            f"{name!r} is the id of a document and of a passage of another one; explain the hit itself in "
            f"Python, or the passage {name + '#0'!r}."
        )
    if passage is not None:
        return passage, False
    if document is not None:
        return snapshot.contents.passages_of(document)[0], True
    raise InputError(f"The index holds no document or passage {name!r}; ids are those that search prints.")


def passage_row(snapshot: Snapshot, document: str, ordinal: str) -> int | None:
    """Row of a document's passage, None where there is none of that number."""
    if not (ordinal.isascii() and ordinal.isdecimal()):
        return None
    row = snapshot.contents.document_row(document)
    if row is None:
        return None
    owned = snapshot.contents.passages_of(row)
    return owned[int(ordinal)] if int(ordinal) < len(owned) else None


def row_of_hit(snapshot: Snapshot, hit: Hit) -> int:
    """Row of the passage that a hit shows.

    Raises:
        InputError: the snapshot no longer holds it.
    """
    row = passage_row(snapshot, hit.document, hit.id.removeprefix(f"{hit.document}#"))
    if row is None:
        raise InputError(f"The index no longer holds the passage {hit.id!r}; search again.")
    return row


@dataclass(frozen=True, slots=True)
class _Matched:
    """A passage beside a query: what stands behind each vector, and the similarity of every pair."""

    passage: StoredPassage
    document: StoredDocument
    places: list[_Place]
    similarity: NDArray[np.float64]


def _match(snapshot: Snapshot, query: Query, row: int, encoder: Encoder | None) -> _Matched:
    contents = snapshot.contents
    passage = contents.passage(row)
    document = contents.document(passage.document)
    vectors = contents.passage_vectors(row).astype(np.float64)
    return _Matched(
        passage,
        document,
        _places(contents, document, passage, len(vectors), encoder),
        query.vectors.turned(contents.vectors.codec) @ vectors.T,
    )


def explain(snapshot: Snapshot, query: Query, named: str | Hit, encoder: Encoder | None) -> Explanation:
    """Explain the score of a hit, a passage, or the best passage of a document, for a query.

    Raises:
        InputError: there is no such id, or the passage has no token vectors.
    """
    contents = snapshot.contents
    name = named if isinstance(named, str) else named.id
    row, is_document = (
        resolve_passage(snapshot, named) if isinstance(named, str) else (row_of_hit(snapshot, named), False)
    )
    owned = contents.passages_of(int(contents.passage_documents[row])) if is_document else [row]
    rows = np.array([r for r in owned if len(contents.passage_vectors(r))], dtype=np.int64)
    if not len(rows):
        raise InputError(f"{name!r} has no token vectors: nothing of it can match.")
    scores = exact_scores(query.vectors, rows, contents.vectors, contents.offsets)
    best_row = int(np.argmax(scores))
    matched = _match(snapshot, query, int(rows[best_row]), encoder)
    best = matched.similarity.argmax(axis=1)
    tokens = query.encoded.tokens if query.encoded else [f"vector {i}" for i in range(len(best))]
    return Explanation(
        query=query.text,
        id=f"{matched.document.id}#{matched.passage.ordinal}",
        document=matched.document.id,
        score=float(scores[best_row]),
        title=matched.document.title.strip(),
        text=matched.passage.text,
        tokens=tuple(
            TokenMatch(
                token=token,
                weight=float(query.vectors.weights[at]),
                match=matched.places[column].token,
                similarity=float(matched.similarity[at, column]),
                spans=matched.places[column].spans,
                in_title=matched.places[column].in_title,
            )
            for at, (token, column) in enumerate(zip(tokens, best.tolist(), strict=True))
        ),
    )


def highlight(snapshot: Snapshot, query: Query, hits: Hits, encoder: Encoder) -> Hits:
    """Mark in each hit the words of its text that matched a query token best (a search stage)."""
    return hits.having([replace(hit, highlights=_highlights(snapshot, query, hit, encoder)) for hit in hits])


def _highlights(snapshot: Snapshot, query: Query, hit: Hit, encoder: Encoder) -> tuple[Span, ...]:
    matched = _match(snapshot, query, row_of_hit(snapshot, hit), encoder)
    text = matched.passage.text
    columns = [
        column
        for column, place in enumerate(matched.places)
        if not place.in_title and any(_has_letters(text[slice(*span)]) for span in place.spans)
    ]
    if query.encoded is None or not columns:
        return ()
    words: set[Span] = set()
    # The title is left out of the choice: a word found there would leave nothing to show in the text.
    for token, special, similarity in zip(
        query.encoded.tokens, query.encoded.special, matched.similarity[:, columns], strict=True
    ):
        at = int(similarity.argmax())
        if not special and _has_letters(token) and similarity[at] >= _HIGHLIGHT_SIMILARITY:
            spans = matched.places[columns[at]].spans
            words.update(_whole_word(text, *span) for span in spans if _has_letters(text[slice(*span)]))
    return merge_spans(sorted(words))


def _has_letters(text: str) -> bool:
    return any(character.isalnum() for character in text)


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


def _places(
    contents: Contents, document: StoredDocument, passage: StoredPassage, count: int, encoder: Encoder | None
) -> list[_Place]:
    """Tokens and characters behind each vector of a passage; unnamed where the text does not tell."""
    if encoder is None or not document.encoded:
        return [_NOWHERE] * count
    prefix = document.prefix_of(passage)
    tokens = encoder.document_tokens(encoder_input(prefix, passage.text))
    pooled = contents.labels([passage.row])
    labels = list(range(len(tokens))) if pooled is None else pooled[0].tolist()
    if len(labels) != len(tokens) or max(labels, default=-1) + 1 != count:
        return [_NOWHERE] * count
    shift = len(prefix) + 1 if prefix else 0
    places = [_NOWHERE] * count
    for (token, span), label in zip(tokens, labels, strict=True):
        place = places[label]
        in_title = 0 <= span.start < shift
        if span.start >= 0 and not in_title:
            span = Span(span.start - shift, span.end - shift)
        # A vector pooled from title and text shows its place in the text.
        if place.spans and in_title and not place.in_title:
            continue
        if place.spans and place.in_title and not in_title:
            place = _NOWHERE
        spans = (*place.spans, span) if span.start >= 0 else place.spans
        places[label] = _Place(f"{place.token} {token}".strip(), spans, in_title)
    return places

"""Queries for a corpus without any: sentences of its own passages, each taken out of where it is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colrank.encoder import Encoder
from colrank.index import Snapshot
from colrank.language import UNKNOWN
from colrank.passages import encoder_input
from colrank.score import QueryVectors
from colrank.search import Query
from colrank.types import Vectors

FEWEST_TOKENS, MOST_TOKENS = 6, 40
"""Tokens of a sentence that can be a query."""

_LEFT_TOKENS = 24
"""Fewest tokens that a passage keeps when a sentence is taken out of it."""


@dataclass(frozen=True, slots=True)
class DrawnQueries:
    """Queries drawn from passages.

    Attributes:
        queries: by id, which is the passage's.
        left_out: by row of the passage, which of its tokens became the query: bool `[tokens]`.
    """

    queries: dict[str, Query]
    left_out: Mapping[int, NDArray[np.bool_]]


def draw_queries(base: Snapshot, encoder: Encoder | None, count: int, seed: int) -> DrawnQueries:
    """Draw sentences from random passages, at most one of each, with the vectors that they have there.

    Nothing is encoded again, and no query can find its own words in the passage that it is from. Where
    texts cannot be told apart into tokens (given vectors), a stretch of tokens stands for a sentence.

    Args:
        base: whole vectors, not pooled.
        encoder: the index's model; None for given vectors.
        count: as many as there can be, at most.
        seed: the same seed draws the same.
    """
    contents = base.contents
    random = np.random.default_rng(seed)
    queries: dict[str, Query] = {}
    left_out: dict[int, NDArray[np.bool_]] = {}
    for row in random.permutation(contents.filled).tolist():
        if len(queries) == count:
            break
        vectors = base.codec.turn_back(contents.passage_vectors(row).astype(np.float32))
        passage = contents.passage(row)
        document = contents.document(passage.document)
        masks = []
        if encoder is not None and document.encoded:
            prefix = document.prefix_of(passage)
            masks = _sentences(encoder, prefix, passage.text, document.language, len(vectors))
        if not masks:
            masks = _stretches(len(vectors), random)
        masks = [
            mask
            for mask in masks
            if FEWEST_TOKENS <= mask.sum() <= MOST_TOKENS and (~mask).sum() >= _LEFT_TOKENS
        ]
        if not masks:
            continue
        mask = masks[int(random.integers(len(masks)))]
        queries[f"{document.id}#{passage.ordinal}"] = Query(_unweighted(vectors[mask]))
        left_out[row] = mask
    return DrawnQueries(queries, left_out)


def _unweighted(vectors: Vectors) -> QueryVectors:
    return QueryVectors(np.ascontiguousarray(vectors), np.ones(len(vectors), dtype=np.float32))


def _sentences(
    encoder: Encoder, prefix: str, text: str, language: str, count: int
) -> list[NDArray[np.bool_]]:
    """Tokens of each sentence of a passage; none where tokens and vectors do not agree."""
    import sentencex

    tokens = encoder.document_tokens(encoder_input(prefix, text))
    if len(tokens) != count:
        return []
    shift = len(prefix) + 1 if prefix else 0
    starts = np.array([span.start for _, span in tokens])
    found = sentencex.get_sentence_boundaries("en" if language == UNKNOWN else language, text)
    return [
        (starts >= shift + sentence["start_index"]) & (starts < shift + sentence["end_index"])
        for sentence in found
    ]


def _stretches(count: int, random: np.random.Generator) -> list[NDArray[np.bool_]]:
    size = min(16, max(FEWEST_TOKENS, count // 4))
    if count < size + _LEFT_TOKENS:
        return []
    begin = int(random.integers(count - size + 1))
    mask = np.zeros(count, dtype=bool)
    mask[begin : begin + size] = True
    return [mask]

"""MaxSim over ragged passages: score = sum over query tokens of weight x largest dot product.

Scores are those of the vectors that the codec decodes, in its own space: turning the query costs one small
product, turning every token back would cost many. A scan may err by a little, and says by how much at most.
What a caller sees does not: every passage that the scan cannot tell from the best k is scored again in
float64 and rounded to float32, so that scores and order depend on the stored tokens and the query alone, not
on batch, threads, shards, or which of the engines ran.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colrank.score import native_scores, torch_scores
from colrank.score.contenders import contenders, document_contenders
from colrank.score.query import QueryVectors, Scores
from colrank.shards import TokenVectors

__all__ = [
    "QueryVectors",
    "Scores",
    "best_documents",
    "best_passages",
    "contenders",
    "document_contenders",
    "exact_scores",
    "scan",
    "score_rows",
]


def scan(queries: Sequence[QueryVectors], tokens: TokenVectors, offsets: NDArray[np.int64]) -> list[Scores]:
    """Score every passage for every query.

    Args:
        queries: at least one token each.
        tokens: the tokens of all passages.
        offsets: int64 `[passages + 1]`, valid (`colrank_kernels.offsets_are_valid`).

    Returns:
        For each query the scores `[passages]`.

    Raises:
        IndexDamaged: a centroid id is out of range, or a passage's tokens are not there.
    """
    if tokens.native is None:
        values = torch_scores.scan(queries, tokens, offsets)
        return [_within_rounding(query, row) for query, row in zip(queries, values, strict=True)]
    return [native_scores.score_rows(query, None, tokens, offsets) for query in queries]


def score_rows(
    query: QueryVectors, rows: NDArray[np.int64], tokens: TokenVectors, offsets: NDArray[np.int64]
) -> Scores:
    """Score some passages.

    Args:
        query: at least one token.
        rows: passages with tokens, ascending.
        tokens, offsets: as in `scan`.
    """
    if tokens.native is None:
        return _within_rounding(query, torch_scores.score_rows(query, rows, tokens, offsets))
    return native_scores.score_rows(query, rows, tokens, offsets)


def exact_scores(
    query: QueryVectors, rows: NDArray[np.int64], tokens: TokenVectors, offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Score some passages in float64, rounded to float32: `[rows]`.

    Whatever the order in which a product is summed, float64 is wrong by about 1e-16 of it, a thousand
    million times less than the rounding that follows.

    Args:
        query: at least one token.
        rows: passages with tokens, ascending.
        tokens, offsets: as in `scan`.
    """
    if tokens.native is None:
        return torch_scores.exact_scores(query, rows, tokens, offsets)
    return native_scores.exact_scores(query, rows, tokens, offsets)


def best_passages(
    query: QueryVectors,
    rows: NDArray[np.int64],
    scores: Scores,
    k: int,
    tokens: TokenVectors,
    offsets: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Places in `rows` of passages that may be among the best k, ascending, and their exact scores.

    Args:
        query: at least one token.
        rows: passages with tokens, ascending.
        scores: of each.
        k: how many are wanted.
        tokens, offsets: as in `scan`.
    """
    near = contenders(scores, k)
    if tokens.native is not None and len(near) > k:
        closer = native_scores.closer(query, rows[near], scores.at(near), tokens, offsets)
        near = near[contenders(closer, k)]
    return near, exact_scores(query, rows[near], tokens, offsets)


def best_documents(
    query: QueryVectors,
    rows: NDArray[np.int64],
    scores: Scores,
    owners: NDArray[np.int64],
    k: int,
    tokens: TokenVectors,
    offsets: NDArray[np.int64],
    least: float = -np.inf,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Places in `rows` of passages that may be the best of one of the best k documents, and exact scores.

    Args:
        query, rows, scores, k, tokens, offsets: as in `best_passages`.
        owners: row of each passage's document, int64 `[rows]`.
        least: documents whose best passage is surely below this are not wanted.
    """
    near = document_contenders(scores, owners, k, least)
    if tokens.native is not None and len(near) > k:
        closer = native_scores.closer(query, rows[near], scores.at(near), tokens, offsets)
        near = near[document_contenders(closer, owners[near], k, least)]
    return near, exact_scores(query, rows[near], tokens, offsets)


def _within_rounding(query: QueryVectors, values: NDArray[np.float32]) -> Scores:
    return Scores(values, np.broadcast_to(np.float32(query.error_bound()), values.shape))

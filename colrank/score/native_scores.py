"""MaxSim by the native kernels, straight from the codes.

Codes of kind `linear` are multiplied as small integers with a query that is rounded to 8 bits (16 where
codes have 8 bits). What the rounding costs a score is bounded for every passage: the length of what was
rounded away, times that of the residual. Everything else is as in `torch_scores`.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from colrank_kernels import NativeQuery
from numpy.typing import NDArray

from colrank.errors import IndexDamaged
from colrank.score.query import QueryVectors, Scores
from colrank.shards import TokenVectors


def prepared(query: QueryVectors, tokens: TokenVectors) -> NativeQuery:
    """A query laid out for some tokens; the last one of each thread is kept, with its memory."""
    assert tokens.native is not None
    held = tokens.local
    if getattr(held, "query", None) is not query:
        if not hasattr(held, "native"):
            held.native = NativeQuery()
        held.query = None
        turned = np.ascontiguousarray(query.turned(tokens.codec))
        held.native.set(tokens.native, turned, np.ascontiguousarray(query.weights))
        held.query = query
    native: NativeQuery = held.native
    return native


def score_rows(
    query: QueryVectors,
    rows: NDArray[np.int64] | None,
    tokens: TokenVectors,
    offsets: NDArray[np.int64],
) -> Scores:
    """Score some passages, or all where `rows` is None."""
    count = len(offsets) - 1 if rows is None else len(rows)
    scores, slack = np.empty(count, dtype=np.float32), np.empty(count, dtype=np.float32)
    if not prepared(query, tokens).maxsim(offsets, rows, scores, slack):
        check_tokens(rows, tokens, offsets)
    slack += np.float32(query.error_bound())
    return Scores(scores, slack)


def closer(
    query: QueryVectors,
    rows: NDArray[np.int64],
    scores: Scores,
    tokens: TokenVectors,
    offsets: NDArray[np.int64],
) -> Scores:
    """The same scores with a bound that the codes themselves give, not their scales alone."""
    slack = np.empty(len(rows), dtype=np.float32)
    if not prepared(query, tokens).closer_slack(offsets, rows, slack):
        check_tokens(rows, tokens, offsets)
    return Scores(scores.values, np.minimum(scores.slack, slack + np.float32(query.error_bound())))


def exact_scores(
    query: QueryVectors, rows: NDArray[np.int64], tokens: TokenVectors, offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Score some passages in float64, rounded to float32: `[rows]`.

    Small integers say which tokens may be a query token's best; only these are decoded.
    """
    out = np.empty(len(rows), dtype=np.float32)
    if not prepared(query, tokens).exact(offsets, rows, query.rounding(), out):
        check_tokens(rows, tokens, offsets)
    return out


def check_tokens(
    rows: NDArray[np.int64] | None, tokens: TokenVectors, offsets: NDArray[np.int64]
) -> NoReturn:
    """Say what is wrong with the tokens of some passages, or of all, that a kernel refused.

    Raises:
        IndexDamaged: always.
    """
    if tokens.codec.centroids is not None:
        chosen = np.arange(len(offsets) - 1) if rows is None else rows
        for row in chosen.tolist():
            begin, end = int(offsets[row]), int(offsets[row + 1])
            tokens.codec.check_ids(tokens.columns(begin, end, ["centroid"])["centroid"])
    raise IndexDamaged("A passage's tokens lie outside of the shards; index again with --overwrite.")

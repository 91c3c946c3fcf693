"""MaxSim by matrix products in torch: where the native kernels are not there.

The products run in float32, whose last bits depend on the shape of the product; `exact_scores` in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colrank.score.query import QueryVectors
from colrank.shards import TokenVectors, token_rows

_BLOCK_TOKENS = 4096
_GROUP_TOKENS = 1024


def scan(
    queries: Sequence[QueryVectors], tokens: TokenVectors, offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Score every passage for every query.

    Args:
        queries: at least one token each.
        tokens: the tokens of all passages.
        offsets: int64 `[passages + 1]`, valid (`colrank_kernels.offsets_are_valid`).

    Returns:
        float32 `[queries, passages]`; -inf for a passage without tokens.
    """
    import torch

    scores = np.full((len(queries), len(offsets) - 1), -np.inf, dtype=np.float32)
    turned = [query.turned(tokens.codec).astype(np.float32) for query in queries]
    groups = [
        (
            first,
            torch.from_numpy(np.concatenate(turned[first : first + count])),
            queries[first : first + count],
        )
        for first, count in _groups(queries)
    ]
    for begin, end in _blocks(offsets):
        lengths = np.diff(offsets[begin : end + 1])
        filled = np.flatnonzero(lengths)
        if not len(filled):
            continue
        start = int(offsets[begin])
        block = _float32(tokens.read(start, int(offsets[end])))
        starts = offsets[begin:end][filled] - start
        for first, stacked, group in groups:
            similarity = (stacked @ block.T).numpy()
            best = np.maximum.reduceat(similarity, starts, axis=1)
            row = 0
            for index, query in enumerate(group):
                last = row + len(query.vectors)
                scores[first + index, begin + filled] = query.weights @ best[row:last]
                row = last
    return scores


def _float32(stored: NDArray[np.float32] | NDArray[np.float16]) -> Any:
    import torch

    # A mapped file is read-only, which torch warns of; where whole vectors are stored a copy is made.
    owned = stored.dtype == np.float32 and stored.flags.writeable
    return torch.from_numpy(stored if owned else stored.astype(np.float32))


def score_rows(
    query: QueryVectors, rows: NDArray[np.int64], tokens: TokenVectors, offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Score some passages in float32, `[rows]`, with the error that `QueryVectors.error_bound` states.

    Args:
        query: at least one token.
        rows: passages with tokens, ascending.
        tokens, offsets: as in `scan`.
    """
    import torch

    vectors = torch.from_numpy(query.turned(tokens.codec).astype(np.float32))
    out = np.empty(len(rows), dtype=np.float32)
    for begin, end, block, starts in _gathered(rows, tokens, offsets):
        similarity = (vectors @ _float32(block).T).numpy()
        out[begin:end] = query.weights @ np.maximum.reduceat(similarity, starts, axis=1)
    return out


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
    import torch

    vectors = torch.from_numpy(query.turned(tokens.codec))
    weights = query.weights.astype(np.float64)
    out = np.empty(len(rows), dtype=np.float32)
    for begin, end, block, starts in _gathered(rows, tokens, offsets):
        similarity = (vectors @ torch.from_numpy(block.astype(np.float64)).T).numpy()
        out[begin:end] = weights @ np.maximum.reduceat(similarity, starts, axis=1)
    return out


def _gathered(
    rows: NDArray[np.int64], tokens: TokenVectors, offsets: NDArray[np.int64]
) -> Iterator[tuple[int, int, NDArray[np.float32] | NDArray[np.float16], NDArray[np.int64]]]:
    """Decoded tokens of some passages, block by block, with where each passage begins in the block."""
    lengths = offsets[rows + 1] - offsets[rows]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    for begin, end in _blocks(ends):
        starts = ends[begin:end] - ends[begin]
        block = tokens.codec.decode(tokens.take(token_rows(rows[begin:end], offsets)))
        yield begin, end, block, starts


def _groups(queries: Sequence[QueryVectors]) -> Iterator[tuple[int, int]]:
    """Consecutive queries, together of at most `_GROUP_TOKENS` tokens: index of the first, and how many."""
    first = size = 0
    for index, query in enumerate(queries):
        if index > first and size + len(query.vectors) > _GROUP_TOKENS:
            yield first, index - first
            first, size = index, 0
        size += len(query.vectors)
    if queries:
        yield first, len(queries) - first


def _blocks(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Consecutive passages, together of at most `_BLOCK_TOKENS` tokens, or one longer passage."""
    begin, passages = 0, len(offsets) - 1
    while begin < passages:
        end = int(np.searchsorted(offsets, offsets[begin] + _BLOCK_TOKENS, side="right")) - 1
        end = min(max(end, begin + 1), passages)
        yield begin, end
        begin = end

"""MaxSim over ragged passages: score = sum over query tokens of weight x largest dot product.

Scores are those of the vectors that the codec decodes, in its own space: turning the query costs one small
product, turning every token back would cost many. The scan runs in float32 by matrix products, whose last
bits depend on the shape of the product. What a caller sees does not: every passage that the scan cannot
tell from the best k is scored again in float64 and rounded to float32, so that scores and order depend on
the stored tokens and the query alone, not on batch, threads or shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colrank.codec import Codec
from colrank.shards import TokenVectors, ranges
from colrank.types import Vectors

_BLOCK_TOKENS = 4096
_GROUP_TOKENS = 1024

_LONGEST_DECODED = 5.1
"""Most that a decoded vector's length may be. It is near 1 but for rare tokens; the bound must hold for all:
a centroid is at most 1 long, a residual at most 2, and its scale at most twice what fits."""


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """A query as it is scored: unit vectors float32 `[tokens, dim]`, weights float32 `[tokens]`."""

    vectors: Vectors
    weights: NDArray[np.float32]

    def error_bound(self) -> float:
        """Most by which the float32 scan of unit vectors can be wrong about a score, to either side.

        A dot product of n terms errs by at most n x 2^-24 x the product of the norms (Higham 2002,
        "Accuracy and Stability of Numerical Algorithms", section 3.1); the sum over tokens adds as much
        for each, and rounding the turned query one more.
        """
        tokens, dim = self.vectors.shape
        return float((dim + tokens + 3) * 2.0**-24 * np.abs(self.weights).sum()) * _LONGEST_DECODED

    def turned(self, codec: Codec) -> NDArray[np.float64]:
        """The vectors in a codec's space, float64 `[tokens, dim]`."""
        turned: NDArray[np.float64] = codec.turn(self.vectors.astype(np.float64))
        return turned


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


def token_rows(rows: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of all tokens of some passages, in their order: int64 `[tokens]`."""
    begin = offsets[rows]
    return ranges(begin, offsets[rows + 1] - begin)


def contenders(scores: NDArray[np.float32], k: int, bound: float) -> NDArray[np.int64]:
    """Rows that may be among the best k when each score may err by `bound`; rows of -inf never are."""
    found = np.flatnonzero(scores > -np.inf)
    if len(found) <= k:
        return found
    among = scores[found]
    kth = float(np.partition(among, len(among) - k)[len(among) - k])
    near: NDArray[np.int64] = found[among >= kth - 2 * bound]
    return near


def document_contenders(
    scores: NDArray[np.float32], owners: NDArray[np.int64], k: int, bound: float, least: float = -np.inf
) -> NDArray[np.bool_]:
    """Which passages may be the best of a document that may be among the best k.

    Args:
        scores: float32 `[passages]`, each with an error of at most `bound`.
        owners: row of each one's document, int64 `[passages]`.
        least: documents whose best passage lies below this by more than the bound are out.
    """
    documents, owner = np.unique(owners, return_inverse=True)
    best = np.full(len(documents), -np.inf, dtype=np.float32)
    np.maximum.at(best, owner, scores)
    hopeful = np.zeros(len(documents), dtype=bool)
    hopeful[contenders(best, k, bound)] = True
    hopeful &= best >= least - bound
    # A passage that the bound cannot tell from its document's best one may be the best.
    near: NDArray[np.bool_] = hopeful[owner] & (scores >= best[owner] - 2 * bound)
    return near


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

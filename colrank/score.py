"""MaxSim over ragged passages: score = sum over query tokens of weight x largest dot product.

The scan runs in float32 by matrix products, whose last bits depend on the shape of the product. What a
caller sees does not: every passage that the scan cannot tell from the best k is scored again in float64
and rounded to float32, so that scores and order depend on the stored vectors and the query alone, not on
batch, threads or shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colrank.shards import TokenVectors
from colrank.types import Vectors

_BLOCK_TOKENS = 4096
_GROUP_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """A query as it is scored: unit vectors float32 `[tokens, dim]`, weights float32 `[tokens]`."""

    vectors: Vectors
    weights: NDArray[np.float32]

    def error_bound(self) -> float:
        """Most by which the float32 scan of unit vectors can be wrong about a score, to either side.

        A dot product of n terms errs by at most n x 2^-24 x the product of the norms (Higham 2002,
        "Accuracy and Stability of Numerical Algorithms", section 3.1); the sum over tokens adds as much
        for each.
        """
        tokens, dim = self.vectors.shape
        return float((dim + tokens + 2) * 2.0**-24 * np.abs(self.weights).sum()) * 1.01


def scan(
    queries: Sequence[QueryVectors], tokens: TokenVectors, offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Score every passage for every query.

    Args:
        queries: at least one token each.
        tokens: token vectors of all passages.
        offsets: int64 `[passages + 1]`, valid (`colrank_kernels.offsets_are_valid`).

    Returns:
        float32 `[queries, passages]`; -inf for a passage without tokens.
    """
    import torch

    scores = np.full((len(queries), len(offsets) - 1), -np.inf, dtype=np.float32)
    groups = [
        (first, torch.from_numpy(np.concatenate([query.vectors for query in group])), group)
        for first, group in _groups(queries)
    ]
    for begin, end in _blocks(offsets):
        lengths = np.diff(offsets[begin : end + 1])
        filled = np.flatnonzero(lengths)
        if not len(filled):
            continue
        start = int(offsets[begin])
        stored = tokens.read(start, int(offsets[end]))
        # A mapped file is read-only, which torch warns of; the copy to float32 is the only one made.
        block = torch.from_numpy(stored.astype(np.float32))
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


def exact_scores(
    query: QueryVectors, rows: NDArray[np.int64], tokens: TokenVectors, offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Score passages in float64, rounded to float32: `[rows]`; none may be without tokens.

    Whatever the order in which a product is summed, float64 is wrong by about 1e-16 of it, a thousand
    million times less than the rounding that follows.
    """
    import torch

    out = np.empty(len(rows), dtype=np.float32)
    vectors = torch.from_numpy(query.vectors.astype(np.float64))
    weights = query.weights.astype(np.float64)
    lengths = offsets[rows + 1] - offsets[rows]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    for begin, end in _blocks(ends):
        parts = [tokens.read(int(offsets[row]), int(offsets[row + 1])) for row in rows[begin:end]]
        block = torch.from_numpy(np.concatenate(parts).astype(np.float64))
        similarity = (vectors @ block.T).numpy()
        best = np.maximum.reduceat(similarity, ends[begin:end] - ends[begin], axis=1)
        out[begin:end] = weights @ best
    return out


def contenders(scores: NDArray[np.float32], k: int, bound: float) -> NDArray[np.int64]:
    """Rows that may be among the best k when each score may err by `bound`; rows of -inf never are."""
    found = np.flatnonzero(scores > -np.inf)
    if len(found) <= k:
        return found
    among = scores[found]
    kth = float(np.partition(among, len(among) - k)[len(among) - k])
    near: NDArray[np.int64] = found[among >= kth - 2 * bound]
    return near


def _groups(queries: Sequence[QueryVectors]) -> Iterator[tuple[int, list[QueryVectors]]]:
    """Consecutive queries, together of at most `_GROUP_TOKENS` tokens, with the index of the first."""
    group: list[QueryVectors] = []
    size = 0
    for index, query in enumerate(queries):
        if group and size + len(query.vectors) > _GROUP_TOKENS:
            yield index - len(group), group
            group, size = [], 0
        group.append(query)
        size += len(query.vectors)
    if group:
        yield len(queries) - len(group), group


def _blocks(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Consecutive passages, together of at most `_BLOCK_TOKENS` tokens, or one longer passage."""
    begin, passages = 0, len(offsets) - 1
    while begin < passages:
        end = int(np.searchsorted(offsets, offsets[begin] + _BLOCK_TOKENS, side="right")) - 1
        end = min(max(end, begin + 1), passages)
        yield begin, end
        begin = end

"""Token pooling: similar tokens of a passage become one vector, by Ward's clustering.

After Clavié, Chaffin and Adams 2024, "Reducing the Footprint of Multi-Vector Retrieval with Minimal
Performance Impact via Token Pooling" (arXiv:2409.14683): clusters of a passage's tokens, as many as
tokens divided by the factor, each replaced by its mean, here scaled back to unit length.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colrank.types import Vectors

WINDOW_TOKENS = 2048
"""Most tokens that are clustered together: the distances between all of them take 16 MiB, and memory grows
with the square of their number."""


def pool_tokens(
    vectors: Vectors, factor: int, markers: NDArray[np.bool_] | None = None
) -> tuple[Vectors, NDArray[np.int64]]:
    """Pool the tokens of one passage.

    More than `WINDOW_TOKENS` tokens (a model reads fewer, but whole documents may be given as vectors) are
    clustered in windows of consecutive tokens, equally long but for one token, each of which gets its share
    of the clusters.

    Args:
        vectors: unit vectors, float32 `[tokens, dim]`.
        factor: tokens for each vector that remains, on average; 1 changes nothing.
        markers: bool `[tokens]`: tokens that the model adds, which stay by themselves.

    Returns:
        Unit vectors, float32 `[pooled, dim]`, in the order of the first token of each, and for every
        token the row of the vector that it became part of, int64 `[tokens]`.
    """
    tokens = len(vectors)
    alone = np.zeros(tokens, dtype=bool) if markers is None else markers
    free = np.flatnonzero(~alone)
    wanted = max(1, len(free) // factor)
    if factor == 1 or wanted >= len(free):
        return vectors, np.arange(tokens)
    from scipy.cluster.hierarchy import linkage

    clusters = np.empty(tokens, dtype=np.int64)
    begin = named = 0
    for window in np.array_split(free, -(-len(free) // WINDOW_TOKENS)):
        end = begin + len(window)
        # What is due up to here less what was due before: the shares add up to what is wanted.
        share = max(1, end * wanted // len(free) - begin * wanted // len(free))
        tree = linkage(vectors[window].astype(np.float64), method="ward")
        clusters[window] = named + _after_merges(tree, len(window), len(window) - share)
        begin, named = end, int(clusters[window].max()) + 1
    clusters[alone] = named + np.arange(int(alone.sum()))
    _, first, inverse = np.unique(clusters, return_index=True, return_inverse=True)
    # Rows in the order of the tokens, so that neither the clustering's labels nor its ties show.
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    labels = rank[inverse]
    sums = np.zeros((len(first), vectors.shape[1]))
    np.add.at(sums, labels, vectors.astype(np.float64))
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    # Opposite vectors may cancel out; the first of them then stands for the cluster.
    lost = norms[:, 0] < 1e-6
    sums[lost] = vectors[np.sort(first)[lost]]
    norms[lost] = 1.0
    return (sums / norms).astype(np.float32), labels


def _after_merges(tree: NDArray[np.float64], leaves: int, merges: int) -> NDArray[np.int64]:
    """Cluster of each leaf after so many merges of a linkage; a cut by height would take all ties at once."""
    cluster = np.arange(leaves + len(tree))
    for merge in range(merges - 1, -1, -1):
        cluster[tree[merge, :2].astype(np.int64)] = cluster[leaves + merge]
    return cluster[:leaves]

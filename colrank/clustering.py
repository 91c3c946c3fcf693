"""Clusters of vectors by the native kernels: k-means, and the nearest of many centroids through their groups.

A vector is not compared with every centroid. The centroids are clustered in turn, into about as many groups
as each then has members, and a vector meets the members of the nearest groups alone: for 16,384 centroids a
tenth of the products. Looking into 16 groups finds the nearest centroid for 99.7% of vectors and adds .1% to
the mean squared error; k-means looks into 8, takes 10 rounds, and ends at the error of FAISS's 10 rounds in
an eighth of their time (`bench/clustering.py`).
"""

from __future__ import annotations

import numpy as np
from colrank_kernels import NativeGrouped, cluster_sums
from numpy.typing import NDArray

from colrank.types import Vectors

ROUNDS = 10
"""Rounds of k-means."""

_FLAT_BELOW = 1024
"""Fewer centroids than this are one group."""

_GROUP_ROUNDS = 4
_SPREAD_UP_TO = 256
_LOOKED_TRAINING = 8
_LOOKED = 16


class Groups:
    """Finds the nearest of some centroids.

    Args:
        centroids: float32 `[centroids, dim]`, at least one.
        looked: how many groups a vector looks into.
    """

    def __init__(self, centroids: Vectors, looked: int = _LOOKED) -> None:
        self._looked = looked
        centroids = np.ascontiguousarray(centroids, dtype=np.float32)
        count = len(centroids)
        if count < _FLAT_BELOW:
            middles, group = centroids[:1], np.zeros(count, dtype=np.int32)
        else:
            middles = _middles(centroids, 1 << int(np.ceil(np.log2(np.sqrt(count)))))
            group = Groups(middles).assign(centroids)[0]
        self._native = NativeGrouped(centroids, np.ascontiguousarray(middles), group)

    def assign(self, vectors: Vectors) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The nearest centroid (Euclidean) of each vector.

        Returns:
            Its number, int32 `[vectors]`, and how near it is: dot product less half of the centroid's square,
            float32 `[vectors]`.
        """
        ids, near = np.empty(len(vectors), dtype=np.int32), np.empty(len(vectors), dtype=np.float32)
        self._native.assign(np.ascontiguousarray(vectors, dtype=np.float32), self._looked, ids, near)
        return ids, near


def _middles(centroids: Vectors, count: int) -> Vectors:
    """Middles of groups of centroids; they start from centroids that lie evenly in the given order."""
    middles = centroids[np.linspace(0, len(centroids) - 1, count).astype(np.int64)].copy()
    for _ in range(_GROUP_ROUNDS):
        ids, _near = Groups(middles).assign(centroids)
        middles, _counts = _means(centroids, ids, middles)
    return middles


def _means(vectors: Vectors, ids: NDArray[np.int32], before: Vectors) -> tuple[Vectors, NDArray[np.int64]]:
    """The mean of each cluster, one without members as it was, and how many members each has."""
    sums, counts = np.empty(before.shape), np.empty(len(before), dtype=np.int64)
    cluster_sums(vectors, ids, sums, counts)
    filled = counts > 0
    means = before.copy()
    means[filled] = sums[filled] / counts[filled, None]
    return means, counts


def kmeans(vectors: Vectors, count: int, seed: int) -> Vectors:
    """Cluster vectors by k-means (Lloyd 1982), from vectors drawn at random.

    Args:
        vectors: float32 `[vectors, dim]`, contiguous, at least `count`.
        count: clusters.
        seed: of the draw.

    Returns:
        float32 `[count, dim]`; the same on every machine of one instruction set, whatever the threads.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    if count <= _SPREAD_UP_TO:
        drawn = _spread(vectors, count, random)
    else:
        drawn = random.choice(len(vectors), count, replace=False)
    centroids = np.ascontiguousarray(vectors[np.sort(drawn)])
    for _ in range(ROUNDS):
        ids, near = Groups(centroids, _LOOKED_TRAINING).assign(vectors)
        centroids, counts = _means(vectors, ids, centroids)
        _refill(vectors, near, centroids, counts)
    return centroids


def _spread(vectors: Vectors, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Rows to begin from, each drawn by its squared distance to those before (Arthur and Vassilvitskii 2007,
    "k-means++"). With many centroids a plain draw does as well and takes no time."""
    drawn = [int(random.integers(len(vectors)))]
    distance = np.full(len(vectors), np.inf)
    while len(drawn) < count:
        last = vectors - vectors[drawn[-1]]
        distance = np.minimum(distance, np.einsum("ij,ij->i", last, last))
        distance[drawn] = 0
        whole = distance.cumsum()
        if whole[-1] <= 0:  # no other vector is left
            rest = np.setdiff1d(np.arange(len(vectors)), drawn)[: count - len(drawn)]
            return np.concatenate([drawn, rest])
        drawn.append(int(np.searchsorted(whole, random.random() * whole[-1], side="right")))
    return np.array(drawn)


def _refill(
    vectors: Vectors, near: NDArray[np.float32], centroids: Vectors, counts: NDArray[np.int64]
) -> None:
    """Put clusters without members where vectors are farthest from their centroids."""
    empty = np.flatnonzero(counts == 0)
    if not len(empty):
        return
    distance = np.einsum("ij,ij->i", vectors, vectors) - 2 * near
    farthest = np.argsort(-distance, kind="stable")[: len(empty)]
    centroids[empty] = vectors[farthest]

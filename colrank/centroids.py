"""Centroids of token vectors: k-means and nearest centroids.

By the native kernels where they are there (`colrank.clustering`), else by FAISS. The only module that touches
FAISS.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colrank.clustering import Groups, kmeans
from colrank.errors import MissingExtra
from colrank.native import native_is_there
from colrank.types import Vectors

TOKENS_PER_CENTROID = 30
"""Fewest tokens of the training sample for each centroid."""

ITERATIONS = 4
"""Rounds of k-means by FAISS. On cranfield 2, 4 and 10 rounds gave squared errors of .0271, .0261 and .0256
at 2 bits and recalls that could not be told apart."""

HNSW_FROM = 1 << 16
"""From so many centroids on, tokens are coded through a graph; below, comparing with all is faster."""

_LINKS = 32
_EFFORT = 64
_BLOCK = 1 << 16


def require_faiss() -> Any:
    """Return the module `faiss`.

    Raises:
        MissingExtra: it is not installed; the sentence says which extra to install.
    """
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise MissingExtra(
            "Residual codes need the native kernels or FAISS to be made; install FAISS with: pip install "
            "'colrank[cpu]' (or 'colrank[gpu]' for an NVIDIA GPU, never both), or do without: keep vectors "
            "whole with bits 16."
        ) from error


def require_clustering() -> None:
    """Make sure that there is something to cluster with.

    Raises:
        MissingExtra: there are neither native kernels nor FAISS; the sentence says which extra to install.
    """
    if not native_is_there():
        require_faiss()


def can_cluster() -> bool:
    """Whether there is something to cluster with."""
    try:
        require_clustering()
    except MissingExtra:
        return False
    return True


def centroid_count(tokens: int, sampled: int) -> int:
    """How many centroids suit a collection: 2^floor(log2(16 sqrt(tokens))), as far as the sample bears.

    The rule is PLAID's (Santhanam et al. 2022, "PLAID: An Efficient Engine for Late Interaction
    Retrieval").

    Args:
        tokens: tokens of the collection, at least 1.
        sampled: vectors that k-means will see; each centroid has `TOKENS_PER_CENTROID` of them.
    """
    wanted = 1 << int(np.floor(np.log2(16 * np.sqrt(max(1, tokens)))))
    return int(max(1, min(wanted, sampled // TOKENS_PER_CENTROID)))


def train_centroids(sample: Vectors, count: int, seed: int) -> Vectors:
    """Cluster vectors by k-means.

    Args:
        sample: float32 `[vectors, dim]`, at least one.
        count: centroids wanted; fewer come back where the sample holds fewer different vectors.
        seed: of the first choice of centroids.

    Returns:
        float32 `[centroids, dim]`, all different and finite, values that float16 holds exactly.
    """
    distinct = None
    if count > 1 and _fewest_distinct(sample) <= count:
        distinct = _distinct(sample.astype(np.float16))
        count = min(count, len(distinct))
    if count == 1:
        found = sample.mean(axis=0, keepdims=True, dtype=np.float64).astype(np.float32)
    elif distinct is not None and count == len(distinct):
        found = distinct.astype(np.float32)
    else:
        train = kmeans if native_is_there() else _kmeans_by_faiss
        found = train(np.ascontiguousarray(sample, dtype=np.float32), count, seed)
    found = found[np.isfinite(found).all(axis=1)].astype(np.float16)
    return _distinct(found).astype(np.float32)


def _kmeans_by_faiss(sample: Vectors, count: int, seed: int) -> Vectors:
    faiss = require_faiss()
    means = faiss.Kmeans(
        sample.shape[1],
        count,
        niter=ITERATIONS,
        seed=seed,
        min_points_per_centroid=1,
        max_points_per_centroid=len(sample),
    )
    means.train(sample)
    found: Vectors = means.centroids
    return found


def _fewest_distinct(sample: Vectors) -> int:
    """How many rows are different in float16 at least: different hashes are of different rows.

    Takes 8 bytes a row, where sorting the rows themselves takes several times their own.
    """
    factors = np.random.Generator(np.random.PCG64(1)).integers(1, 1 << 63, sample.shape[1], dtype=np.uint64)
    hashes = np.empty(len(sample), dtype=np.uint64)
    for begin in range(0, len(sample), _BLOCK):
        half = np.ascontiguousarray(sample[begin : begin + _BLOCK].astype(np.float16) + np.float16(0))
        hashes[begin : begin + _BLOCK] = (half.view(np.uint16) * factors).sum(axis=1, dtype=np.uint64)
    return len(np.unique(hashes))


def _distinct(rows: NDArray[np.float16]) -> NDArray[np.float16]:
    """Different rows, in the order of their bytes (`np.unique` by axis is a hundred times slower)."""
    rows = np.ascontiguousarray(rows + np.float16(0))  # one zero, not two
    as_bytes = np.unique(rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0])
    return as_bytes.view(np.float16).reshape(-1, rows.shape[1])


class CentroidIndex:
    """Finds the centroid nearest to each vector, through an index made on first use.

    The native kernels look through groups of centroids. By FAISS tokens are compared with every centroid,
    or, from `hnsw_from` centroids on, find theirs through a graph. This serves to code tokens, millions at a
    time; queries are compared with every centroid (`colrank.prefilter`).

    Args:
        centroids: float32 `[centroids, dim]`.
        hnsw_from: see `HNSW_FROM`.
    """

    def __init__(self, centroids: Vectors, hnsw_from: int = HNSW_FROM) -> None:
        self._centroids = np.ascontiguousarray(centroids, dtype=np.float32)
        self._hnsw_from = hnsw_from
        self._made: Any = None
        self._making = threading.Lock()

    def _index(self) -> Any:
        with self._making:
            if self._made is None and native_is_there():
                self._made = Groups(self._centroids)
            elif self._made is None:
                faiss = require_faiss()
                count, dim = self._centroids.shape
                if count < self._hnsw_from:
                    self._made = faiss.IndexFlatL2(dim)
                    self._made.add(self._centroids)
                else:
                    self._made = _graph(self._centroids)
            return self._made

    def assign(self, vectors: Vectors) -> NDArray[np.int64]:
        """The nearest centroid (Euclidean) of each vector: int64 `[vectors]`.

        Raises:
            MissingExtra: there are neither native kernels nor FAISS.
        """
        index = self._index()
        out = np.empty(len(vectors), dtype=np.int64)
        for begin in range(0, len(vectors), _BLOCK):
            block = np.ascontiguousarray(vectors[begin : begin + _BLOCK], dtype=np.float32)
            if isinstance(index, Groups):
                out[begin : begin + _BLOCK] = index.assign(block)[0]
            else:
                out[begin : begin + _BLOCK] = index.search(block, 1)[1][:, 0]
        return out


def _graph(centroids: Vectors) -> Any:
    """An HNSW index. One thread makes it: with several the links depend on who comes first."""
    faiss = require_faiss()
    index = faiss.IndexHNSWFlat(centroids.shape[1], _LINKS)
    index.hnsw.efConstruction = 2 * _EFFORT
    index.hnsw.efSearch = _EFFORT
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        index.add(centroids)
    finally:
        faiss.omp_set_num_threads(threads)
    return index

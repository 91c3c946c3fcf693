"""Clusters by the native kernels: against brute force, and against FAISS."""

from __future__ import annotations

import colrank_kernels
import numpy as np
import pytest

from colrank.centroids import require_faiss

pytestmark = pytest.mark.skipif(
    not colrank_kernels.native_is_there(), reason="this installation has no native kernels"
)


def unit(rng: np.random.Generator, rows: int, dim: int) -> np.ndarray:
    vectors = rng.standard_normal((rows, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def clumped(rng: np.random.Generator, rows: int, dim: int, clumps: int) -> np.ndarray:
    """Vectors around some middles, which is how tokens lie."""
    vectors = unit(rng, clumps, dim)[rng.integers(0, clumps, rows)]
    vectors = vectors + 0.06 * rng.standard_normal((rows, dim)).astype(np.float32)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def brute_force(vectors: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    return ((vectors[:, None].astype(np.float64) - centroids[None].astype(np.float64)) ** 2).sum(axis=2)


@pytest.fixture(params=colrank_kernels.variants())
def instruction_set(request: pytest.FixtureRequest):
    before = colrank_kernels.variant()
    colrank_kernels.use_variant(request.param)
    yield
    colrank_kernels.use_variant(before)


@pytest.mark.parametrize(("count", "dim"), [(1, 5), (3, 1), (31, 16), (33, 48), (500, 13)])
def test_few_centroids_are_all_compared(instruction_set: None, count: int, dim: int):
    from colrank.clustering import Groups

    rng = np.random.default_rng(count)
    centroids, vectors = unit(rng, count, dim), 2 * unit(rng, 301, dim)
    distance = brute_force(vectors, centroids)
    ids, near = Groups(centroids).assign(vectors)
    chosen = distance[np.arange(301), ids]
    np.testing.assert_allclose(chosen, distance.min(axis=1), rtol=1e-5)
    np.testing.assert_allclose((vectors.astype(np.float64) ** 2).sum(axis=1) - 2 * near, chosen, atol=1e-4)


def test_equal_centroids_go_by_number(instruction_set: None):
    from colrank.clustering import Groups

    rng = np.random.default_rng(1)
    centroids = np.repeat(unit(rng, 11, 8), 7, axis=0)[rng.permutation(77)]
    first = [int(np.flatnonzero((centroids == row).all(axis=1))[0]) for row in centroids]
    assert Groups(centroids).assign(centroids)[0].tolist() == first


def test_through_groups_nearly_all_find_the_nearest_whatever_the_threads_and_the_block():
    from colrank.clustering import Groups

    rng = np.random.default_rng(2)
    vectors = clumped(rng, 6000, 32, 700)
    centroids = np.ascontiguousarray(vectors[:2048])
    groups = Groups(centroids)
    ids, _near = groups.assign(vectors[2048:])
    distance = brute_force(vectors[2048:3048], centroids)
    assert (distance.argmin(axis=1) == ids[:1000]).mean() > 0.98
    chosen = distance[np.arange(1000), ids[:1000]].mean()
    assert chosen < 1.005 * distance.min(axis=1).mean()
    before = colrank_kernels.threads()
    try:
        for threads in (1, 8):
            colrank_kernels.set_threads(threads)
            again = Groups(centroids)
            assert np.array_equal(again.assign(vectors[2048:])[0], ids)
            parts = [again.assign(vectors[at : at + 777])[0] for at in range(2048, 6000, 777)]
            assert np.array_equal(np.concatenate(parts), ids)
    finally:
        colrank_kernels.set_threads(before)


def test_kmeans_ends_no_worse_than_that_of_faiss():
    from colrank.clustering import Groups, kmeans

    rng = np.random.default_rng(3)
    vectors, unseen = (
        clumped(rng, 40_000, 32, 3000),
        clumped(np.random.default_rng(3), 40_000, 32, 3000)[:4000],
    )
    ours = kmeans(vectors, 1200, seed=0)
    faiss = require_faiss()
    theirs = faiss.Kmeans(
        32, 1200, niter=10, seed=0, min_points_per_centroid=1, max_points_per_centroid=40_000
    )
    theirs.train(vectors)

    def error(centroids: np.ndarray) -> float:
        near = Groups(centroids, 10**6).assign(unseen)[1].astype(np.float64)
        return float(((unseen.astype(np.float64) ** 2).sum(axis=1) - 2 * near).mean())

    assert error(ours) < 1.01 * error(theirs.centroids)
    assert np.array_equal(ours, kmeans(vectors, 1200, seed=0))


def test_clusters_that_lose_all_members_are_put_where_vectors_are_far():
    from colrank.clustering import kmeans

    rng = np.random.default_rng(4)
    # Nearly all vectors are the same: of the centroids that begin there one keeps them all.
    places = unit(rng, 300, 12)
    vectors = np.ascontiguousarray(places[np.concatenate([np.zeros(6000, dtype=int), np.arange(1, 300)])])
    found = kmeans(vectors, 290, seed=1)
    assert np.isfinite(found).all()
    near = brute_force(places, found).min(axis=1)
    assert (near < 1e-6).mean() > 0.9


def test_sums_of_clusters_are_those_of_numpy():
    rng = np.random.default_rng(5)
    rows, ids = unit(rng, 500, 7), rng.integers(0, 40, 500).astype(np.int32)
    ids[ids == 13] = 14
    found = []
    native = colrank_kernels._cpu
    try:
        for module in (native, None):
            colrank_kernels._cpu = module
            sums, counts = np.full((40, 7), 9.0), np.full(40, 9, dtype=np.int64)
            colrank_kernels.cluster_sums(rows, ids, sums, counts)
            found.append((sums, counts))
            with pytest.raises(ValueError, match="not there"):
                colrank_kernels.cluster_sums(rows, ids + 1, sums, counts)
            with pytest.raises(ValueError, match="not there"):
                colrank_kernels.cluster_sums(rows, ids - 1, sums, counts)
    finally:
        colrank_kernels._cpu = native
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1])
    assert found[0][1][13] == 0

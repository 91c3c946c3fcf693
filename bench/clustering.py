"""k-means and nearest centroids: the native kernels beside FAISS, on the token vectors of a collection.

    python bench/clustering.py --vectors FOLDER [--tokens 300000] [--centroids 8192]

FOLDER is what `bench/rivals/vectors.py` writes (vectors.npy: float16, [tokens, dim]). Both see the same
vectors and the same number of centroids; the error is the mean squared distance of vectors that neither saw
to the nearest of all centroids. Then tokens are given their centroid: compared with all, and through groups.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from judged import write_results

from colrank.clustering import Groups, kmeans

UNSEEN = 20_000
EVERY = 10**6
"""Groups that are looked into where all are meant."""


def error(vectors: np.ndarray, centroids: np.ndarray, looked: int = EVERY) -> float:
    near = Groups(centroids, looked).assign(vectors)[1].astype(np.float64)
    return float((np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64) - 2 * near).mean())


def timed(make: Any) -> tuple[Any, float]:
    begin = time.perf_counter()
    made = make()
    return made, round(time.perf_counter() - begin, 2)


def by_faiss(vectors: np.ndarray, count: int, rounds: int) -> np.ndarray:
    means = faiss.Kmeans(
        vectors.shape[1],
        count,
        niter=rounds,
        seed=0,
        min_points_per_centroid=1,
        max_points_per_centroid=len(vectors),
    )
    means.train(vectors)
    return means.centroids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=300_000)
    parser.add_argument("--centroids", type=int, default=8192)
    options = parser.parse_args()
    stored = np.load(options.vectors / "vectors.npy", mmap_mode="r")
    order = np.random.default_rng(0).permutation(len(stored))
    seen = np.ascontiguousarray(stored[np.sort(order[: options.tokens])], dtype=np.float32)
    unseen = np.ascontiguousarray(stored[np.sort(order[-UNSEEN:])], dtype=np.float32)
    rows: list[dict[str, Any]] = []
    found, seconds = timed(lambda: kmeans(seen, options.centroids, 0))
    rows.append({"what": "k-means, native, 10 rounds", "seconds": seconds, "error": error(unseen, found)})
    print(rows[-1], flush=True)
    for rounds in (4, 10):
        theirs, spent = timed(lambda rounds=rounds: by_faiss(seen, options.centroids, rounds))
        rows.append(
            {"what": f"k-means, FAISS, {rounds} rounds", "seconds": spent, "error": error(unseen, theirs)}
        )
        print(rows[-1], flush=True)
    some = seen[:100_000]
    nearest = Groups(found, EVERY).assign(unseen)[0]
    for looked in (4, 8, 16, 32):
        groups = Groups(found, looked)
        spent = timed(lambda groups=groups: groups.assign(some))[1]
        rows.append(
            {
                "what": f"assign, native, {looked} groups",
                "seconds": spent,
                "error": error(unseen, found, looked),
                "nearest": float((groups.assign(unseen)[0] == nearest).mean()),
            }
        )
        print(rows[-1], flush=True)
    flat = faiss.IndexFlatL2(found.shape[1])
    flat.add(found)
    rows.append({"what": "assign, FAISS, all", "seconds": timed(lambda: flat.search(some, 1))[1]})
    print(rows[-1], flush=True)
    write_results(
        "clustering",
        {"tokens": len(seen), "centroids": options.centroids, "assigned": len(some), "rows": rows},
    )


if __name__ == "__main__":
    main()

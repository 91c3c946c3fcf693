"""A random sample of vectors that is drawn while they stream by, of a size that follows their number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colrank.types import Vectors

SAMPLE_FACTOR = 512
"""The sample of n vectors holds about `SAMPLE_FACTOR * sqrt(n)` of them, which gives each of
16 sqrt(n) centroids 32 of them, and up to 64 as their number is rounded down to a power of 2."""

SAMPLE_MOST = 1 << 22
"""Most vectors of a sample, whatever the collection: 1 GB of float16 at 128 dimensions."""

_SPARE = 1.25


class StreamSample:
    """Keeps each vector with a probability that falls as more come, so that all had the same in the end.

    Every vector draws a number between 0 and 1 and stays while that is below `limit / seen`. The
    threshold only falls, so what is left at the end is all vectors whose number is below the last
    threshold: a sample that does not depend on how the stream was cut.
    """

    def __init__(self, dim: int, seed: int) -> None:
        self._dim = dim
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._vectors: list[NDArray[np.float16]] = []
        self._draws: list[NDArray[np.float64]] = []
        self._kept = 0
        self.seen = 0

    @staticmethod
    def size(seen: int) -> int:
        """Vectors that a sample of so many holds on average."""
        return int(min(seen, SAMPLE_MOST, SAMPLE_FACTOR * np.sqrt(seen) + 1024))

    def add(self, vectors: NDArray[np.float32] | NDArray[np.float16]) -> None:
        """Offer vectors `[vectors, dim]`."""
        if not len(vectors):
            return
        draws = self._random.random(len(vectors))
        self.seen += len(vectors)
        near = draws < self._threshold()
        if near.any():
            self._vectors.append(vectors[near].astype(np.float16))
            self._draws.append(draws[near])
            self._kept += int(near.sum())
        if self._kept > _SPARE * self.size(self.seen) + 4096:
            self._thin()

    def _threshold(self) -> float:
        return self.size(self.seen) / self.seen if self.seen else 1.0

    def _thin(self) -> None:
        vectors, draws = self._joined()
        near = draws < self._threshold()
        self._vectors, self._draws = [vectors[near]], [draws[near]]
        self._kept = len(self._draws[0])

    def _joined(self) -> tuple[NDArray[np.float16], NDArray[np.float64]]:
        if not self._vectors:
            return np.empty((0, self._dim), dtype=np.float16), np.empty(0)
        return np.concatenate(self._vectors), np.concatenate(self._draws)

    def split(self, held_out: float = 1 / 32, most: int = 8192) -> tuple[Vectors, Vectors]:
        """The sample as two parts, float32 `[vectors, dim]` each: to train on, and to test on.

        A sample of under 32 vectors has nothing to spare for the second.
        """
        self._thin()
        vectors, draws = self._joined()
        spare = min(most, int(len(draws) * held_out))
        test = np.zeros(len(draws), dtype=bool)
        test[np.argsort(draws, kind="stable")[:spare]] = True
        return vectors[~test].astype(np.float32), vectors[test].astype(np.float32)

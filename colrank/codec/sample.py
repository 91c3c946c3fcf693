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
# One vector in so many is held out from training, and at most so many.
_TESTED_OF = 32
_TESTED_MOST = 8192

POINTS_PER_CENTROID = 64
"""Vectors that k-means sees for each centroid, at most, where the number of centroids was asked for."""


class StreamSample:
    """Keeps each vector with a probability that falls as more come, so that all had the same in the end.

    Every vector draws a number between 0 and 1 and stays while that is below `limit / seen`. The
    threshold only falls, so what is left at the end is all vectors whose number is below the last
    threshold: a sample that does not depend on how the stream was cut.
    """

    def __init__(self, dim: int, seed: int, centroids: int | None = None) -> None:
        """A sample of vectors of `dim`, to train so many centroids (None: as many as suit it)."""
        self._most = SAMPLE_MOST if centroids is None else POINTS_PER_CENTROID * centroids + _TESTED_MOST
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._vectors: list[NDArray[np.float16]] = [np.empty((0, dim), dtype=np.float16)]
        self._draws: list[NDArray[np.float64]] = [np.empty(0)]
        self._originals: list[NDArray[np.bool_]] = [np.empty(0, dtype=bool)]
        self._kept = 0
        self.seen = 0

    @staticmethod
    def size(seen: int) -> int:
        """Vectors that a sample of so many holds on average."""
        return int(min(seen, SAMPLE_MOST, SAMPLE_FACTOR * np.sqrt(seen) + 1024))

    def add(self, vectors: NDArray[np.float32] | NDArray[np.float16], *, original: bool = True) -> None:
        """Offer vectors `[vectors, dim]`; `original` is False for those that were decoded from codes."""
        if not len(vectors):
            return
        draws = self._random.random(len(vectors))
        self.seen += len(vectors)
        near = draws < self._threshold()
        if near.any():
            self._vectors.append(vectors[near].astype(np.float16))
            self._draws.append(draws[near])
            self._originals.append(np.full(int(near.sum()), original))
            self._kept += int(near.sum())
        if self._kept > _SPARE * self._limit() + 4096:
            self._thin()

    def _limit(self) -> int:
        return min(self._most, self.size(self.seen))

    def _threshold(self) -> float:
        return self._limit() / self.seen if self.seen else 1.0

    def _thin(self) -> None:
        draws = np.concatenate(self._draws)
        near = draws < self._threshold()
        self._vectors = [np.concatenate(self._vectors)[near]]
        self._originals = [np.concatenate(self._originals)[near]]
        self._draws = [draws[near]]
        self._kept = len(self._draws[0])

    def split(self) -> tuple[Vectors, Vectors]:
        """The sample as two parts, float32 `[vectors, dim]` each: to train on, and to test on.

        A sample of under 32 vectors has nothing to spare for the second.
        """
        test = self._held_out()
        return self._part(~test), self._part(test)

    def unseen_originals(self) -> Vectors:
        """The second part of `split` without what was decoded from codes: float32 `[vectors, dim]`."""
        test = self._held_out()
        return self._part(test & self._originals[0])

    def _held_out(self) -> NDArray[np.bool_]:
        """Which vectors of the sample are to test on, those of the lowest draws: bool `[vectors]`."""
        self._thin()
        draws = self._draws[0]
        test = np.zeros(len(draws), dtype=bool)
        test[np.argsort(draws, kind="stable")[: min(_TESTED_MOST, len(draws) // _TESTED_OF)]] = True
        return test

    def _part(self, rows: NDArray[np.bool_]) -> Vectors:
        return self._vectors[0][rows].astype(np.float32)

"""A query as it is scored, and what a scan may err by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colrank.codec import Codec
from colrank.types import Vectors

LONGEST_DECODED = 5.1
"""Most that a decoded vector's length may be. It is near 1 but for rare tokens; the bound must hold for all:
a centroid is at most 1 long, a residual at most 2, and its scale at most twice what fits."""


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """A query as it is scored: unit vectors float32 `[tokens, dim]`, weights float32 `[tokens]`."""

    vectors: Vectors
    weights: NDArray[np.float32]

    def error_bound(self) -> float:
        """Most by which a score summed in float32 can be wrong, to either side.

        A dot product of n terms errs by at most n x 2^-24 x the product of the norms (Higham 2002,
        "Accuracy and Stability of Numerical Algorithms", section 3.1); the sum over tokens adds as much
        for each, and rounding the turned query one more.
        """
        return self.rounding() * float(np.abs(self.weights).sum())

    def rounding(self) -> float:
        """The part of that which one similarity of unit weight errs by."""
        tokens, dim = self.vectors.shape
        return float((dim + tokens + 3) * 2.0**-24) * LONGEST_DECODED

    def turned(self, codec: Codec) -> NDArray[np.float64]:
        """The vectors in a codec's space, float64 `[tokens, dim]`."""
        turned: NDArray[np.float64] = codec.turn(self.vectors.astype(np.float64))
        return turned


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of passages, each with what it may err by.

    Attributes:
        values: float32 `[passages]`; -inf for a passage without tokens.
        slack: float32 `[passages]`, most by which a score can be wrong, to either side.
    """

    values: NDArray[np.float32]
    slack: NDArray[np.float32]

    def at(self, places: NDArray[np.int64]) -> Scores:
        """Those at some places."""
        return Scores(self.values[places], self.slack[places])

"""Weights of query tokens: the square root of the token id's inverse document frequency in the index.

score(query, passage) = sum over query tokens of weight x best similarity. The inverse document frequency
is BM25's: ln(1 + (N - n + 0.5) / (n + 0.5)) for a token id that n of N passages hold (Robertson and
Zaragoza 2009, "The Probabilistic Relevance Framework", eq. 3.3, with the usual 1 added so that it never
falls below zero).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from colrank.config import TokenWeights
from colrank.errors import IndexDamaged

_MISMATCH = "The index's token frequencies do not match its passages; index again with --overwrite."


class TokenFrequencies:
    """In how many passages each token id occurs; kept in step by adding and removing passages."""

    def __init__(self, counts: Mapping[int, int] | None = None, passages: int = 0) -> None:
        self._counts = dict(counts or {})
        self.passages = passages

    def add(self, token_ids: Iterable[int]) -> None:
        """Count the distinct token ids of one passage."""
        self.passages += 1
        for token in set(token_ids):
            self._counts[token] = self._counts.get(token, 0) + 1

    def include(self, other: TokenFrequencies) -> None:
        """Count what another counted, too."""
        self.passages += other.passages
        for token, count in other._counts.items():
            self._counts[token] = self._counts.get(token, 0) + count

    def subtract(self, other: TokenFrequencies) -> None:
        """Take back all that another counted.

        Raises:
            IndexDamaged: it counted more than this.
        """
        self.passages -= other.passages
        for token, count in other._counts.items():
            left = self._counts.get(token, 0) - count
            if left < 0 or self.passages < 0:
                raise IndexDamaged(_MISMATCH)
            if left:
                self._counts[token] = left
            else:
                del self._counts[token]

    def table(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Token ids, ascending, and the number of passages that hold each."""
        ids = np.array(sorted(self._counts), dtype=np.int32)
        return ids, np.array([self._counts[int(token)] for token in ids], dtype=np.int64)

    def weights(
        self, token_ids: NDArray[np.int64], special: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float32]:
        """Weight of each query token, float32 `[tokens]`.

        A word that no passage holds weighs the most. A token that the model adds to queries only (a
        marker, `special`) would, too, and says nothing: it weighs 1.
        """
        held = np.array([self._counts.get(int(token), 0) for token in token_ids], dtype=np.float64)
        if held.max(initial=0) > self.passages:
            raise IndexDamaged(_MISMATCH)
        idf = np.log1p((self.passages - held + 0.5) / (held + 0.5))
        found: NDArray[np.float32] = np.sqrt(idf).astype(np.float32)
        if special is not None:
            found[special & (held == 0)] = 1.0
        return found


def weights_apply(mode: TokenWeights, *, embedded: bool, language_tokens: Mapping[str, int]) -> bool:
    """Whether queries are weighted: `auto` does so for the embedded model while under half of the
    passages' tokens are English, where weights were measured to help (`bench/token_weights.py`)."""
    if mode != "auto":
        return mode == "idf"
    total = sum(language_tokens.values())
    return embedded and total > 0 and 2 * language_tokens.get("en", 0) < total

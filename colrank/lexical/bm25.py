"""BM25 over the words of all segments, by what is live in all of them.

The formula is Lucene's (Kamphuis et al. 2020, "Which BM25 do you mean?"):

    idf(t) = ln(1 + (N - n + 0.5) / (n + 0.5))
    score  = sum over words t of the query of  idf(t) * f * (k1 + 1) / (f + k1 * (1 - b + b * length / mean))

with N the live passages, n those that hold t, f how often this one does, and lengths in words. All of it is
float64 and rounded once, so that scores do not depend on segments or on what was deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colrank.lexical.tables import Postings, WordTables
from colrank.lexical.terms import query_terms

K1, B = 1.5, 0.75

COMMON, ENOUGH = 0.5, 1000
"""In an index of `ENOUGH` passages, a word that more than this share of them holds is not looked for, unless
all words of the query are so common: it tells little and its list is long."""


class Words:
    """The words of several segments as one.

    Args:
        parts: of each segment.
        starts: row of each segment's first passage.
        live: bool `[passages]`, which passages may be found; None for all.
    """

    def __init__(
        self, parts: Sequence[WordTables], starts: NDArray[np.int64], live: NDArray[np.bool_] | None
    ) -> None:
        self._parts = list(zip(parts, starts.tolist(), strict=False))
        self._live = live

    @cached_property
    def _lengths(self) -> NDArray[np.uint32]:
        return np.concatenate([part.lengths for part, _ in self._parts] or [np.zeros(0, dtype=np.uint32)])

    @cached_property
    def _passages(self) -> int:
        return len(self._lengths) if self._live is None else int(self._live.sum())

    @cached_property
    def _mean(self) -> float:
        live = self._lengths if self._live is None else self._lengths[self._live]
        return max(1.0, float(live.sum(dtype=np.int64)) / max(1, len(live)))

    def scores(self, text: str, languages: Collection[str]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Passages that hold a word of a query, and their scores.

        Args:
            languages: of the documents.

        Returns:
            Rows, int64, ascending, and scores, float32, above 0.

        Raises:
            IndexDamaged: a posting names a passage that is not there.
        """
        found = self._looked_for(query_terms(text, languages))
        total = np.zeros(len(self._lengths), dtype=np.float64)
        for (rows, counts), times in found:
            rarity = np.log1p((self._passages - len(rows) + 0.5) / (len(rows) + 0.5))
            share = self._lengths[rows] / self._mean
            total[rows] += times * rarity * counts * (K1 + 1) / (counts + K1 * (1 - B + B * share))
        rows = np.flatnonzero(total)
        return rows, total[rows].astype(np.float32)

    def _looked_for(self, words: Mapping[tuple[str, ...], int]) -> list[tuple[Postings, int]]:
        found = [(self._postings(forms), times) for forms, times in words.items()]
        if self._passages < ENOUGH:
            return found
        telling = [each for each in found if len(each[0][0]) <= COMMON * self._passages]
        return telling if any(len(rows) for (rows, _), _ in telling) else found

    def _postings(self, forms: Sequence[str]) -> Postings:
        """Live passages that hold a word in any of its forms."""
        parts = [
            (rows + start, counts)
            for part, start in self._parts
            for rows, counts in map(part.postings, forms)
            if len(rows)
        ]
        if not parts:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        rows, counts = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        if len(forms) > 1:
            rows, places = np.unique(rows, return_inverse=True)
            counts = np.bincount(places, weights=counts).astype(np.int64)
        if self._live is not None:
            kept = self._live[rows]
            rows, counts = rows[kept], counts[kept]
        return rows, counts

"""Ranked documents of many queries: by the search itself, or gathered while passages stream by."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from colrank.builder import Progress
from colrank.config import SearchConfig
from colrank.index import Contents, Snapshot
from colrank.score import QueryVectors, Scores, best_documents
from colrank.search import Query, search
from colrank.shards import TokenVectors

_QUERIES_AT_ONCE = 128
"""Hits carry their text, so that few queries are searched at a time."""


def ranked_documents(
    snapshot: Snapshot, queries: Mapping[str, Query], config: SearchConfig, depth: int, progress: Progress
) -> dict[str, list[tuple[str, float]]]:
    """The best documents of each query with their scores, as a search finds them."""
    found = {}
    progress.start("searching", len(queries), "queries")
    names = iter(queries)
    while group := list(islice(names, _QUERIES_AT_ONCE)):
        hits = search(snapshot, [queries[name] for name in group], k=depth, by="document", config=config)
        for name, ranked in zip(group, hits, strict=True):
            found[name] = [(hit.document, hit.score) for hit in ranked]
        progress.advance(len(group))
    return found


class DocumentOrder:
    """Ids of all documents, and the place of each among them: equal scores order by id, as in a search."""

    def __init__(self, contents: Contents) -> None:
        self.ids = contents.ids()
        self.places = np.empty(len(self.ids), dtype=np.int64)
        self.places[sorted(range(len(self.ids)), key=self.ids.__getitem__)] = np.arange(len(self.ids))


class BestDocuments:
    """The best documents of one query among the passages seen so far, by each one's best passage.

    Scores are those that a search would show: whatever a scan cannot tell from the best is scored again
    in float64.
    """

    def __init__(self, query: QueryVectors, order: DocumentOrder, depth: int) -> None:
        self._query = query
        self._order = order
        self._depth = depth
        self._documents = np.empty(0, dtype=np.int64)
        self._scores = np.empty(0, dtype=np.float32)

    def offer(
        self,
        rows: NDArray[np.int64],
        scores: Scores,
        owners: NDArray[np.int64],
        tokens: TokenVectors,
        offsets: NDArray[np.int64],
    ) -> None:
        """Take in some passages.

        Args:
            rows: passages with tokens, ascending.
            scores: of each, as a scan gives them.
            owners: row of each one's document.
            tokens, offsets: as in `colrank.score.scan`.
        """
        least = float(self._scores[-1]) if len(self._scores) == self._depth else -np.inf
        near, exact = best_documents(self._query, rows, scores, owners, self._depth, tokens, offsets, least)
        if not len(near):
            return
        documents, owner = np.unique(np.concatenate([self._documents, owners[near]]), return_inverse=True)
        best = np.full(len(documents), -np.inf, dtype=np.float32)
        np.maximum.at(best, owner, np.concatenate([self._scores, exact]))
        kept = np.lexsort((self._order.places[documents], -best))[: self._depth]
        self._documents, self._scores = documents[kept], best[kept]

    def ranked(self) -> list[tuple[str, float]]:
        """The documents found, best first, with their scores."""
        ids = self._order.ids
        return [(ids[row], float(score)) for row, score in zip(self._documents, self._scores, strict=True)]

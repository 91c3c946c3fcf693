"""What BM25 finds in a snapshot: passages that hold a word of the query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colrank.config import By
from colrank.errors import InputError
from colrank.index import Contents, Snapshot
from colrank.lexical import Words, require_stemmer
from colrank.stored_hits import best_hits
from colrank.types import Hit

_WIDER = 4
"""Passages looked at for each document that is wanted, at first."""


def require_words(snapshot: Snapshot) -> None:
    """Raise InputError where an index keeps no words, MissingExtra where there is no stemmer for a query."""
    if not snapshot.manifest.hybrid:
        raise InputError(
            f"{snapshot.folder} keeps no words for BM25; colrank compact --hybrid, or compact(hybrid=True), "
            "adds them."
        )
    require_stemmer()


def word_scores(
    contents: Contents, text: str, among: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Passages that hold a word of a query and may be found, ascending, and their BM25 scores.

    Args:
        among: passages that may be found, ascending; None for all with tokens.
    """
    words = contents.words
    assert isinstance(words, Words)
    rows, scores = words.scores(text, contents.counts.language_tokens)
    findable = contents.filled if among is None else among
    if len(findable) < contents.passage_rows:
        allowed = np.zeros(contents.passage_rows, dtype=bool)
        allowed[findable] = True
        rows, scores = rows[allowed[rows]], scores[allowed[rows]]
    return rows, scores


def word_hits(contents: Contents, text: str, k: int, by: By, among: NDArray[np.int64] | None) -> list[Hit]:
    """The best k passages, or documents, by BM25; fewer where fewer hold a word of the query."""
    rows, scores = word_scores(contents, text, among)
    count = k if by == "passage" else _WIDER * k
    while True:
        near = _best(scores, count)
        owners = contents.passage_documents[rows[near]]
        if by == "passage" or len(near) == len(rows) or len(np.unique(owners)) >= k:
            return best_hits(contents, scores[near], rows[near], k, by, "bm25")
        count *= _WIDER


def word_rows(
    contents: Contents, text: str, count: int, among: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """The best passages by BM25, ascending: so many, and all that are as good as the last of them."""
    rows, scores = word_scores(contents, text, among)
    return rows[_best(scores, count)]


def _best(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Places of the best scores, ascending: so many, and all that equal the last of them."""
    if len(scores) <= count:
        return np.arange(len(scores))
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    return np.flatnonzero(scores >= least)

"""Which passages may be among the best, when scores may err."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colrank.score.query import Scores


def contenders(scores: Scores, k: int) -> NDArray[np.int64]:
    """Places of passages that may be among the best k; those without tokens never are."""
    found = np.flatnonzero(scores.values > -np.inf)
    if len(found) <= k:
        return found
    values, slack = scores.values[found].astype(np.float64), scores.slack[found]
    # So much the k-th best has at least.
    sure = float(np.partition(values - slack, len(found) - k)[len(found) - k])
    near: NDArray[np.int64] = found[values + slack >= sure]
    return near


def document_contenders(
    scores: Scores, owners: NDArray[np.int64], k: int, least: float = -np.inf
) -> NDArray[np.int64]:
    """Places of passages that may be the best of a document that may be among the best k.

    Args:
        scores: of passages with tokens.
        owners: row of each one's document, int64 `[passages]`.
        least: documents whose best passage is surely below this are out.
    """
    documents, owner = np.unique(owners, return_inverse=True)
    most = scores.values.astype(np.float64) + scores.slack
    sure = scores.values.astype(np.float64) - scores.slack
    best_most = np.full(len(documents), -np.inf)
    best_sure = np.full(len(documents), -np.inf)
    np.maximum.at(best_most, owner, most)
    np.maximum.at(best_sure, owner, sure)
    bar = least
    if len(documents) > k:
        bar = max(bar, float(np.partition(best_sure, len(documents) - k)[len(documents) - k]))
    hopeful = best_most >= bar
    # A passage that may have more than its document's best one surely has may be the best.
    near: NDArray[np.int64] = np.flatnonzero(hopeful[owner] & (most >= best_sure[owner]))
    return near

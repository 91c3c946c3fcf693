"""Several rankings of the same query into one.

    rrf     reciprocal rank (Cormack et al. 2009): the sum of weight / (60 + rank), ranks from 1
    score   the sum of weight x score, each branch's scores moved to [0, 1] within the query

What a branch did not find adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from colrank.config import By
from colrank.types import Hit

RANK_CONSTANT = 60


def fused(branches: Sequence[tuple[Sequence[Hit], float]], k: int, by: By, fusion: str) -> list[Hit]:
    """The best k of what the branches found, best first; equal ones by document id and place.

    Args:
        branches: hits of each, best first, and its weight.
        by: what is the same in two branches: a passage, or a document, of which the passage that the
            earlier branch found is kept.
        fusion: "rrf" or "score".

    Returns:
        Hits with the scores of all branches that found them, and `fusion`, by which they stand.
    """
    found: dict[str, Hit] = {}
    totals: dict[str, float] = {}
    for hits, weight in branches:
        for hit, part in zip(hits, _parts(hits, fusion), strict=True):
            key = hit.document if by == "document" else hit.id
            held = found.setdefault(key, hit)
            found[key] = replace(held, scores={**hit.scores, **held.scores})
            totals[key] = totals.get(key, 0.0) + weight * part
    order = sorted(found, key=lambda key: (-totals[key], found[key].document, found[key].start, key))
    return [
        replace(found[key], score=totals[key], scores={**found[key].scores, "fusion": totals[key]})
        for key in order[:k]
    ]


def _parts(hits: Sequence[Hit], fusion: str) -> list[float]:
    """What each hit of one branch brings, before its weight."""
    if fusion == "rrf":
        return [1 / (RANK_CONSTANT + rank) for rank in range(1, len(hits) + 1)]
    if not hits:
        return []
    best, least = hits[0].score, hits[-1].score
    if best == least:
        return [1.0] * len(hits)
    return [(hit.score - least) / (best - least) for hit in hits]

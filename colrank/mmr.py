"""The last few hits: as relevant as possible, as different as asked for, few of one document.

Maximal marginal relevance (Carbonell and Goldstein 1998, "The Use of MMR, Diversity-Based Reranking for
Reordering Documents and Producing Summaries"): greedily the hit of largest

    lambda x relevance - (1 - lambda) x largest similarity to a hit chosen before.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colrank.types import Hit, Hits, Vectors

REDUCED = 32
"""Vectors of a passage that are compared, unless all are asked for."""

MMR_PER_DOCUMENT = 2
"""Most passages of one document among the chosen, unless said otherwise."""


class Chosen(NamedTuple):
    """Places of the chosen hits in order, what each was chosen for, and places that the cap took out."""

    places: list[int]
    gains: list[float]
    capped: list[int]


def choose(
    relevance: NDArray[np.float64],
    similarity: Callable[[int], NDArray[np.float64]],
    k: int,
    balance: float,
    owners: Sequence[Hashable],
    per_owner: int | None,
) -> Chosen:
    """Choose k hits by maximal marginal relevance; equal gains go by place.

    Args:
        relevance: float64 `[hits]` in [0, 1], best first.
        similarity: gives the similarity of one hit to all, float64 `[hits]` in [0, 1].
        k: most hits chosen.
        balance: lambda: 1 keeps the order of `relevance`, 0 looks at difference alone, after the first.
        owners: of each hit, what the cap counts by.
        per_owner: most hits of one owner; None is no cap.
    """
    count = len(relevance)
    nearest = np.zeros(count)
    open_ = np.ones(count, dtype=bool)
    held: Counter[Hashable] = Counter()
    chosen = Chosen([], [], [])
    while open_.any() and len(chosen.places) < k:
        gains = np.where(open_, balance * relevance - (1 - balance) * nearest, -np.inf)
        best = int(gains.argmax())
        open_[best] = False
        if per_owner is not None and held[owners[best]] >= per_owner:
            chosen.capped.append(best)
            continue
        held[owners[best]] += 1
        chosen.places.append(best)
        chosen.gains.append(float(gains[best]))
        if balance < 1 and open_.any() and len(chosen.places) < k:
            nearest = np.maximum(nearest, similarity(best))
    return chosen


class PassageSimilarity:
    """Similarity of passages: the symmetric mean MaxSim of their vectors.

    Of two passages each vector looks for its best match in the other; the mean over one passage's vectors
    and the mean over the other's are averaged. Vectors being of unit length, that lies in [-1, 1]; what is
    below 0, which passages of one index do not reach, counts as 0, so that the scale is the cosine's from 0
    (nothing alike) to 1 (the same). A passage without vectors is like no other.

    Args:
        vectors: of each passage, float32 `[tokens, dim]`, unit length.
        most: vectors of a passage that are compared; longer passages are reduced. None compares all.
    """

    def __init__(self, vectors: Sequence[Vectors], most: int | None = REDUCED) -> None:
        blocks = [block if most is None else reduced(block, most) for block in vectors]
        self._blocks = blocks
        self._lengths = np.array([len(block) for block in blocks], dtype=np.int64)
        self._filled = np.flatnonzero(self._lengths)
        lengths = self._lengths[self._filled]
        self._starts = np.cumsum(lengths) - lengths
        self._stacked = np.concatenate(blocks) if len(self._filled) else np.empty((0, 1), dtype=np.float32)

    def __call__(self, place: int) -> NDArray[np.float64]:
        """Similarity of one passage to all, float64 `[passages]` in [0, 1]."""
        out = np.zeros(len(self._lengths))
        if self._lengths[place]:
            products = self._stacked @ self._blocks[place].T
            to_it = np.add.reduceat(products.max(axis=1), self._starts, dtype=np.float64)
            from_it = np.maximum.reduceat(products, self._starts, axis=0).mean(axis=1, dtype=np.float64)
            both = (to_it / self._lengths[self._filled] + from_it) / 2
            out[self._filled] = np.clip(both, 0, 1)
        return out


def reduced(vectors: Vectors, most: int) -> Vectors:
    """At most so many vectors of a passage: means of stretches of neighbouring tokens, of unit length.

    Of the cheap reductions tried (`bench/cascade.py`) it is the one whose similarities follow those of all
    vectors best.
    """
    if len(vectors) <= most:
        return vectors
    starts = np.arange(most) * len(vectors) // most
    sums = np.add.reduceat(vectors, starts, axis=0)
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    # Opposite vectors may cancel out; the first of them then stands for the stretch.
    lost = norms[:, 0] < 1e-6
    sums[lost], norms[lost] = vectors[starts[lost]], 1.0
    return np.asarray(sums / norms, dtype=np.float32)


def relevance_of(hits: Sequence[Hit]) -> NDArray[np.float64]:
    """The last stage's scores on [0, 1] within the query: float64 `[hits]`, as ordered as the hits.

    Hits that a reranker left unscored come after the scored ones and have none of their relevance.
    """
    scores = np.array([hit.score for hit in hits], dtype=np.float64)
    mixed = np.array([hit.unscored for hit in hits], dtype=bool)
    if not len(scores):
        return scores
    scored = scores if mixed.all() else scores[~mixed]
    low, high = float(scored.min()), float(scored.max())
    if not math.isfinite(high - low):  # somebody else's scores may be as far apart as numbers are
        scores, low, high = scores / 2, low / 2, high / 2
    scaled = (scores - low) / (high - low) if high > low else np.ones(len(scores))
    if not mixed.all():
        scaled[mixed] = 0.0
    return scaled


def select(
    hits: Hits,
    k: int,
    *,
    balance: float | None,
    per_document: int | None,
    similarity: Callable[[int], NDArray[np.float64]] | None,
) -> Hits:
    """Cut hits to k: by MMR where `balance` is given, else in their order; at most so many a document.

    `similarity` is asked only under MMR with a balance below 1.
    """
    relevance = relevance_of(hits)
    none = np.zeros(len(hits))
    chosen = choose(
        relevance,
        similarity or (lambda _: none),
        k,
        1.0 if balance is None else balance,
        [hit.document for hit in hits],
        per_document,
    )
    kept = [hits[place] for place in chosen.places]
    if balance is not None:
        kept = [_with_gain(hit, gain) for hit, gain in zip(kept, chosen.gains, strict=True)]
    out = hits.having(kept)
    taken = {*chosen.places, *chosen.capped}
    left = {
        "max_per_document": [hits[place].id for place in sorted(chosen.capped)],
        "k": [hit.id for place, hit in enumerate(hits) if place not in taken],
    }
    out.left_out |= {reason: ids for reason, ids in left.items() if ids}
    return out


def _with_gain(hit: Hit, gain: float) -> Hit:
    return replace(hit, scores={**hit.scores, "mmr": gain})


def without_repeats(hits: Hits) -> Hits:
    """Leave out a hit whose text repeats that of a better one; case and spacing make no difference."""
    seen: set[str] = set()
    kept, left = [], []
    for hit in hits:
        text = " ".join(unicodedata.normalize("NFKC", hit.text).casefold().split())
        if text and text in seen:
            left.append(hit.id)
        else:
            seen.add(text)
            kept.append(hit)
    out = hits.having(kept)
    if left:
        out.left_out["dedupe"] = left
    return out

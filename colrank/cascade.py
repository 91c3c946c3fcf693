"""The stages after the search: rerank, judge, leave out repeats, choose the last few.

    rerank   a reranker reads the query with each candidate; the order is its own
    judge    hits below a floor are dropped
    dedupe   a hit that repeats a better one's text is left out
    mmr      the k best that differ, few of one document

Each has the shape of every stage, `stage(query, hits) -> hits`; which ones run is the user's choice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from colrank.config import By, CascadeConfig
from colrank.errors import ColRankError, StageFailed
from colrank.judge import judge
from colrank.mmr import MMR_PER_DOCUMENT, REDUCED, PassageSimilarity, relevance_of, select, without_repeats
from colrank.rerankers import Reranked, Reranker
from colrank.types import Hit, Hits, Vectors

MANY = 50
"""Candidates beyond which a reranker gains little more."""

TOO_MANY = 200


class Asked(Protocol):
    """A query as the stages see it."""

    @property
    def text(self) -> str: ...  # noqa: D102


AnyQuery = TypeVar("AnyQuery", bound=Asked)
Step = Callable[[Asked, Hits], Hits]
Texts = Callable[[Sequence[Hit]], Sequence[str]]
TokenVectorsOf = Callable[[Sequence[Hit]], Sequence[Vectors]]


def run_stages(
    query: AnyQuery,
    hits: Hits,
    stages: Sequence[tuple[str, Callable[[AnyQuery, Hits], Hits]]],
    seen: Callable[[str, Hits], None] | None = None,
) -> Hits:
    """Put hits through stages, each timed under its name in `hits.timings`; `seen` is shown each result."""
    for name, stage in stages:
        begin = time.perf_counter()
        hits = stage(query, hits)
        hits.timings[name] = hits.timings.get(name, 0.0) + time.perf_counter() - begin
        if seen:
            seen(name, hits)
    return hits


def titled(hits: Sequence[Hit]) -> list[str]:
    """What a reranker reads of hits: the document's title, unless it is the text, and the passage."""
    return [
        f"{hit.title.strip()}\n{hit.text}" if hit.title.strip() not in ("", hit.text.strip()) else hit.text
        for hit in hits
    ]


def wanted_hits(config: CascadeConfig, k: int) -> int:
    """How many hits the search has to bring for k in the end."""
    return max(k, config.candidates) if config.active else k


def steps(
    config: CascadeConfig,
    k: int,
    *,
    by: By = "passage",
    reranker: Reranker | None,
    vectors: TokenVectorsOf,
    texts: Texts = titled,
    fallback: str,
    warnings: Sequence[str] = (),
) -> list[tuple[str, Step]]:
    """The stages that a configuration asks for, in order, each with its name.

    Args:
        config: which stages, and their settings.
        k: hits in the end.
        by: what k counts; among documents there are no two of one.
        reranker: what `config.rerank` names, loaded; None where it names none.
        vectors: gives the token vectors of hits, float32 `[tokens, dim]` each, for MMR.
        texts: what the reranker reads of hits.
        fallback: what to tell the user of a refused query.
        warnings: about the reranker and these texts, passed on with every query that it reads.
    """
    found: list[tuple[str, Step]] = []
    if not config.active:
        return found
    if reranker is not None:
        asked = reranker
        found.append(
            ("rerank", lambda query, hits: _rerank(query.text, hits, asked, config, texts, warnings))
        )
    if config.judge is not None and reranker is not None:
        floor, name, steady = config.judge, reranker.name, reranker.steady
        found.append(
            (
                "judge",
                lambda _, hits: judge(
                    hits,
                    floor,
                    reranker=name,
                    steady=steady,
                    fallback=config.fallback or fallback,
                    on_error=config.on_judge_error,
                ),
            )
        )
    if config.dedupe:
        found.append(("dedupe", lambda _, hits: without_repeats(hits)))
    cap = config.max_per_document
    if cap is None and config.mmr is not None:
        cap = MMR_PER_DOCUMENT
    if by == "document":
        cap = None
    last = "mmr" if config.mmr is not None else "cut"
    found.append((last, lambda _, hits: _choose(hits, k, config, cap, vectors)))
    return found


def _notes(count: int) -> list[str]:
    """What reading so many candidates costs."""
    if count <= MANY:
        return []
    more = f"{count} candidates are {count} pairs a query, {count / MANY:g} times what {MANY} cost"
    if count < TOO_MANY:
        return [f"{more}; gain flattens after about {MANY}."]
    return [
        f"{more}, and a query takes as many times longer: gain flattens after about {MANY}, and colrank eval "
        "--candidates shows where it does on your data."
    ]


def _rerank(
    query: str, hits: Hits, reranker: Reranker, config: CascadeConfig, texts: Texts, warnings: Sequence[str]
) -> Hits:
    if not len(hits):
        return hits
    told = [*_notes(len(hits)), *warnings]
    try:
        found = _checked(reranker, query, texts(hits))
    except StageFailed as error:
        if config.on_rerank_error == "fail":
            raise
        out = hits.having([replace(hit, unscored=True) for hit in hits])
        out.warnings = [*hits.warnings, *told, f"{error} The order before reranking was kept."]
        return out
    out = hits.having(_reordered(hits, found, config.blend))
    unscored = sum(hit.unscored for hit in out)
    if unscored and not found.warnings:
        told.append(
            f"{reranker.name} gave no score to {unscored} of {len(out)} texts, which keep their order."
        )
    out.warnings = [*hits.warnings, *told, *found.warnings]
    out.usage = found.usage
    return out


def _checked(reranker: Reranker, query: str, texts: Sequence[str]) -> Reranked:
    """What the reranker says, held to its contract, as rerankers of the user's own are asked here too."""
    try:
        found = reranker.score(query, texts)
        raw = None if found.raw is None else np.asarray(found.raw, dtype=np.float64)
        found = replace(found, scores=np.asarray(found.scores, dtype=np.float64), raw=raw)
    except ColRankError:
        raise
    except Exception as error:
        raise StageFailed(f"{reranker.name} failed: {type(error).__name__}: {error}.") from error
    for numbers in (found.scores, found.raw):
        if numbers is not None and numbers.shape != (len(texts),):
            raise StageFailed(f"{reranker.name} gave {numbers.size} scores for {len(texts)} texts.")
    known = found.scores[~np.isnan(found.scores)]
    if len(known) and not (known.min() >= 0 and known.max() <= 1):
        raise StageFailed(f"{reranker.name} gave scores that do not lie between 0 and 1.")
    return found


def _reordered(hits: Hits, found: Reranked, blend: float) -> list[Hit]:
    """Hits by the reranker's scores; those without one follow in their earlier order."""
    scored = ~np.isnan(found.scores)
    mixed: NDArray[np.float64] | None = None
    if blend:
        mixed = (1 - blend) * found.scores + blend * relevance_of(hits)
    key = found.scores if mixed is None else mixed
    # A score can be 1 for several texts whose logits still tell them apart.
    finer = found.raw if mixed is None and found.raw is not None else key
    out = []
    for place in np.lexsort((-finer, -key)):
        if not scored[place]:
            continue
        hit = hits[int(place)]
        scores = {**hit.scores, "rerank": float(found.scores[place])}
        if found.raw is not None:
            scores[found.raw_name] = float(found.raw[place])
        if mixed is not None:
            scores["blend"] = float(mixed[place])
        out.append(replace(hit, score=scores["rerank" if mixed is None else "blend"], scores=scores))
    return out + [replace(hits[int(place)], unscored=True) for place in np.flatnonzero(~scored)]


def _choose(hits: Hits, k: int, config: CascadeConfig, cap: int | None, vectors: TokenVectorsOf) -> Hits:
    similarity = None
    spent: dict[str, float] = {}
    if config.mmr is not None and config.mmr < 1 and len(hits) > 1:
        begin = time.perf_counter()
        held = vectors(hits)
        decoded = time.perf_counter()
        similarity = PassageSimilarity(held, None if config.mmr_exact else REDUCED)
        # Parts of the stage's own time: what the vectors cost, and what reducing them did.
        spent = {"mmr_vectors": decoded - begin, "mmr_reduce": time.perf_counter() - decoded}
    out = select(hits, k, balance=config.mmr, per_document=cap, similarity=similarity)
    out.timings |= spent
    return out

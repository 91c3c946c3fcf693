"""One sentence on whether reranking pays, by the rules of when not to rerank."""

from __future__ import annotations

from dataclasses import dataclass

from colrank.evaluate.intervals import Paired

LOW_CEILING = 0.6
"""Share of queries with a relevant candidate below which the retriever is what has to be mended."""

FEW_PASSAGES = 100
"""Passages below which a generator can be given all that matter without a reranker."""

WORTH, NOT_WORTH, MEND = "worth it", "not worth it", "mend the retriever first"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict rests on.

    Attributes:
        ceiling: share of the queries with a relevant document among their candidates.
        lift: gain of reranking in nDCG@10 over the search; its p corrected for what was tested beside it.
        queries, failed: how many were measured, and for how many the reranker scored nothing.
        candidates, passages, k: hits that are reranked, passages in the index, hits in the end.
        milliseconds, search_milliseconds: mean time of a query in all, and of the search alone.
        max_ms: the user's budget, milliseconds a query; None is none.
    """

    ceiling: float
    lift: Paired
    queries: int
    failed: int
    candidates: int
    passages: int
    k: int
    milliseconds: float
    search_milliseconds: float
    max_ms: float | None


def verdict(seen: Evidence) -> tuple[str, str]:
    """`worth it`, `not worth it` or `mend the retriever first`, and the sentence that says why.

    A gain counts when its interval lies above 0 and its corrected p below .05. What speaks against
    reranking whatever the gain (a budget that it breaks, few passages, only the first hit wanted) comes
    first, as does a search that does not bring the right passage.
    """
    short = f", and the reranker failed for {seen.failed:,} of the queries" if seen.failed else ""
    gain = (
        f"nDCG@10 {seen.lift.difference:+.4f} (interval {seen.lift.low:+.4f} to {seen.lift.high:+.4f}, "
        f"{seen.queries:,} queries{short})"
    )
    cost = f"{seen.milliseconds:,.0f} ms a query instead of {seen.search_milliseconds:,.0f}"
    if seen.failed == seen.queries:
        return NOT_WORTH, "Nothing was measured: the reranker failed for every query."
    if seen.ceiling < LOW_CEILING:
        return MEND, (
            f"Mend the retriever first: only for {seen.ceiling:.0%} of the queries a relevant document is "
            f"among the {seen.candidates} candidates, and no reranker finds what they lack; reranking "
            f"brought {gain}."
        )
    against = []
    if seen.max_ms is not None and seen.milliseconds > seen.max_ms:
        against.append(f"it takes {cost}, more than the {seen.max_ms:,.0f} that were asked for")
    if seen.passages < FEW_PASSAGES:
        against.append(f"with {seen.passages} passages there is little to choose from")
    if seen.k == 1:
        against.append("only the first hit is wanted")
    if against:
        return NOT_WORTH, f"Not worth it: {', and '.join(against)}; it brought {gain}."
    if seen.lift.low > 0 and seen.lift.p < 0.05:
        return WORTH, f"Worth it: {gain}, at {cost}."
    if seen.lift.high < 0:
        return NOT_WORTH, f"Not worth it: it orders worse, {gain}, at {cost}."
    return NOT_WORTH, f"Not worth it on these queries: {gain} may be chance, at {cost}."

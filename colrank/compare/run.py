"""The comparison itself: build every variant of every model, measure, recommend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from colrank.builder import Progress
from colrank.compare.baselines import measure_baselines
from colrank.compare.contestants import Part, built
from colrank.compare.front import Budget, Offer, front, recommend
from colrank.compare.result import JUDGED, Comparison, ModelCorpus, Row
from colrank.compare.rows import measured_rows
from colrank.errors import InputError
from colrank.evaluate.judgements import Qrels
from colrank.rerankers import Reranker

FEWEST_QUERIES = 10


def compare(
    parts: Sequence[Part],
    qrels: Qrels | None,
    *,
    k: int,
    budget: Budget,
    baselines: bool,
    reranker: Reranker | None,
    progress: Progress,
    warnings: Sequence[str] = (),
) -> Comparison:
    """Compare variants of a corpus.

    Args:
        parts: one a model.
        qrels: judgements of the queries, or None to measure agreement with float32 exact.
        k: hits of the timed searches.
        budget: what the recommendation keeps within.
        baselines: also measure one vector a passage and BM25; these need judgements and the queries' texts.
        reranker: a cross-encoder to put on top of each system, or None.
        progress: told of the progress.
        warnings: passed on.

    Raises:
        InputError: too few queries for an interval, or no variant keeps within the budget.
    """
    check_queries(len(parts[0].queries))
    contestants = [each for part in parts for each in built(part, progress)]
    measure = "recall@10" if qrels is None else JUDGED[0]
    rows, reference = measured_rows(contestants, qrels, measure, k, progress)
    offers = [row.offer(measure) for row in rows]
    shown = front(offers)
    name = _recommended(offers, budget)
    chosen = next(row for row in rows if row.name == name)
    others = []
    if baselines and qrels is not None:
        winner = next(each for each in contestants if each.name == name)
        others = measure_baselines(parts, winner, chosen.vector_bytes, qrels, reranker, progress)
    return Comparison(
        models=[_model_corpus(part) for part in parts],
        queries=len(parts[0].queries),
        drawn=qrels is None and any(part.left_out for part in parts),
        measure=measure,
        k=k,
        rows=[replace(row, on_front=row.name in shown) for row in rows],
        reference=reference,
        baselines=others,
        recommended=name,
        sentence=_sentence(chosen, next(row for row in rows if row.name == reference), measure, budget),
        warnings=list(warnings),
    )


def check_queries(count: int) -> None:
    """Refuse what gives no interval worth the name.

    Raises:
        InputError: there are too few queries.
    """
    if count < FEWEST_QUERIES:
        raise InputError(
            f"There are {count} queries, too few for an interval; give at least {FEWEST_QUERIES}."
        )


def _recommended(offers: Sequence[Offer], budget: Budget) -> str:
    try:
        return recommend(offers, budget).name
    except InputError as error:
        raise InputError(
            f"{error} What was encoded and built is kept: with another budget it is only searched again."
        ) from error


def _model_corpus(part: Part) -> ModelCorpus:
    counts = part.base.contents.counts
    return ModelCorpus(
        label=part.label or part.model,
        name=part.model,
        dim=part.base.manifest.dim,
        documents=counts.documents,
        passages=counts.passages,
        tokens=counts.tokens,
        encoded=part.encoded,
    )


def _sentence(row: Row, whole: Row, measure: str, budget: Budget) -> str:
    asked = [
        f"{value:,g} {unit}"
        for value, unit in (
            (budget.bytes, "bytes a passage"),
            (budget.loss, f"of {measure} lost at worst"),
            (budget.milliseconds, "ms a query"),
        )
        if value is not None
    ]
    why = f"Within {', '.join(asked)}" if asked else "Without a budget"
    return (
        f"{why}: {row.name}, {row.bytes_per_passage:,.0f} bytes a passage "
        f"({_times(row, whole)}), {measure} "
        f"{row.quality(measure).mean:.4f}, a loss of {row.loss.mean:+.4f} ({row.loss.low:+.4f} to "
        f"{row.loss.high:+.4f}), {row.median_ms:,.1f} ms a query."
    )


def _times(row: Row, whole: Row) -> str:
    """How much smaller a row is than the reference; another model may be larger."""
    factor = whole.bytes / row.bytes
    if factor < 1:
        return f"{1 / factor:.1f} times as much as {whole.name}"
    return f"{factor:.1f} times fewer than {whole.name}"

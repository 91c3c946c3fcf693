"""The comparison itself: build every variant from the same vectors, search, judge, time, recommend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colrank.builder import Progress
from colrank.compare.baselines import bm25, late_interaction, rerank_rows, run_system, single_vector
from colrank.compare.build import Centroids, LeftOut, build_variant
from colrank.compare.front import Budget, front, recommend
from colrank.compare.measure import (
    CUTS,
    DEPTH,
    in_space,
    measure_bytes,
    measure_latency,
    rank_correlation,
    resident_bytes,
    shares,
)
from colrank.compare.result import Baseline, Comparison, Estimate, Row
from colrank.compare.variants import REFERENCE, Variant
from colrank.encoder import Encoder
from colrank.errors import InputError
from colrank.evaluate.intervals import Paired, bootstrap_interval, holm, paired
from colrank.evaluate.judgements import Qrels
from colrank.evaluate.measures import evaluate_run
from colrank.evaluate.ranking import ranked_documents
from colrank.evaluate.runs import Run
from colrank.index import Snapshot, is_index, open_snapshot
from colrank.rerankers import Reranker
from colrank.search import Query

FEWEST_QUERIES = 10
TIMED_QUERIES = 20
ROUNDS = 3
JUDGED = ("nDCG@10", "RR@10")

Values = dict[str, NDArray[np.float64]]


def compare(
    base: Snapshot,
    queries: Mapping[str, Query],
    qrels: Qrels | None,
    *,
    variants: Sequence[Variant],
    folder: Path,
    encoder: Encoder | None,
    left_out: LeftOut,
    k: int,
    budget: Budget,
    baselines: bool,
    reranker: Reranker | None,
    progress: Progress,
    warnings: Sequence[str] = (),
) -> Comparison:
    """Compare variants of a corpus.

    Args:
        base: whole float32 vectors of the corpus, not pooled.
        queries: by id, in the space of the base.
        qrels: judgements of these queries, or None to measure agreement with float32 exact.
        variants: the reference first.
        folder: where variants are built; those that are there already are used.
        encoder: the base's model; None for given vectors.
        left_out: tokens of the base that are taken out, where queries were drawn from it.
        k: hits of the timed searches.
        budget: what the recommendation keeps within.
        baselines: also measure one vector a passage and BM25; these need the queries' texts.
        reranker: a cross-encoder to put on top of each system, or None.
        progress: told of the progress.
        warnings: passed on.

    Raises:
        InputError: too few queries for an interval, or no variant keeps within the budget.
    """
    if len(queries) < FEWEST_QUERIES:
        raise InputError(
            f"There are {len(queries)} queries, too few for an interval; give at least {FEWEST_QUERIES}."
        )
    opened = _built(base, variants, folder, encoder, left_out, progress)
    measure = "recall@10" if qrels is None else JUDGED[0]
    spaces = {dim: in_space(queries, dim) for dim in {each.manifest.dim for each in opened.values()}}
    runs = {
        variant: ranked_documents(snapshot, spaces[snapshot.manifest.dim], variant.search(), DEPTH, progress)
        for variant, snapshot in opened.items()
    }
    values = {variant: _values(run, runs[REFERENCE], qrels) for variant, run in runs.items()}
    timed = list(queries)[:TIMED_QUERIES]
    latency = measure_latency(
        {
            variant.name: (
                snapshot,
                variant,
                [spaces[snapshot.manifest.dim][name] for name in timed],
            )
            for variant, snapshot in opened.items()
        },
        k,
        ROUNDS,
    )
    best = values[REFERENCE][measure]
    lost = {variant: paired(best, held[measure]) for variant, held in values.items()}
    corrected = holm([lost[variant].p for variant in variants[1:]])
    p_values = dict(zip(variants[1:], corrected, strict=True)) | {REFERENCE: 1.0}
    sizes = {variant: measure_bytes(snapshot, base.manifest.dim) for variant, snapshot in opened.items()}
    rows = [
        Row(
            name=variant.name,
            variant=variant,
            bytes=sizes[variant].total,
            vector_bytes=sizes[variant].vectors,
            bytes_per_token=sizes[variant].per_token,
            bytes_per_passage=sizes[variant].per_passage,
            times_single=sizes[variant].times_single,
            extrapolated=sizes[variant].extrapolated,
            squared_error=snapshot.manifest.codec.training.squared_error if snapshot.manifest.codec else None,
            agreement={f"recall@{cut}": _estimate(values[variant][f"recall@{cut}"]) for cut in CUTS},
            rank_correlation=rank_correlation(runs[variant], runs[REFERENCE]),
            judged=None if qrels is None else {name: _estimate(values[variant][name]) for name in JUDGED},
            loss=_loss(lost[variant]),
            p=p_values[variant],
            median_ms=latency.median(variant.name),
            p95_ms=latency.p95(variant.name),
            resident=resident_bytes(snapshot.folder),
        )
        for variant, snapshot in opened.items()
    ]
    offers = [row.offer(measure) for row in rows]
    shown = front(offers)
    rows = [replace(row, on_front=row.name in shown) for row in rows]
    name = recommend(offers, budget).name
    chosen = next(row for row in rows if row.name == name)
    snapshot = opened[chosen.variant]
    entry = base.segment.entry
    return Comparison(
        model=base.manifest.model.name if base.manifest.model else "given vectors",
        documents=entry.documents,
        passages=entry.passages,
        tokens=entry.tokens,
        queries=len(queries),
        drawn=qrels is None and bool(left_out),
        measure=measure,
        k=k,
        rows=rows,
        baselines=_baselines(
            base, queries, qrels, snapshot, spaces[snapshot.manifest.dim], chosen, reranker, progress
        )
        if baselines and qrels is not None
        else [],
        recommended=chosen.name,
        sentence=_sentence(chosen, rows[0], measure, budget),
        warnings=list(warnings),
    )


def _built(
    base: Snapshot,
    variants: Sequence[Variant],
    folder: Path,
    encoder: Encoder | None,
    left_out: LeftOut,
    progress: Progress,
) -> dict[Variant, Snapshot]:
    centroids = Centroids(folder)
    built: dict[Variant, Snapshot] = {}
    for stored in dict.fromkeys(variant.stored for variant in variants):
        place = folder / stored.name.replace(", ", "-").replace(" ", "")
        if not is_index(place):
            build_variant(
                place,
                base,
                stored,
                encoder=encoder,
                centroids=centroids,
                left_out=left_out,
                progress=progress,
            )
        built[stored] = open_snapshot(place)
    return {variant: built[variant.stored] for variant in variants}


def _values(run: Run, exact: Run, qrels: Qrels | None) -> Values:
    found: Values = {f"recall@{cut}": shares(run, exact, cut) for cut in CUTS}
    if qrels is not None:
        judged = evaluate_run(run, qrels, JUDGED)
        found |= {name: np.array([held[name] for held in judged.values()]) for name in JUDGED}
    return found


def _estimate(values: NDArray[np.float64]) -> Estimate:
    return Estimate(float(values.mean()), *bootstrap_interval(values))


def _loss(lost: Paired) -> Estimate:
    return Estimate(lost.difference, lost.low, lost.high)


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
        f"({whole.bytes_per_passage / row.bytes_per_passage:.1f} times fewer than float32), {measure} "
        f"{row.quality(measure).mean:.4f}, a loss of {row.loss.mean:+.4f} ({row.loss.low:+.4f} to "
        f"{row.loss.high:+.4f}), {row.median_ms:,.1f} ms a query."
    )


def _baselines(
    base: Snapshot,
    queries: Mapping[str, Query],
    qrels: Qrels,
    snapshot: Snapshot,
    asked: Mapping[str, Query],
    chosen: Row,
    reranker: Reranker | None,
    progress: Progress,
) -> list[Baseline]:
    by_text = {query.text: query for query in asked.values()}
    late = late_interaction(snapshot, chosen.variant, by_text, chosen.vector_bytes)
    systems = [single_vector(base), bm25(base), late]
    passages = max(1, base.segment.entry.passages)
    out = []
    for system in systems:
        run, times, best = run_system(system, base, queries, DEPTH, progress)
        judged = [("", run, times)]
        if reranker is not None:
            again, more = rerank_rows(reranker, base, queries, best, progress)
            both = [first + second for first, second in zip(times, more, strict=True)]
            judged.append((reranker.name, again, both))
        for suffix, ranked, spent in judged:
            held = evaluate_run(ranked, qrels, JUDGED)
            gains = np.array([value[JUDGED[0]] for value in held.values()])
            out.append(
                Baseline(
                    f"{system.name} + {suffix}" if suffix else system.name,
                    system.bytes / passages,
                    _estimate(gains),
                    float(np.median(spent)),
                    chosen.name if system is late else "",
                    suffix,
                )
            )
    return out

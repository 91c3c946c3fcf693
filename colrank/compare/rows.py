"""From what was built to the rows of the table: search, judge, time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from colrank.builder import Progress
from colrank.compare.contestants import Contestant
from colrank.compare.measure import (
    CUTS,
    DEPTH,
    Latency,
    measure_bytes,
    measure_latency,
    rank_correlation,
    resident_bytes,
    shares,
)
from colrank.compare.result import JUDGED, Estimate, Row
from colrank.evaluate.intervals import Paired, bootstrap_interval, holm, paired
from colrank.evaluate.judgements import Qrels
from colrank.evaluate.measures import evaluate_run
from colrank.evaluate.ranking import ranked_documents
from colrank.evaluate.runs import Run

TIMED_QUERIES = 20
ROUNDS = 3

Values = dict[str, NDArray[np.float64]]
"""By measure one value for each query."""


def measured_rows(
    contestants: Sequence[Contestant], qrels: Qrels | None, measure: str, k: int, progress: Progress
) -> tuple[list[Row], str]:
    """A row for each, and the name of the one that losses are against.

    Agreement is with the float32 exact of the same model: another's order says nothing about storage.
    Losses are all against one row, so that those of different models compare: the best float32 exact.
    """
    runs = {
        each.name: ranked_documents(each.snapshot, each.queries, each.variant.search(), DEPTH, progress)
        for each in contestants
    }
    own = {each.part.label: runs[each.name] for each in contestants if each.is_reference}
    values = {each.name: _values(runs[each.name], own[each.part.label], qrels) for each in contestants}
    reference = _best([each.name for each in contestants if each.is_reference], values, measure)
    lost, corrected = _losses(values, reference, measure)
    latency = _latency(contestants, k)
    rows = [
        _row(
            each,
            values[each.name],
            rank_correlation(runs[each.name], own[each.part.label]),
            lost[each.name],
            corrected[each.name],
            latency,
            judged=qrels is not None,
        )
        for each in contestants
    ]
    return rows, reference


def _values(run: Run, exact: Run, qrels: Qrels | None) -> Values:
    found: Values = {f"recall@{cut}": shares(run, exact, cut) for cut in CUTS}
    if qrels is not None:
        judged = evaluate_run(run, qrels, JUDGED)
        found |= {name: np.array([held[name] for held in judged.values()]) for name in JUDGED}
    return found


def _best(names: Sequence[str], values: Mapping[str, Values], measure: str) -> str:
    """The name with the best mean, the first of equal ones."""
    return max(names, key=lambda name: float(values[name][measure].mean()))


def _losses(
    values: Mapping[str, Values], reference: str, measure: str
) -> tuple[dict[str, Paired], dict[str, float]]:
    """By row the loss against the reference, and its p corrected for all rows but that one."""
    best = values[reference][measure]
    lost = {name: paired(best, held[measure]) for name, held in values.items()}
    others = [name for name in values if name != reference]
    corrected = dict(zip(others, holm([lost[name].p for name in others]), strict=True))
    return lost, corrected | {reference: 1.0}


def _latency(contestants: Sequence[Contestant], k: int) -> Latency:
    """Times of the same few queries, the variants of all models in turns."""
    opened = {
        each.name: (each.snapshot, each.variant, list(each.queries.values())[:TIMED_QUERIES])
        for each in contestants
    }
    return measure_latency(opened, k, ROUNDS)


def _row(
    each: Contestant,
    values: Values,
    correlation: float,
    lost: Paired,
    p: float,
    latency: Latency,
    *,
    judged: bool,
) -> Row:
    manifest = each.snapshot.manifest
    size = measure_bytes(each.snapshot, each.part.base.manifest.dim)
    return Row(
        name=each.name,
        model=each.part.label or each.part.model,
        variant=each.variant,
        bytes=size.total,
        vector_bytes=size.vectors,
        bytes_per_token=size.per_token,
        bytes_per_passage=size.per_passage,
        times_single=size.times_single,
        extrapolated=size.extrapolated,
        squared_error=manifest.codec.training.squared_error if manifest.codec else None,
        agreement={f"recall@{cut}": mean_of(values[f"recall@{cut}"]) for cut in CUTS},
        rank_correlation=correlation,
        judged={name: mean_of(values[name]) for name in JUDGED} if judged else None,
        loss=Estimate(lost.difference, lost.low, lost.high),
        p=p,
        median_ms=latency.median(each.name),
        p95_ms=latency.p95(each.name),
        resident=resident_bytes(each.snapshot.folder),
    )


def mean_of(values: NDArray[np.float64]) -> Estimate:
    """The mean over queries with its interval."""
    return Estimate(float(values.mean()), *bootstrap_interval(values))

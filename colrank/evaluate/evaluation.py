"""Searches judged: every query with known answers is searched for by document, measured, and told apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from colrank.builder import Progress, Silent
from colrank.config import By, SearchConfig, check_k
from colrank.encoder import Encoder
from colrank.errors import InputError
from colrank.evaluate.cascade import measure_cascade
from colrank.evaluate.cascade_result import CascadeResult
from colrank.evaluate.intervals import Paired, bootstrap_interval, paired
from colrank.evaluate.judgements import Qrels, judged_queries, judgements
from colrank.evaluate.measures import (
    DEPTH,
    MEASURES,
    Failure,
    answerable,
    evaluate_run,
    failures,
    require_ir_measures,
)
from colrank.evaluate.originals import Originals
from colrank.evaluate.prices import read_prices
from colrank.evaluate.ranking import ranked_documents
from colrank.evaluate.runs import Run, check_run, read_run
from colrank.evaluate.stages import StageResult, measure_stages
from colrank.index import Contents, Snapshot
from colrank.index_cascade import IndexCascade
from colrank.search import Query, scans
from colrank.types import Problems

NOT_INDEXED = "judged documents that are not in the index, where nothing can find them"
NO_TEXT = "judged queries that are not among the queries, left out"
NO_RELEVANT = "judged queries without a relevant document, left out"
NOT_JUDGED = "queries without a judgement, not searched for"
CUT = "queries longer than the model reads, cut"
NOT_IN_BASELINE = "queries that the baseline lacks, which count 0 there"
_NAMED = 3


@dataclass(frozen=True)
class Evaluation:
    """How good an index is at queries with known answers. Values are means over queries, from 0 to 1.

    Attributes:
        queries: how many were judged.
        means, intervals: by measure (`colrank.evaluate.MEASURES`); intervals are 95% bootstrap intervals.
        per_query: by query and measure.
        failures: queries whose first ten documents hold no relevant one, worst first.
        run: for each query its documents with their scores, best first.
        depth: most documents of each query in the run.
        warnings: one sentence for each kind of thing that was left out or may mislead, with its count.
        comparison: by measure, against the baseline's run; None without one.
        stages: what each stage of the search loses; None when not asked for.
        cascade: what the stages after the search bring; None when none was asked for.
    """

    queries: int
    means: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    per_query: dict[str, dict[str, float]]
    failures: list[Failure]
    run: dict[str, list[tuple[str, float]]]
    depth: int
    warnings: list[str]
    comparison: dict[str, Paired] | None = None
    stages: list[StageResult] | None = None
    cascade: CascadeResult | None = None

    @property
    def table(self) -> pa.Table:
        """One row a measure: measure, mean, low, high; with a baseline also baseline, difference,
        difference_low, difference_high and p."""
        rows = []
        for name, mean in self.means.items():
            low, high = self.intervals[name]
            row = {"measure": name, "mean": mean, "low": low, "high": high}
            if self.comparison is not None:
                compared = self.comparison[name]
                row |= {
                    "baseline": compared.baseline,
                    "difference": compared.difference,
                    "difference_low": compared.low,
                    "difference_high": compared.high,
                    "p": compared.p,
                }
            rows.append(row)
        return pa.Table.from_pylist(rows)

    def to_json(self) -> dict[str, Any]:
        """All but the run as plain values."""
        return {
            "queries": self.queries,
            "depth": self.depth,
            "measures": {
                name: {"mean": mean, "low": self.intervals[name][0], "high": self.intervals[name][1]}
                for name, mean in self.means.items()
            },
            "comparison": self.comparison
            and {name: asdict(compared) for name, compared in self.comparison.items()},
            "stages": self.stages and [stage.to_json() for stage in self.stages],
            "cascade": self.cascade and self.cascade.to_json(),
            "failures": [failure.to_json() for failure in self.failures],
            "per_query": self.per_query,
            "warnings": self.warnings,
        }

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in self.means.items())
        return f"Evaluation(queries={self.queries}, {means}, failures={len(self.failures)})"


def evaluate(
    snapshot: Snapshot,
    queries: Mapping[str, Any] | str | Path,
    qrels: Qrels | str | Path,
    *,
    prepare: Callable[[Sequence[Any]], list[Query]],
    encoder: Callable[[], Encoder] | None = None,
    config: SearchConfig | None = None,
    depth: int = DEPTH,
    stages: bool = False,
    vectors: Mapping[str, Any] | str | Path | None = None,
    baseline: Run | str | Path | None = None,
    second: IndexCascade | None = None,
    k: int = 10,
    by: By = "passage",
    sweep: Sequence[int] = (),
    prices: str | Path | None = None,
    max_ms: float | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Search for every query with known answers, by document, and judge what is found.

    Args:
        queries, qrels, vectors, baseline: as in `colrank.api.ColRank.evaluate`.
        prepare: encodes and weighs queries, texts or vectors, for this snapshot.
        encoder: gives the index's model; None for an index of given vectors.
        config: how candidates are found.
        depth: documents ranked for each query, at least 100.
        stages: also measure what each stage of the search loses.
        second: the stages after the search, to be judged too.
        k, by, sweep, prices, max_ms: of these, as in `colrank.api.ColRank.evaluate`.
        progress: told of the progress.

    Raises:
        InputError: a file is not what it should be, no judged query is among the queries, none has a
            relevant document, no judged document is in the index, or the stages lack vectors.
        MissingExtra: ir_measures is not installed.
    """
    require_ir_measures()
    config, progress = config or SearchConfig(), progress or Silent()
    if check_k(depth) < DEPTH:
        raise InputError(
            f"depth is {depth}; measures look at {DEPTH} documents, so that it must be that at least."
        )
    if vectors is not None and not stages:
        raise InputError("Vectors are only needed to measure stages; ask for stages too, or leave them out.")
    if (second is None or second.reranker is None) and (sweep or prices is not None or max_ms is not None):
        raise InputError("sweep, prices and max_ms are about a reranker; name one with rerank.")
    counts = [check_k(count) for count in sweep]
    known = {} if prices is None else read_prices(Path(prices))
    scans(snapshot, config)  # what it refuses is told before anything is read or encoded
    problems = Problems()
    texts = judged_queries(queries)
    judged = known_judgements(texts, judgements(qrels), problems)
    _check_documents(snapshot.contents, judged, problems)
    compared = _baseline(baseline, judged, problems)
    originals = Originals(snapshot, encoder, vectors, problems) if stages else None
    if encoder is None and any(isinstance(texts[name], str) for name in judged):
        raise InputError(
            "The index was made from given vectors without a model, so that it can encode no text; give the "
            "vectors of the queries, as an .npz file of one array an id."
        )
    begin = time.perf_counter()
    prepared = _prepared({name: texts[name] for name in judged}, prepare)
    encoding = (time.perf_counter() - begin) / len(prepared)
    for name, query in prepared.items():
        if query.encoded and query.encoded.cut:
            problems.add(CUT, name)
    run = ranked_documents(snapshot, prepared, config, depth, progress)
    per_query = evaluate_run(run, judged)
    values = {name: np.array([held[name] for held in per_query.values()]) for name in MEASURES}
    found = None
    if originals is not None:
        found = measure_stages(
            snapshot,
            prepared,
            judged,
            originals,
            config=config,
            depth=depth,
            searched=run,
            progress=progress,
        )
    cascade = None
    if second is not None:
        reranker = second.reranker
        if reranker is not None and any(not query.text for query in prepared.values()):
            raise InputError("A reranker reads text, and queries were given as vectors; give their texts.")
        cascade = measure_cascade(
            snapshot,
            prepared,
            judged,
            config=config,
            cascade=second.config,
            steps=lambda chosen, asked: second.steps(k, by, chosen, asked),
            reranker=reranker,
            k=check_k(k),
            by=by,
            sweep=counts,
            price=None if reranker is None else known.get(reranker.name),
            max_ms=max_ms,
            progress=progress,
            encoding=encoding,
        )
    return Evaluation(
        queries=len(per_query),
        means={name: float(held.mean()) for name, held in values.items()},
        intervals={name: bootstrap_interval(held) for name, held in values.items()},
        per_query=per_query,
        failures=failures(run, judged, texts, depth),
        run=run,
        depth=depth,
        warnings=told(problems),
        comparison=None
        if compared is None
        else {
            name: paired(held, [value[name] for value in compared.values()]) for name, held in values.items()
        },
        stages=found,
        cascade=cascade,
    )


def told(problems: Problems) -> list[str]:
    """A sentence for each kind of problem, with the first names."""
    return [f"{sentence}." for sentence in problems.sentences(_NAMED)]


def known_judgements(
    texts: Mapping[str, Any], qrels: Mapping[str, Mapping[str, int]], problems: Problems
) -> dict[str, dict[str, int]]:
    """The judgements that queries are measured by; what is left out is counted in `problems`.

    Raises:
        InputError: no judged query is among the queries, or none has a relevant document.
    """
    known = {query: grades for query, grades in qrels.items() if query in texts}
    if not known:
        raise InputError(
            f"None of the {len(qrels)} judged queries (such as {next(iter(qrels), '')!r}) is among the "
            f"{len(texts)} queries (such as {next(iter(texts), '')!r}); give judgements of these queries."
        )
    judged = answerable(known)
    if not judged:
        raise InputError(
            f"None of the {len(known)} judged queries has a relevant document (a grade of at least 1); give "
            "judgements that name some."
        )
    for kind, names in (
        (NO_TEXT, [query for query in qrels if query not in texts]),
        (NO_RELEVANT, [query for query in known if query not in judged]),
        (NOT_JUDGED, [query for query in texts if query not in qrels]),
    ):
        for name in names:
            problems.add(kind, name)
    return judged


def _check_documents(contents: Contents, judged: Qrels, problems: Problems) -> None:
    named = dict.fromkeys(document for grades in judged.values() for document in grades)
    missing = set(named).difference(contents.rows_of(list(named)))
    if len(missing) == len(named):
        first = next(iter(contents.live_documents()))
        raise InputError(
            f"None of the {len(named)} judged documents (such as {next(iter(named))!r}) is in the index, "
            f"whose ids are such as {first.id!r}; index the judged collection by its own ids."
        )
    for name in named:
        if name in missing:
            problems.add(NOT_INDEXED, name)


def _baseline(
    baseline: Run | str | Path | None, judged: Qrels, problems: Problems
) -> dict[str, dict[str, float]] | None:
    if baseline is None:
        return None
    run = read_run(Path(baseline)) if isinstance(baseline, str | Path) else baseline
    check_run(run)
    missing = [query for query in judged if query not in run]
    if len(missing) == len(judged):
        raise InputError(
            f"The baseline ranks documents for none of the {len(judged)} judged queries (such as "
            f"{missing[0]!r}); give a run of these queries."
        )
    for query in missing:
        problems.add(NOT_IN_BASELINE, query)
    return evaluate_run(run, judged)


def _prepared(inputs: Mapping[str, Any], prepare: Callable[[Sequence[Any]], list[Query]]) -> dict[str, Query]:
    try:
        return dict(zip(inputs, prepare(list(inputs.values())), strict=True))
    except InputError:
        for name, value in inputs.items():
            try:
                prepare([value])
            except InputError as error:
                raise InputError(f"Query {name!r}: {error}") from error
        raise

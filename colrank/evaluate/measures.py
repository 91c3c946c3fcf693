"""Measures of ranked lists against judgements, and the queries that failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colrank.errors import MissingExtra
from colrank.evaluate.judgements import Qrels
from colrank.evaluate.runs import Run, check_run

MEASURES = ("nDCG@10", "RR@10", "R@5", "R@10", "R@50", "R@100")
"""What is measured; nDCG takes grades as gains, the others take a grade of at least 1 as relevant."""

DEPTH = 100
"""Documents that are ranked for each query: as many as the deepest measure looks at."""

SHOWN = 10
"""A query fails when none of its relevant documents is among so many."""


def require_ir_measures() -> Any:
    """The module `ir_measures`.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtra(
            "Judging needs the package ir-measures; install it with: pip install 'colrank[eval]'."
        ) from error
    return ir_measures


def evaluate_run(run: Run, qrels: Qrels, measures: Sequence[str] = MEASURES) -> dict[str, dict[str, float]]:
    """Measure ranked documents, query by query.

    The order of each list is what is judged: equal scores stand as they are listed.

    Returns:
        Value by query and measure, for every judged query that has a relevant document, in the
        order of the judgements. A query that the run lacks counts 0; queries without a judgement are not
        in it.

    Raises:
        InputError: a query has a document twice.
        MissingExtra: ir_measures is not installed.
    """
    ir_measures = require_ir_measures()
    check_run(run)
    judged = answerable(qrels)
    values = {query: dict.fromkeys(measures, 0.0) for query in judged}
    # ir_measures sorts by score and breaks ties its own way; whole numbers below 2^24 are exact in it.
    scores = {
        query: {document: float(len(run[query]) - at) for at, (document, _) in enumerate(run[query])}
        for query in judged
        if run.get(query)
    }
    if scores:
        wanted = [ir_measures.parse_measure(name) for name in measures]
        for metric in ir_measures.iter_calc(wanted, judged, scores):
            values[metric.query_id][str(metric.measure)] = float(metric.value)
    return values


def answerable(qrels: Qrels) -> dict[str, dict[str, int]]:
    """The judgements of queries that have a relevant document; grades below 0 are made 0."""
    return {
        query: {document: max(0, grade) for document, grade in grades.items()}
        for query, grades in qrels.items()
        if any(grade >= 1 for grade in grades.values())
    }


@dataclass(frozen=True, slots=True)
class Failure:
    """A query without a relevant document among the first ten.

    Attributes:
        query, text: its id, and its text ("" where vectors were given).
        rank: of the best relevant document among those that were ranked; None when none was.
        relevant: ids of its relevant documents.
        found: the document that came first instead; "" when none was found.
    """

    query: str
    text: str
    rank: int | None
    relevant: tuple[str, ...]
    found: str

    @property
    def kind(self) -> str:
        """`never retrieved` or `ranked low`."""
        return "never retrieved" if self.rank is None else "ranked low"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "query": self.query,
            "text": self.text,
            "kind": self.kind,
            "rank": self.rank,
            "relevant": list(self.relevant),
            "found": self.found,
        }


def failures(
    run: Run, qrels: Qrels, texts: Mapping[str, Any] | None = None, depth: int = DEPTH
) -> list[Failure]:
    """Judged queries whose first ten documents hold no relevant one: the worst first.

    Those that were never retrieved among `depth` documents come first, then those ranked lowest; equal
    ones stand in the order of the judgements.
    """
    found = []
    for query, grades in answerable(qrels).items():
        relevant = {document for document, grade in grades.items() if grade >= 1}
        ranked: Sequence[tuple[str, float]] = run.get(query, ())[:depth]
        rank = next((at for at, (name, _) in enumerate(ranked, start=1) if name in relevant), None)
        if rank is None or rank > SHOWN:
            text = (texts or {}).get(query, "")
            found.append(
                Failure(
                    query,
                    text if isinstance(text, str) else "",
                    rank,
                    tuple(name for name in grades if name in relevant),
                    ranked[0][0] if ranked else "",
                )
            )
    return sorted(found, key=lambda failure: (failure.rank is not None, -(failure.rank or 0)))

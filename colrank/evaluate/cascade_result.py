"""What a judged cascade says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from colrank.evaluate.intervals import Paired


@dataclass(frozen=True, slots=True)
class CascadeStage:
    """One stage, judged.

    Attributes:
        name: `search`, `rerank`, `judge`, `dedupe`, `mmr` or `cut`.
        means: by measure, over queries.
        lift: gain in nDCG@10 over the stage before, None for the first; its `p` is corrected for all that
            is tested beside it (Holm).
        milliseconds: mean time of a query in this stage.
        hits: mean number of hits that the stage leaves.
    """

    name: str
    means: dict[str, float]
    lift: Paired | None
    milliseconds: float
    hits: float


@dataclass(frozen=True, slots=True)
class CandidateCount:
    """What reranking so many candidates brings.

    Attributes:
        candidates: how many.
        ceiling: recall of the candidates, the most that any reranker can reach.
        means: by measure, after reranking.
        lift: gain in nDCG@10 over the search.
        milliseconds: a query, search and reranking; reckoned from the time of a pair unless `measured`.
    """

    candidates: int
    ceiling: float
    means: dict[str, float]
    lift: Paired
    milliseconds: float
    measured: bool


@dataclass(frozen=True, slots=True)
class CascadeResult:
    """A cascade, judged.

    Attributes:
        reranker: its name, "" without one.
        candidates, k: hits that the stages look at, and hits in the end.
        measures: names of the measures, the candidates' recall first.
        stages: as they ran.
        sweep: by number of candidates, where asked for.
        beyond: share of the relevant documents among the candidates that stand beyond rank 50; None where
            there are not so many candidates.
        pairs, tokens, calls, cut: means over queries; tokens and cut None where not known.
        price: US dollars for 1,000 queries, None where no price is known.
        refused, unjudged: queries that the judge refused, and that could not be judged.
        refused_wrongly: refused queries whose candidates held a relevant document.
        ranks: by query, rank of the best relevant document after the search and in the end; None where it
            is not among the hits.
        verdict: `worth it`, `not worth it` or `mend the retriever first`; "" without a reranker.
        sentence: why.
        warnings: what the stages said, each once, with the number of queries.
    """

    reranker: str
    candidates: int
    k: int
    measures: tuple[str, ...]
    stages: list[CascadeStage]
    sweep: list[CandidateCount]
    beyond: float | None
    pairs: float
    tokens: float | None
    calls: float
    cut: float | None
    price: float | None
    refused: int
    unjudged: int
    refused_wrongly: int
    ranks: dict[str, tuple[int | None, int | None]]
    verdict: str
    sentence: str
    warnings: list[str]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

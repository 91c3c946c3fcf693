"""Whether a cascade pays: every stage judged on the same queries, with its time, pairs, tokens and price."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from colrank.builder import Progress
from colrank.cascade import MANY, Step, run_stages, wanted_hits
from colrank.config import By, CascadeConfig, SearchConfig
from colrank.evaluate.cascade_result import CandidateCount, CascadeResult, CascadeStage
from colrank.evaluate.intervals import Paired, holm, paired
from colrank.evaluate.judgements import Qrels
from colrank.evaluate.measures import evaluate_run
from colrank.evaluate.prices import Price
from colrank.evaluate.runs import Run
from colrank.evaluate.verdict import Evidence, verdict
from colrank.index import Snapshot
from colrank.rerankers import Reranked, Reranker
from colrank.search import Query, search
from colrank.types import Hits

SEARCH = "search"
GAIN = "nDCG@10"
_SHOWN = 8

Steps = Callable[[CascadeConfig, Reranker | None], Sequence[tuple[str, Step]]]
"""Makes the stages of a configuration, with a reranker in the place of the loaded one."""


class _Remembered:
    """A reranker that is asked once for each text of a query, while counts of candidates are swept."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self.name, self.listwise, self.steady = reranker.name, reranker.listwise, reranker.steady
        self._query: str | None = None
        self._known: dict[str, tuple[float, float]] = {}
        self._raw_name: str | None = None
        self.seconds, self.texts = 0.0, 0

    def score(self, query: str, texts: Sequence[str]) -> Reranked:
        if query != self._query:
            self._query, self._known = query, {}
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            begin = time.perf_counter()
            found = self._reranker.score(query, new)
            self.seconds += time.perf_counter() - begin
            self.texts += len(new)
            raw = found.scores if found.raw is None else found.raw
            self._raw_name = None if found.raw is None else found.raw_name
            pairs = zip(found.scores.tolist(), raw.tolist(), strict=True)
            self._known |= dict(zip(new, pairs, strict=True))
        both = np.array([self._known[text] for text in texts], dtype=np.float64).reshape(-1, 2)
        if self._raw_name is None:
            return Reranked(both[:, 0])
        return Reranked(both[:, 0], both[:, 1], self._raw_name)


class _Runs:
    """Ranked documents by query, with the time and the hits of each."""

    def __init__(self) -> None:
        self.ranked: dict[str, list[tuple[str, float]]] = {}
        self.seconds: list[float] = []
        self.hits: list[int] = []

    def add(self, query: str, hits: Hits, seconds: float) -> None:
        self.ranked[query] = ranked_once(hits)
        self.seconds.append(seconds)
        self.hits.append(len(hits))

    @property
    def milliseconds(self) -> float:
        return 1000 * float(np.mean(self.seconds))


@dataclass(frozen=True, slots=True)
class _Measured:
    """What came of all queries: by stage, by number of candidates, and each query's hits in the end; the
    queries that the reranker failed for, and those that each warning was said of."""

    stages: dict[str, _Runs]
    counts: dict[int, _Runs]
    ended: dict[str, Hits]
    failed: set[str]
    said: dict[str, set[str]]
    pair_ms: float | None


def measure_cascade(
    snapshot: Snapshot,
    queries: Mapping[str, Query],
    qrels: Qrels,
    *,
    config: SearchConfig,
    cascade: CascadeConfig,
    steps: Steps,
    reranker: Reranker | None,
    k: int,
    by: By,
    sweep: Sequence[int],
    price: Price | None,
    max_ms: float | None,
    progress: Progress,
    encoding: float = 0.0,
) -> CascadeResult:
    """Judge each stage of a cascade on the same queries.

    Args:
        queries: those to measure, by id.
        qrels: their judgements, each with a relevant document.
        config, cascade: of the search, and of the stages.
        steps: makes the stages.
        reranker: what `cascade.rerank` names.
        k, by: hits in the end, and what is counted.
        sweep: numbers of candidates to compare.
        price: the reranker's, where known.
        max_ms: a budget for search and stages, milliseconds a query; None is no budget.
        encoding: seconds that encoding a query took, part of the search's time.
    """
    wanted = wanted_hits(cascade, k)
    measures = tuple(dict.fromkeys((f"R@{wanted}", GAIN, f"nDCG@{k}", "RR@10", "R@5")))
    counts = sorted(set(sweep)) if reranker is not None else []
    found = _run(snapshot, queries, config, cascade, steps, reranker, wanted, by, counts, progress, encoding)
    judged = {name: evaluate_run(run.ranked, qrels, measures) for name, run in found.stages.items()}
    # Reranking changes no set: the recall of what was reranked is that of the candidates.
    by_count = {
        count: evaluate_run(run.ranked, qrels, (f"R@{count}", *measures[1:]))
        for count, run in found.counts.items()
    }
    tested = [_paired(judged[after], judged[before]) for before, after in pairwise(judged)]
    stage_count = len(tested)
    tested += [_paired(values, judged[SEARCH]) for values in by_count.values()]
    lifts = [replace(lift, p=p) for lift, p in zip(tested, holm([lift.p for lift in tested]), strict=True)]
    ranks = {
        name: (_rank(found.stages[SEARCH].ranked[name], qrels[name]), _rank(ranked_once(hits), qrels[name]))
        for name, hits in found.ended.items()
    }
    refused = [name for name in ranks if _status(found.ended[name]) == "refused"]
    pairs, tokens, calls, cut = _usage(found.ended.values())
    search_ms = found.stages[SEARCH].milliseconds
    said = ("", "")
    if reranker is not None:
        said = verdict(
            Evidence(
                ceiling=sum(before is not None for before, _ in ranks.values()) / len(ranks),
                lift=lifts[0],
                queries=len(queries),
                failed=len(found.failed),
                candidates=wanted,
                passages=len(snapshot.contents.filled),
                k=k,
                milliseconds=sum(run.milliseconds for run in found.stages.values()),
                search_milliseconds=search_ms,
                max_ms=max_ms,
            )
        )
    return CascadeResult(
        reranker="" if reranker is None else reranker.name,
        candidates=wanted,
        k=k,
        measures=measures,
        stages=[
            CascadeStage(name, _means(judged[name]), lift, run.milliseconds, float(np.mean(run.hits)))
            for (name, run), lift in zip(found.stages.items(), [None, *lifts[:stage_count]], strict=True)
        ],
        sweep=[
            CandidateCount(
                count,
                _means(values)[f"R@{count}"],
                {name: _means(values)[name] for name in measures[1:]},
                lift,
                search_ms
                + (found.counts[count].milliseconds if found.pair_ms is None else count * found.pair_ms),
                found.pair_ms is None,
            )
            for (count, values), lift in zip(by_count.items(), lifts[stage_count:], strict=True)
        ],
        beyond=_beyond(found.stages[SEARCH].ranked, qrels) if wanted > MANY else None,
        pairs=pairs,
        tokens=tokens,
        calls=calls,
        cut=cut,
        price=None if price is None else price.of_1000_queries(pairs, tokens),
        refused=len(refused),
        unjudged=sum(_status(hits) == "unjudged" for hits in found.ended.values()),
        refused_wrongly=sum(ranks[name][0] is not None for name in refused),
        ranks=ranks,
        verdict=said[0],
        sentence=said[1],
        warnings=_said(found.said),
    )


def _run(
    snapshot: Snapshot,
    queries: Mapping[str, Query],
    config: SearchConfig,
    cascade: CascadeConfig,
    steps: Steps,
    reranker: Reranker | None,
    wanted: int,
    by: By,
    counts: Sequence[int],
    progress: Progress,
    encoding: float,
) -> _Measured:
    stages = steps(cascade, reranker)
    found = _Measured(
        {SEARCH: _Runs(), **{name: _Runs() for name, _ in stages}},
        {count: _Runs() for count in counts},
        {},
        set(),
        {},
        None,
    )
    remembered = _Remembered(reranker) if reranker is not None else None
    progress.start("cascade", len(queries), "queries")
    for name, query in queries.items():
        begin = time.perf_counter()
        hits = search(snapshot, [query], k=wanted, by=by, config=config)[0]
        found.stages[SEARCH].add(name, hits, encoding + time.perf_counter() - begin)

        def seen(stage: str, out: Hits, name: str = name) -> None:
            found.stages[stage].add(name, out, out.timings[stage])
            if stage == "rerank" and len(out) and all(hit.unscored for hit in out):
                found.failed.add(name)

        found.ended[name] = run_stages(query, hits, stages, seen)
        told = list(found.ended[name].warnings)
        if counts and reranker is not None:
            asked = reranker if reranker.listwise else remembered
            wide = hits
            if counts[-1] > wanted:
                wide = search(snapshot, [query], k=counts[-1], by=by, config=config)[0]
            # From the largest on, so that the texts of the others are known by then.
            for count in reversed(counts):
                only = [
                    step for step in steps(replace(cascade, candidates=count), asked) if step[0] == "rerank"
                ]
                out = run_stages(query, wide.having(wide[:count]), only)
                found.counts[count].add(name, out, out.timings["rerank"])
                told += out.warnings
        for warning in told:
            found.said.setdefault(warning, set()).add(name)
        progress.advance(1)
    if remembered is not None and remembered.texts:
        found = replace(found, pair_ms=1000 * remembered.seconds / remembered.texts)
    return found


def ranked_once(hits: Hits) -> list[tuple[str, float]]:
    """Documents in the order of their first hit."""
    documents = dict.fromkeys(hit.document for hit in hits)
    return [(document, float(-at)) for at, document in enumerate(documents)]


def _status(hits: Hits) -> str:
    return "" if hits.verdict is None else hits.verdict.status


def _paired(values: Mapping[str, Mapping[str, float]], before: Mapping[str, Mapping[str, float]]) -> Paired:
    return paired([held[GAIN] for held in values.values()], [held[GAIN] for held in before.values()])


def _means(values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    rows = list(values.values())
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _rank(ranked: Sequence[tuple[str, float]], grades: Mapping[str, int]) -> int | None:
    return next((at for at, (name, _) in enumerate(ranked, start=1) if grades.get(name, 0) >= 1), None)


def _beyond(ranked: Run, qrels: Qrels) -> float:
    """Share of the relevant documents found that stand beyond the rank where gain flattens."""
    places = [
        at
        for name, documents in ranked.items()
        for at, (document, _) in enumerate(documents, start=1)
        if qrels[name].get(document, 0) >= 1
    ]
    return sum(at > MANY for at in places) / max(1, len(places))


def _usage(ended: Iterable[Hits]) -> tuple[float, float | None, float, float | None]:
    """Mean pairs, tokens, calls and cut texts of the queries that were reranked."""
    usages = [hits.usage for hits in ended if hits.usage is not None]
    if not usages:
        return 0.0, None, 0.0, None

    def known(values: Sequence[int | None]) -> float | None:
        held = [value for value in values if value is not None]
        return float(np.mean(held)) if len(held) == len(values) else None

    return (
        float(np.mean([usage.pairs for usage in usages])),
        known([usage.tokens for usage in usages]),
        float(np.mean([usage.calls for usage in usages])),
        known([usage.cut for usage in usages]),
    )


def _said(said: Mapping[str, set[str]]) -> list[str]:
    """What the stages said, each once; figures that differ by query make sentences of their own."""
    counts = Counter({warning: len(queries) for warning, queries in said.items()})
    shown = [f"{warning} ({count:,} queries)" for warning, count in counts.most_common(_SHOWN)]
    more = len(counts) - len(shown)
    return [*shown, f"{more:,} more warnings like these."] if more > 0 else shown

"""What each stage of a search loses, on the same queries.

    float32 exact      every passage, scored by the vectors as the model gives them: neither pooled nor coded
    codes, full scan   every passage, scored as it is stored
    probe              every passage in the probed lists, scored as it is stored
    prune              the search through the prefilter, as a user gets it
    hybrid, bm25       the search with BM25, where that was asked for

Each row is judged like a search, and compared with the row before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colrank.builder import Progress
from colrank.codec import whole_vectors
from colrank.config import SearchConfig
from colrank.evaluate.intervals import bootstrap_interval
from colrank.evaluate.judgements import Qrels
from colrank.evaluate.measures import evaluate_run
from colrank.evaluate.originals import Originals
from colrank.evaluate.ranking import BestDocuments, DocumentOrder, ranked_documents
from colrank.evaluate.runs import Run
from colrank.index import Contents, Snapshot
from colrank.prefilter import candidates, plan
from colrank.score import scan, score_rows
from colrank.search import Query, scans
from colrank.shards import TokenVectors

EXACT = "float32 exact"
PROBE = "probe"
PRUNE = "prune"
_MEASURED = ("nDCG@10", "R@10", "R@100")
_CUTS = (10, 100)


@dataclass(frozen=True, slots=True)
class StageResult:
    """One stage.

    Attributes:
        name: `float32 exact`, `codes, full scan` (`vectors, full scan` where they are kept whole), `probe`,
            `prune`, and `hybrid` or `bm25` where the search has that.
        means: mean of nDCG@10, R@10 and R@100.
        of_exact, of_full: share of the best 10 and 100 documents of float32 exact, and of the full scan,
            that are among this stage's (recall@10, recall@100).
        loss: nDCG@10 of the row before less this one's, None for the first; `low` and `high` are its
            bootstrap interval.
    """

    name: str
    means: dict[str, float]
    of_exact: dict[str, float]
    of_full: dict[str, float]
    loss: float | None = None
    low: float | None = None
    high: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "stage": self.name,
            **self.means,
            "of_exact": self.of_exact,
            "of_full_scan": self.of_full,
            "loss": self.loss,
            "loss_low": self.low,
            "loss_high": self.high,
        }


def measure_stages(
    snapshot: Snapshot,
    queries: Mapping[str, Query],
    qrels: Qrels,
    originals: Originals,
    *,
    config: SearchConfig,
    depth: int,
    searched: Run,
    progress: Progress,
    seed: int = 0,
) -> list[StageResult]:
    """Judge each stage on the same queries.

    Args:
        queries: those to measure, by id.
        qrels: their judgements.
        originals: the vectors of every passage before pooling and coding.
        config: settings of the prefilter.
        depth: documents ranked for each query, at least 100.
        searched: what a search by `config` found, which serves as one of the rows.
    """
    knobs = {"nprobe": config.nprobe, "shortlist": config.shortlist, "prune": config.prune}
    full = scans(snapshot, config)
    last: list[tuple[str, Run]] = []
    if config.retrieve != "maxsim":
        last.append((config.retrieve, searched))
        config = replace(config, retrieve="maxsim", hybrid=False)
        searched = ranked_documents(snapshot, queries, config, depth, progress)
    always, never = SearchConfig("always", **knobs), SearchConfig("never", **knobs)  # type: ignore[arg-type]
    name = f"{'codes' if snapshot.codec.coded else 'vectors'}, full scan"
    rows: list[tuple[str, Run]] = [
        (EXACT, exact_documents(snapshot.contents, queries, originals, depth, progress)),
        (name, searched if full else ranked_documents(snapshot, queries, always, depth, progress)),
    ]
    if snapshot.contents.postings is not None:
        rows.append((PROBE, _probed(snapshot, queries, config, depth, progress)))
        rows.append(
            (PRUNE, ranked_documents(snapshot, queries, never, depth, progress) if full else searched)
        )
    out = []
    before: NDArray[np.float64] | None = None
    for name, run in [*rows, *last]:
        values = evaluate_run(run, qrels)
        gains = np.array([value["nDCG@10"] for value in values.values()])
        loss: tuple[float, ...] = ()
        if before is not None:
            loss = (float((before - gains).mean()), *bootstrap_interval(before - gains, seed))
        out.append(
            StageResult(
                name,
                {measure: float(np.mean([v[measure] for v in values.values()])) for measure in _MEASURED},
                _shared(run, rows[0][1]),
                _shared(run, rows[1][1]),
                *loss,
            )
        )
        before = gains
    return out


def _shared(run: Run, reference: Run) -> dict[str, float]:
    """Mean share of the reference's best documents that are among as many of a run's."""
    out = {}
    for cut in _CUTS:
        shares = []
        for query, ranked in reference.items():
            wanted = {document for document, _ in ranked[:cut]}
            held = {document for document, _ in run[query][:cut]}
            if wanted:
                shares.append(len(wanted & held) / len(wanted))
        out[f"recall@{cut}"] = float(np.mean(shares)) if shares else 0.0
    return out


def exact_documents(
    contents: Contents, queries: Mapping[str, Query], originals: Originals, depth: int, progress: Progress
) -> Run:
    """Rank documents by the vectors of their passages before pooling and coding: brute force in float32.

    Args:
        contents: whose passages `originals` gives.
        queries: by id.
        depth: documents ranked for each query.
    """
    order = DocumentOrder(contents)
    best = {name: BestDocuments(query.vectors, order, depth) for name, query in queries.items()}
    vectors = [query.vectors for query in queries.values()]
    for rows, blocks in originals.windows(progress):
        offsets = np.concatenate([[0], np.cumsum([len(block) for block in blocks])]).astype(np.int64)
        filled = np.flatnonzero(np.diff(offsets))
        if not len(filled):
            continue
        stacked = np.concatenate([block for block in blocks if len(block)])
        codec = whole_vectors(stacked.shape[1], 32)
        tokens = TokenVectors(codec, [codec.encode(stacked)])
        owners = contents.passage_documents[rows][filled]
        for held, scores in zip(best.values(), scan(vectors, tokens, offsets), strict=True):
            held.offer(filled, scores.at(filled), owners, tokens, offsets)
    return {query: held.ranked() for query, held in best.items()}


def _probed(
    snapshot: Snapshot, queries: Mapping[str, Query], config: SearchConfig, depth: int, progress: Progress
) -> Run:
    """Rank documents by every passage in the lists that a query probes."""
    contents = snapshot.contents
    settings = plan(snapshot, config, depth)
    order = DocumentOrder(contents)
    found = {}
    progress.start("probing", len(queries), "queries")
    for name, query in queries.items():
        rows = candidates(query.vectors, contents, settings, prune=False)
        scores = score_rows(query.vectors, rows, contents.vectors, contents.offsets)
        best = BestDocuments(query.vectors, order, depth)
        best.offer(rows, scores, contents.passage_documents[rows], contents.vectors, contents.offsets)
        found[name] = best.ranked()
        progress.advance(1)
    return found

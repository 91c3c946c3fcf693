"""What late interaction is compared with on the same passages: one vector each, BM25, a cross-encoder."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colrank.builder import Progress
from colrank.compare.contestants import Contestant, Part
from colrank.compare.measure import DEPTH
from colrank.compare.result import JUDGED, Baseline
from colrank.compare.rows import mean_of
from colrank.errors import MissingExtra
from colrank.evaluate.judgements import Qrels
from colrank.evaluate.measures import evaluate_run
from colrank.evaluate.runs import Run
from colrank.explain import row_of_hit
from colrank.index import Snapshot
from colrank.language import main_language
from colrank.passages import encoder_input
from colrank.rerankers import Reranker
from colrank.search import Query, search

PASSAGES = 50
"""Passages of each system that the cross-encoder reads."""

_STEMMERS = {
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "de": "german",
    "pt": "portuguese",
    "it": "italian",
}


@dataclass(frozen=True, slots=True)
class System:
    """Another way to search the same passages.

    Attributes:
        name: how it is shown.
        part: of the model whose passages it searches.
        queries: by id, as it takes them.
        bytes: of its index, without the text that every system keeps.
        passages: finds the best passages of a query: rows, best first.
    """

    name: str
    part: Part
    queries: Mapping[str, Query]
    bytes: int
    passages: Callable[[Query, int], NDArray[np.int64]]


def measure_baselines(
    parts: Sequence[Part],
    chosen: Contestant,
    vector_bytes: int,
    qrels: Qrels,
    reranker: Reranker | None,
    progress: Progress,
) -> list[Baseline]:
    """One vector a passage of each model, BM25 over the first model's passages, and the chosen variant.

    Args:
        vector_bytes: of the chosen variant.
        reranker: put on top of each as well, or None.
    """
    systems = [*map(single_vector, parts), bm25(parts[0]), late_interaction(chosen, vector_bytes)]
    found = []
    for system in systems:
        run, times, best = run_system(system, progress)
        variant = chosen.name if system is systems[-1] else ""
        found.append(_measured(system, run, times, qrels, variant, ""))
        if reranker is not None:
            run, more = rerank_rows(reranker, system, best, progress)
            both = [first + second for first, second in zip(times, more, strict=True)]
            found.append(_measured(system, run, both, qrels, variant, reranker.name))
    return found


def _measured(
    system: System, run: Run, times: Sequence[float], qrels: Qrels, variant: str, reranker: str
) -> Baseline:
    held = evaluate_run(run, qrels, JUDGED)
    return Baseline(
        name=f"{system.name} + {reranker}" if reranker else system.name,
        model=system.part.label or system.part.model,
        bytes_per_passage=system.bytes / max(1, system.part.base.contents.counts.passages),
        quality=mean_of(np.array([value[JUDGED[0]] for value in held.values()])),
        median_ms=float(np.median(times)),
        variant=variant,
        reranker=reranker,
    )


def single_vector(part: Part) -> System:
    """The mean of a passage's token vectors, of unit length, as float32; a query alike."""
    base = part.base
    contents = base.contents
    vectors = np.zeros((contents.passage_rows, base.manifest.dim), dtype=np.float32)
    for row in contents.filled.tolist():
        vectors[row] = _mean(base.codec.turn_back(contents.passage_vectors(row).astype(np.float32)))

    def best(query: Query, count: int) -> NDArray[np.int64]:
        scores = vectors[contents.filled] @ _mean(query.vectors.vectors)
        return contents.filled[np.argsort(-scores, kind="stable")[:count]]

    name = f"{part.label}: single vector" if part.label else "single vector"
    return System(name, part, part.queries, vectors.nbytes, best)


def _mean(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    mean = vectors.mean(axis=0, dtype=np.float64)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), dtype=np.float32)


def bm25(part: Part) -> System:
    """BM25 in memory over title and text of each passage, words stemmed in the language of most text.

    Raises:
        MissingExtra: bm25s or its stemmer is not installed.
    """
    try:
        import bm25s
        import Stemmer
    except ImportError as error:
        raise MissingExtra(
            "The baseline BM25 needs bm25s and PyStemmer; install them with: pip install 'colrank[eval]'."
        ) from error
    contents = part.base.contents
    language = main_language(contents.counts.language_tokens, otherwise="en")
    stemmer = Stemmer.Stemmer(_STEMMERS.get(language, "english"))
    stopwords = language if language in _STEMMERS else []

    def words(texts: Sequence[str]) -> Any:
        return bm25s.tokenize(list(texts), stemmer=stemmer, stopwords=stopwords, show_progress=False)

    retriever = bm25s.BM25()
    retriever.index(words(list(_texts(part.base))), show_progress=False)
    with tempfile.TemporaryDirectory() as folder:
        retriever.save(folder)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())

    def best(query: Query, count: int) -> NDArray[np.int64]:
        found, scores = retriever.retrieve(
            words([query.text]), k=min(count, contents.passage_rows), show_progress=False
        )
        # What holds none of the words was not found.
        return np.asarray(found[0][scores[0] > 0], dtype=np.int64)

    return System("BM25", part, part.queries, size, best)


def late_interaction(contestant: Contestant, size: int) -> System:
    """A variant as a system."""
    snapshot, config = contestant.snapshot, contestant.variant.search()

    def best(query: Query, count: int) -> NDArray[np.int64]:
        hits = search(snapshot, [query], k=count, config=config)[0]
        return np.array([row_of_hit(snapshot, hit) for hit in hits], dtype=np.int64)

    name = f"late interaction ({contestant.name})"
    return System(name, contestant.part, contestant.queries, size, best)


def _texts(base: Snapshot) -> Iterator[str]:
    """What is searched of each passage, by row: a base has no deleted ones."""
    contents = base.contents
    for stored in contents.live_documents():
        for passage in contents.passages(contents.passages_of(stored.row)):
            yield encoder_input(stored.title.strip(), passage.text)


def run_system(system: System, progress: Progress) -> tuple[Run, list[float], dict[str, NDArray[np.int64]]]:
    """Ranked documents of each query, its milliseconds, and its best passages."""
    run, times, rows = {}, [], {}
    progress.start(system.name, len(system.queries), "queries")
    for name, query in system.queries.items():
        begin = time.perf_counter()
        found = system.passages(query, 2 * DEPTH)
        times.append(1000 * (time.perf_counter() - begin))
        run[name] = ranked_rows(system.part.base, found)[:DEPTH]
        rows[name] = found[:PASSAGES]
        progress.advance(1)
    return run, times, rows


def rerank_rows(
    reranker: Reranker, system: System, rows: Mapping[str, NDArray[np.int64]], progress: Progress
) -> tuple[Run, list[float]]:
    """The best passages of each query in the reranker's order, by document, and its milliseconds."""
    run, times = {}, []
    base = system.part.base
    progress.start("reranking", len(system.queries), "queries")
    for name, query in system.queries.items():
        texts = [_text(base, row) for row in rows[name].tolist()]
        begin = time.perf_counter()
        scores = reranker.score(query.text, texts).scores if texts else np.zeros(0)
        times.append(1000 * (time.perf_counter() - begin))
        order = np.argsort(-np.nan_to_num(scores, nan=-1.0), kind="stable")
        run[name] = ranked_rows(base, rows[name][order])
        progress.advance(1)
    return run, times


def _text(base: Snapshot, row: int) -> str:
    passage = base.contents.passage(row)
    return encoder_input(base.contents.document(passage.document).title.strip(), passage.text)


def ranked_rows(base: Snapshot, rows: NDArray[np.int64]) -> list[tuple[str, float]]:
    """Documents in the order of their best passage."""
    contents = base.contents
    owners = dict.fromkeys(int(contents.passage_documents[row]) for row in rows)
    return [(contents.document_id(owner), float(-at)) for at, owner in enumerate(owners)]

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
from colrank.compare.variants import Variant
from colrank.errors import MissingExtra
from colrank.evaluate.runs import Run
from colrank.explain import row_of_hit
from colrank.index import Snapshot
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
        bytes: of its index, without the text that every system keeps.
        passages: finds the best passages of a query: rows, best first.
    """

    name: str
    bytes: int
    passages: Callable[[Query, int], NDArray[np.int64]]


def single_vector(base: Snapshot) -> System:
    """The mean of a passage's token vectors, of unit length, as float32; a query alike."""
    segment = base.segment
    vectors = np.zeros((segment.entry.passages, base.manifest.dim), dtype=np.float32)
    for row in segment.filled.tolist():
        vectors[row] = _mean(base.codec.turn_back(segment.passage_vectors(row).astype(np.float32)))

    def best(query: Query, count: int) -> NDArray[np.int64]:
        scores = vectors[segment.filled] @ _mean(query.vectors.vectors)
        return segment.filled[np.argsort(-scores, kind="stable")[:count]]

    return System("single vector", vectors.nbytes, best)


def _mean(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    mean = vectors.mean(axis=0, dtype=np.float64)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), dtype=np.float32)


def bm25(base: Snapshot) -> System:
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
    segment = base.segment
    languages = segment.entry.language_tokens
    language = max(languages, key=lambda name: (languages[name], name), default="en")
    stemmer = Stemmer.Stemmer(_STEMMERS.get(language, "english"))
    stopwords = language if language in ("en", "es", "de", "fr", "pt", "it") else []

    def words(texts: Sequence[str]) -> Any:
        return bm25s.tokenize(list(texts), stemmer=stemmer, stopwords=stopwords, show_progress=False)

    retriever = bm25s.BM25()
    retriever.index(words(list(_texts(base))), show_progress=False)
    with tempfile.TemporaryDirectory() as folder:
        retriever.save(folder)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())

    def best(query: Query, count: int) -> NDArray[np.int64]:
        found, scores = retriever.retrieve(
            words([query.text]), k=min(count, segment.entry.passages), show_progress=False
        )
        # What holds none of the words was not found.
        return np.asarray(found[0][scores[0] > 0], dtype=np.int64)

    return System("BM25", size, best)


def late_interaction(snapshot: Snapshot, variant: Variant, queries: Mapping[str, Query], size: int) -> System:
    """A variant as a system; `queries` are those of its own space, by text."""

    def best(query: Query, count: int) -> NDArray[np.int64]:
        hits = search(snapshot, [queries[query.text]], k=count, config=variant.search())[0]
        return np.array([row_of_hit(snapshot, hit) for hit in hits], dtype=np.int64)

    return System(f"late interaction ({variant.name})", size, best)


def _texts(base: Snapshot) -> Iterator[str]:
    segment = base.segment
    for document in range(segment.entry.documents):
        stored = segment.document(document)
        for passage in segment.passages(segment.passages_of(document)):
            yield encoder_input(stored.title.strip(), passage.text)


def run_system(
    system: System, base: Snapshot, queries: Mapping[str, Query], depth: int, progress: Progress
) -> tuple[Run, list[float], dict[str, NDArray[np.int64]]]:
    """Ranked documents of each query, its milliseconds, and its best passages."""
    run, times, rows = {}, [], {}
    progress.start(system.name, len(queries), "queries")
    for name, query in queries.items():
        begin = time.perf_counter()
        found = system.passages(query, 2 * depth)
        times.append(1000 * (time.perf_counter() - begin))
        run[name] = ranked_rows(base, found)[:depth]
        rows[name] = found[:PASSAGES]
        progress.advance(1)
    return run, times, rows


def rerank_rows(
    reranker: Reranker,
    base: Snapshot,
    queries: Mapping[str, Query],
    rows: Mapping[str, NDArray[np.int64]],
    progress: Progress,
) -> tuple[Run, list[float]]:
    """The best passages of each query in the reranker's order, by document, and its milliseconds."""
    run, times = {}, []
    progress.start("reranking", len(queries), "queries")
    for name, query in queries.items():
        texts = [_text(base, row) for row in rows[name].tolist()]
        begin = time.perf_counter()
        scores = reranker.score(query.text, texts).scores if texts else np.zeros(0)
        times.append(1000 * (time.perf_counter() - begin))
        order = np.argsort(-np.nan_to_num(scores, nan=-1.0), kind="stable")
        run[name] = ranked_rows(base, rows[name][order])
        progress.advance(1)
    return run, times


def _text(base: Snapshot, row: int) -> str:
    passage = base.segment.passage(row)
    return encoder_input(base.segment.document(passage.document).title.strip(), passage.text)


def ranked_rows(base: Snapshot, rows: NDArray[np.int64]) -> list[tuple[str, float]]:
    """Documents in the order of their best passage."""
    owners = dict.fromkeys(int(base.segment.passage_documents[row]) for row in rows)
    return [(base.segment.document_id(owner), float(-at)) for at, owner in enumerate(owners)]

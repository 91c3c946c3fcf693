"""What the cascade costs beside the models in it: overhead of a query, MMR, batches by length.

    COLRANK_DATA=... python bench/cascade.py [--collection cacm] [--queries 30] [--indexes FOLDER]

    overhead    a search with a cross-encoder of MiniLM-L6's size (random weights), judge and
                MMR: the share of a query that is neither its forward pass nor the search
    mmr         50 passages to 5, by reduced vectors and by all, beside a full scan of 1,000 passages
    reduction   how well similarities of reduced vectors follow those of all, for each cheap reduction
    batches     the same pairs in batches by length, and in one fixed batch size in the given order

Medians of several rounds; what is compared runs in turns, so that noise hits all alike.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from judged import coded_index, data_folder, read_judgements, read_queries, write_results

from colrank import ColRank
from colrank.config import CascadeConfig, SearchConfig
from colrank.index_cascade import IndexCascade
from colrank.mmr import REDUCED, PassageSimilarity, reduced, select
from colrank.rerankers.cross_encoder import CrossEncoderReranker
from colrank.score import scan
from colrank.search import search
from colrank.types import Hits, Vectors

ROUNDS = 7
CANDIDATES, KEPT = 50, 5
SCANNED = 1000
FIXED_BATCH = 32


def mini_cross_encoder(folder: Path) -> Path:
    """A cross-encoder of MiniLM-L6's size with random weights, and the embedded model's tokenizer."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    from colrank.encoder.embedded import model_folder

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        num_labels=1,
    )
    tokenizer.model_max_length = 512
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def in_turns(*works: Callable[[], Any]) -> list[float]:
    """Median seconds of each, measured in turns."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(ROUNDS + 1):
        for work, held in zip(works, times, strict=True):
            begin = time.perf_counter()
            work()
            if turn:
                held.append(time.perf_counter() - begin)
    return [median(held) for held in times]


def overhead(index: ColRank, queries: Sequence[str], model: Path) -> dict[str, Any]:
    name = f"hf:{model}"
    rows = []
    for query in ["warm up", *queries]:
        begin = time.perf_counter()
        hits = index.search(query, KEPT, rerank=name, candidates=CANDIDATES, judge=0.0, mmr=0.7)
        whole = time.perf_counter() - begin
        assert hits.usage is not None
        stages = sum(hits.timings[stage] for stage in ("rerank", "judge", "mmr"))
        rows.append((whole, stages - hits.usage.seconds, hits.usage.seconds, hits.timings["mmr"]))
    rows = rows[1:]
    return {
        "queries": len(rows),
        "ms_per_query": round(1000 * median(row[0] for row in rows), 1),
        "forward_ms": round(1000 * median(row[2] for row in rows), 1),
        "overhead_ms": round(1000 * median(row[1] for row in rows), 2),
        "overhead_share": round(median(row[1] / row[0] for row in rows), 4),
        "mmr_ms": round(1000 * median(row[3] for row in rows), 2),
    }


def mmr(index: ColRank, query: str) -> dict[str, Any]:
    snapshot = index.snapshot
    contents = snapshot.contents
    prepared = index.prepare([query], snapshot)[0]
    hits = search(snapshot, [prepared], k=CANDIDATES, config=SearchConfig("always"))[0]
    within = IndexCascade(snapshot, CascadeConfig(mmr=0.7), None, False)
    offsets = contents.offsets[: SCANNED + 1]

    def chosen(most: int | None) -> Hits:
        similarity = PassageSimilarity(within.vectors(hits), most)
        return select(hits, KEPT, balance=0.7, per_document=2, similarity=similarity)

    by_reduced, by_all, full = in_turns(
        lambda: chosen(REDUCED),
        lambda: chosen(None),
        lambda: scan([prepared.vectors], contents.vectors, offsets),
    )
    return {
        "scan_of_1000_ms": round(1000 * full, 2),
        "tokens_of_1000": int(offsets[-1]),
        "reduced_ms": round(1000 * by_reduced, 2),
        "exact_ms": round(1000 * by_all, 2),
        "reduced_of_scan": round(by_reduced / full, 3),
        "exact_of_scan": round(by_all / full, 3),
    }


def _evenly(vectors: Vectors, most: int) -> Vectors:
    if len(vectors) <= most:
        return vectors
    return vectors[np.linspace(0, len(vectors) - 1, most).round().astype(int)]


def _first(vectors: Vectors, most: int) -> Vectors:
    return vectors[:most]


def _farthest(vectors: Vectors, most: int) -> Vectors:
    """Those least like the passage's mean."""
    if len(vectors) <= most:
        return vectors
    return vectors[np.sort(np.argsort(vectors @ vectors.mean(axis=0))[:most])]


REDUCTIONS = {
    "means of stretches": reduced,
    "evenly spaced": _evenly,
    "the first": _first,
    "farthest from the mean": _farthest,
}


def reduction(index: ColRank, queries: Sequence[str]) -> dict[str, dict[str, float]]:
    """Correlation of similarities with those of all vectors, and how often MMR chooses the same five."""
    snapshot = index.snapshot
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in REDUCTIONS}
    for prepared in index.prepare(list(queries), snapshot):
        hits = search(snapshot, [prepared], k=CANDIDATES, config=SearchConfig("always"))[0]
        held = IndexCascade(snapshot, CascadeConfig(mmr=0.7), None, False).vectors(hits)
        places = np.tril_indices(len(hits), -1)

        def all_of(similarity: PassageSimilarity, places: Any = places, hits: Hits = hits) -> Any:
            return np.stack([similarity(place) for place in range(len(hits))])[places]

        def ids(similarity: PassageSimilarity, hits: Hits = hits) -> set[str]:
            return {h.id for h in select(hits, KEPT, balance=0.7, per_document=2, similarity=similarity)}

        exact = PassageSimilarity(held, None)
        for name, way in REDUCTIONS.items():
            few = PassageSimilarity([way(vectors, REDUCED) for vectors in held], None)
            same = len(ids(exact) & ids(few)) / KEPT
            rows[name].append((float(np.corrcoef(all_of(exact), all_of(few))[0, 1]), same))
    return {
        name: {
            "correlation": round(float(np.mean([row[0] for row in held])), 3),
            "same_of_5": round(float(np.mean([row[1] for row in held])), 3),
        }
        for name, held in rows.items()
    }


def batches(model: Path, collection: str) -> dict[str, Any]:
    """Pairs of a query with texts of very different lengths, from 5 to 400 words."""
    from sentence_transformers import CrossEncoder

    words = " ".join(
        json.loads(line)["text"]
        for line in (data_folder() / collection / "corpus.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()[:400]
    ).split()
    random = np.random.default_rng(0)
    texts = []
    for length in random.choice([5, 10, 20, 40, 80, 160, 400], size=100):
        start = int(random.integers(len(words) - 400))
        texts.append(" ".join(words[start : start + length]))
    query = "what does the operating system do when memory runs out?"
    ours = CrossEncoderReranker(str(model), CascadeConfig())
    plain = CrossEncoder(str(model), device="cpu")

    def in_given_order() -> None:
        for first in range(0, len(texts), FIXED_BATCH):
            plain.predict(
                [(query, text) for text in texts[first : first + FIXED_BATCH]], batch_size=FIXED_BATCH
            )

    by_length, given = in_turns(lambda: ours.score(query, texts), in_given_order)
    return {
        "pairs": len(texts),
        "by_length_ms": round(1000 * by_length, 1),
        "given_order_ms": round(1000 * given, 1),
        "times_as_fast": round(given / by_length, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--collection", default="squad-es")
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--indexes", type=Path, help="Folder of indexes to use again.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        index = coded_index(options.collection, options.indexes or Path(made))
        judged = read_judgements(options.collection)
        texts = [text for name, text in read_queries(options.collection).items() if name in judged]
        queries = texts[: options.queries]
        model = mini_cross_encoder(Path(made) / "cross-encoder")
        found = {
            "collection": options.collection,
            "overhead": overhead(index, queries, model),
            "mmr": mmr(index, queries[0]),
            "reduction": reduction(index, queries),
            "batches": batches(model, options.collection),
        }
    for name, figures in found.items():
        print(name, figures)
    write_results("cascade", found)


if __name__ == "__main__":
    main()

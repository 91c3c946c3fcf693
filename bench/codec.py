"""Codecs compared: kind x bits x pool, by full scan of the codes against float32 exact.

    COLRANK_DATA=... python bench/codec.py [--collections NAME...] [--queries 100]

For every collection the passages are encoded once by the embedded encoder. All codecs share the centroids of
the collection's index of 2 bits, so that rows differ in the codec alone. Recall is the
share of the best 10 (100) passages of float32 exact that are among the best 10 (100) by the codes; nDCG@10
is judged by document.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from judged import coded_index, read_judgements, read_queries, write_results
from numpy.typing import NDArray
from quality import COLLECTIONS

from colrank.builder import Silent
from colrank.codec import Codec, StreamSample, whole_vectors
from colrank.codec.codec import even_levels, scale_table
from colrank.codec.train import codec_error, quantile_levels
from colrank.evaluate import Originals, evaluate_run, paired
from colrank.pooling import pool_tokens
from colrank.score import scan
from colrank.shards import TokenVectors, row_bytes
from colrank.types import Problems, Vectors

_AT_ONCE = 1 << 15


class Encoded:
    """A collection's passages and judged queries as float32 vectors."""

    def __init__(self, collection: str, folder: Path, most: int) -> None:
        index = coded_index(collection, folder)
        self.contents = index.snapshot.contents
        self.codec = index.snapshot.codec
        held = self.contents.vectors.columns(0, len(self.contents.vectors), ["centroid"])
        self.centroid_ids = held["centroid"].astype(np.int64)
        self.qrels = read_judgements(collection)
        texts = read_queries(collection)
        self.names = [name for name in texts if name in self.qrels][:most]
        prepared = index.prepare([texts[name] for name in self.names], index.snapshot)
        self.queries = [query.vectors for query in prepared]
        originals = Originals(index.snapshot, lambda: index.encoder, None, Problems())
        self.passages: list[Vectors] = []
        for _, blocks in originals.windows(Silent()):
            self.passages += blocks

    def pooled(self, factor: int) -> tuple[Vectors, NDArray[np.int64]]:
        """All tokens, float32 `[tokens, dim]`, and the passages' offsets; the first and last of a passage
        are its markers."""
        blocks = []
        for block in self.passages:
            markers = np.zeros(len(block), dtype=bool)
            markers[[0, -1]] = True
            blocks.append(pool_tokens(block, factor, markers)[0] if factor > 1 else block)
        offsets = np.concatenate([[0], np.cumsum([len(block) for block in blocks])]).astype(np.int64)
        return np.concatenate(blocks), offsets


def codecs(
    vectors: Vectors, shared: Codec, ids: NDArray[np.int64] | None
) -> Iterator[tuple[str, Codec, NDArray[np.int64], Vectors]]:
    """Every codec over the same centroids: name of its kind, the codec, its centroid ids, unseen vectors."""
    sample = StreamSample(vectors.shape[1], 0)
    pieces = range(0, len(vectors), _AT_ONCE)
    for begin in pieces:
        sample.add(vectors[begin : begin + _AT_ONCE])
    _, unseen = sample.split()  # as the index itself split it
    index = shared.centroid_index
    if ids is None:
        ids = np.concatenate(
            [index.assign(shared.turn(vectors[begin : begin + _AT_ONCE])) for begin in pieces]
        )
    assert shared.centroids is not None
    unturned = shared.turn_back(shared.centroids)
    residual = unseen - unturned[index.assign(shared.turn(unseen))]
    yield "none", whole_vectors(shared.dim, 16), ids, unseen
    for bits in (1, 2, 4, 8):
        levels, scales = even_levels(bits), scale_table(shared.dim, bits)
        yield "linear", replace(shared, bits=bits, levels=levels, scales=scales), ids, unseen
        levels = quantile_levels(residual, bits)
        yield "quantile", Codec(shared.dim, bits, "quantile", unturned, levels=levels), ids, unseen


def best(scores: NDArray[np.float32], count: int) -> list[set[int]]:
    return [set(np.argsort(-row, kind="stable")[:count].tolist()) for row in scores]


def gains(data: Encoded, scores: NDArray[np.float32]) -> list[float]:
    """nDCG@10 of every query, judged by document."""
    owners, run = data.contents.passage_documents, {}
    for name, row in zip(data.names, scores, strict=True):
        by_document: dict[int, float] = {}
        for passage in np.argsort(-row, kind="stable")[:400].tolist():
            if row[passage] > -np.inf:
                by_document.setdefault(int(owners[passage]), float(row[passage]))
        run[name] = [(data.contents.document_id(d), s) for d, s in list(by_document.items())[:10]]
    qrels = {name: data.qrels[name] for name in data.names}
    return [values["nDCG@10"] for values in evaluate_run(run, qrels).values()]


def measure(collection: str, folder: Path, most: int) -> list[dict[str, Any]]:
    data = Encoded(collection, folder, most)
    rows: list[dict[str, Any]] = []
    exact: NDArray[np.float32] | None = None
    wanted: dict[int, list[set[int]]] = {}
    base: list[float] = []
    for pool in (1, 2):
        vectors, offsets = data.pooled(pool)
        if exact is None:
            whole = whole_vectors(vectors.shape[1], 32)
            exact = scan(data.queries, TokenVectors(whole, [whole.encode(vectors)]), offsets)
            wanted = {cut: best(exact, cut) for cut in (10, 100)}
            base = gains(data, exact)
            unpooled = len(vectors)
            rows.append(
                {"collection": collection, "kind": "none", "bits": 32, "pool": 1, "nDCG@10": _mean(base)}
            )
        known = data.centroid_ids if pool == 1 else None
        for kind, codec, ids, unseen in codecs(vectors, data.codec, known):
            parts = [
                codec.encode(vectors[begin : begin + _AT_ONCE], ids[begin : begin + _AT_ONCE])
                for begin in range(0, len(vectors), _AT_ONCE)
            ]
            scores = scan(data.queries, TokenVectors(codec, parts), offsets)
            ours = gains(data, scores)
            against = paired(ours, base)
            error = codec_error(codec, unseen)
            row = {
                "collection": collection,
                "kind": kind,
                "bits": codec.bits,
                "pool": pool,
                "centroids": 0 if codec.centroids is None else len(codec.centroids),
                "bytes_per_token": row_bytes(codec.schema),
                "bytes_per_unpooled_token": round(row_bytes(codec.schema) * len(vectors) / unpooled, 1),
                "squared_error": error[0],
                "recall@10": _recall(scores, wanted, 10),
                "recall@100": _recall(scores, wanted, 100),
                "nDCG@10": _mean(ours),
                "difference": round(against.difference, 4),
                "low": round(against.low, 4),
                "high": round(against.high, 4),
            }
            print(row, flush=True)
            rows.append(row)
    return rows


def _mean(values: list[float]) -> float:
    return round(float(np.mean(values)), 4)


def _recall(scores: NDArray[np.float32], wanted: dict[int, list[set[int]]], cut: int) -> float:
    found = best(scores, cut)
    return _mean([len(a & b) / len(b) for a, b in zip(found, wanted[cut], strict=True)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collections", nargs="+", default=COLLECTIONS)
    parser.add_argument("--queries", type=int, default=100, help="most queries of a collection")
    parser.add_argument("--indexes", type=Path, help="keep the indexes in this folder, and use those there")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for collection in options.collections:
            rows += measure(collection, options.indexes or Path(temporary), options.queries)
            write_results("codec", {"most_queries": options.queries, "rows": rows})


if __name__ == "__main__":
    main()

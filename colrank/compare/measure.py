"""What a variant costs and gives: bytes, agreement with float32 exact, judged quality, time, memory."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colrank.centroids import centroid_count
from colrank.codec import StreamSample
from colrank.compare.build import cut_vectors
from colrank.compare.variants import Variant
from colrank.config import SMALL_TOKENS
from colrank.evaluate.runs import Run
from colrank.index import Snapshot
from colrank.score import QueryVectors
from colrank.search import Query, search

EXTRAPOLATED = (1_000_000, 8_800_000)
"""Passages of the sizes that bytes are extrapolated to; the second is MS MARCO's."""

CUTS = (10, 100)
DEPTH = 100


@dataclass(frozen=True, slots=True)
class Bytes:
    """What an index takes on the disk.

    Attributes:
        total: all its files.
        vectors: of these tokens, centroids and postings; the rest is text, ids and the like.
        tokens, passages: how many are stored.
        extrapolated: total by number of passages like these, with the centroids and the width of their
            numbers that such a size has.
        single: bytes of one float32 vector a passage, of the same model's dimensions.
    """

    total: int
    vectors: int
    tokens: int
    passages: int
    extrapolated: Mapping[int, int]
    single: int

    @property
    def per_token(self) -> float:
        """Of all files."""
        return self.total / max(1, self.tokens)

    @property
    def per_passage(self) -> float:
        """Of all files."""
        return self.total / max(1, self.passages)

    @property
    def times_single(self) -> float:
        """Vectors, centroids and postings against one vector a passage."""
        return self.vectors / max(1, self.single)


def measure_bytes(snapshot: Snapshot, dim: int) -> Bytes:
    """Bytes of an index; `dim` is that of the model's own vectors."""
    manifest, entry = snapshot.manifest, snapshot.manifest.segments[0]  # a variant has one
    codec = manifest.codec
    tables = sum(size for size, _ in codec.files.values()) if codec else 0
    postings = sum(size for name, (size, _) in entry.files.items() if name.startswith("posting"))
    shards = sum(size for name, (size, _) in entry.files.items() if name in entry.shards)
    files = sum(size for size, _ in entry.files.values())
    total = files + tables + len(manifest.to_json().encode())
    vectors = tables + postings + shards
    rest = (total - vectors) / max(1, entry.passages)
    extrapolated = {}
    for passages in EXTRAPOLATED:
        tokens = round(entry.tokens / max(1, entry.passages) * passages)
        extrapolated[passages] = round(passages * rest + _vector_bytes(snapshot, postings, tokens))
    return Bytes(total, vectors, entry.tokens, entry.passages, extrapolated, 4 * dim * entry.passages)


def _vector_bytes(snapshot: Snapshot, postings: int, tokens: int) -> float:
    """Bytes of so many tokens: their codes, the centroids that such a size has, and postings as here."""
    codec, entry = snapshot.codec, snapshot.manifest.segments[0]
    dim = snapshot.manifest.dim
    if codec.coded:
        code = -(-dim * codec.bits // 8) + (1 if codec.kind == "linear" else 2)
    else:
        code = dim * codec.bits // 8
    if tokens < SMALL_TOKENS and not codec.coded:
        return float(tokens * code)
    count = centroid_count(tokens, StreamSample.size(tokens))
    width = 2 if count <= 1 << 16 else 4
    rotation = 4 * dim * dim if codec.kind == "linear" else 0
    held = postings / max(1, entry.tokens)
    # Without centroids here there are no postings to go by: 2 bytes a token is what they take elsewhere.
    return tokens * (code + width + (held or 2.0)) + 2 * dim * count + rotation


def in_space(queries: Mapping[str, Query], dim: int) -> dict[str, Query]:
    """Queries with as many dimensions as a variant keeps."""
    return {
        name: Query(
            QueryVectors(cut_vectors(query.vectors.vectors, dim), query.vectors.weights), query.encoded
        )
        for name, query in queries.items()
    }


def shares(run: Run, exact: Run, cut: int) -> NDArray[np.float64]:
    """For each query the share of the best documents of float32 exact that are among as many of a run's."""
    out = []
    for query, ranked in exact.items():
        wanted = {document for document, _ in ranked[:cut]}
        out.append(len(wanted & {document for document, _ in run[query][:cut]}) / max(1, len(wanted)))
    return np.array(out)


def rank_correlation(run: Run, exact: Run) -> float:
    """Spearman's correlation of the ranks of float32 exact's best 100 documents, averaged over queries.

    A document that a run does not rank stands behind all that it does.
    """
    found = []
    for query, ranked in exact.items():
        if len(ranked) < 2:
            continue
        places = {document: at for at, (document, _) in enumerate(run[query])}
        ours = np.array([places.get(document, len(places)) for document, _ in ranked], dtype=np.float64)
        # Ranks among themselves; those behind all share one.
        order = ours.argsort(kind="stable").argsort(kind="stable").astype(np.float64)
        behind = ours == len(places)
        if behind.any():
            order[behind] = order[behind].mean()
        theirs = np.arange(len(ranked), dtype=np.float64)
        if order.std() > 0:
            found.append(float(np.corrcoef(order, theirs)[0, 1]))
    return float(np.mean(found)) if found else 1.0


@dataclass
class Latency:
    """Milliseconds of single queries, by variant, measured in rounds that go from variant to variant."""

    times: dict[str, list[float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        """Median over queries and rounds."""
        return float(np.median(self.times[name]))

    def p95(self, name: str) -> float:
        """95th percentile over queries and rounds."""
        return float(np.quantile(self.times[name], 0.95))


def measure_latency(
    opened: Mapping[str, tuple[Snapshot, Variant, Sequence[Query]]], k: int, rounds: int
) -> Latency:
    """Time searches of one query, all variants in turns: what disturbs the machine disturbs all alike.

    Args:
        opened: by name the index, how it is searched, and the queries in its space.
        k: hits a query.
        rounds: how often every query is searched for in every variant, after one round that does not count.
    """
    found = Latency({name: [] for name in opened})
    names = list(opened)
    for turn in range(rounds + 1):
        for at in range(len(next(iter(opened.values()))[2])):
            # Each variant comes first as often as last.
            for name in names[at % len(names) :] + names[: at % len(names)]:
                snapshot, variant, queries = opened[name]
                begin = time.perf_counter()
                search(snapshot, [queries[at]], k=k, config=variant.search())
                if turn:
                    found.times[name].append(1000 * (time.perf_counter() - begin))
    return found


def resident_bytes(folder: Path) -> int | None:
    """Bytes of an index's mapped files that are in memory now; None where the system does not say."""
    maps = Path("/proc/self/smaps")
    if not maps.exists():
        return None
    place, total, inside = str(folder.resolve()), 0, False
    with maps.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            head = line.split(maxsplit=5)
            if "-" in head[0] and not head[0].endswith(":"):
                inside = len(head) == 6 and head[5].startswith(place + "/")
            elif inside and head[0] == "Rss:":
                total += 1024 * int(head[1])
    return total

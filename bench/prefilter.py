"""Settings of the prefilter: recall against the full scan of the same codes, and time of each part.

    COLRANK_DATA=... python bench/prefilter.py [--collections cranfield cisi cacm squad-es] [--queries 100]

The defaults are chosen on the collections named above and confirmed by `bench/quality.py` on the others.
Queries run one at a time, as a user's do. Times are medians over queries; the full scan of one
query stands beside them, which says from which size on the prefilter pays.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from judged import coded_index, read_judgements, read_queries, shared, write_results

from colrank.config import SearchConfig
from colrank.index import Snapshot
from colrank.search import Query, search

CHOSEN_ON = ("cranfield", "cisi", "cacm", "squad-es")
NPROBES = (4, 8, 16)
SHORTLISTS = (128, 256, 512, 800)
PRUNES = (-1.0, 0.3, 0.4)
CUTS = (10, 100)


def timed(
    snapshot: Snapshot, queries: Sequence[Query], k: int, config: SearchConfig
) -> tuple[list[list[str]], dict[str, float]]:
    """Passages found for each query, and the median milliseconds of each part of a search."""
    found, parts = [], []
    for query in queries:
        begin = time.perf_counter()
        hits = search(snapshot, [query], k=k, config=config)[0]
        parts.append({"whole": time.perf_counter() - begin, **hits.timings})
        found.append([hit.id for hit in hits])
    return found, {name: round(1000 * median(p[name] for p in parts), 1) for name in parts[0]}


def measure(collection: str, folder: Path, most: int) -> list[dict[str, Any]]:
    index = coded_index(collection, folder)
    judged = read_judgements(collection)
    texts = [text for name, text in read_queries(collection).items() if name in judged][:most]
    queries = index.prepare(texts, index.snapshot)
    stats = index.stats()
    head = {"collection": collection, "tokens": stats["tokens"], "passages": stats["passages"]}
    full, times = timed(index.snapshot, queries, 100, SearchConfig("always"))
    rows: list[dict[str, Any]] = [{**head, "scan": "always", "k": 100, "ms": times}]
    print(rows[-1], flush=True)
    for k in CUTS:
        found, times = timed(index.snapshot, queries, k, SearchConfig("never"))
        rows.append({**head, "setting": "default", "k": k, "recall": shared(found, full, k), "ms": times})
        print(rows[-1], flush=True)
    for nprobe in NPROBES:
        for shortlist in SHORTLISTS:
            for prune in PRUNES:
                config = SearchConfig("never", nprobe, shortlist, prune)
                found, times = timed(index.snapshot, queries, 100, config)
                rows.append(
                    {
                        **head,
                        "nprobe": nprobe,
                        "shortlist": shortlist,
                        "prune": prune,
                        "recall@10": shared(found, full, 10),
                        "recall@100": shared(found, full, 100),
                        "ms": times,
                    }
                )
                print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collections", nargs="+", default=CHOSEN_ON)
    parser.add_argument("--queries", type=int, default=100, help="most queries of a collection")
    parser.add_argument("--indexes", type=Path, help="keep the indexes in this folder, and use those there")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for collection in options.collections:
            rows += measure(collection, options.indexes or Path(temporary), options.queries)
    write_results("prefilter", {"most_queries": options.queries, "rows": rows})


if __name__ == "__main__":
    main()

"""Quality of the default settings on the judged collections, judged by document.

    COLRANK_DATA=... python bench/quality.py [--collections NAME...] [--keep]

Each collection is indexed with the embedded encoder and every query searched by a full scan. The floors
are what part 1 set out to reach.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from judged import data_folder, measure, read_queries, write_results

from colrank import ColRank

COLLECTIONS = (
    "limit-small",
    "xquad-en",
    "xquad-es",
    "cranfield",
    "med",
    "cacm",
    "cisi",
    "scifact",
    "squad-es",
)
FLOORS = {"limit-small": 0.985, "xquad-en": 0.97, "cranfield": 0.365, "med": 0.765, "xquad-es": 0.94}
MEASURES = ("nDCG@10", "RR@10", "R@10", "R@100")


def quality(collection: str, folder: Path) -> dict[str, object]:
    """Index a collection in `folder`, search all its queries, and measure."""
    index = ColRank.create(folder / collection, overwrite=True)
    report = index.add_files(data_folder() / collection / "corpus.jsonl")
    queries = read_queries(collection)
    begin = time.perf_counter()
    hits = index.search(list(queries.values()), 100, by="document")
    seconds = time.perf_counter() - begin
    run = {
        name: [(hit.document, hit.score) for hit in found] for name, found in zip(queries, hits, strict=True)
    }
    stats = index.stats()
    return {
        "collection": collection,
        "documents": report.documents,
        "passages": report.passages,
        "tokens": report.tokens,
        "bytes_per_token": stats["bytes_per_token"],
        "weighted": stats["weighted"],
        "index_seconds": round(report.seconds, 1),
        "queries": len(queries),
        "search_ms_per_query": round(1000 * seconds / len(queries), 1),
        "warnings": report.warnings,
        **measure(collection, run, MEASURES),
        "floor": FLOORS.get(collection),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collections", nargs="+", default=COLLECTIONS)
    parser.add_argument("--indexes", type=Path, help="keep the indexes in this folder")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for collection in options.collections:
            row = quality(collection, options.indexes or Path(temporary))
            rows.append(row)
            print(row, flush=True)
    write_results("quality", {"rows": rows})
    missed = [row["collection"] for row in rows if row["floor"] and row["nDCG@10"] < row["floor"]]
    print(f"Below the floor: {', '.join(map(str, missed)) or 'none'}")


if __name__ == "__main__":
    main()

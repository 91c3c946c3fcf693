"""What token weights do: nDCG@10 of the embedded encoder without and with them.

    COLRANK_DATA=... python bench/token_weights.py [--collections NAME...]

Whole vectors, every passage scored. The weights decide nothing about an index, so both rows come from the
same vectors.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from judged import data_folder, measure, read_queries, write_results

from colrank import ColRank
from colrank.config import SearchConfig
from colrank.score import QueryVectors
from colrank.search import Query, search

COLLECTIONS = ("xquad-es", "xquad-en", "limit-small", "cisi", "med", "cranfield", "cacm")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collections", nargs="+", default=COLLECTIONS)
    options = parser.parse_args()
    rows = []
    for collection in options.collections:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(compared(collection, Path(folder)))
        print(rows[-1], flush=True)
    write_results("token_weights", {"measure": "nDCG@10", "rows": rows})


def compared(collection: str, folder: Path) -> dict[str, object]:
    index = ColRank.create(folder / "index", bits=16)
    index.add_files(data_folder() / collection / "corpus.jsonl")
    snapshot = index.snapshot
    queries = read_queries(collection)
    encoded = index.encoder.encode_queries(list(queries.values()))
    row: dict[str, object] = {
        "collection": collection,
        "default": "idf" if snapshot.weighted else "none",
    }
    for weights in ("none", "idf"):
        prepared = [
            Query(
                QueryVectors(
                    query.vectors,
                    snapshot.frequencies.weights(query.token_ids)
                    if weights == "idf"
                    else np.ones(len(query.token_ids), dtype=np.float32),
                ),
                query,
            )
            for query in encoded
        ]
        found = search(snapshot, prepared, k=10, by="document", config=SearchConfig("always"))
        run = {
            name: [(hit.document, hit.score) for hit in hits]
            for name, hits in zip(queries, found, strict=True)
        }
        row[weights] = measure(collection, run, ["nDCG@10"])["nDCG@10"]
    return row


if __name__ == "__main__":
    main()

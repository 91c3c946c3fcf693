"""What token weights do: nDCG@10 of the embedded encoder without and with them.

    COLRANK_DATA=... python bench/token_weights.py --indexes FOLDER

FOLDER holds the indexes that `bench/quality.py --indexes FOLDER` left. The weights decide nothing about an
index, so both rows come from the same vectors.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from judged import measure, read_queries, write_results

from colrank import ColRank
from colrank.score import QueryVectors
from colrank.search import Query, search


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--indexes", type=Path, required=True)
    options = parser.parse_args()
    rows = []
    for folder in sorted(path for path in options.indexes.iterdir() if path.is_dir()):
        index = ColRank.open(folder)
        snapshot = index.snapshot
        queries = read_queries(folder.name)
        encoded = index.encoder.encode_queries(list(queries.values()))
        row: dict[str, object] = {
            "collection": folder.name,
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
            found = search(snapshot, prepared, k=10, by="document")
            run = {
                name: [(hit.document, hit.score) for hit in hits]
                for name, hits in zip(queries, found, strict=True)
            }
            row[weights] = measure(folder.name, run, ["nDCG@10"])["nDCG@10"]
        print(row, flush=True)
        rows.append(row)
    write_results("token_weights", {"measure": "nDCG@10", "rows": rows})


if __name__ == "__main__":
    main()

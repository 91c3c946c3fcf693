"""Which passage length suits the embedded encoder: nDCG@10 by length on cranfield and cacm.

COLRANK_DATA=... python bench/passage_length.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from judged import data_folder, measure, read_queries, write_results

from colrank import ColRank


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collections", nargs="+", default=["cranfield", "cacm"])
    parser.add_argument("--lengths", nargs="+", type=int, default=[180, 256, 300, 512])
    options = parser.parse_args()
    rows = []
    for collection in options.collections:
        queries = read_queries(collection)
        for length in options.lengths:
            with tempfile.TemporaryDirectory() as folder:
                index = ColRank.create(Path(folder) / "index", passage_tokens=length, bits=16)
                report = index.add_files(data_folder() / collection / "corpus.jsonl")
                hits = index.search(list(queries.values()), 100, by="document", scan="always")
                run = {
                    name: [(hit.document, hit.score) for hit in found]
                    for name, found in zip(queries, hits, strict=True)
                }
            row = {
                "collection": collection,
                "passage_tokens": length,
                "passages": report.passages,
                "tokens": report.tokens,
                "seconds": round(report.seconds, 1),
                **measure(collection, run, ["nDCG@10", "RR@10", "R@100"]),
            }
            print(row, flush=True)
            rows.append(row)
    write_results("passage_length", {"rows": rows})


if __name__ == "__main__":
    main()

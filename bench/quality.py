"""What codes and prefilter cost in quality on the judged collections, judged by document.

    COLRANK_DATA=... python bench/quality.py [--collections NAME...] [--bits 2] [--indexes DIR]

Each collection is indexed with the embedded encoder and coded whatever its size. Every query is ranked by
float32 exact (brute force over the vectors before coding), by a full scan of the codes, by the prefilter
that every search is forced through, and by what `scan=auto` chooses. The floors of nDCG@10 are part 1's;
those of recall and loss are what part 2 set out to reach.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from judged import data_folder, read_judgements, read_queries, shared, write_results

from colrank import ColRank
from colrank.builder import Silent
from colrank.config import SearchConfig
from colrank.evaluate import Originals, evaluate_run, exact_documents, paired
from colrank.search import search
from colrank.types import Problems

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
RECALL_FLOORS = {10: 0.99, 100: 0.97}
MOST_QUERIES = 2000
"""Most queries of a collection that are also ranked by brute force and by a forced prefilter."""

MEASURES = ("nDCG@10", "RR@10", "R@10", "R@100")

Run = Mapping[str, list[tuple[str, float]]]


def quality(
    collection: str,
    folder: Path,
    bits: int | None = None,
    reuse: bool = False,
    most: int = MOST_QUERIES,
    first: int | None = None,
) -> dict[str, Any]:
    """Index a collection in `folder`, rank its judged queries in every way, and measure.

    `bits` None leaves storage to the defaults and measures what a user gets, without the other ways. Those
    take the first `most` queries; `first` limits the queries of all ways.
    """
    path = folder / f"{collection}-{bits or 'default'}"
    begin = time.perf_counter()
    if reuse and path.exists():
        index = ColRank.open(path)
        warnings: list[str] = []
    else:
        index = ColRank.create(path, bits=bits, overwrite=True)
        warnings = index.add_files(data_folder() / collection / "corpus.jsonl").warnings
    built = time.perf_counter() - begin
    qrels = read_judgements(collection)
    texts = {name: text for name, text in read_queries(collection).items() if name in qrels}
    texts = dict(list(texts.items())[:first])
    snapshot = index.snapshot
    prepared = dict(zip(texts, index.prepare(list(texts.values()), snapshot), strict=True))

    def ranked(k: int, scan: str) -> tuple[Run, float]:
        begin = time.perf_counter()
        found = search(snapshot, list(prepared.values()), k=k, by="document", config=SearchConfig(scan))
        seconds = time.perf_counter() - begin
        run = {
            name: [(h.document, h.score) for h in hits] for name, hits in zip(prepared, found, strict=True)
        }
        return run, 1000 * seconds / len(prepared)

    stats = index.stats()
    automatic, milliseconds = ranked(100, "auto")
    row: dict[str, Any] = {
        "collection": collection,
        "documents": stats["documents"],
        "passages": stats["passages"],
        "tokens": stats["tokens"],
        "bits": stats["bits"],
        "codec": stats["codec"],
        "bytes_per_token": stats["bytes_per_token"],
        "weighted": stats["weighted"],
        "index_seconds": round(built, 1),
        "queries": len(texts),
        "warnings": warnings,
        **_means(automatic, {name: qrels[name] for name in automatic}),
        "auto": {"scan": stats["search"]["scan"], "ms_per_query": round(milliseconds, 1)},
        "floor": FLOORS.get(collection),
    }
    if bits is None:
        return row
    prepared = dict(list(prepared.items())[:most])
    automatic = {name: automatic[name] for name in prepared}
    qrels = {name: qrels[name] for name in prepared}
    row["queries_compared"] = len(prepared)
    originals = Originals(snapshot, lambda: index.encoder, None, Problems())
    exact = exact_documents(snapshot.contents, prepared, originals, 100, Silent())
    full, full_ms = ranked(100, "always")
    forced, forced_ms = ranked(100, "never")
    few, few_ms = ranked(10, "never")
    row["recall_of_full_scan"] = {"@10": _shared(few, full, 10), "@100": _shared(forced, full, 100)}
    row["recall_of_exact"] = {"@10": _shared(few, exact, 10), "@100": _shared(forced, exact, 100)}
    row["recall_of_exact_full_scan"] = {"@10": _shared(full, exact, 10), "@100": _shared(full, exact, 100)}
    row["ms_per_query"] = {
        "full scan": round(full_ms, 1),
        "forced, k=100": round(forced_ms, 1),
        "forced, k=10": round(few_ms, 1),
    }
    row["exact"] = _means(exact, qrels)
    row["full_scan"] = _means(full, qrels)
    row["forced"] = _means(forced, qrels)
    for name, run in (("full_scan", full), ("forced", forced), ("auto", automatic)):
        row[name]["against_exact"] = _against(run, exact, qrels)
    return row


def _means(run: Run, qrels: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    values = evaluate_run(run, qrels)
    return {name: round(float(np.mean([v[name] for v in values.values()])), 4) for name in MEASURES}


def _against(run: Run, exact: Run, qrels: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """nDCG@10 less that of float32 exact, with the paired bootstrap interval."""
    ours, theirs = (
        [values["nDCG@10"] for values in evaluate_run(each, qrels).values()] for each in (run, exact)
    )
    found = paired(ours, theirs)
    return {name: round(getattr(found, name), 4) for name in ("difference", "low", "high", "p")}


def _shared(run: Run, reference: Run, cut: int) -> float:
    """Mean share of the reference's first documents that are among as many of a run's."""
    lists = ([[document for document, _ in each[query]] for query in reference] for each in (run, reference))
    return shared(*lists, cut)


def missed(row: Mapping[str, Any]) -> list[str]:
    """What of that which was set out to be reached a row does not reach."""
    out = []
    if row["floor"] and row["nDCG@10"] < row["floor"]:
        out.append(f"nDCG@10 {row['nDCG@10']} < {row['floor']}")
    if "forced" in row:
        for cut, floor in RECALL_FLOORS.items():
            if row["recall_of_full_scan"][f"@{cut}"] < floor:
                out.append(f"recall@{cut} of the full scan {row['recall_of_full_scan'][f'@{cut}']} < {floor}")
        if row["forced"]["against_exact"]["high"] < -0.01:
            out.append(f"nDCG@10 falls by {-row['forced']['against_exact']['difference']} for certain")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collections", nargs="+", default=COLLECTIONS)
    parser.add_argument("--bits", type=int, help="code with so many bits, and measure what that costs")
    parser.add_argument("--queries", type=int, help="take only so many queries of a collection")
    parser.add_argument("--indexes", type=Path, help="keep the indexes in this folder, and use those there")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for collection in options.collections:
            folder = options.indexes or Path(temporary)
            row = quality(
                collection, folder, options.bits, reuse=bool(options.indexes), first=options.queries
            )
            rows.append(row)
            print(row, flush=True)
    results: dict[str, Any] = {"rows": rows}
    if options.bits:
        differences = [row["forced"]["against_exact"]["difference"] for row in rows]
        results["mean_difference"] = round(float(np.mean(differences)), 4)
        print(f"Mean difference of nDCG@10 against float32 exact: {results['mean_difference']}")
    write_results(f"quality-{options.bits}-bits" if options.bits else "quality", results)
    for row in rows:
        for what in missed(row):
            print(f"Missed on {row['collection']}: {what}")


if __name__ == "__main__":
    main()

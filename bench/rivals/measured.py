"""From the raw results of the workers to one row a setting."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from worker_side import FEW, MANY

sys.path.append(str(Path(__file__).parents[1]))

Row = dict[str, Any]

GOALS = (0.975, 0.99, 0.995)


def row(rival: str, build: Any, search: Any, built: Row, found: Row, folder: Path, exact: np.ndarray) -> Row:
    """One setting of one rival, as it is kept and shown."""
    from judged import shared

    best = exact[: len(found["ids"])].tolist()
    # What a query takes is its median over the rounds; then the quantiles are over queries.
    times = np.median(np.asarray(found["latency_ms"]), axis=0)
    return {
        "rival": rival,
        "build": build,
        "search": search,
        "recall@10": shared(found["ids"], best, FEW),
        "recall@100": shared(found["deep_ids"], best, MANY),
        **_judged(folder, found["ids"]),
        "fewest_hits": min(map(len, found["ids"])),
        "median_ms": round(float(np.median(times)), 2),
        "p95_ms": round(float(np.quantile(times, 0.95)), 2),
        "rounds": len(found["latency_ms"]),
        "timed_queries": len(times),
        "batch_per_second": round(found["batch"]["per_second"], 2),
        "batch_queries": found["batch"]["queries"],
        "build_seconds": round(built["seconds"], 1),
        "bytes": built["bytes"],
        "bytes_per_token": round(built["bytes"] / built["tokens"], 1),
        "build_peak_resident_mb": round(built["peak_resident"] / 1e6),
        "build_peak_anonymous_mb": round(built["peak_anonymous"] / 1e6),
        "anonymous_mb": round(found["memory"]["anonymous"] / 1e6),
        "file_backed_mb": round(found["memory"]["file_backed"] / 1e6),
        "anonymous_before_open_mb": round(found["memory_before"]["anonymous"] / 1e6),
        "open_seconds": round(found["open_seconds"], 2),
        "pace_gflops": found["pace_gflops"],
        "versions": found["versions"],
    }


def _judged(folder: Path, ids: Sequence[Sequence[int]]) -> dict[str, float]:
    """nDCG@10, where the passages are the documents that were judged."""
    from judged import read_judgements

    from colrank.evaluate import evaluate_run

    about = json.loads((folder / "about.json").read_text())
    if about["drawn"]:
        return {}
    names = json.loads((folder / "passage_ids.json").read_text())
    queries = json.loads((folder / "query_ids.json").read_text())[: len(ids)]
    run = {
        query: [(names[number], float(FEW - rank)) for rank, number in enumerate(found[:FEW])]
        for query, found in zip(queries, ids, strict=True)
    }
    # Queries that were not asked must not count as answered wrongly.
    judged = read_judgements(about["collection"])
    values = evaluate_run(run, {query: judged[query] for query in run})
    return {"nDCG@10": round(float(np.mean([found["nDCG@10"] for found in values.values()])), 4)}


def fastest(rows: Sequence[Row], goal: float) -> list[Row]:
    """Of each rival the fastest setting that reaches a recall@10, fastest first. Not all do."""
    best: dict[str, Row] = {}
    for each in rows:
        known = best.get(each["rival"])
        if each["recall@10"] >= goal and (known is None or each["median_ms"] < known["median_ms"]):
            best[each["rival"]] = each
    return sorted(best.values(), key=lambda each: each["median_ms"])

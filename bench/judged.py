"""Judged collections in BEIR layout, and how a run over one is measured. Shared by the benchmarks."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import torch

from colrank import ColRank

RESULTS = Path(__file__).parent / "results"


def data_folder() -> Path:
    """Folder of the judged collections, named by COLRANK_DATA."""
    named = os.environ.get("COLRANK_DATA")
    if not named:
        raise SystemExit("Set COLRANK_DATA to the folder that holds the judged collections (BEIR layout).")
    return Path(named)


def read_queries(collection: str) -> dict[str, str]:
    """Queries by id."""
    lines = (data_folder() / collection / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return {record["_id"]: record["text"] for record in map(json.loads, lines)}


def read_qrels(collection: str) -> list[ir_measures.Qrel]:
    """Judgements; grades below 1 are kept as not relevant."""
    lines = (data_folder() / collection / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines[1:])
    return [ir_measures.Qrel(query, document, int(float(grade))) for query, document, grade in rows]


def read_judgements(collection: str) -> dict[str, dict[str, int]]:
    """Grades by query and document, of queries with a relevant document."""
    found: dict[str, dict[str, int]] = {}
    for qrel in read_qrels(collection):
        found.setdefault(qrel.query_id, {})[qrel.doc_id] = qrel.relevance
    return {query: grades for query, grades in found.items() if max(grades.values()) >= 1}


def coded_index(collection: str, folder: Path) -> ColRank:
    """The index of a collection by the defaults but for 2 bits, made in `folder` unless it is there."""
    path = folder / f"{collection}-2"
    if path.exists():
        return ColRank.open(path)
    index = ColRank.create(path, bits=2)
    index.add_files(data_folder() / collection / "corpus.jsonl")
    return index


def shared(found: Iterable[Sequence[str]], reference: Iterable[Sequence[str]], cut: int) -> float:
    """Mean share of each reference's first ids that are among as many of what was found."""
    shares = [
        len(set(ours[:cut]) & set(best[:cut])) / len(best[:cut])
        for ours, best in zip(found, reference, strict=True)
        if best
    ]
    return round(float(np.mean(shares)), 4)


def measure(
    collection: str, run: Mapping[str, Iterable[tuple[str, float]]], names: Iterable[str]
) -> dict[str, float]:
    """Mean of each measure (such as nDCG@10) over the judged queries of a collection."""
    scored = [
        ir_measures.ScoredDoc(query, document, score)
        for query, ranked in run.items()
        for document, score in ranked
    ]
    measures = [ir_measures.parse_measure(name) for name in names]
    found = ir_measures.calc_aggregate(measures, read_qrels(collection), scored)
    return {str(measure): round(float(value), 4) for measure, value in found.items()}


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    return {
        "processor": model,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def write_results(name: str, results: Mapping[str, Any]) -> None:
    """Keep figures, with the machine, as `results/NAME.json`."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **results}, indent=1, ensure_ascii=False) + "\n")
    print(f"Wrote {path}")

"""What every worker does alike: read the shared vectors, search, take times and memory, write JSON.

Runs in the environment of each rival, so that it imports NumPy and nothing else.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

FEW, MANY = 10, 100
"""Hits of the timed searches, and hits of one more pass, for recall@100."""

QUERIES_BEFORE_MEMORY = 100


class Shared:
    """The vectors that all are given, in one folder.

    Attributes:
        vectors: float16 `[tokens, dim]`, memory-mapped.
        offsets: int64 `[passages + 1]`, where each passage begins.
        queries: float32 `[tokens, dim]`, one array a query.
    """

    def __init__(self, folder: Path) -> None:
        self.vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        self.offsets = np.load(folder / "offsets.npy")
        asked = np.load(folder / "queries.npy")
        begins = np.load(folder / "query_offsets.npy")
        self.queries = [asked[a:b] for a, b in pairwise(begins)]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def passage(self, number: int) -> np.ndarray:
        """The vectors of one passage, float16 `[tokens, dim]`, copied."""
        return np.array(self.vectors[self.offsets[number] : self.offsets[number + 1]])


class Engine(Protocol):
    """An opened index. What is timed is `one` and `many`; the other two only convert."""

    def query(self, vectors: np.ndarray) -> Any:
        """A query as the engine takes it."""

    def one(self, query: Any, k: int) -> Any:
        """The best passages of one query, as the engine gives them."""

    def many(self, queries: Sequence[Any], k: int) -> Sequence[Any]:
        """The same of several at once, by whatever the engine offers for that."""

    def ids(self, found: Any) -> list[int]:
        """Numbers of the passages, best first."""


Build = Callable[[Shared, Path, dict[str, Any]], None]
Open = Callable[[Path, dict[str, Any], dict[str, Any]], Engine]
"""The folder of an index, what it was built with, and how it is to be searched."""


def memory() -> dict[str, int]:
    """Resident bytes now: anonymous ones, and those that a file on disk stands behind."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}
    anonymous = kilobytes["Anonymous"]
    return {"anonymous": 1024 * anonymous, "file_backed": 1024 * (kilobytes["Rss"] - anonymous)}


def _peak() -> int:
    """Most resident bytes so far; what getrusage says begins with the size of the process before us."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def size_on_disk(folder: Path) -> int:
    """Bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def work(
    packages: Sequence[str],
    build: Build,
    opened: Open,
    prepare: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    """Do the job that is named on the command line, and write what came of it.

    Args:
        packages: whose versions are written down.
        build: makes an index.
        opened: opens one.
        prepare: done before anything is timed, with the settings of the index.
    """
    job = json.loads(Path(sys.argv[1]).read_text())
    shared, folder = Shared(Path(job["vectors"])), Path(job["index"])
    versions = {"python": sys.version.split()[0], **{name: version(name) for name in packages}}
    if prepare is not None:
        prepare(job["build"])
    if job["step"] == "build":
        found = _build(shared, folder, job["build"], build)
    else:
        before = memory()
        begin = time.perf_counter()
        engine = opened(folder, job["build"], job["search"])
        found = {"open_seconds": time.perf_counter() - begin, "memory_before": before}
        found |= search(engine, shared.queries[: job["queries"]], job)
    result = {"versions": versions, **found}
    Path(job["result"]).write_text(json.dumps(result))


def _build(shared: Shared, folder: Path, settings: dict[str, Any], build: Build) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    build(shared, folder, settings)
    return {
        "seconds": time.perf_counter() - begin,
        "bytes": size_on_disk(folder),
        "tokens": int(shared.offsets[-1]),
        "peak_resident": _peak(),
    }


def search(engine: Engine, vectors: Sequence[np.ndarray], job: dict[str, Any]) -> dict[str, Any]:
    """Ask an engine everything: a first pass that also warms up, memory, hits, times, and all at once."""
    queries = [engine.query(each) for each in vectors]
    ids, held = [], memory()
    for number in range(max(len(queries), QUERIES_BEFORE_MEMORY)):
        found = engine.ids(engine.one(queries[number % len(queries)], FEW))
        if number < len(queries):
            ids.append(found)
        if number + 1 == QUERIES_BEFORE_MEMORY:
            held = memory()
    latency = rounds(engine, queries[: job["timed"]], job["rounds"], job["seconds"])
    batch = batches(engine, queries, job["seconds"], float(np.median(latency)) / 1000)
    deep = [engine.ids(engine.one(query, MANY)) for query in queries]
    return {"ids": ids, "memory": held, "latency_ms": latency, "batch": batch, "deep_ids": deep}


def rounds(engine: Engine, queries: Sequence[Any], most: int, seconds: float) -> list[list[float]]:
    """Milliseconds of every query in each round. A round asks all of them once, in an order of its own.

    So noise of the machine, and what a query leaves in the caches for the next, falls on all alike. No
    round begins after `seconds`.
    """
    taken: list[list[float]] = []
    begin = time.perf_counter()
    while len(taken) < most and (not taken or time.perf_counter() - begin < seconds):
        times = [0.0] * len(queries)
        for at in np.random.default_rng(len(taken)).permutation(len(queries)):
            start = time.perf_counter()
            engine.one(queries[at], FEW)
            times[at] = 1000 * (time.perf_counter() - start)
        taken.append(times)
    return taken


def batches(engine: Engine, queries: Sequence[Any], seconds: float, each: float) -> dict[str, Any]:
    """Queries a second when all are given at once: the median of three goes, or of one where that is slow."""
    asked = list(queries[: max(1, min(len(queries), int(seconds / max(each, 1e-9))))])
    taken: list[float] = []
    while len(taken) < 3 and sum(taken) < seconds / 2:
        start = time.perf_counter()
        engine.many(asked, FEW)
        taken.append(time.perf_counter() - start)
    return {"queries": len(asked), "seconds": taken, "per_second": len(asked) / float(np.median(taken))}

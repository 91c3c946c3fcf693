"""Memory of a large index: a million short passages streamed in, compacted, and searched memory-mapped.

    python bench/scale.py [--passages 1000000] [--dim 128] [--centroids 16384] [--bits 2] [--folder FOLDER]

Vectors are drawn around random centres, 16 tokens a passage, and come from a generator. Anonymous memory is
what the process asked for, without the mapped files of the index; its peak is read ten times a second.

    add      the whole as one stream: peak, seconds, bytes
    more     1,000 passages more, beside the coding of these alone
    delete   100 ids, and their share of an add
    compact  after a tenth was deleted: peak
    search   median milliseconds through the prefilter, and memory of a process that only searches
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from judged import write_results
from numpy.typing import NDArray

from colrank import ColRank

TOKENS = 16
CENTRES = 4096
_BLOCK = 2048


class Peak:
    """The most anonymous memory of this process while the context is open, in bytes."""

    def __enter__(self) -> Peak:
        self.bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self._begin = time.perf_counter()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.bytes = max(self.bytes, anonymous())

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._begin
        self.bytes = max(self.bytes, anonymous())
        self._stop.set()
        self._thread.join()

    def told(self) -> dict[str, Any]:
        """For the results."""
        return {"peak_anonymous_mb": round(self.bytes / 1e6), "seconds": round(self.seconds, 2)}


def anonymous() -> int:
    """Anonymous memory of this process now, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    return 0


def passages(count: int, dim: int, seed: int = 0) -> Iterator[NDArray[np.float32]]:
    """Unit vectors `[TOKENS, dim]` of so many passages: noise around random centres."""
    centres = np.random.default_rng(7).standard_normal((CENTRES, dim)).astype(np.float32)
    random = np.random.default_rng(seed)
    for first in range(0, count, _BLOCK):
        size = min(_BLOCK, count - first)
        block = centres[random.integers(0, CENTRES, (size, TOKENS))]
        block += 0.7 * random.standard_normal(block.shape, dtype=np.float32)
        block /= np.linalg.norm(block, axis=2, keepdims=True)
        yield from block


def searched(folder: str, dim: int) -> None:
    """Search an index in a process of its own, and print what it took."""
    index = ColRank.open(folder)
    queries = list(passages(22, dim, seed=11))
    times = []
    for query in queries:
        begin = time.perf_counter()
        assert len(index.search(query, 10)) == 10
        times.append(time.perf_counter() - begin)
    print(round(1000 * median(times[2:]), 1), round(anonymous() / 1e6))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--centroids", type=int, default=16_384)
    parser.add_argument("--bits", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="Where the index is made; a folder of its own otherwise.")
    parser.add_argument("--searched", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.searched:
        searched(given.searched, given.dim)
        return
    results: dict[str, Any] = {
        "passages": given.passages,
        "tokens": given.passages * TOKENS,
        "dim": given.dim,
        "bits": given.bits,
        "centroids": given.centroids,
        "before_mb": round(anonymous() / 1e6),
    }
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        folder = Path(place) / "scale.index"
        index = ColRank.create(folder, model=None, bits=given.bits, centroids=given.centroids)
        with Peak() as peak:
            index.add_embeddings(
                [f"p{number}" for number in range(given.passages)], passages(given.passages, given.dim)
            )
        results["add"] = peak.told()
        told = index.stats()
        results["bytes"] = told["bytes"]
        print("add", results["add"], flush=True)
        more = list(passages(1000, given.dim, seed=5))
        with Peak() as peak:
            index.add_embeddings([f"m{number}" for number in range(1000)], more)
        stacked = np.concatenate(more)
        begin = time.perf_counter()
        index.snapshot.codec.encode(stacked)
        coding = time.perf_counter() - begin
        results["more"] = {**peak.told(), "coding_seconds": round(coding, 3)}
        results["more"]["times_coding"] = round(peak.seconds / coding, 2)
        print("more", results["more"], flush=True)
        with Peak() as peak:
            index.delete([f"p{number}" for number in range(100)])
        results["delete"] = peak.told()
        print("delete", results["delete"], flush=True)
        index.delete([f"p{number}" for number in range(100, given.passages // 10)])
        with Peak() as peak:
            index.compact()
        results["compact"] = peak.told()
        print("compact", results["compact"], flush=True)
        command = [sys.executable, __file__, "--searched", str(folder), "--dim", str(given.dim)]
        milliseconds, megabytes = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.split()
        results["search"] = {"ms": float(milliseconds), "anonymous_mb": int(megabytes)}
        print("search", results["search"], flush=True)
    write_results("scale", results)


if __name__ == "__main__":
    main()

"""MaxSim alone, in memory: who scores 1,000 passages of about 120 tokens for 32 query tokens how fast.

Every answer is held against float64 over the float32 vectors that all are given. The floor is the matrix
product of that shape alone, without the maximum and the sum: nothing that multiplies float32 numbers can be
faster on this machine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fast_maxsim
import maxsim_cpu
import numpy as np
import torch
from worker_side import Shared

from colrank import ColRank
from colrank.score import QueryVectors, scan

PASSAGES, TOKENS, LONGEST = 1000, 120, 32
QUERIES, ROUNDS = 20, 15
SETTLE_SECONDS = 0.02
"""Between two contenders: threads that wait for work by spinning have gone to sleep by then."""

Kernel = Callable[[np.ndarray], np.ndarray]
"""A query `[32, dim]` to scores of all passages."""


def passages(shared: Shared) -> list[np.ndarray]:
    """Passages, each cut to a length that is drawn around 120, float32, unit vectors."""
    random = np.random.default_rng(0)
    lengths = random.normal(TOKENS, 30, size=PASSAGES).clip(40, 200).astype(int)
    found = []
    for at, length in zip(random.choice(len(shared), PASSAGES, replace=False), lengths, strict=True):
        block = shared.passage(int(at))[:length].astype(np.float32)
        found.append(block / np.linalg.norm(block, axis=1, keepdims=True))
    return found


def queries(shared: Shared) -> list[np.ndarray]:
    """Tokens of real queries, one query after the other, in pieces of 32."""
    tokens = np.concatenate(shared.queries)
    tokens = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
    return [np.ascontiguousarray(tokens[a : a + LONGEST]) for a in range(0, QUERIES * LONGEST, LONGEST)]


def colrank_kernel(index: ColRank) -> Kernel | None:
    """colrank's scoring of all passages from their 2-bit codes; None where it has no native kernels.

    What it takes includes comparing the query with all centroids.

    Args:
        index: the passages, coded with 2 bits, in order: passage n is document "n".
    """
    contents = index.snapshot.contents
    if contents.vectors.native is None:
        return None
    weights = np.ones(LONGEST, dtype=np.float32)
    return lambda query: scan([QueryVectors(query, weights)], contents.vectors, contents.offsets)[0].values


def torch_packed(blocks: Sequence[np.ndarray]) -> Kernel:
    turned = torch.from_numpy(np.concatenate(blocks)).T
    begins = np.concatenate([[0], np.cumsum([len(block) for block in blocks])[:-1]])

    def scores(query: np.ndarray) -> np.ndarray:
        # NumPy's maximum over stretches is many times as fast as torch's own.
        return np.maximum.reduceat((torch.from_numpy(query) @ turned).numpy(), begins, axis=1).sum(0)

    return scores


def torch_padded(blocks: Sequence[np.ndarray]) -> Kernel:
    """Passages of like length side by side, padded with their last vector: no maximum changes."""
    order = np.argsort([len(block) for block in blocks])
    groups = []
    for places in np.array_split(order, 8):
        longest = max(len(blocks[at]) for at in places)
        padded = [np.pad(blocks[at], ((0, longest - len(blocks[at])), (0, 0)), "edge") for at in places]
        groups.append((torch.from_numpy(places), torch.from_numpy(np.stack(padded))))

    def scores(query: np.ndarray) -> np.ndarray:
        found = torch.empty(len(blocks))
        turned = torch.from_numpy(query).T
        for places, padded in groups:
            similar = padded.reshape(-1, padded.shape[2]) @ turned
            found[places] = similar.reshape(len(padded), -1, len(query)).amax(1).sum(1)
        return found.numpy()

    return scores


def variable(module: Any) -> Callable[[Sequence[np.ndarray]], Kernel]:
    """What maxsim-cpu and its fork offer for passages of different lengths."""

    def prepared(blocks: Sequence[np.ndarray]) -> Kernel:
        held = list(blocks)
        return lambda query: np.asarray(module.maxsim_scores_variable(query, held))

    return prepared


def coded(blocks: Sequence[np.ndarray], folder: Path) -> ColRank:
    if not folder.exists():
        made = ColRank.create(folder, model=None, bits=2)
        made.add_embeddings([str(number) for number in range(len(blocks))], blocks)
    return ColRank.open(folder)


def floor(blocks: Sequence[np.ndarray], asked: Sequence[np.ndarray]) -> dict[str, float]:
    """Milliseconds of the product alone, the better of its two orientations, and its operations a second."""
    tokens = torch.from_numpy(np.concatenate(blocks))
    query = torch.from_numpy(asked[0])
    turned, upright = query.T.contiguous(), tokens.T.contiguous()
    ways = {
        "tokens_by_query": (tokens, turned, torch.empty(len(tokens), len(query))),
        "query_by_tokens": (query, upright, torch.empty(len(query), len(tokens))),
        "query_by_turned_tokens": (query, tokens.T, torch.empty(len(query), len(tokens))),
    }
    spent = {}
    for name, (left, right, out) in ways.items():
        times = []
        for _ in range(ROUNDS * 3):
            begin = time.perf_counter()
            torch.mm(left, right, out=out)
            times.append(time.perf_counter() - begin)
        spent[name] = 1000 * float(np.median(times))
    best = min(spent.values())
    work = 2 * len(tokens) * len(query) * tokens.shape[1]
    return {**spent, "floor_ms": best, "gflops": work / best / 1e6}


def compared(
    kernels: dict[str, Kernel], blocks: Sequence[np.ndarray], asked: Sequence[np.ndarray]
) -> list[dict[str, Any]]:
    exact = [
        np.array([(block.astype(np.float64) @ query.T.astype(np.float64)).max(0).sum() for block in blocks])
        for query in asked
    ]
    times: dict[str, list[float]] = {name: [] for name in kernels}
    for turn in range(ROUNDS + 1):
        for name, kernel in kernels.items():
            time.sleep(SETTLE_SECONDS)
            kernel(asked[turn % len(asked)])  # wakes its threads; what is timed comes next
            begin = time.perf_counter()
            kernel(asked[turn % len(asked)])
            if turn:
                times[name].append(1000 * (time.perf_counter() - begin))
    rows = []
    for name, kernel in kernels.items():
        found = [np.asarray(kernel(query), dtype=np.float64) for query in asked]
        recall = [
            len(set(np.argsort(-ours)[:10].tolist()) & set(np.argsort(-best)[:10].tolist())) / 10
            for ours, best in zip(found, exact, strict=True)
        ]
        rows.append(
            {
                "kernel": name,
                "median_ms": round(float(np.median(times[name])), 3),
                "least_ms": round(min(times[name]), 3),
                "recall@10": round(float(np.mean(recall)), 4),
                "largest_error": float(
                    f"{max(np.abs(ours - best).max() for ours, best in zip(found, exact, strict=True)):.2g}"
                ),
            }
        )
    return sorted(rows, key=lambda each: each["median_ms"])


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    shared = Shared(Path(job["vectors"]))
    blocks, asked = passages(shared), queries(shared)
    kernels = {
        "torch, packed": torch_packed(blocks),
        "torch, padded": torch_padded(blocks),
        "maxsim-cpu": variable(maxsim_cpu)(blocks),
        "fast-maxsim": variable(fast_maxsim)(blocks),
    }
    ours = colrank_kernel(coded(blocks, Path(job["index"])))
    if ours is not None:
        kernels["colrank, 2-bit codes"] = ours
    tokens = sum(map(len, blocks))
    result = {
        "shape": {"passages": len(blocks), "tokens": tokens, "query_tokens": LONGEST, "dim": 128},
        "floor": floor(blocks, asked),
        "rows": compared(kernels, blocks, asked),
        "versions": {name: version(name) for name in ("torch", "maxsim-cpu", "fast-maxsim", "colrank")},
    }
    Path(job["result"]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()

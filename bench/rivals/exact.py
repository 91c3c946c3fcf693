"""The exact answers: brute force in float32 over the shared vectors, the best hundred of each query."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from worker_side import MANY, Shared

BLOCK_SCORES = 1 << 26


def exact(folder: Path) -> np.ndarray:
    """Numbers of the best passages, best first, int64 `[queries, 100]`; made where they are not there.

    The about-file then says, too, how far the tenth and the eleventh are apart: where that is next to
    nothing, recall@10 judges noise.
    """
    kept = folder / "exact.npy"
    if kept.exists():
        return np.load(kept)
    shared = Shared(folder)
    scores = _scores(shared)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :MANY]
    values = np.take_along_axis(scores, best, axis=1)
    about = json.loads((folder / "about.json").read_text())
    if values.shape[1] > 10:
        about["median_gap_10_11"] = float(np.median(values[:, 9] - values[:, 10]))
        about["median_gap_1_10"] = float(np.median(values[:, 0] - values[:, 9]))
    (folder / "about.json").write_text(json.dumps(about, indent=1))
    np.save(folder / "exact_scores.npy", values)
    np.save(kept, best)
    return best


def _scores(shared: Shared) -> np.ndarray:
    """MaxSim of every query and passage, float32 `[queries, passages]`."""
    asked = torch.from_numpy(np.concatenate(shared.queries))
    begins = np.concatenate([[0], np.cumsum([len(query) for query in shared.queries])[:-1]])
    scores = np.empty((len(shared.queries), len(shared)), np.float32)
    most = max(1, BLOCK_SCORES // len(asked))
    first = 0
    while first < len(shared):
        last = int(np.searchsorted(shared.offsets, shared.offsets[first] + most, side="right")) - 1
        last = max(first + 1, last)
        start, end = shared.offsets[first], shared.offsets[last]
        block = torch.from_numpy(np.array(shared.vectors[start:end], dtype=np.float32))
        # The tokens of a passage side by side in memory: their maximum is then found thirty times as fast.
        similar = (asked @ block.T).numpy()
        best = np.maximum.reduceat(similar, shared.offsets[first:last] - start, axis=1)
        scores[:, first:last] = np.add.reduceat(best, begins, axis=0)
        first = last
    return scores

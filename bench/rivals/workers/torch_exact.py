"""Plain torch over whole float32 vectors: every passage is scored, and nothing is approximate."""

# ruff: noqa: D102 (what an engine's methods do is said by `worker_side.Engine`)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from worker_side import Shared, work

BLOCK = 1 << 16


def build(shared: Shared, folder: Path, settings: dict[str, Any]) -> None:  # noqa: ARG001
    whole = np.lib.format.open_memmap(folder / "whole.npy", "w+", np.float32, shared.vectors.shape)
    for first in range(0, len(whole), BLOCK):
        whole[first : first + BLOCK] = shared.vectors[first : first + BLOCK]
    whole.flush()
    np.save(folder / "offsets.npy", shared.offsets)


class Opened:
    """All vectors in memory, in blocks of whole passages whose similarities fit the caches."""

    def __init__(self, folder: Path, built: dict[str, Any], settings: dict[str, Any]) -> None:
        vectors = torch.from_numpy(np.load(folder / "whole.npy"))
        offsets = np.load(folder / "offsets.npy")
        self._blocks = []
        first = 0
        while first < len(offsets) - 1:
            last = int(np.searchsorted(offsets, offsets[first] + settings["block"], side="right")) - 1
            last = max(first + 1, last)
            begins = offsets[first:last] - offsets[first]
            self._blocks.append((vectors[offsets[first] : offsets[last]].T, begins))
            first = last

    def query(self, vectors: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(vectors)

    @torch.inference_mode()
    def one(self, query: torch.Tensor, k: int) -> torch.Tensor:
        scores = []
        for turned, begins in self._blocks:
            # NumPy's maximum over stretches is many times as fast as torch's own.
            scores.append(np.maximum.reduceat((query @ turned).numpy(), begins, axis=1).sum(0))
        scored = torch.from_numpy(np.concatenate(scores))
        return torch.topk(scored, min(k, len(scored))).indices

    def many(self, queries: Sequence[torch.Tensor], k: int) -> list[torch.Tensor]:
        return [self.one(query, k) for query in queries]

    def ids(self, found: torch.Tensor) -> list[int]:
        return found.tolist()


if __name__ == "__main__":
    work(["torch", "numpy"], build, Opened)

"""xtr-warp-rs: WARP in Rust over torch, with its own settings for the index's size where none are given."""

# ruff: noqa: D102 (what an engine's methods do is said by `worker_side.Engine`)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from worker_side import Shared, work
from xtr_warp import XTRWarp


def build(shared: Shared, folder: Path, settings: dict[str, Any]) -> None:
    passages = [torch.from_numpy(shared.passage(number)) for number in range(len(shared))]
    XTRWarp(str(folder)).create(passages, device="cpu", show_progress=False, **settings)


class Opened:
    """An index of xtr-warp-rs, memory-mapped as it is by default."""

    def __init__(self, folder: Path, built: dict[str, Any], settings: dict[str, Any]) -> None:
        self._index = XTRWarp(str(folder))
        self._index.load("cpu")
        # One thread is its default; two are what everybody has here.
        self._settings = {"show_progress": False, "num_threads": 2, **settings}

    def query(self, vectors: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(vectors)

    def one(self, query: torch.Tensor, k: int) -> Any:
        return self._index.search(query, top_k=k, **self._settings)[0]

    def many(self, queries: Sequence[torch.Tensor], k: int) -> Any:
        return self._index.search(list(queries), top_k=k, **self._settings)

    def ids(self, found: Any) -> list[int]:
        return [int(number) for number, _ in found]


if __name__ == "__main__":
    work(["xtr-warp-rs", "torch", "numpy"], build, Opened)

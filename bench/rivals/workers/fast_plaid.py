"""fast-plaid: PLAID in Rust over torch."""

# ruff: noqa: D102 (what an engine's methods do is said by `worker_side.Engine`)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fast_plaid.search import FastPlaid
from worker_side import Shared, work


def build(shared: Shared, folder: Path, settings: dict[str, Any]) -> None:
    passages = [torch.from_numpy(shared.passage(number)) for number in range(len(shared))]
    FastPlaid(str(folder), device="cpu").create(passages, **settings)


class Opened:
    """An index of fast-plaid."""

    def __init__(self, folder: Path, built: dict[str, Any], settings: dict[str, Any]) -> None:
        self._index = FastPlaid(str(folder), device="cpu")
        self._settings = {"show_progress": False, **settings}

    def query(self, vectors: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(vectors)

    def one(self, query: torch.Tensor, k: int) -> Any:
        return self._index.search(query[None], top_k=k, **self._settings)[0]

    def many(self, queries: Sequence[torch.Tensor], k: int) -> Any:
        return self._index.search(list(queries), top_k=k, **self._settings)

    def ids(self, found: Any) -> list[int]:
        return [int(number) for number, _ in found]


if __name__ == "__main__":
    work(["fast-plaid", "torch", "numpy"], build, Opened)

"""colrank by its public interface, fed with vectors."""

# ruff: noqa: D102 (what an engine's methods do is said by `worker_side.Engine`)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from worker_side import Shared, work

from colrank import ColRank
from colrank.types import Hits


def build(shared: Shared, folder: Path, settings: dict[str, Any]) -> None:
    names = [str(number) for number in range(len(shared))]
    arrays = (shared.passage(number).astype(np.float32) for number in range(len(shared)))
    # Without a model there are no token weights: every query token counts 1.
    ColRank.create(folder / "index", model=None, **settings).add_embeddings(names, arrays)


class Opened:
    """An index of colrank."""

    def __init__(self, folder: Path, built: dict[str, Any], settings: dict[str, Any]) -> None:
        self._index = ColRank.open(folder / "index")
        self._settings = settings

    def query(self, vectors: np.ndarray) -> np.ndarray:
        return vectors

    def one(self, query: np.ndarray, k: int) -> Hits:
        return self._index.search(query, k, **self._settings)

    def many(self, queries: Sequence[np.ndarray], k: int) -> list[Hits]:
        return self._index.search(list(queries), k, **self._settings)

    def ids(self, found: Hits) -> list[int]:
        return [int(hit.document) for hit in found]


if __name__ == "__main__":
    work(["colrank", "torch", "numpy"], build, Opened)

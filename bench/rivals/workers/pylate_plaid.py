"""PyLate's PLAID index: fast-plaid behind it by default, its own Python one with use_fast=False."""

# ruff: noqa: D102 (what an engine's methods do is said by `worker_side.Engine`)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pylate.indexes import PLAID
from worker_side import Shared, work


def opened(folder: Path, override: bool, settings: dict[str, Any]) -> PLAID:
    return PLAID(str(folder), "index", override, device="cpu", show_progress=False, **settings)


def build(shared: Shared, folder: Path, settings: dict[str, Any]) -> None:
    passages: list[Any] = [shared.passage(number) for number in range(len(shared))]
    if settings.get("use_fast", True):
        passages = [torch.from_numpy(passage) for passage in passages]
    names = [str(number) for number in range(len(shared))]
    opened(folder, True, settings).add_documents(documents_ids=names, documents_embeddings=passages)


def compile_extensions(built: dict[str, Any]) -> None:
    """What its own index compiles on first use, so that this counts in no time."""
    if built.get("use_fast", True):
        return
    from pylate.indexes.stanford_nlp.indexing.codecs.residual import ResidualCodec
    from pylate.indexes.stanford_nlp.modeling import colbert
    from pylate.indexes.stanford_nlp.search.index_storage import IndexScorer

    ResidualCodec.try_load_torch_extensions(False)
    IndexScorer.try_load_torch_extensions(False)
    colbert.try_load_torch_extensions(False)


class Opened:
    """An index of PyLate."""

    def __init__(self, folder: Path, built: dict[str, Any], settings: dict[str, Any]) -> None:
        self._index = opened(folder, False, {**built, **settings})

    def query(self, vectors: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(vectors)

    def one(self, query: torch.Tensor, k: int) -> Any:
        return self._index([query], k=k)[0]

    def many(self, queries: Sequence[torch.Tensor], k: int) -> Any:
        return self._index(list(queries), k=k)

    def ids(self, found: Any) -> list[int]:
        return [int(hit["id"]) for hit in found]


if __name__ == "__main__":
    work(["pylate", "fast-plaid", "torch", "numpy"], build, Opened, compile_extensions)

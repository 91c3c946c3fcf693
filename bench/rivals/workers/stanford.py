"""Stanford's ColBERT engine (PLAID in torch and C++), fed with given vectors in the place of an encoder's.

Its indexer asks an encoder for the vectors of passages, and its searcher encodes text; the two classes below
stand where these are, and all else is its own: training, coding, candidates, scores.
"""

# ruff: noqa: D102 (what an engine's methods do is said by `worker_side.Engine`)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from colbert.data import Collection
from colbert.indexing.codecs.residual import ResidualCodec
from colbert.indexing.collection_indexer import CollectionIndexer
from colbert.indexing.index_saver import IndexSaver
from colbert.infra.config import ColBERTConfig
from colbert.modeling.colbert import ColBERT
from colbert.search.index_storage import IndexScorer
from colbert.searcher import Searcher
from worker_side import Shared, work

LONGEST_QUERY = 512


class GivenVectors:
    """Stands for the encoder: passages are numbers, and their vectors are there already."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def encode_passages(self, passages: Sequence[int]) -> tuple[torch.Tensor | None, list[int] | None]:
        if not passages:
            return None, None
        blocks = [self._shared.passage(number) for number in passages]
        vectors = torch.from_numpy(np.concatenate(blocks)).float()
        return vectors, [len(block) for block in blocks]


class Indexer(CollectionIndexer):
    """Its indexer without a checkpoint."""

    def __init__(self, config: ColBERTConfig, shared: Shared) -> None:
        self.verbose = 0
        self.config = config
        self.rank, self.nranks = config.rank, config.nranks
        self.use_gpu = False
        self.collection = Collection(data=list(range(len(shared))))
        self.encoder = GivenVectors(shared)
        self.saver = IndexSaver(config)


class GivenQueries(Searcher):
    """Its searcher without a checkpoint."""

    def __init__(self, config: ColBERTConfig, ranker: IndexScorer) -> None:
        self.config = config
        self.ranker = ranker


def build(shared: Shared, folder: Path, settings: dict[str, Any]) -> None:
    dim = int(shared.vectors.shape[1])
    config = ColBERTConfig(index_path=str(folder), dim=dim, gpus=0, **settings)
    Indexer(config, shared).run([[]])


def compile_extensions(built: dict[str, Any]) -> None:  # noqa: ARG001
    """What it compiles on first use, so that this counts in no time."""
    for part in (ResidualCodec, IndexScorer, ColBERT):
        part.try_load_torch_extensions(False)


class Opened:
    """An opened index. The searcher keeps the settings of its first k for ever, so each k has its own."""

    def __init__(self, folder: Path, built: dict[str, Any], settings: dict[str, Any]) -> None:
        self._ranker = IndexScorer(str(folder), use_gpu=False)
        self._folder, self._settings = folder, settings
        self._searchers: dict[int, GivenQueries] = {}

    def _searcher(self, k: int) -> GivenQueries:
        if k not in self._searchers:
            config = ColBERTConfig.load_from_index(str(self._folder))
            # Candidates come from the first so many tokens of a query only; all of them are wanted here.
            config.configure(query_maxlen=LONGEST_QUERY, gpus=0, **self._settings)
            self._searchers[k] = GivenQueries(config, self._ranker)
        return self._searchers[k]

    def query(self, vectors: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(vectors)[None]

    def one(self, query: torch.Tensor, k: int) -> Any:
        return self._searcher(k).dense_search(query, k)

    def many(self, queries: Sequence[torch.Tensor], k: int) -> Any:
        # Its own search over many queries is this loop.
        return [self.one(query, k) for query in queries]

    def ids(self, found: Any) -> list[int]:
        return [int(number) for number in found[0]]


if __name__ == "__main__":
    work(["colbert-ai", "torch", "transformers", "faiss-cpu", "numpy"], build, Opened, compile_extensions)

"""LanceDB: a column of multivectors, with one of its vector indexes, or without for its own exact search.

The column is float32: with float16, which is half as large, it took twice as long to search and eight times
as long to index.
"""

# ruff: noqa: D102 (what an engine's methods do is said by `worker_side.Engine`)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from worker_side import Shared, work

AT_ONCE = 1000


def batches(shared: Shared, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    dim = shared.vectors.shape[1]
    for first in range(0, len(shared), AT_ONCE):
        last = min(first + AT_ONCE, len(shared))
        offsets = shared.offsets[first : last + 1]
        values = np.array(shared.vectors[offsets[0] : offsets[-1]], dtype=np.float32).reshape(-1)
        tokens = pa.FixedSizeListArray.from_arrays(pa.array(values), dim)
        begins = pa.array((offsets - offsets[0]).astype(np.int32))
        passages = pa.ListArray.from_arrays(begins, tokens)
        yield pa.record_batch([pa.array(range(first, last), pa.int64()), passages], schema=schema)


def build(shared: Shared, folder: Path, settings: dict[str, Any]) -> None:
    vector = pa.list_(pa.list_(pa.float32(), shared.vectors.shape[1]))
    schema = pa.schema([("id", pa.int64()), ("vector", vector)])
    reader = pa.RecordBatchReader.from_batches(schema, batches(shared, schema))
    table = lancedb.connect(str(folder)).create_table("passages", data=reader)
    if settings.get("index_type") is not None:
        table.create_index(metric="cosine", vector_column_name="vector", **settings)


class Opened:
    """A table, with how its searches are set."""

    def __init__(self, folder: Path, built: dict[str, Any], settings: dict[str, Any]) -> None:
        self._table = lancedb.connect(str(folder)).open_table("passages")
        self._settings = settings

    def query(self, vectors: np.ndarray) -> np.ndarray:
        return vectors

    def one(self, query: np.ndarray, k: int) -> pa.Table:
        search = self._table.search(query, vector_column_name="vector").distance_type("cosine")
        for name, value in self._settings.items():
            search = getattr(search, name)(value)
        return search.limit(k).select(["id", "_distance"]).to_arrow()

    def many(self, queries: Sequence[np.ndarray], k: int) -> list[pa.Table]:
        # It has no search of several multivectors at once.
        return [self.one(query, k) for query in queries]

    def ids(self, found: pa.Table) -> list[int]:
        return [int(number) for number in found["id"].to_pylist()]


if __name__ == "__main__":
    work(["lancedb", "pyarrow", "numpy"], build, Opened)

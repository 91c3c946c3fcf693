"""Token vectors on disk: Arrow IPC files, memory-mapped, cut into record batches of a fixed size.

A shard file holds one column, `vector`: fixed_size_list<halffloat>[dim], one row a token. Which tokens
belong to which passage is not the shard's business: int64 offsets over all shards of a segment say so.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colrank.errors import IndexDamaged

SHARD_TOKENS = 1 << 20
"""Most tokens of one shard file."""

BATCH_TOKENS = 1 << 15
"""Tokens of a record batch; fixed, so that equal input gives equal bytes."""


def vector_type(dim: int) -> pa.DataType:
    """Arrow type of a token vector in float16."""
    return pa.list_(pa.float16(), dim)


class ShardWriter:
    """Writes token vectors as they come into numbered shard files of one folder.

    A passage may straddle two batches or two files: offsets run over all of them.
    """

    def __init__(self, folder: Path, dim: int) -> None:
        self._folder = folder
        self._dim = dim
        self._schema = pa.schema([pa.field("vector", vector_type(dim), nullable=False)])
        self._pending: list[NDArray[np.float16]] = []
        self._pending_tokens = 0
        self._in_file = 0
        self._writer: pa.RecordBatchFileWriter | None = None
        self._file: pa.NativeFile | None = None
        self.files: list[str] = []
        self.tokens = 0

    def write(self, vectors: NDArray[np.float32] | NDArray[np.float16]) -> None:
        """Append token vectors `[tokens, dim]`."""
        if not len(vectors):
            return
        self._pending.append(vectors.astype(np.float16))
        self._pending_tokens += len(vectors)
        self.tokens += len(vectors)
        while self._pending_tokens >= BATCH_TOKENS:
            joined = np.concatenate(self._pending)
            self._flush(joined[:BATCH_TOKENS])
            self._pending = [joined[BATCH_TOKENS:]]
            self._pending_tokens -= BATCH_TOKENS

    def _flush(self, block: NDArray[np.float16]) -> None:
        if self._writer is None:
            name = f"tokens-{len(self.files):05d}.arrow"
            self._file = pa.OSFile(str(self._folder / name), "wb")
            self._writer = pa.ipc.new_file(self._file, self._schema)
            self.files.append(name)
            self._in_file = 0
        values = pa.array(np.ascontiguousarray(block).reshape(-1), type=pa.float16())
        column = pa.FixedSizeListArray.from_arrays(values, self._dim)
        self._writer.write_batch(pa.record_batch([column], schema=self._schema))
        self._in_file += len(block)
        if self._in_file >= SHARD_TOKENS:
            self._close_file()

    def _close_file(self) -> None:
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.close()
            sync_file(self._folder / self.files[-1])
        self._writer = self._file = None

    def close(self) -> None:
        """Write what is left and flush every file to the disk."""
        if self._pending_tokens:
            self._flush(np.concatenate(self._pending))
            self._pending, self._pending_tokens = [], 0
        self._close_file()

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._file is not None:
            self._file.close()


class TokenVectors:
    """The token vectors of a segment, read from mapped shard files block by block, never copied whole."""

    def __init__(self, folder: Path, files: Sequence[str], dim: int, tokens: int) -> None:
        self.dim = dim
        self._blocks: list[NDArray[np.float16]] = []
        starts = [0]
        for name in files:
            table = map_table(folder / name)
            if table.schema.names != ["vector"] or table.schema.field("vector").type != vector_type(dim):
                raise IndexDamaged(f"{name} does not hold float16 vectors of {dim} dimensions; index again.")
            for chunk in table.column("vector").chunks:
                block: NDArray[np.float16] = chunk.flatten().to_numpy(zero_copy_only=True).reshape(-1, dim)
                self._blocks.append(block)
                starts.append(starts[-1] + len(block))
        if starts[-1] != tokens:
            raise IndexDamaged(
                f"The shards hold {starts[-1]} tokens and the manifest says {tokens}; index again."
            )
        self._starts = np.array(starts, dtype=np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, start: int, end: int) -> NDArray[np.float16]:
        """Token vectors `start:end`, float16 `[end - start, dim]`: a view where one block holds them all."""
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts = []
        while start < end:
            block, begin = self._blocks[first], int(self._starts[first])
            stop = min(end, begin + len(block))
            parts.append(block[start - begin : stop - begin])
            start, first = stop, first + 1
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty((0, self.dim), dtype=np.float16)


def map_table(path: Path) -> pa.Table:
    """Open an Arrow IPC file as a table that stays memory-mapped.

    Raises:
        IndexDamaged: the file is missing, cut short, or not an Arrow file.
    """
    try:
        return pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()
    except FileNotFoundError as error:
        raise IndexDamaged(f"{path.name} is missing from the index; index again with --overwrite.") from error
    except (pa.ArrowException, OSError) as error:
        raise IndexDamaged(f"{path.name} is damaged ({error}); index again with --overwrite.") from error


def write_table(table: pa.Table, path: Path, rows: int = 1 << 14) -> None:
    """Write a table as an Arrow IPC file, in record batches of `rows`, flushed to the disk."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    sync_file(path)


def sync_file(path: Path) -> None:
    """Flush a file, or a folder's list of names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

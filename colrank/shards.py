"""Stored tokens on disk: Arrow IPC files, memory-mapped, one row a token, columns as the codec says.

Which tokens belong to which passage is not the shard's business: int64 offsets over all shards of a
segment say so, and a passage may straddle two batches or two files.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colrank.codec import Codec, Columns, NativeTokens
from colrank.errors import IndexDamaged, first_line

SHARD_TOKENS = 1 << 20
"""Most tokens of one shard file."""

BATCH_BYTES = 1 << 23
"""Bytes of a record batch, rounded down to a power of two of tokens; fixed, so that equal input gives
equal bytes."""


def batch_tokens(row_bytes: int) -> int:
    """Tokens of a record batch whose rows have so many bytes."""
    return min(SHARD_TOKENS, 1 << (max(1, BATCH_BYTES // max(1, row_bytes)).bit_length() - 1))


def row_bytes(schema: pa.Schema) -> int:
    """Bytes of one token in a shard of this schema."""
    return sum(_bytes(field.type) for field in schema)


def _bytes(kind: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size * kind.value_type.bit_width // 8)
    return int(kind.bit_width // 8)


class ShardWriter:
    """Writes tokens as they come into numbered shard files of one folder."""

    def __init__(self, folder: Path, schema: pa.Schema, name: str = "tokens") -> None:
        self._folder = folder
        self._schema = schema
        self._name = name
        self._batch = batch_tokens(row_bytes(schema))
        self._pending: list[Columns] = []
        self._pending_tokens = 0
        self._in_file = 0
        self._writer: pa.RecordBatchFileWriter | None = None
        self._file: pa.NativeFile | None = None
        self.files: list[str] = []
        self.tokens = 0

    def write(self, columns: Columns) -> None:
        """Append tokens, columns of the schema in any order."""
        count = len(columns[self._schema.names[0]])
        if not count:
            return
        self._pending.append(columns)
        self._pending_tokens += count
        self.tokens += count
        if self._pending_tokens < self._batch:
            return
        joined = self._joined()
        begin = 0
        while self._pending_tokens - begin >= self._batch:
            self._flush({name: values[begin : begin + self._batch] for name, values in joined.items()})
            begin += self._batch
        self._pending = [{name: values[begin:] for name, values in joined.items()}]
        self._pending_tokens -= begin

    def _joined(self) -> Columns:
        return {name: np.concatenate([part[name] for part in self._pending]) for name in self._schema.names}

    def _flush(self, columns: Columns) -> None:
        if self._writer is None:
            name = f"{self._name}-{len(self.files):05d}.arrow"
            self._file = pa.OSFile(str(self._folder / name), "wb")
            self._writer = pa.ipc.new_file(self._file, self._schema)
            self.files.append(name)
            self._in_file = 0
        arrays = [_arrow(columns[field.name], field.type) for field in self._schema]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._in_file += len(arrays[0])
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
            self._flush(self._joined())
            self._pending, self._pending_tokens = [], 0
        self._close_file()

    def abandon(self) -> None:
        """Close the file that is open, as it is."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def _arrow(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_fixed_size_list(kind):
        return pa.array(np.ascontiguousarray(values), type=kind)
    flat = pa.array(np.ascontiguousarray(values).reshape(-1), type=kind.value_type)
    return pa.FixedSizeListArray.from_arrays(flat, kind.list_size)


class TokenVectors:
    """The tokens of a segment, read from mapped shard files block by block, never copied whole."""

    def __init__(self, codec: Codec, blocks: Sequence[Columns], first: int = 0) -> None:
        """Tokens that lie in blocks of columns; the first of them has the number `first`."""
        self.codec = codec
        self._blocks = list(blocks)
        counts = [first, *(len(block[codec.schema.names[0]]) for block in blocks)]
        self._starts: NDArray[np.int64] = np.cumsum(counts, dtype=np.int64)
        self.local = threading.local()
        """What a thread that scores these tokens keeps for the next query."""

    @classmethod
    def open(cls, folder: Path, files: Sequence[str], codec: Codec, tokens: int) -> TokenVectors:
        """Map shard files.

        Raises:
            IndexDamaged: a file is missing or damaged, or holds other columns or rows than it should.
        """
        blocks: list[Columns] = []
        for name in files:
            table = map_table(folder / name)
            if not _same_columns(table.schema, codec.schema):
                raise IndexDamaged(
                    f"{name} does not hold the columns {', '.join(map(str, codec.schema))} that the manifest "
                    "promises; index again with --overwrite."
                )
            blocks += [
                {field.name: _numpy(batch.column(field.name), field.type) for field in codec.schema}
                for batch in table.to_batches()
            ]
        opened = cls(codec, blocks)
        if len(opened) != tokens:
            raise IndexDamaged(
                f"The shards hold {len(opened)} tokens and the manifest says {tokens}; index again."
            )
        return opened

    @classmethod
    def joined(cls, codec: Codec, parts: Sequence[TokenVectors]) -> TokenVectors:
        """Tokens of several, all of one codec, one after the other."""
        return (
            parts[0] if len(parts) == 1 else cls(codec, [block for part in parts for block in part._blocks])
        )

    def __len__(self) -> int:
        return int(self._starts[-1])

    @cached_property
    def native(self) -> NativeTokens | None:
        """The same tokens as the native kernels read them; None where these are not there."""
        return self.codec.native(self._blocks, int(self._starts[0]))

    def columns(self, start: int, end: int, names: Sequence[str] | None = None) -> Columns:
        """Columns of tokens `start:end` as stored: views where one block holds them all."""
        wanted = self.codec.schema.names if names is None else names
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts: list[Columns] = []
        while start < end:
            block, begin = self._blocks[first], int(self._starts[first])
            stop = min(end, int(self._starts[first + 1]))
            parts.append({name: block[name][start - begin : stop - begin] for name in wanted})
            start, first = stop, first + 1
        return self._one(parts, wanted)

    def take(self, rows: NDArray[np.int64], names: Sequence[str] | None = None) -> Columns:
        """Columns of some tokens, given in ascending order, as a copy."""
        wanted = self.codec.schema.names if names is None else names
        cuts = np.searchsorted(rows, self._starts)
        parts = [
            {
                name: self._blocks[at][name][rows[cuts[at] : cuts[at + 1]] - self._starts[at]]
                for name in wanted
            }
            for at in np.flatnonzero(np.diff(cuts))
        ]
        return self._one(parts, wanted)

    def _one(self, parts: Sequence[Columns], names: Sequence[str]) -> Columns:
        """The parts as one; a single one without a copy."""
        if not parts:
            return {name: _empty(self.codec.schema.field(name).type) for name in names}
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in names}

    def read(self, start: int, end: int) -> NDArray[np.float32] | NDArray[np.float16]:
        """Token vectors `start:end` in the codec's space, `[end - start, dim]`."""
        return self.codec.decode(self.columns(start, end))


def _numpy(column: pa.Array, kind: pa.DataType) -> NDArray[Any]:
    if not pa.types.is_fixed_size_list(kind):
        return np.asarray(column.to_numpy(zero_copy_only=True))
    return np.asarray(column.flatten().to_numpy(zero_copy_only=True)).reshape(-1, kind.list_size)


def _empty(kind: pa.DataType) -> NDArray[Any]:
    return _numpy(pa.array([], type=kind), kind)


def _same_columns(left: pa.Schema, right: pa.Schema) -> bool:
    return left.names == right.names and all(a.type == b.type for a, b in zip(left, right, strict=True))


def ranges(begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of several ranges, one range after the other: int64 `[sum of lengths]`."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(begins - before, lengths) + np.arange(int(lengths.sum()))


def token_rows(rows: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of all tokens of some passages, in their order: int64 `[tokens]`."""
    begin = offsets[rows]
    return ranges(begin, offsets[rows + 1] - begin)


def map_table(path: Path, *schemas: pa.Schema) -> pa.Table:
    """Open an Arrow IPC file as a table that stays memory-mapped.

    Nothing in it leads outside of it: buffers are as long as their rows, strings and lists begin and end
    within their values. (Whether text is UTF-8 is told when it is read.)

    Args:
        path: of the file.
        schemas: its columns must be those of one of them; none takes any.

    Raises:
        IndexDamaged: the file is missing, cut short, no Arrow file, or holds other columns.
    """
    remedy = "index again with --overwrite"
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()
        table.validate()
        sound = all(_within(chunk) for column in table.columns for chunk in column.chunks)
    except FileNotFoundError as error:
        raise IndexDamaged(f"{path.name} is missing from the index; {remedy}.") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IndexDamaged(f"{path.name} is damaged ({first_line(error)}); {remedy}.") from error
    if not sound:
        raise IndexDamaged(f"{path.name} is damaged: it leads outside of itself; {remedy}.")
    if schemas and not any(_same_columns(table.schema, schema) for schema in schemas):
        raise IndexDamaged(f"{path.name} does not hold the columns {', '.join(schemas[0].names)}; {remedy}.")
    return table


def one_chunk(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column of numbers that is one record batch, as it is mapped; several are joined as a copy."""
    if column.num_chunks == 1:
        return np.asarray(column.chunk(0).to_numpy())
    return np.asarray(column.combine_chunks().to_numpy(zero_copy_only=False), column.type.to_pandas_dtype())


def _within(chunk: pa.Array) -> bool:
    """Whether an array has no nulls, and its strings or lists lie within their values."""
    if chunk.null_count:
        return False
    kind = chunk.type
    wide = pa.types.is_large_string(kind) or pa.types.is_large_list(kind)
    if not wide and not pa.types.is_string(kind) and not pa.types.is_list(kind):
        return True
    if not len(chunk):
        return True
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    buffers = chunk.buffers()
    if buffers[1] is None or (not listed and buffers[2] is None):
        return False
    offsets: NDArray[Any] = np.frombuffer(buffers[1], np.int64 if wide else np.int32)
    offsets = offsets[chunk.offset : chunk.offset + len(chunk) + 1]
    held = len(chunk.values) if listed else buffers[2].size
    return bool(
        len(offsets) == len(chunk) + 1
        and offsets[0] >= 0
        and offsets[-1] <= held
        and np.all(offsets[1:] >= offsets[:-1])
    )


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

"""Parquet and Arrow files, by record batches, so that a large file needs little memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from colrank.config import FieldNames
from colrank.corpus.faults import DAMAGED, LOST_VALUES, Notes
from colrank.corpus.records import column_names, document_from_record, has_fields
from colrank.corpus.source import ByteCounter
from colrank.types import Document

_BATCH_ROWS = 512
_ARROW_FILE_MAGIC = b"ARROW1"


def read_columns(
    handle: BinaryIO, label: str, size: int, fields: FieldNames, notes: Notes, counter: ByteCounter
) -> Iterator[Document]:
    """The documents of a Parquet or Arrow file; columns that hold none of `fields` become metadata."""
    import pyarrow as pa

    damage = (pa.ArrowException, OSError, ValueError, MemoryError)
    row = 0
    try:
        schema, batches = _open(handle, size)
        names = column_names(schema.names)
    except damage:
        notes.add(DAMAGED, label)
        return
    if not has_fields(names, fields, label, notes):
        return
    while True:
        try:
            step = next(batches, None)
        except damage:
            notes.add(DAMAGED, f"{label} after row {row}" if row else label)
            return
        if step is None:
            return
        batch, position = step
        columns = [
            _values(column, f"{label} column {name}", notes)
            for name, column in zip(names, batch.columns, strict=True)
        ]
        for cells in zip(*columns, strict=True):
            row += 1
            document = document_from_record(
                dict(zip(names, cells, strict=True)),
                fields,
                where=f"{label} row {row}",
                fallback_id=f"{label}:{row}",
                source=label,
                problems=notes.problems,
                strict=notes.strict,
            )
            if document is not None:
                yield document
        counter.reach(position)


def _open(handle: BinaryIO, size: int) -> tuple[Any, Iterator[tuple[Any, int]]]:
    """The schema, and the batches each with the byte of the file up to which it counts as read."""
    import pyarrow.ipc

    magic = handle.read(len(_ARROW_FILE_MAGIC))
    handle.seek(0)
    if magic.startswith(b"PAR1"):
        import pyarrow.parquet

        parquet = pyarrow.parquet.ParquetFile(handle)
        return parquet.schema_arrow, _parquet_batches(parquet, size)
    if magic == _ARROW_FILE_MAGIC:
        file = pyarrow.ipc.open_file(handle)
        return file.schema, _small(_file_batches(file, size))
    stream = pyarrow.ipc.open_stream(handle)
    return stream.schema, _small((batch, handle.tell()) for batch in stream)


def _parquet_batches(parquet: Any, size: int) -> Iterator[tuple[Any, int]]:
    rows = max(parquet.metadata.num_rows, 1)
    done = 0
    for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
        done += batch.num_rows
        yield batch, size * done // rows


def _file_batches(file: Any, size: int) -> Iterator[tuple[Any, int]]:
    for index in range(file.num_record_batches):
        yield file.get_batch(index), size * (index + 1) // file.num_record_batches


def _small(batches: Iterator[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    for batch, position in batches:
        # Arrow trusts the offsets in a file; in a damaged one they would point outside of memory.
        for column in batch.columns:
            (_as_bytes(column) if _is_string(column.type) else column).validate(full=True)
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield batch.slice(start, _BATCH_ROWS), position


def _values(column: Any, name: str, notes: Notes) -> list[Any]:
    import pyarrow as pa

    kind = column.type
    trouble = (pa.ArrowException, ValueError, OverflowError)
    try:
        if pa.types.is_dictionary(kind) and _is_string(kind.value_type):
            column = column.cast(kind.value_type)
            kind = column.type
        if pa.types.is_temporal(kind) and getattr(kind, "unit", "") == "ns":
            # Python's times have no nanoseconds, and refuse any.
            column = column.cast(_microseconds(kind), safe=False)
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        if _is_string(kind):
            return [_utf8_or_bytes(value) for value in _as_bytes(column).to_pylist()]
    except trouble:
        # Dates beyond the year 9999, for one.
        try:
            return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
        except trouble:
            pass
    notes.add(LOST_VALUES, name)
    return [_or_none(value, trouble) for value in column]


def _microseconds(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")


def _is_string(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _as_bytes(column: Any) -> Any:
    import pyarrow as pa

    return column.cast(pa.binary() if pa.types.is_string(column.type) else pa.large_binary())


def _utf8_or_bytes(value: bytes | None) -> str | bytes | None:
    try:
        return value if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def _or_none(value: Any, trouble: tuple[type[Exception], ...]) -> Any:
    try:
        return value.as_py()
    except trouble:
        return None

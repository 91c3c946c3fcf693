"""Rows to an Arrow IPC file, in batches of a fixed size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from colrank.shards import sync_file

_ROWS = 4096


class RowWriter:
    """Writes rows to an Arrow IPC file in batches of a fixed size."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._file, schema)
        self._schema = schema
        self._rows: list[tuple[Any, ...]] = []

    def add(self, *row: Any) -> None:
        """Append a row, values in the order of the schema."""
        self._rows.append(row)
        if len(self._rows) == _ROWS:
            self._flush()

    def _flush(self) -> None:
        columns = [
            pa.array(values, type=kind.type)
            for values, kind in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_batch(pa.record_batch(columns, schema=self._schema))
        self._rows = []

    def add_table(self, table: pa.Table) -> None:
        """Append rows of a table that has the schema's columns, as batches of their own."""
        if self._rows:
            self._flush()
        cast = table.select(self._schema.names).cast(self._schema)
        for batch in cast.combine_chunks().to_batches(max_chunksize=_ROWS):
            self._writer.write_batch(batch)

    def close(self) -> None:
        """Write what is left and flush the file to the disk."""
        if self._rows:
            self._flush()
        self._writer.close()
        self._file.close()
        sync_file(self._path)

    def abandon(self) -> None:
        """Close the file as it is."""
        self._file.close()

"""Documents on the disk while a build runs, the later of two with one id in place of the earlier."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from colrank.errors import CorpusError
from colrank.types import Document, Problems

DUPLICATES = "duplicate ids, the later document replaces the earlier"
_SPOOL_ROWS = 256
_SPOOL_CHARACTERS = 1 << 22


class Spool:
    """Documents on the disk in the order they came, with the row that counts for each id."""

    _SCHEMA = pa.schema(
        [
            ("id", pa.string()),
            ("text", pa.large_string()),
            ("title", pa.large_string()),
            ("metadata", pa.large_string()),
            ("source", pa.string()),
        ]
    )

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: dict[str, int] = {}
        self.read = 0
        self.characters = 0

    def fill(self, documents: Iterable[Document], problems: Problems, strict: bool) -> None:
        """Write all documents; count those that a later one of the same id replaces.

        Raises:
            CorpusError: an id came twice and `strict` was asked for.
        """
        lengths: dict[str, int] = {}
        sources: dict[str, str] = {}
        with pa.OSFile(str(self._path), "wb") as file, pa.ipc.new_file(file, self._SCHEMA) as writer:
            rows: list[dict[str, Any]] = []
            held = 0
            for document in documents:
                if document.id in self.rows:
                    if strict:
                        raise CorpusError(
                            f"The id {document.id!r} occurs twice (again in {document.source or 'memory'}); "
                            "make ids unique, or leave --strict out to keep the later document."
                        )
                    before = sources[document.id]
                    places = (
                        f" (in {before}, again in {document.source})" if before or document.source else ""
                    )
                    problems.add(DUPLICATES, f"{document.id}{places}")
                self.rows[document.id] = self.read
                sources[document.id] = document.source
                lengths[document.id] = len(document.text) + len(document.title)
                self.read += 1
                rows.append(
                    {
                        "id": document.id,
                        "text": document.text,
                        "title": document.title,
                        "metadata": json.dumps(dict(document.metadata), ensure_ascii=False),
                        "source": document.source,
                    }
                )
                held += lengths[document.id]
                if len(rows) == _SPOOL_ROWS or held > _SPOOL_CHARACTERS:
                    writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=self._SCHEMA))
                    rows, held = [], 0
            if rows:
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=self._SCHEMA))
        self.characters = sum(lengths.values())

    def documents(self) -> Iterator[Document]:
        """The documents that count, in order."""
        row = 0
        with pa.memory_map(str(self._path), "r") as file:
            reader = pa.ipc.open_file(file)
            for index in range(reader.num_record_batches):
                for values in reader.get_batch(index).to_pylist():
                    if self.rows[values["id"]] == row:
                        values["metadata"] = json.loads(values["metadata"])
                        yield Document(**values)
                    row += 1

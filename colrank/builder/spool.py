"""Documents on the disk while a build runs, the later of two with one id in place of the earlier."""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

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
        self._lengths = array("q")
        self._contents = array("Q")

    def fill(self, documents: Iterable[Document], problems: Problems, strict: bool) -> None:
        """Write all documents; count those that a later one of the same id replaces.

        Raises:
            CorpusError: an id came twice and `strict` was asked for.
        """
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
                self._lengths.append(len(document.text) + len(document.title))
                self._contents.append(content_hash(document))
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
                held += self._lengths[-1]
                if len(rows) == _SPOOL_ROWS or held > _SPOOL_CHARACTERS:
                    writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=self._SCHEMA))
                    rows, held = [], 0
            if rows:
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=self._SCHEMA))

    def content(self, name: str) -> int:
        """Hash of the content of the document that counts for an id."""
        return self._contents[self.rows[name]]

    def length(self, names: Iterable[str]) -> int:
        """Characters of the documents that count for some ids."""
        return sum(self._lengths[self.rows[name]] for name in names)

    def documents(self, names: Collection[str]) -> Iterator[Document]:
        """The documents that count for some ids, in order."""
        row = 0
        with pa.memory_map(str(self._path), "r") as file:
            reader = pa.ipc.open_file(file)
            for index in range(reader.num_record_batches):
                for values in reader.get_batch(index).to_pylist():
                    if self.rows[values["id"]] == row and values["id"] in names:
                        values["metadata"] = json.loads(values["metadata"])
                        yield Document(**values)
                    row += 1


def content_hash(document: Document) -> int:
    """Hash of all that a document was made of, never 0: equal ones need not be encoded again."""
    held = [document.id, document.title, document.text, document.source, dict(document.metadata)]
    text = json.dumps(held, ensure_ascii=False, sort_keys=True)
    return xxhash.xxh3_64_intdigest(text.encode(errors="surrogatepass")) or 1

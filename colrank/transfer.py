"""An index as plain Parquet, and back: ids, text, metadata and, where asked for, decoded vectors.

One row a passage, in the order of the index:

document    string, the document's id
ordinal     int32, the passage's place in it
title       string
text        large string, the passage's
start, end  int64, characters of the document's text that it is, or of its title where there is no text
prefix      int32, so many characters of the title were encoded before it
source      string
language    string
metadata    large string, a JSON object
vectors     large list of lists of float32, one a token, of unit length; only where asked for

The schema's metadata hold `colrank`, a JSON object: format, version, dim, and the model's name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from colrank.errors import InputError
from colrank.index import Snapshot
from colrank.types import Document

VERSION = 1
_ROWS = 1024

_SCHEMA = pa.schema(
    [
        ("document", pa.string()),
        ("ordinal", pa.int32()),
        ("title", pa.string()),
        ("text", pa.large_string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("prefix", pa.int32()),
        ("source", pa.string()),
        ("language", pa.string()),
        ("metadata", pa.large_string()),
    ]
)


def export_index(snapshot: Snapshot, path: Path, *, vectors: bool = False) -> int:
    """Write all documents that are not deleted to a Parquet file, and give the number of passages.

    Args:
        vectors: write the decoded vectors of each passage's tokens too, pooled where the index pools.

    Raises:
        InputError: the file cannot be written.
    """
    manifest = snapshot.manifest
    told = {
        "format": "colrank export",
        "version": VERSION,
        "dim": manifest.dim,
        "model": manifest.model.name if manifest.model else None,
    }
    schema = _SCHEMA
    if vectors:
        schema = schema.append(pa.field("vectors", pa.large_list(pa.list_(pa.float32()))))
    schema = schema.with_metadata({"colrank": json.dumps(told)})
    partial = path.with_name(f"{path.name}.partial")
    count = 0
    try:
        with pq.ParquetWriter(partial, schema, compression="zstd") as writer:
            for table in _tables(snapshot, schema, vectors):
                writer.write_table(table)
                count += len(table)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error
    return count


def _tables(snapshot: Snapshot, schema: pa.Schema, vectors: bool) -> Iterator[pa.Table]:
    contents = snapshot.contents
    rows: list[dict[str, Any]] = []
    for document in contents.live_documents():
        for passage in contents.passages(contents.passages_of(document.row)):
            row = {
                "document": document.id,
                "ordinal": passage.ordinal,
                "title": document.title,
                "text": passage.text,
                "start": passage.start,
                "end": passage.end,
                "prefix": passage.prefix,
                "source": document.source,
                "language": document.language,
                "metadata": json.dumps(document.metadata, ensure_ascii=False),
            }
            if vectors:
                row["vectors"] = list(_decoded(snapshot, passage.row))
            rows.append(row)
            if len(rows) == _ROWS:
                yield pa.Table.from_pylist(rows, schema=schema)
                rows = []
    if rows or not contents.counts.documents:
        yield pa.Table.from_pylist(rows, schema=schema)


def _decoded(snapshot: Snapshot, row: int) -> NDArray[np.float32]:
    """Token vectors of a passage in the model's space, of unit length."""
    stored = snapshot.contents.passage_vectors(row).astype(np.float32)
    turned = snapshot.codec.turn_back(stored).astype(np.float64)
    lengths = np.linalg.norm(turned, axis=1, keepdims=True)
    return np.asarray(turned / np.maximum(lengths, 1e-12), dtype=np.float32)


class Exported:
    """A file that `export_index` wrote, to be read again.

    Raises:
        InputError: there is no such file, or it is of another kind.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = pq.ParquetFile(path)
            told = json.loads((self._file.schema_arrow.metadata or {})[b"colrank"])
            known = told["format"] == "colrank export" and told["version"] == VERSION
        except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
            raise InputError(f"{path} is no export of an index; make one with: colrank export.") from error
        if not known:
            raise InputError(
                f"{path} is an export of version {told['version']}, and this colrank reads {VERSION}; "
                "install a newer colrank."
            )
        self.has_vectors = "vectors" in self._file.schema_arrow.names

    def documents(self) -> Iterator[Document]:
        """Documents with their whole text, put together from their passages.

        Raises:
            InputError: passages of a document leave a part of its text out.
        """
        for rows in self._grouped([name for name in self._file.schema_arrow.names if name != "vectors"]):
            first = rows[0]
            text = ""
            for row in rows:
                if row["start"] > len(text):
                    raise InputError(
                        f"The passages of {row['document']!r} in {self._path} leave out characters "
                        f"{len(text)} to {row['start']}; export the index again."
                    )
                text += row["text"][len(text) - row["start"] :]
            # Where a document has no text its title is its passage, and is not encoded before it, too.
            is_title = text == first["title"] and not first["prefix"]
            yield Document(
                first["document"],
                "" if is_title else text,
                first["title"],
                json.loads(first["metadata"]),
                first["source"],
            )

    def vectors(self) -> Iterator[NDArray[np.float32]]:
        """Vectors `[tokens, dim]` of each document.

        Raises:
            InputError: a document has several passages, which given vectors cannot have.
        """
        for rows in self._grouped(["document", "vectors"]):
            if len(rows) > 1:
                raise InputError(
                    f"{rows[0]['document']!r} has {len(rows)} passages, and given vectors have one a "
                    "document; import with a model, which encodes the text again."
                )
            yield np.array(rows[0]["vectors"], dtype=np.float32)

    def _grouped(self, columns: list[str]) -> Iterator[list[dict[str, Any]]]:
        held: list[dict[str, Any]] = []
        for batch in self._file.iter_batches(_ROWS, columns=columns):
            for row in batch.to_pylist():
                if held and held[0]["document"] != row["document"]:
                    yield held
                    held = []
                held.append(row)
        if held:
            yield held

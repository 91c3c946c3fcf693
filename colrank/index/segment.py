"""One immutable segment: documents, passages, int64 token offsets, and shards of token vectors.

documents.arrow   id, title, source, language, metadata (JSON), encoded (False where the vectors were
                  given), first_passage; one row a document
passages.arrow    document (row), ordinal, start, end, prefix (characters of the title), text
offsets.arrow     token_offset: passage i owns tokens offsets[i]:offsets[i + 1]
frequencies.arrow token_id, passages: in how many passages each token id occurs
tokens-*.arrow    vector (colrank.shards)
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from colrank_kernels import offsets_are_valid
from numpy.typing import NDArray

from colrank.encoder import TokenFrequencies
from colrank.errors import IndexDamaged
from colrank.index.manifest import SegmentEntry
from colrank.shards import ShardWriter, TokenVectors, map_table, sync_file, write_table
from colrank.types import Document, Passage

_ROWS = 4096

_DOCUMENTS = pa.schema(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("source", pa.string()),
        ("language", pa.string()),
        ("metadata", pa.large_string()),
        ("encoded", pa.bool_()),
        ("first_passage", pa.int64()),
    ]
)
_PASSAGES = pa.schema(
    [
        ("document", pa.int64()),
        ("ordinal", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("prefix", pa.int32()),
        ("text", pa.large_string()),
    ]
)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as the index keeps it: all but its text, which its passages hold."""

    row: int
    id: str
    title: str
    source: str
    language: str
    metadata: dict[str, Any]
    encoded: bool
    first_passage: int

    def prefix_of(self, passage: StoredPassage) -> str:
        """The part of the title that was encoded before a passage of this document."""
        return self.title.strip()[: passage.prefix]


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage as the index keeps it; `prefix` is the number of title characters that were encoded."""

    row: int
    document: int
    ordinal: int
    start: int
    end: int
    prefix: int
    text: str


class _RowWriter:
    """Writes rows to an Arrow IPC file in batches of a fixed size."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._file, schema)
        self._schema = schema
        self._rows: list[tuple[Any, ...]] = []

    def add(self, *row: Any) -> None:
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

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()
        self._file.close()
        sync_file(self._path)

    def abandon(self) -> None:
        self._file.close()


class SegmentWriter:
    """Writes one segment, document by document, in memory that does not grow with the text."""

    def __init__(self, folder: Path, dim: int) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._documents = _RowWriter(folder / "documents.arrow", _DOCUMENTS)
        self._passages = _RowWriter(folder / "passages.arrow", _PASSAGES)
        self._shards = ShardWriter(folder, dim)
        self._offsets = array("q", [0])
        self._language_tokens: Counter[str] = Counter()
        self.documents = 0

    @property
    def passages(self) -> int:
        """Passages written so far."""
        return len(self._offsets) - 1

    @property
    def tokens(self) -> int:
        """Tokens written so far."""
        return self._shards.tokens

    def add(
        self,
        document: Document,
        language: str,
        passages: Sequence[Passage],
        vectors: Sequence[NDArray[np.float32] | NDArray[np.float16]],
        *,
        encoded: bool,
    ) -> None:
        """Append a document with the vectors `[tokens, dim]` of each of its passages.

        `encoded` says whether the index's model made them, which decides whether their tokens are known.
        """
        self._documents.add(
            document.id,
            document.title,
            document.source,
            language,
            json.dumps(dict(document.metadata), ensure_ascii=False),
            encoded,
            self.passages,
        )
        for passage, block in zip(passages, vectors, strict=True):
            self._passages.add(
                self.documents, passage.ordinal, passage.start, passage.end, len(passage.prefix), passage.text
            )
            self._shards.write(block)
            self._offsets.append(self._shards.tokens)
            self._language_tokens[language] += len(block)
        self.documents += 1

    def finish(self, frequencies: TokenFrequencies) -> SegmentEntry:
        """Close all files, flush them to the disk, and return the segment's entry for a manifest."""
        self._documents.close()
        self._passages.close()
        self._shards.close()
        offsets = np.frombuffer(self._offsets, dtype=np.int64)
        write_table(
            pa.table({"token_offset": offsets}), self._folder / "offsets.arrow", rows=max(1, len(offsets))
        )
        ids, counts = frequencies.table()
        write_table(
            pa.table({"token_id": ids, "passages": counts}).replace_schema_metadata(
                {"passages": str(frequencies.passages)}
            ),
            self._folder / "frequencies.arrow",
        )
        sync_file(self._folder)
        files = {}
        for path in sorted(self._folder.iterdir()):
            digest = xxhash.xxh3_128()
            with path.open("rb") as file:
                while block := file.read(1 << 22):
                    digest.update(block)
            files[path.name] = (path.stat().st_size, digest.hexdigest())
        return SegmentEntry(
            name=self._folder.name,
            documents=self.documents,
            passages=self.passages,
            tokens=self.tokens,
            shards=tuple(self._shards.files),
            language_tokens=dict(sorted(self._language_tokens.items())),
            files=files,
        )

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._documents.abandon()
            self._passages.abandon()
            self._shards.__exit__(kind, error, trace)


class Segment:
    """An opened segment; every file is memory-mapped and stays open, so that a later commit cannot
    take it away."""

    def __init__(self, folder: Path, entry: SegmentEntry, dim: int) -> None:
        for name, (size, _) in entry.files.items():
            path = folder / name
            found = path.stat().st_size if path.is_file() else -1
            if found != size:
                raise IndexDamaged(
                    f"{path.name} of {folder.parent} has {max(found, 0)} bytes and the manifest says {size}; "
                    "index again with --overwrite."
                )
        self.entry = entry
        self._documents = map_table(folder / "documents.arrow")
        self._passages = map_table(folder / "passages.arrow")
        offsets = map_table(folder / "offsets.arrow").column("token_offset")
        self.offsets: NDArray[np.int64] = offsets.chunk(0).to_numpy()
        self.vectors = TokenVectors(folder, entry.shards, dim, entry.tokens)
        if (
            len(self._documents) != entry.documents
            or len(self._passages) != entry.passages
            or len(self.offsets) != entry.passages + 1
            or not offsets_are_valid(self.offsets, entry.tokens)
        ):
            raise IndexDamaged(f"The rows of {folder} do not fit its manifest; index again with --overwrite.")
        self._frequencies = map_table(folder / "frequencies.arrow")
        self.passage_documents: NDArray[np.int64] = self._passages.column("document").to_numpy()
        self.first_passages: NDArray[np.int64] = self._documents.column("first_passage").to_numpy()

    def frequencies(self) -> TokenFrequencies:
        """In how many passages each token id occurs."""
        ids = self._frequencies.column("token_id").to_pylist()
        counts = self._frequencies.column("passages").to_pylist()
        total = int(self._frequencies.schema.metadata[b"passages"])
        return TokenFrequencies(dict(zip(ids, counts, strict=True)), total)

    def documents(self, rows: Sequence[int]) -> list[StoredDocument]:
        """The documents of some rows, in that order."""
        found = self._documents.take(pa.array(rows, pa.int64())).to_pylist()
        return [
            StoredDocument(row=row, **{**values, "metadata": json.loads(values["metadata"])})
            for row, values in zip(rows, found, strict=True)
        ]

    def passages(self, rows: Sequence[int]) -> list[StoredPassage]:
        """The passages of some rows, in that order."""
        found = self._passages.take(pa.array(rows, pa.int64())).to_pylist()
        return [StoredPassage(row=row, **values) for row, values in zip(rows, found, strict=True)]

    def document(self, row: int) -> StoredDocument:
        """The document of a row."""
        return self.documents([row])[0]

    def passage(self, row: int) -> StoredPassage:
        """The passage of a row."""
        return self.passages([row])[0]

    def document_id(self, row: int) -> str:
        """Id of the document of a row."""
        return str(self._documents.column("id")[row].as_py())

    def document_row(self, document_id: str) -> int | None:
        """Row of the document with this id, or None."""
        row = pc.index(self._documents.column("id"), pa.scalar(document_id, pa.string())).as_py()
        return None if row < 0 else int(row)

    def passages_of(self, document_row: int) -> range:
        """Rows of a document's passages."""
        first = int(self.first_passages[document_row])
        last = document_row + 1
        end = int(self.first_passages[last]) if last < self.entry.documents else self.entry.passages
        return range(first, end)

    def passage_vectors(self, row: int) -> NDArray[np.float16]:
        """Token vectors of a passage, float16 `[tokens, dim]`, as stored."""
        return self.vectors.read(int(self.offsets[row]), int(self.offsets[row + 1]))

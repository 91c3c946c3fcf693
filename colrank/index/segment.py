"""One immutable segment, opened for reading: documents, passages, offsets, and shards of tokens.

documents.arrow   id, title, source, language, metadata (JSON), encoded (False where the vectors were
                  given), first_passage; one row a document
passages.arrow    document (row), ordinal, start, end, prefix (characters of the title), text
offsets.arrow     token_offset: passage i owns tokens offsets[i]:offsets[i + 1]
frequencies.arrow token_id, passages: in how many passages each token id occurs
tokens-*.arrow    vector: whole token vectors; or
codes-*.arrow     what the codec keeps of each token (colrank.codec)
pooling.arrow     labels: for each token that was encoded the stored token that it is part of
postings.arrow, posting-offsets.arrow (colrank.index.postings)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from colrank_kernels import offsets_are_valid
from numpy.typing import NDArray

from colrank.codec import Codec
from colrank.encoder import TokenFrequencies
from colrank.errors import IndexDamaged
from colrank.index.codec_files import check_sizes
from colrank.index.manifest import SegmentEntry
from colrank.index.postings import Postings
from colrank.shards import TokenVectors, map_table
from colrank.types import Document, Passage

POOLING_FILE = "pooling.arrow"


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

    def written(self, passages: Sequence[StoredPassage]) -> tuple[Document, list[Passage]]:
        """The document without its text, and some of its passages, as a writer takes them again."""
        return (
            Document(self.id, "", self.title, self.metadata, self.source),
            [Passage(p.ordinal, p.text, p.start, p.end, self.prefix_of(p)) for p in passages],
        )


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


class Segment:
    """An opened segment; every file is memory-mapped and stays open, so that a later commit cannot
    take it away."""

    def __init__(self, folder: Path, entry: SegmentEntry, codec: Codec) -> None:
        check_sizes(folder, dict(entry.files))
        self.entry = entry
        self._documents = map_table(folder / "documents.arrow")
        self._passages = map_table(folder / "passages.arrow")
        offsets = map_table(folder / "offsets.arrow").column("token_offset")
        self.offsets: NDArray[np.int64] = offsets.chunk(0).to_numpy()
        self.vectors = TokenVectors.open(folder, entry.shards, codec, entry.tokens)
        if (
            len(self._documents) != entry.documents
            or len(self._passages) != entry.passages
            or len(self.offsets) != entry.passages + 1
            or not offsets_are_valid(self.offsets, entry.tokens)
        ):
            raise IndexDamaged(f"The rows of {folder} do not fit its manifest; index again with --overwrite.")
        self.postings: Postings | None = None
        if codec.centroids is not None:
            self.postings = Postings(folder, len(codec.centroids), entry.passages)
        self._pooling = map_table(folder / POOLING_FILE) if POOLING_FILE in entry.files else None
        if self._pooling is not None and len(self._pooling) != entry.passages:
            raise IndexDamaged(f"The rows of {folder} do not fit its manifest; index again with --overwrite.")
        self._frequencies = map_table(folder / "frequencies.arrow")
        self.passage_documents: NDArray[np.int64] = self._passages.column("document").to_numpy()
        self.first_passages: NDArray[np.int64] = self._documents.column("first_passage").to_numpy()
        bounds = np.append(self.first_passages, entry.passages)
        owners = np.arange(entry.documents)
        if not offsets_are_valid(bounds, entry.passages) or not np.array_equal(
            self.passage_documents, np.repeat(owners, np.diff(bounds))
        ):
            raise IndexDamaged(
                f"The documents and passages of {folder} do not fit each other; index again with --overwrite."
            )

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

    def labels(self, rows: Sequence[int]) -> list[NDArray[np.int64]] | None:
        """For each token that was encoded for a passage the stored token that it is part of.

        None where tokens are not pooled; an empty array for a passage of given vectors.
        """
        if self._pooling is None:
            return None
        found = self._pooling.column("labels").take(pa.array(rows, pa.int64())).to_pylist()
        return [np.array(labels, dtype=np.int64) for labels in found]

    def unpooled(self, rows: Sequence[int]) -> list[int]:
        """Tokens of some passages before pooling."""
        if self._pooling is None:
            return [int(self.offsets[row + 1] - self.offsets[row]) for row in rows]
        found: list[int] = self._pooling.column("unpooled").take(pa.array(rows, pa.int64())).to_pylist()
        return found

    @cached_property
    def filled(self) -> NDArray[np.int64]:
        """Rows of the passages that have tokens, ascending."""
        return np.flatnonzero(np.diff(self.offsets))

    @cached_property
    def filled_documents(self) -> int:
        """How many documents have a passage with tokens."""
        return len(np.unique(self.passage_documents[self.filled]))

    def passage_vectors(self, row: int) -> NDArray[np.float32] | NDArray[np.float16]:
        """Token vectors of a passage in the codec's space, `[tokens, dim]`."""
        return self.vectors.read(int(self.offsets[row]), int(self.offsets[row + 1]))

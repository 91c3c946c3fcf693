"""One immutable segment, opened for reading: documents, passages, offsets, and shards of tokens.

documents.arrow   id, title, source, language, metadata (JSON), encoded (False where the vectors were
                  given), first_passage, content (a hash); one row a document
ids.arrow         rows by hash of the id (colrank.index.document_ids)
passages.arrow    document (row), ordinal, start, end, prefix (characters of the title), text
offsets.arrow     token_offset: passage i owns tokens offsets[i]:offsets[i + 1]
frequencies.arrow token_id, passages: in how many passages each token id occurs
tokens-*.arrow    vector: whole token vectors; or
codes-*.arrow     what the codec keeps of each token (colrank.codec)
pooling.arrow     labels: for each token that was encoded the stored token that it is part of
postings.arrow, posting-offsets.arrow (colrank.index.postings)
words.arrow, word-postings.arrow, word-lengths.arrow (colrank.lexical.tables)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from colrank_kernels import offsets_are_valid
from numpy.typing import NDArray

from colrank.codec import Codec
from colrank.encoder import TokenFrequencies
from colrank.errors import IndexDamaged, first_line
from colrank.index.codec_files import check_sizes
from colrank.index.deletions import Deletions
from colrank.index.document_ids import FILE as IDS_FILE
from colrank.index.document_ids import DocumentIds
from colrank.index.entries import SegmentEntry
from colrank.index.frequency_files import FILE as FREQUENCIES_FILE
from colrank.index.frequency_files import read_frequencies
from colrank.index.postings import Postings
from colrank.index.schemas import DOCUMENTS, DOCUMENTS_2, FREQUENCIES, OFFSETS, PASSAGES, POOLING
from colrank.lexical import FILES as WORD_FILES
from colrank.lexical import WordTables
from colrank.shards import TokenVectors, map_table, one_chunk
from colrank.types import Document, Passage

POOLING_FILE = "pooling.arrow"


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as the index keeps it: all but its text, which its passages hold.

    `content` is a hash of what it was made of, 0 where that is not known.
    """

    row: int
    id: str
    title: str
    source: str
    language: str
    metadata: dict[str, Any]
    encoded: bool
    first_passage: int
    content: int = 0

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
    take it away. Rows are those of its files, deleted documents among them."""

    def __init__(self, folder: Path, entry: SegmentEntry, codec: Codec) -> None:
        check_sizes(folder, dict(entry.files))
        self.entry = entry
        self._folder = folder
        self.document_table = map_table(folder / "documents.arrow", DOCUMENTS, DOCUMENTS_2)
        self.passage_table = map_table(folder / "passages.arrow", PASSAGES)
        offsets = map_table(folder / "offsets.arrow", OFFSETS).column("token_offset")
        self.offsets: NDArray[np.int64] = one_chunk(offsets)
        self.vectors = TokenVectors.open(folder, entry.shards, codec, entry.tokens)
        if (
            len(self.document_table) != entry.documents
            or len(self.passage_table) != entry.passages
            or len(self.offsets) != entry.passages + 1
            or not offsets_are_valid(self.offsets, entry.tokens)
        ):
            raise IndexDamaged(f"The rows of {folder} do not fit its manifest; index again with --overwrite.")
        self.postings: Postings | None = None
        if codec.centroids is not None:
            self.postings = Postings(folder, len(codec.centroids), entry.passages)
        self.pooling_table: pa.Table | None = None
        if POOLING_FILE in entry.files:
            self.pooling_table = map_table(folder / POOLING_FILE, *POOLING)
        if self.pooling_table is not None and len(self.pooling_table) != entry.passages:
            raise IndexDamaged(f"The rows of {folder} do not fit its manifest; index again with --overwrite.")
        self.words: WordTables | None = None
        if all(name in entry.files for name in WORD_FILES):
            self.words = WordTables(folder, entry.passages)
        # Mapped now, as a later commit may take the files away before they are asked for.
        self._frequencies = map_table(folder / FREQUENCIES_FILE, FREQUENCIES)
        self._kept_ids = DocumentIds.open(folder, entry.documents) if IDS_FILE in entry.files else None
        self.deletions: Deletions | None = None
        if entry.deletions is not None:
            self.deletions = Deletions(folder.parent / entry.deletions.name, entry.deletions, entry)
        self.passage_documents: NDArray[np.int64] = self.passage_table.column("document").to_numpy()
        self.first_passages: NDArray[np.int64] = self.document_table.column("first_passage").to_numpy()
        bounds = np.append(self.first_passages, entry.passages)
        owners = np.arange(entry.documents)
        if not offsets_are_valid(bounds, entry.passages) or not np.array_equal(
            self.passage_documents, np.repeat(owners, np.diff(bounds))
        ):
            raise IndexDamaged(
                f"The documents and passages of {folder} do not fit each other; index again with --overwrite."
            )

    @cached_property
    def frequencies(self) -> TokenFrequencies:
        """In how many passages each token id occurs, those of deleted documents left out."""
        found = read_frequencies(self._folder, self._frequencies)
        if self.deletions is not None:
            found.subtract(self.deletions.frequencies)
        return found

    @cached_property
    def passage_counts(self) -> NDArray[np.int64]:
        """Passages of each document: int64 `[documents]`."""
        return np.diff(np.append(self.first_passages, self.entry.passages))

    @cached_property
    def live(self) -> NDArray[np.bool_]:
        """Which documents are not deleted: bool `[documents]`."""
        if self.deletions is None:
            return np.ones(self.entry.documents, dtype=bool)
        return ~self.deletions.deleted

    def documents(self, rows: Sequence[int]) -> list[StoredDocument]:
        """The documents of some rows, in that order."""
        with self._reading("documents.arrow"):
            found = self.document_table.take(pa.array(rows, pa.int64())).to_pylist()
            return [
                StoredDocument(row=row, **{**values, "metadata": json.loads(values["metadata"])})
                for row, values in zip(rows, found, strict=True)
            ]

    def passages(self, rows: Sequence[int]) -> list[StoredPassage]:
        """The passages of some rows, in that order."""
        with self._reading("passages.arrow"):
            found = self.passage_table.take(pa.array(rows, pa.int64())).to_pylist()
            return [StoredPassage(row=row, **values) for row, values in zip(rows, found, strict=True)]

    @contextmanager
    def _reading(self, file: str) -> Iterator[None]:
        """Tell of text that is no UTF-8 or no JSON as of a damaged file."""
        try:
            yield
        except ValueError as error:
            raise IndexDamaged(
                f"{file} of {self._folder} holds broken text ({first_line(error)}); index again with "
                "--overwrite."
            ) from error

    def document(self, row: int) -> StoredDocument:
        """The document of a row."""
        return self.documents([row])[0]

    def passage(self, row: int) -> StoredPassage:
        """The passage of a row."""
        return self.passages([row])[0]

    def document_id(self, row: int) -> str:
        """Id of the document of a row."""
        with self._reading("documents.arrow"):
            return str(self.document_table.column("id")[row].as_py())

    def ids(self) -> list[str]:
        """Ids of all documents, by row."""
        with self._reading("documents.arrow"):
            found: list[str] = self.document_table.column("id").to_pylist()
            return found

    def content_hash(self, row: int) -> int:
        """Hash of what the document of a row was made of, 0 where that is not known."""
        if "content" not in self.document_table.schema.names:  # of format version 2
            return 0
        return int(self.document_table.column("content")[row].as_py())

    @cached_property
    def _ids(self) -> DocumentIds:
        # Segments of format version 2 keep no table.
        return self._kept_ids or DocumentIds.of(self.ids())

    def document_rows(self, ids: Sequence[str], hashes: NDArray[np.uint64]) -> dict[str, int]:
        """Rows of the documents with these ids that are not deleted, by id; `hashes` are those of the ids."""
        found = {}
        for name, rows in zip(ids, self._ids.candidates(hashes), strict=True):
            for row in rows.tolist():
                if self.live[row] and self.document_id(row) == name:
                    found[name] = row
        return found

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
        if self.pooling_table is None:
            return None
        found = self.pooling_table.column("labels").take(pa.array(rows, pa.int64())).to_pylist()
        return [np.array(labels, dtype=np.int64) for labels in found]

    def unpooled(self, rows: Sequence[int]) -> list[int]:
        """Tokens of some passages before pooling."""
        if self.pooling_table is None:
            return [int(self.offsets[row + 1] - self.offsets[row]) for row in rows]
        found: list[int] = self.pooling_table.column("unpooled").take(pa.array(rows, pa.int64())).to_pylist()
        return found

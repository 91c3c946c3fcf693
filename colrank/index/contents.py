"""All segments of a snapshot as one: rows of documents and passages are counted over all of them.

Rows of deleted documents are counted too, and found by nothing here but their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from colrank.codec import Codec
from colrank.encoder import TokenFrequencies
from colrank.index.document_ids import id_hashes
from colrank.index.postings import PostingsOfAll
from colrank.index.segment import Segment, StoredDocument, StoredPassage
from colrank.lexical import Words
from colrank.shards import TokenVectors

_Row = TypeVar("_Row", StoredDocument, StoredPassage)
_DOCUMENTS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Counts:
    """How much an index holds, without what was deleted; `tokens` are those stored."""

    documents: int
    passages: int
    tokens: int
    unpooled_tokens: int
    language_tokens: Mapping[str, int]


class Contents:
    """Documents, passages and tokens of a snapshot.

    Attributes:
        segments: in the order in which their rows are counted.
        offsets: int64 `[passage rows + 1]`; passage i owns tokens offsets[i]:offsets[i + 1].
        vectors: tokens of all passages.
        passage_documents: int64 `[passage rows]`, the row of each one's document.
        postings: passages by centroid; None without centroids.
    """

    def __init__(self, segments: Sequence[Segment], codec: Codec) -> None:
        self.segments = tuple(segments)
        self._document_starts = _starts([segment.entry.documents for segment in segments])
        self._passage_starts = _starts([segment.entry.passages for segment in segments])
        token_starts = _starts([segment.entry.tokens for segment in segments])
        self.vectors = TokenVectors.joined(codec, [segment.vectors for segment in segments])
        self.offsets = _joined(
            [segment.offsets[1:] for segment in segments], token_starts, first=np.zeros(1, dtype=np.int64)
        )
        self.passage_documents = _joined(
            [segment.passage_documents for segment in segments], self._document_starts
        )
        if len(segments) == 1:  # as they are mapped
            self.offsets, self.passage_documents = segments[0].offsets, segments[0].passage_documents
        self.postings: PostingsOfAll | None = None
        if codec.centroids is not None:
            self.postings = PostingsOfAll(
                [segment.postings for segment in segments if segment.postings is not None],
                self._passage_starts,
                None if self._nothing_deleted else self.live_passages,
            )

    @cached_property
    def words(self) -> Words | None:
        """Words of passages, for BM25; None where a segment keeps none."""
        parts = [segment.words for segment in self.segments if segment.words is not None]
        if len(parts) < len(self.segments):
            return None
        return Words(parts, self._passage_starts, None if self._nothing_deleted else self.live_passages)

    @property
    def document_rows(self) -> int:
        """Rows of documents, deleted ones among them."""
        return int(self._document_starts[-1])

    @property
    def passage_rows(self) -> int:
        """Rows of passages, those of deleted documents among them."""
        return int(self._passage_starts[-1])

    @property
    def _nothing_deleted(self) -> bool:
        return all(segment.deletions is None for segment in self.segments)

    @cached_property
    def counts(self) -> Counts:
        """How much there is, without what was deleted."""
        entries = [segment.entry for segment in self.segments]
        languages: Counter[str] = Counter()
        unpooled = 0
        for entry in entries:
            languages.update(entry.language_tokens)
            unpooled += entry.unpooled_tokens
            if entry.deletions:
                languages.subtract(entry.deletions.language_tokens)
                unpooled -= entry.deletions.unpooled_tokens
        return Counts(
            documents=sum(entry.live_documents for entry in entries),
            passages=sum(entry.live_passages for entry in entries),
            tokens=sum(entry.live_tokens for entry in entries),
            unpooled_tokens=unpooled,
            language_tokens={name: count for name, count in sorted(languages.items()) if count},
        )

    @cached_property
    def live(self) -> NDArray[np.bool_]:
        """Which rows of documents are not deleted: bool `[document rows]`."""
        return np.concatenate([segment.live for segment in self.segments] or [np.zeros(0, dtype=bool)])

    @cached_property
    def live_passages(self) -> NDArray[np.bool_]:
        """Which rows of passages belong to documents that are not deleted: bool `[passage rows]`."""
        return self.live[self.passage_documents]

    @cached_property
    def filled(self) -> NDArray[np.int64]:
        """Rows of the passages that can be found, ascending: not deleted, and with tokens."""
        filled = np.diff(self.offsets) > 0
        return np.flatnonzero(filled if self._nothing_deleted else filled & self.live_passages)

    @cached_property
    def filled_documents(self) -> int:
        """How many documents can be found."""
        return len(np.unique(self.passage_documents[self.filled]))

    @cached_property
    def frequencies(self) -> TokenFrequencies:
        """In how many passages each token id occurs."""
        found = TokenFrequencies()
        for segment in self.segments:
            found.include(segment.frequencies)
        return found

    def place(self, document_row: int) -> tuple[int, int]:
        """Number of the segment that holds a document, and its row there."""
        number = int(np.searchsorted(self._document_starts, document_row, side="right")) - 1
        return number, document_row - int(self._document_starts[number])

    def documents(self, rows: Sequence[int]) -> list[StoredDocument]:
        """The documents of some rows, in that order."""
        firsts = self._passage_starts

        def moved(number: int, row: int, found: StoredDocument) -> StoredDocument:
            return replace(found, row=row, first_passage=found.first_passage + int(firsts[number]))

        return self._gathered(rows, self._document_starts, Segment.documents, moved)

    def passages(self, rows: Sequence[int]) -> list[StoredPassage]:
        """The passages of some rows, in that order."""
        firsts = self._document_starts

        def moved(number: int, row: int, found: StoredPassage) -> StoredPassage:
            return replace(found, row=row, document=found.document + int(firsts[number]))

        return self._gathered(rows, self._passage_starts, Segment.passages, moved)

    def document(self, row: int) -> StoredDocument:
        """The document of a row."""
        return self.documents([row])[0]

    def passage(self, row: int) -> StoredPassage:
        """The passage of a row."""
        return self.passages([row])[0]

    def document_id(self, row: int) -> str:
        """Id of the document of a row."""
        number, local = self.place(row)
        return self.segments[number].document_id(local)

    def ids(self) -> list[str]:
        """Ids of the documents of all rows, those of deleted ones among them."""
        return [name for segment in self.segments for name in segment.ids()]

    def live_documents(self) -> Iterator[StoredDocument]:
        """All documents that are not deleted, by row."""
        rows = np.flatnonzero(self.live)
        for first in range(0, len(rows), _DOCUMENTS_AT_ONCE):
            yield from self.documents(rows[first : first + _DOCUMENTS_AT_ONCE].tolist())

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Rows of the documents with these ids, by id; those that the index does not hold are left out."""
        hashes = id_hashes(ids)
        found: dict[str, int] = {}
        for start, segment in zip(self._document_starts.tolist(), self.segments, strict=False):
            found |= {name: start + row for name, row in segment.document_rows(ids, hashes).items()}
        return found

    def document_row(self, document_id: str) -> int | None:
        """Row of the document with this id, or None."""
        return self.rows_of([document_id]).get(document_id)

    def content_hashes(self, document_rows: Sequence[int]) -> list[int]:
        """Hash of what each of some documents was made of, 0 where that is not known."""
        out = []
        for row in document_rows:
            number, local = self.place(row)
            out.append(self.segments[number].content_hash(local))
        return out

    def passages_of(self, document_row: int) -> range:
        """Rows of a document's passages."""
        number, local = self.place(document_row)
        owned = self.segments[number].passages_of(local)
        first = int(self._passage_starts[number])
        return range(first + owned.start, first + owned.stop)

    def labels(self, rows: Sequence[int]) -> list[NDArray[np.int64]] | None:
        """For each token that was encoded for a passage the stored token that it is part of.

        None where tokens are not pooled; an empty array for a passage of given vectors.
        """
        out: list[NDArray[np.int64]] = []
        for row in rows:
            number = int(np.searchsorted(self._passage_starts, row, side="right")) - 1
            found = self.segments[number].labels([row - int(self._passage_starts[number])])
            if found is None:
                return None
            out += found
        return out

    def passage_vectors(self, row: int) -> NDArray[np.float32] | NDArray[np.float16]:
        """Token vectors of a passage in the codec's space, `[tokens, dim]`."""
        return self.vectors.read(int(self.offsets[row]), int(self.offsets[row + 1]))

    def _gathered(
        self,
        rows: Sequence[int],
        starts: NDArray[np.int64],
        read: Callable[[Segment, Sequence[int]], list[_Row]],
        moved: Callable[[int, int, _Row], _Row],
    ) -> list[_Row]:
        """What segments give for their part of some rows, in the order of the rows."""
        if len(self.segments) == 1:
            return read(self.segments[0], rows)
        asked = np.asarray(rows, dtype=np.int64)
        numbers = np.searchsorted(starts, asked, side="right") - 1
        out: dict[int, _Row] = {}
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            local = (asked[places] - starts[number]).tolist()
            for place, found in zip(places.tolist(), read(self.segments[number], local), strict=True):
                out[place] = moved(number, int(asked[place]), found)
        return [out[place] for place in range(len(asked))]


def _starts(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.cumsum([0, *counts], dtype=np.int64)


def _joined(
    parts: Sequence[NDArray[Any]], shifts: NDArray[np.int64], first: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Parts one after the other, each moved up by its shift."""
    moved = [part + shift for part, shift in zip(parts, shifts.tolist(), strict=False)]
    return np.concatenate([*([] if first is None else [first]), *moved, np.empty(0, dtype=np.int64)])

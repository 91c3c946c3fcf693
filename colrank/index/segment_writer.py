"""Writes one segment: see `colrank.index.segment` for its files."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colrank.codec import Codec, Columns, StreamSample
from colrank.encoder import TokenFrequencies
from colrank.index.codec_files import checksums
from colrank.index.document_ids import id_hashes, write_ids
from colrank.index.entries import SegmentEntry
from colrank.index.frequency_files import write_frequencies
from colrank.index.postings import write_postings
from colrank.index.row_writer import RowWriter
from colrank.index.schemas import DOCUMENTS, PASSAGES
from colrank.index.segment import POOLING_FILE, Segment
from colrank.lexical import write_words
from colrank.shards import ShardWriter, TokenVectors, map_table, ranges, sync_file, write_table
from colrank.types import Document, Passage

_CODED_AT_ONCE = 1 << 15
_SPOOLED_AT_ONCE = 1 << 12
_TESTED_AT_ONCE = 1 << 10
_COPIED_AT_ONCE = 1 << 12
"""Passages of other segments that are copied at once."""


class SegmentWriter:
    """Writes one segment, document by document, in memory that does not grow with the text.

    New tokens are spooled as whole vectors, tokens of an older segment are named by their place in it.
    `code` turns both into codes at the end, when it is known how many there are. Where vectors stay
    whole, the spool is what is kept.

    Args:
        folder: made here.
        whole: the codec of the spool.
        longest: most tokens of a passage before pooling where they are pooled, else 0.
        sample: is offered every vector that is spooled.
        words: keep the words of passages, for BM25.
    """

    def __init__(
        self,
        folder: Path,
        whole: Codec,
        longest: int = 0,
        sample: StreamSample | None = None,
        words: bool = False,
    ) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._words = words
        self._codec = whole
        self._sample = sample
        self._documents = RowWriter(folder / "documents.arrow", DOCUMENTS)
        self._passages = RowWriter(folder / "passages.arrow", PASSAGES)
        self._pooling: RowWriter | None = None
        if longest:
            label = pa.uint8() if longest <= 1 << 8 else pa.uint16() if longest <= 1 << 16 else pa.uint32()
            schema = pa.schema([("labels", pa.large_list(label)), ("unpooled", pa.int64())])
            self._pooling = RowWriter(folder / POOLING_FILE, schema)
        self._shards = ShardWriter(folder, whole.schema, "tokens")
        self._stored: list[tuple[TokenVectors, int, int]] = []
        self._waiting: list[NDArray[np.float32] | NDArray[np.float16]] = []
        self._waiting_tokens = 0
        self._squared_error = 0.0
        self._tested = 0
        self._offsets = array("q", [0])
        self._hashes = array("Q")
        self._language_tokens: Counter[str] = Counter()
        self.documents = 0
        self.unpooled_tokens = 0

    @property
    def passages(self) -> int:
        """Passages written so far."""
        return len(self._offsets) - 1

    @property
    def tokens(self) -> int:
        """Tokens written so far."""
        return self._offsets[-1]

    def add(
        self,
        document: Document,
        language: str,
        passages: Sequence[Passage],
        vectors: Sequence[NDArray[np.float32] | NDArray[np.float16]],
        *,
        encoded: bool,
        content: int = 0,
        labels: Sequence[NDArray[np.int64]] | None = None,
        unpooled: Sequence[int] | None = None,
    ) -> None:
        """Append a document with the vectors `[tokens, dim]` of each of its passages.

        Args:
            content: hash of what the document was made of, 0 where that is not known.
            encoded: whether the index's model made them, which decides whether their tokens are known.
            labels: where tokens were pooled, for each passage the stored token of each that was encoded.
            unpooled: tokens of each passage before pooling, where `labels` do not say.
        """
        if unpooled is None:
            unpooled = list(map(len, vectors if labels is None else labels))
        lengths = list(map(len, vectors))
        self._add_rows(document, language, passages, lengths, encoded, content, labels, unpooled)
        for block in vectors:
            self._spool(block)

    def _spool(self, block: NDArray[np.float32] | NDArray[np.float16]) -> None:
        # Joined, as a call for each short passage would take longer than what it does.
        self._waiting.append(block)
        self._waiting_tokens += len(block)
        if self._waiting_tokens >= _SPOOLED_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Spool what waits: only then has the sample seen every vector."""
        if self._waiting_tokens:
            block: Any = np.concatenate(self._waiting)
            self._shards.write(self._codec.encode(block))
            if self._sample is not None:
                self._sample.add(block)
        self._waiting, self._waiting_tokens = [], 0

    def add_segment(self, source: Segment, live: NDArray[np.bool_]) -> None:
        """Append some documents of another segment with their tokens, before any that is new.

        Args:
            source: opened with the codec of the index, or with whole vectors.
            live: which documents, bool `[documents]`.
        """
        rows = np.flatnonzero(live)
        counts = source.passage_counts[rows]
        ends = np.cumsum(counts)
        begin = 0
        while begin < len(rows):
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + _COPIED_AT_ONCE, side="right")))
            owned = ranges(source.first_passages[rows[begin:end]], counts[begin:end])
            self._copy(source, rows[begin:end], owned)
            begin = end
        error, tokens = source.entry.squared_error, source.entry.live_tokens
        if error is not None and tokens:
            # What is taken over as it is was measured when it was coded.
            self._squared_error += error * tokens
            self._tested += tokens

    def _copy(self, source: Segment, rows: NDArray[np.int64], passages: NDArray[np.int64]) -> None:
        """Append some documents of a segment, given with all their passages."""
        counts = source.passage_counts[rows]
        documents = source.document_table.take(pa.array(rows))
        firsts = self.passages + np.cumsum(counts) - counts
        self._hashes.extend(id_hashes(documents.column("id").to_pylist()).tolist())
        if "content" not in documents.schema.names:  # of format version 2
            documents = documents.append_column("content", pa.array(np.zeros(len(rows), dtype=np.uint64)))
        place = documents.schema.get_field_index("first_passage")
        self._documents.add_table(documents.set_column(place, "first_passage", pa.array(firsts)))
        owners = self.documents + np.repeat(np.arange(len(rows)), counts)
        held = source.passage_table.take(pa.array(passages))
        self._passages.add_table(
            held.set_column(held.schema.get_field_index("document"), "document", pa.array(owners))
        )
        lengths = source.offsets[passages + 1] - source.offsets[passages]
        self._offsets.extend((self.tokens + np.cumsum(lengths)).tolist())
        languages = documents.column("language").to_pylist()
        by_document = np.bincount(owners - self.documents, weights=lengths, minlength=len(rows))
        for language, tokens in zip(languages, by_document.tolist(), strict=True):
            self._language_tokens[language] += int(tokens)
        if self._pooling and source.pooling_table is not None:
            pooled = source.pooling_table.take(pa.array(passages))
            self._pooling.add_table(pooled)
            self.unpooled_tokens += int(pc.sum(pooled.column("unpooled")).as_py() or 0)
        else:
            self.unpooled_tokens += int(lengths.sum())
        self.documents += len(rows)
        for begin, end in _runs(source.offsets[passages], source.offsets[passages + 1]):
            if source.vectors.codec.centroids is None:
                for first in range(begin, end, _CODED_AT_ONCE):
                    self._spool(source.vectors.read(first, min(first + _CODED_AT_ONCE, end)))
            elif self._stored and self._stored[-1][0] is source.vectors and self._stored[-1][2] == begin:
                self._stored[-1] = (source.vectors, self._stored[-1][1], end)
            else:
                self._stored.append((source.vectors, begin, end))

    def _add_rows(
        self,
        document: Document,
        language: str,
        passages: Sequence[Passage],
        lengths: Sequence[int],
        encoded: bool,
        content: int,
        labels: Sequence[NDArray[np.int64]] | None,
        unpooled: Sequence[int],
    ) -> None:
        self._hashes.extend(id_hashes([document.id]).tolist())
        self._documents.add(
            document.id,
            document.title,
            document.source,
            language,
            json.dumps(dict(document.metadata), ensure_ascii=False),
            encoded,
            self.passages,
            content,
        )
        for place, (passage, length) in enumerate(zip(passages, lengths, strict=True)):
            self._passages.add(
                self.documents, passage.ordinal, passage.start, passage.end, len(passage.prefix), passage.text
            )
            self._offsets.append(self._offsets[-1] + length)
            self._language_tokens[language] += length
            if self._pooling:
                self._pooling.add([] if labels is None else labels[place], unpooled[place])
            self.unpooled_tokens += unpooled[place]
        self.documents += 1

    def sample_stored(self) -> None:
        """Offer the sample what the tokens of older segments decode to."""
        assert self._sample is not None
        self.flush()
        for tokens, begin, end in _pieces(self._stored):
            vectors = tokens.codec.turn_back(tokens.read(begin, end))
            self._sample.add(vectors, original=not tokens.codec.coded)

    def code(self, codec: Codec, done: Callable[[int], None] | None = None) -> None:
        """Store all tokens by a codec with centroids; `done` is told of tokens as they are coded.

        Tokens that are stored by that codec already are taken over as they are.
        """
        self.flush()
        self._shards.close()
        spooled = self._shards.files
        whole = TokenVectors.open(self._folder, spooled, self._codec, self._shards.tokens)
        if any(tokens.codec is not codec for tokens, _, _ in self._stored):
            self._squared_error, self._tested = 0.0, 0
        self._codec = codec
        self._shards = ShardWriter(self._folder, codec.schema, "codes")
        for tokens, begin, end in _pieces([*self._stored, (whole, 0, len(whole))]):
            if tokens.codec is codec:
                self._shards.write(tokens.columns(begin, end))
            else:
                vectors = tokens.codec.turn_back(tokens.read(begin, end))
                columns = codec.encode(vectors)
                self._shards.write(columns)
                if not tokens.codec.coded:
                    self._test(vectors[:_TESTED_AT_ONCE], columns)
            if done:
                done(end - begin)
        self._stored = []
        del whole
        for name in spooled:
            (self._folder / name).unlink()

    def _test(self, vectors: NDArray[np.float32] | NDArray[np.float16], columns: Columns) -> None:
        """Measure the codec's error on some tokens that were just coded from their whole vectors."""
        if not self._codec.coded:
            return
        decoded = self._codec.decode({name: values[: len(vectors)] for name, values in columns.items()})
        wanted = self._codec.turn(vectors.astype(np.float32))
        self._squared_error += float(((decoded - wanted) ** 2).sum(dtype=np.float64))
        self._tested += len(vectors)

    def finish(self, frequencies: TokenFrequencies) -> SegmentEntry:
        """Close all files, flush them to the disk, and return the segment's entry for a manifest."""
        self._documents.close()
        self._passages.close()
        if self._pooling:
            self._pooling.close()
        self.flush()
        self._shards.close()
        offsets = np.frombuffer(self._offsets, dtype=np.int64)
        write_table(
            pa.table({"token_offset": offsets}), self._folder / "offsets.arrow", rows=max(1, len(offsets))
        )
        write_ids(self._folder, np.frombuffer(self._hashes, dtype=np.uint64))
        write_frequencies(frequencies, self._folder)
        if self._codec.centroids is not None:
            tokens = TokenVectors.open(self._folder, self._shards.files, self._codec, self._shards.tokens)
            write_postings(self._folder, tokens, offsets, len(self._codec.centroids))
        if self._words:
            write_words(self._folder, _titled_texts(self._folder))
        sync_file(self._folder)
        return SegmentEntry(
            name=self._folder.name,
            documents=self.documents,
            passages=self.passages,
            tokens=self.tokens,
            shards=tuple(self._shards.files),
            language_tokens=dict(sorted(self._language_tokens.items())),
            files=checksums(self._folder),
            unpooled_tokens=self.unpooled_tokens,
            squared_error=round(self._squared_error / self._tested, 6) if self._tested else None,
        )

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._documents.abandon()
            self._passages.abandon()
            if self._pooling:
                self._pooling.abandon()
            self._shards.abandon()


def _titled_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Language, and title and text, of each passage of a segment that is written."""
    documents = map_table(folder / "documents.arrow", DOCUMENTS)
    for batch in map_table(folder / "passages.arrow", PASSAGES).to_batches():
        owners = documents.select(["language", "title"]).take(batch.column("document")).to_pylist()
        for owner, text in zip(owners, batch.column("text").to_pylist(), strict=True):
            yield owner["language"], f"{owner['title']} {text}"


def _runs(begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges that follow one another without a gap, joined."""
    if not len(begins):
        return
    cuts = np.flatnonzero(begins[1:] != ends[:-1])
    firsts = begins[np.concatenate([[0], cuts + 1])]
    lasts = ends[np.concatenate([cuts, [len(ends) - 1]])]
    yield from zip(firsts.tolist(), lasts.tolist(), strict=True)


def _pieces(
    ranges: Sequence[tuple[TokenVectors, int, int]],
) -> Iterator[tuple[TokenVectors, int, int]]:
    """Ranges of tokens cut to what is coded at once, so that equal input gives equal bytes."""
    for tokens, begin, end in ranges:
        for start in range(begin, end, _CODED_AT_ONCE):
            yield tokens, start, min(start + _CODED_AT_ONCE, end)

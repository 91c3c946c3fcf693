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
from numpy.typing import NDArray

from colrank.codec import Codec, Columns, StreamSample
from colrank.encoder import TokenFrequencies
from colrank.index.codec_files import checksums
from colrank.index.manifest import SegmentEntry
from colrank.index.postings import write_postings
from colrank.index.segment import POOLING_FILE, Segment
from colrank.shards import ShardWriter, TokenVectors, sync_file, write_table
from colrank.types import Document, Passage

_ROWS = 4096
_CODED_AT_ONCE = 1 << 15
_TESTED_AT_ONCE = 1 << 10

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
    """Writes one segment, document by document, in memory that does not grow with the text.

    New tokens are spooled as whole vectors, tokens of an older segment are named by their place in it.
    `code` turns both into codes at the end, when it is known how many there are. Where vectors stay
    whole, the spool is what is kept.

    Args:
        folder: made here.
        whole: the codec of the spool.
        longest: most tokens of a passage before pooling where they are pooled, else 0.
        sample: is offered every vector that is spooled.
    """

    def __init__(
        self, folder: Path, whole: Codec, longest: int = 0, sample: StreamSample | None = None
    ) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._codec = whole
        self._sample = sample
        self._documents = _RowWriter(folder / "documents.arrow", _DOCUMENTS)
        self._passages = _RowWriter(folder / "passages.arrow", _PASSAGES)
        self._pooling: _RowWriter | None = None
        if longest:
            label = pa.uint8() if longest <= 1 << 8 else pa.uint16() if longest <= 1 << 16 else pa.uint32()
            schema = pa.schema([("labels", pa.large_list(label)), ("unpooled", pa.int64())])
            self._pooling = _RowWriter(folder / POOLING_FILE, schema)
        self._shards = ShardWriter(folder, whole.schema, "tokens")
        self._stored: list[tuple[TokenVectors, int, int]] = []
        self._squared_error = 0.0
        self._tested = 0
        self._offsets = array("q", [0])
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
        labels: Sequence[NDArray[np.int64]] | None = None,
        unpooled: Sequence[int] | None = None,
    ) -> None:
        """Append a document with the vectors `[tokens, dim]` of each of its passages.

        Args:
            encoded: whether the index's model made them, which decides whether their tokens are known.
            labels: where tokens were pooled, for each passage the stored token of each that was encoded.
            unpooled: tokens of each passage before pooling, where `labels` do not say.
        """
        if unpooled is None:
            unpooled = list(map(len, vectors if labels is None else labels))
        lengths = list(map(len, vectors))
        self._add_rows(document, language, passages, lengths, encoded, labels, unpooled)
        for block in vectors:
            self._spool(block)

    def _spool(self, block: NDArray[np.float32] | NDArray[np.float16]) -> None:
        if len(block):
            self._shards.write(self._codec.encode(block))
            if self._sample is not None:
                self._sample.add(block)

    def add_stored(
        self,
        document: Document,
        language: str,
        passages: Sequence[Passage],
        source: Segment,
        rows: range,
        *,
        encoded: bool,
    ) -> None:
        """Append a document of another segment with its tokens, before anything new is added."""
        labels = source.labels(rows) if self._pooling else None
        begin, end = int(source.offsets[rows.start]), int(source.offsets[rows.stop])
        lengths = np.diff(source.offsets[rows.start : rows.stop + 1]).tolist()
        self._add_rows(document, language, passages, lengths, encoded, labels, source.unpooled(rows))
        if source.vectors.codec.centroids is None:
            self._spool(source.vectors.read(begin, end))
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
        labels: Sequence[NDArray[np.int64]] | None,
        unpooled: Sequence[int],
    ) -> None:
        self._documents.add(
            document.id,
            document.title,
            document.source,
            language,
            json.dumps(dict(document.metadata), ensure_ascii=False),
            encoded,
            self.passages,
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
        for tokens, begin, end in _pieces(self._stored):
            vectors = tokens.codec.turn_back(tokens.read(begin, end))
            self._sample.add(vectors, original=not tokens.codec.coded)

    def code(self, codec: Codec, done: Callable[[int], None] | None = None) -> None:
        """Store all tokens by a codec with centroids; `done` is told of tokens as they are coded.

        Tokens that are stored by that codec already are taken over as they are.
        """
        self._shards.close()
        spooled = self._shards.files
        whole = TokenVectors.open(self._folder, spooled, self._codec, self._shards.tokens)
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
        if self._codec.centroids is not None:
            tokens = TokenVectors.open(self._folder, self._shards.files, self._codec, self._shards.tokens)
            write_postings(self._folder, tokens, offsets, len(self._codec.centroids))
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


def _pieces(
    ranges: Sequence[tuple[TokenVectors, int, int]],
) -> Iterator[tuple[TokenVectors, int, int]]:
    """Ranges of tokens cut to what is coded at once, so that equal input gives equal bytes."""
    for tokens, begin, end in ranges:
        for start in range(begin, end, _CODED_AT_ONCE):
            yield tokens, start, min(start + _CODED_AT_ONCE, end)

"""From documents to a committed segment: spool, split, encode, write, commit.

Documents are first spooled to the disk, so that the later of two with the same id can replace the
earlier one before anything is encoded, totals are known, and any iterator will do. Token vectors are
encoded once and spooled in float16 until the codec is trained. Memory follows the window of passages, the
list of ids, the longest document and the training sample (512 sqrt(tokens) vectors, at most 2^22, in
float16, and in float32 while k-means runs), not the whole text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colrank.builder.built import Built
from colrank.builder.deleting import removed_documents
from colrank.builder.encoded import EncodedWindows
from colrank.builder.progress import Progress, Silent
from colrank.builder.spool import Spool, content_hash
from colrank.builder.storage import Storage
from colrank.encoder import Encoder, TokenFrequencies
from colrank.errors import CorpusError
from colrank.index import IndexWriter, Manifest, SegmentWriter, Snapshot
from colrank.language import UNKNOWN, detect_language
from colrank.passages import Splitter, encoder_input
from colrank.pooling import pool_tokens
from colrank.types import Document, Passage, Problems, Vectors

ENDLESS_WORDS = "documents with a word too long for the model, which cannot be found by it"
UNKNOWN_TOKENS = "passages of which the model knows no token, which cannot be found by their text"
NO_TOKENS = "passages without a token that the model keeps, which cannot be found"
_LONGEST_WORD = 100
_WINDOW_PASSAGES = 1024


class _Window:
    """Documents split but not yet encoded; flushed when it holds enough passages.

    Windows are of a fixed size so that batches, and so the bytes written, do not depend on anything but
    the documents and their order.
    """

    def __init__(
        self,
        encoder: Encoder,
        encoded: EncodedWindows,
        writer: SegmentWriter,
        frequencies: TokenFrequencies,
        problems: Problems,
        progress: Progress,
        pool: int,
    ) -> None:
        self._pool = pool
        self._encoder = encoder
        self._encoded = encoded
        self._writer = writer
        self._frequencies = frequencies
        self._problems = problems
        self._progress = progress
        self._documents: list[tuple[Document, str, list[Passage]]] = []
        self._inputs: list[str] = []
        self._lengths: list[int] = []

    def add(self, document: Document, language: str, passages: list[Passage]) -> None:
        self._documents.append((document, language, passages))
        endless = False
        for passage in passages:
            text = encoder_input(passage.prefix, passage.text)
            spans = self._encoder.token_spans(text)
            endless = endless or any(end - start > _LONGEST_WORD for start, end in spans)
            self._inputs.append(text)
            self._lengths.append(len(spans))
        if endless:
            self._problems.add(ENDLESS_WORDS, document.id)
        if len(self._inputs) >= _WINDOW_PASSAGES:
            self.flush()

    def flush(self) -> None:
        def done(rows: Sequence[int]) -> None:
            self._progress.advance(
                sum(len(self._inputs[row]) for row in rows), sum(self._lengths[row] for row in rows)
            )

        encoded = iter(self._encoded.encode(self._inputs, self._lengths, done))
        for document, language, passages in self._documents:
            vectors, labels = [], []
            for passage in passages:
                block, ids = next(encoded)
                self._frequencies.add(ids.tolist())
                if not len(block):
                    self._problems.add(NO_TOKENS, f"{document.id}#{passage.ordinal}")
                elif not self._encoder.knows_any(ids):
                    self._problems.add(UNKNOWN_TOKENS, f"{document.id}#{passage.ordinal}")
                pooled, groups = _pooled(block, self._pool, self._encoder.is_marker(ids))
                vectors.append(pooled)
                labels.append(groups)
            self._writer.add(
                document,
                language,
                passages,
                vectors,
                encoded=True,
                content=content_hash(document),
                labels=labels if self._pool > 1 else None,
            )
        self._documents, self._inputs, self._lengths = [], [], []


def _pooled(
    block: NDArray[np.float16] | NDArray[np.float32], factor: int, markers: NDArray[np.bool_]
) -> tuple[NDArray[np.float16] | NDArray[np.float32], NDArray[np.int64]]:
    if factor == 1:
        return block, np.arange(len(block))
    return pool_tokens(block.astype(np.float32), factor, markers)


def build_from_documents(
    writer: IndexWriter,
    documents: Iterable[Document],
    encoder: Encoder,
    settings: Manifest,
    *,
    base: Snapshot | None = None,
    vanished: Callable[[Collection[str]], Iterable[str]] | None = None,
    problems: Problems,
    strict: bool = False,
    prefilter: bool = True,
    progress: Progress | None = None,
) -> Built:
    """Encode documents and commit them as the next generation; nothing is committed where nothing changed.

    A document that the base holds with the same content is left as it is, one with another content replaced.

    Args:
        writer: an entered `IndexWriter`.
        documents: read once, as a stream.
        encoder: the model; when `base` is given, the one that the base was made with.
        settings: the manifest of the generation before (generation 0 for a new index).
        base: the documents to keep.
        vanished: told the ids that were read, gives those of the base to delete.
        problems: where problems are counted, those of reading included.
        strict: problems are errors.
        prefilter: whether whole vectors get the centroids that a prefilter needs.
        progress: told of the progress.

    Raises:
        CorpusError: no document could be read, or under `strict` any problem.
    """
    progress = progress or Silent()
    spool = Spool(writer.building / "spool.arrow")
    spool.fill(documents, problems, strict)
    if not spool.rows:
        told = "; ".join(problems.sentences()) or "the input is empty"
        raise CorpusError(f"There is no document to index ({told}).")
    change = _change(base, spool, vanished)
    if base is not None and not change.new and not change.gone:
        return Built(base.manifest, unchanged=len(spool.rows))
    splitter = Splitter(
        encoder.token_spans, encoder.text_budget(settings.passage_tokens), overlap=settings.overlap
    )
    plan = Storage(writer, settings, base, longest=settings.passage_tokens, prefilter=prefilter)
    with plan.segment as segment:
        frequencies = TokenFrequencies()
        progress.start("encoding", spool.length(change.new), "characters")
        encoded = EncodedWindows(writer.resumed, encoder, settings.whole_bits, settings.dtype)
        window = _Window(encoder, encoded, segment, frequencies, problems, progress, settings.pool)
        for document in spool.documents(change.new):
            language = detect_language(f"{document.title} {document.text}")
            passages = splitter.split(document, language, problems)
            window.add(document, language, passages)
            plan.check()
        window.flush()
        if strict and problems:
            raise CorpusError("; ".join(problems.sentences()) + " (--strict).")
        rows = [*change.replaced.values(), *change.gone.values()]
        removed = removed_documents(base, rows, lambda: encoder)
        return Built(
            plan.commit(frequencies, removed, progress),
            added=len(change.new) - len(change.replaced),
            replaced=len(change.replaced),
            unchanged=len(spool.rows) - len(change.new),
            deleted=len(change.gone),
            resumed=encoded.resumed,
        )


@dataclass(frozen=True, slots=True)
class _Change:
    """Ids to encode, rows of the base that they replace by id, and rows that go without a successor by id."""

    new: Collection[str]
    replaced: dict[str, int]
    gone: dict[str, int]


def _change(
    base: Snapshot | None, spool: Spool, vanished: Callable[[Collection[str]], Iterable[str]] | None
) -> _Change:
    ids = list(spool.rows)
    if base is None:
        return _Change(set(ids), {}, {})
    held = base.contents.rows_of(ids)
    stored = dict(zip(held, base.contents.content_hashes(list(held.values())), strict=True))
    new = {name for name in ids if name not in stored or stored[name] != spool.content(name)}
    gone = base.contents.rows_of(list(vanished(ids))) if vanished else {}
    return _Change(new, {name: row for name, row in held.items() if name in new}, gone)


def build_from_vectors(
    writer: IndexWriter,
    given: Iterable[tuple[Document, Vectors]],
    last: Mapping[str, int],
    settings: Manifest,
    *,
    base: Snapshot | None = None,
    encoder: Callable[[], Encoder] | None = None,
    progress: Progress | None = None,
) -> Built:
    """Commit documents with given token vectors as the next generation.

    Args:
        given: documents and the unit vectors `[tokens, dim]` of each, read once, as a stream.
        last: place in the stream of the document that counts for each id.
        encoder: gives the encoder of the base, asked for only when documents that it encoded are
            replaced, whose token frequencies are then taken back.
    """
    plan = Storage(writer, settings, base, longest=1 << 31)
    with plan.segment as segment:
        for place, (document, vectors) in enumerate(given):
            if last[document.id] != place:
                continue
            body = document.text or document.title
            language = detect_language(body) if body else UNKNOWN
            passages = [Passage(0, body, 0, len(body))]
            pooled, _ = pool_tokens(vectors, settings.pool)
            segment.add(document, language, passages, [pooled], encoded=False, unpooled=[len(vectors)])
            plan.check()
        held = base.contents.rows_of(list(last)) if base else {}
        removed = removed_documents(base, held.values(), encoder)
        manifest = plan.commit(TokenFrequencies(), removed, progress or Silent())
        return Built(manifest, added=len(last) - len(held), replaced=len(held))

"""From documents to a committed segment: spool, split, encode, write, commit.

Documents are first spooled to the disk, so that the later of two with the same id can replace the
earlier one before anything is encoded, totals are known, and any iterator will do. Token vectors are
encoded once and spooled in float16 until the codec is trained. Memory follows the window of passages, the
list of ids, the longest document and the training sample (512 sqrt(tokens) vectors, at most 2^22, in
float16, and in float32 while k-means runs), not the whole text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from colrank.builder.progress import Progress, Silent
from colrank.builder.spool import DUPLICATES, Spool
from colrank.builder.storage import Storage
from colrank.builder.vectors import GivenVectors
from colrank.encoder import Encoder, TokenFrequencies
from colrank.errors import CorpusError
from colrank.index import IndexWriter, Manifest, SegmentWriter, Snapshot
from colrank.language import UNKNOWN, detect_language
from colrank.passages import Splitter, encoder_input
from colrank.pooling import pool_tokens
from colrank.types import BuildReport, Document, Passage, Problems

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
        writer: SegmentWriter,
        frequencies: TokenFrequencies,
        problems: Problems,
        progress: Progress,
        pool: int,
    ) -> None:
        self._pool = pool
        self._encoder = encoder
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

        encoded = iter(self._encoder.encode_passages(self._inputs, self._lengths, done))
        for document, language, passages in self._documents:
            vectors, labels = [], []
            for passage in passages:
                block, ids = next(encoded)
                self._frequencies.add(ids.tolist())
                if not len(block):
                    self._problems.add(NO_TOKENS, f"{document.id}#{passage.ordinal}")
                elif not self._encoder.knows_any(ids):
                    self._problems.add(UNKNOWN_TOKENS, f"{document.id}#{passage.ordinal}")
                pooled, groups = pool_tokens(block, self._pool, self._encoder.is_marker(ids))
                vectors.append(pooled)
                labels.append(groups)
            self._writer.add(
                document,
                language,
                passages,
                vectors,
                encoded=True,
                labels=labels if self._pool > 1 else None,
            )
        self._documents, self._inputs, self._lengths = [], [], []


def build_from_documents(
    writer: IndexWriter,
    documents: Iterable[Document],
    encoder: Encoder,
    settings: Manifest,
    *,
    base: Snapshot | None = None,
    problems: Problems,
    strict: bool = False,
    prefilter: bool = True,
    progress: Progress | None = None,
) -> BuildReport:
    """Encode documents and commit them as the next generation.

    Args:
        writer: an entered `IndexWriter`.
        documents: read once, as a stream.
        encoder: the model; when `base` is given, the one that the base was made with.
        settings: the manifest of the generation before (generation 0 for a new index).
        base: the documents to keep, all but those that come again.
        problems: where problems are counted, those of reading included.
        strict: problems are errors.
        prefilter: whether whole vectors get the centroids that a prefilter needs.
        progress: told of the progress.

    Raises:
        CorpusError: no document could be read, or under `strict` any problem.
    """
    begin = time.perf_counter()
    progress = progress or Silent()
    spool = Spool(writer.building / "spool.arrow")
    spool.fill(documents, problems, strict)
    if not spool.rows:
        told = "; ".join(problems.sentences()) or "the input is empty"
        raise CorpusError(f"There is no document to index ({told}).")
    splitter = Splitter(
        encoder.token_spans, encoder.text_budget(settings.passage_tokens), overlap=settings.overlap
    )
    plan = Storage(writer, settings, base, longest=settings.passage_tokens, prefilter=prefilter)
    with plan.segment as segment:
        frequencies = _copy(base, spool.rows, segment, encoder) if base else TokenFrequencies()
        kept = segment.documents
        progress.start("encoding", spool.characters, "characters")
        window = _Window(encoder, segment, frequencies, problems, progress, settings.pool)
        for document in spool.documents():
            language = detect_language(f"{document.title} {document.text}")
            passages = splitter.split(document, language, problems)
            window.add(document, language, passages)
            plan.check()
        window.flush()
        if strict and problems:
            raise CorpusError("; ".join(problems.sentences()) + " (--strict).")
        replaced = base.segment.entry.documents - kept if base else 0
        return plan.commit(frequencies, problems, progress, begin, replaced)


def build_from_vectors(
    writer: IndexWriter,
    given: GivenVectors,
    settings: Manifest,
    *,
    base: Snapshot | None = None,
    encoder: Callable[[], Encoder] | None = None,
    problems: Problems,
) -> BuildReport:
    """Commit documents with given token vectors as the next generation.

    Args:
        encoder: gives the encoder of the base, asked for only when documents that it encoded are
            replaced, whose token frequencies are then taken back.
    """
    begin = time.perf_counter()
    plan = Storage(writer, settings, base, longest=1 << 31)
    with plan.segment as segment:
        rows: dict[str, int] = {}
        for row, document in enumerate(given.documents):
            if document.id in rows:
                problems.add(DUPLICATES, document.id)
            rows[document.id] = row
        frequencies = TokenFrequencies()
        if base:
            frequencies = _copy(base, rows, segment, encoder)
        replaced = base.segment.entry.documents - segment.documents if base else 0
        for row, (document, vectors) in enumerate(zip(given.documents, given.vectors, strict=True)):
            if rows[document.id] == row:
                body = document.text or document.title
                language = detect_language(body) if body else UNKNOWN
                passages = [Passage(0, body, 0, len(body))]
                pooled, _ = pool_tokens(vectors, settings.pool)
                segment.add(document, language, passages, [pooled], encoded=False, unpooled=[len(vectors)])
        return plan.commit(frequencies, problems, Silent(), begin, replaced)


def _copy(
    base: Snapshot,
    replaced: Mapping[str, int],
    target: SegmentWriter,
    encoder: Encoder | Callable[[], Encoder] | None,
) -> TokenFrequencies:
    """Copy the base's documents that are not replaced; return the token frequencies of what was copied."""
    frequencies = base.frequencies.copy()
    segment = base.segment
    for row in range(segment.entry.documents):
        stored = segment.document(row)
        owned = segment.passages_of(row)
        document, passages = stored.written(segment.passages(owned))
        if stored.id in replaced:
            if stored.encoded and encoder is not None:
                loaded = encoder if isinstance(encoder, Encoder) else encoder()
                inputs = [encoder_input(passage.prefix, passage.text) for passage in passages]
                for ids in loaded.passage_token_ids(inputs):
                    frequencies.remove(ids.tolist())
            continue
        target.add_stored(document, stored.language, passages, segment, owned, encoded=stored.encoded)
    return frequencies

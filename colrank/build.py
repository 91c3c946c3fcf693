"""From documents to a committed segment: spool, split, encode, write, commit.

Documents are first spooled to the disk, so that the later of two with the same id can replace the
earlier one before anything is encoded, totals are known, and any iterator will do. Token vectors are
encoded once and spooled in float16 until the codec is trained. Memory follows the window of passages, the
list of ids, the longest document and the training sample (512 sqrt(tokens) vectors, at most 2^22; half in
float16, then once more in float32 while k-means runs), not the whole text.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colrank.centroids import faiss_is_there, require_faiss
from colrank.codec import StreamSample, train_codec, whole_vectors
from colrank.config import DEFAULT_BITS, RETRAIN_GROWTH, SMALL_TOKENS
from colrank.encoder import Encoder, TokenFrequencies
from colrank.errors import CorpusError, InputError
from colrank.index import CodecEntry, IndexWriter, Manifest, SegmentWriter, Snapshot
from colrank.language import UNKNOWN, detect_language
from colrank.passages import Splitter, encoder_input
from colrank.pooling import pool_tokens
from colrank.types import BuildReport, Document, Passage, Problems, Vectors

DUPLICATES = "duplicate ids, the later document replaces the earlier"
ENDLESS_WORDS = "documents with a word too long for the model, which cannot be found by it"
UNKNOWN_TOKENS = "passages of which the model knows no token, which cannot be found by their text"
NO_TOKENS = "passages without a token that the model keeps, which cannot be found"
_LONGEST_WORD = 100
_WINDOW_PASSAGES = 1024
_SPOOL_ROWS = 256
_SPOOL_CHARACTERS = 1 << 22


class Progress(Protocol):
    """What a build tells of its progress; every method may be called with nothing to show it."""

    def start(self, stage: str, total: int, unit: str) -> None:
        """A stage begins: `reading`, `encoding`, `training` or `coding`, of so many units."""

    def advance(self, amount: int, tokens: int = 0) -> None:
        """So many units, and so many tokens, are done."""


class Silent:
    """A progress that shows nothing."""

    def start(self, stage: str, total: int, unit: str) -> None:
        """Show nothing."""

    def advance(self, amount: int, tokens: int = 0) -> None:
        """Show nothing."""


@dataclass(frozen=True, slots=True)
class GivenVectors:
    """Documents whose token vectors the caller made: one passage each.

    `vectors[i]` is float `[tokens, dim]` of `documents[i]`.
    """

    documents: Sequence[Document]
    vectors: Sequence[Vectors]


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
        self.characters = 0

    def fill(self, documents: Iterable[Document], problems: Problems, strict: bool) -> None:
        """Write all documents; count those that a later one of the same id replaces.

        Raises:
            CorpusError: an id came twice and `strict` was asked for.
        """
        lengths: dict[str, int] = {}
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
                lengths[document.id] = len(document.text) + len(document.title)
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
                held += lengths[document.id]
                if len(rows) == _SPOOL_ROWS or held > _SPOOL_CHARACTERS:
                    writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=self._SCHEMA))
                    rows, held = [], 0
            if rows:
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=self._SCHEMA))
        self.characters = sum(lengths.values())

    def documents(self) -> Iterator[Document]:
        """The documents that count, in order."""
        row = 0
        with pa.memory_map(str(self._path), "r") as file:
            reader = pa.ipc.open_file(file)
            for index in range(reader.num_record_batches):
                for values in reader.get_batch(index).to_pylist():
                    if self.rows[values["id"]] == row:
                        values["metadata"] = json.loads(values["metadata"])
                        yield Document(**values)
                    row += 1


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
    plan = _Storage(writer, settings, base, longest=settings.passage_tokens)
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
    plan = _Storage(writer, settings, base, longest=1 << 31)
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
                segment.add(document, language, passages, [pooled], encoded=False, unpooled=len(vectors))
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
        passages = segment.passages(owned)
        prefixes = [stored.prefix_of(passage) for passage in passages]
        if stored.id in replaced:
            if stored.encoded and encoder is not None:
                loaded = encoder if isinstance(encoder, Encoder) else encoder()
                inputs = [
                    encoder_input(*pair) for pair in zip(prefixes, (p.text for p in passages), strict=True)
                ]
                for ids in loaded.passage_token_ids(inputs):
                    frequencies.remove(ids.tolist())
            continue
        document = Document(stored.id, "", stored.title, stored.metadata, stored.source)
        target.add_stored(
            document,
            stored.language,
            [
                Passage(p.ordinal, p.text, p.start, p.end, prefix)
                for p, prefix in zip(passages, prefixes, strict=True)
            ],
            segment,
            owned,
            encoded=stored.encoded,
        )
    return frequencies


class _Storage:
    """Decides how the tokens of a new generation are stored, and commits it.

    An index without `bits` keeps whole vectors below `SMALL_TOKENS` and is coded from there on, from the
    float16 spool, without encoding twice. A codec serves until the index has `RETRAIN_GROWTH` times the
    tokens that it was trained on; then a new one is trained from the spool and from what the old one
    decodes to.
    """

    def __init__(self, writer: IndexWriter, settings: Manifest, base: Snapshot | None, longest: int) -> None:
        self._writer = writer
        self._settings = settings
        self._base = base
        if _bits(settings, 0) < 16:
            require_faiss()  # said before anything is encoded
        self._sample = StreamSample(settings.dim, settings.seed)
        self.segment = writer.segment_writer(
            settings.generation + 1,
            whole_vectors(settings.dim, 32 if settings.bits == 32 else 16),
            longest if settings.pool > 1 else 0,
            self._sample,
        )

    def check(self) -> None:
        """Raise MissingExtra as soon as it is clear that the tokens must be coded and cannot be."""
        if _bits(self._settings, self.segment.tokens) < 16:
            require_faiss()

    def commit(
        self,
        frequencies: TokenFrequencies,
        problems: Problems,
        progress: Progress,
        begin: float,
        replaced: int,
    ) -> BuildReport:
        """Code the tokens where they are to be coded, and make the segment the next generation."""
        codec = self._code(progress)
        entry = self.segment.finish(frequencies)
        manifest = self._settings.following((entry,), codec)
        self._writer.commit(manifest)
        files = [*entry.files.values(), *(codec.files.values() if codec else ())]
        return BuildReport(
            documents=entry.documents,
            passages=entry.passages,
            tokens=entry.tokens,
            bytes=sum(size for size, _ in files) + len(manifest.to_json().encode()),
            seconds=time.perf_counter() - begin,
            problems=problems,
            replaced=replaced,
        )

    def _code(self, progress: Progress) -> CodecEntry | None:
        settings, segment = self._settings, self.segment
        bits = _bits(settings, segment.tokens)
        held = settings.codec if self._base else None
        if not segment.tokens and held is None:
            return None
        if held is not None and self._base is not None:
            if segment.tokens < RETRAIN_GROWTH * held.training.tokens:
                progress.start("coding", segment.tokens, "tokens")
                segment.code(self._base.codec, progress.advance)
                return held
        elif bits >= 16 and (segment.tokens < SMALL_TOKENS or not faiss_is_there()):
            return None
        if held is not None:
            segment.sample_stored()
        progress.start("training", 1, "codecs")
        codec, training = train_codec(self._sample, bits=bits, kind=settings.kind, seed=settings.seed)
        progress.advance(1)
        entry = self._writer.write_codec(settings.generation + 1, codec, training)
        progress.start("coding", segment.tokens, "tokens")
        segment.code(codec, progress.advance)
        return entry


def _bits(settings: Manifest, tokens: int) -> int:
    """Bits that so many tokens are stored in; the codec that there is decides before all else."""
    if settings.codec is not None:
        return settings.codec.bits
    if settings.bits is not None:
        return settings.bits
    return DEFAULT_BITS if tokens >= SMALL_TOKENS else 16


def check_vectors(name: str, vectors: Any, dim: int | None) -> NDArray[np.float32]:
    """Check one document's or query's array and return it as unit vectors, float32 `[tokens, dim]`.

    Raises:
        InputError: it is not a matrix, has no rows, another dim, NaN or Inf, or a zero vector; the
            sentence names the document or query.
    """
    if hasattr(vectors, "detach"):  # a torch tensor, perhaps of bfloat16, which NumPy does not know
        vectors = vectors.detach().cpu().float().numpy()
    try:
        array = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"The vectors of {name} are not an array of numbers.") from error
    if array.ndim != 2:
        raise InputError(f"The vectors of {name} have shape {array.shape}; give [tokens, dim].")
    if not len(array):
        raise InputError(f"{name} has no vectors; give at least one token.")
    if dim is not None and array.shape[1] != dim:
        raise InputError(f"The vectors of {name} have {array.shape[1]} dimensions and the index has {dim}.")
    if not np.isfinite(array).all():
        raise InputError(
            f"The vectors of {name} hold NaN or Inf; leave that document out or encode it again."
        )
    wide = array.astype(np.float64)  # squares of large float32 numbers overflow in float32
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    if not norms.all():
        raise InputError(f"The vectors of {name} hold a zero vector, which has no direction.")
    # Rescaling what is of unit length already would only move its last bits.
    if np.allclose(norms, 1.0, rtol=0, atol=1e-6):
        return array
    scaled: NDArray[np.float32] = (wide / norms).astype(np.float32)
    return scaled

"""How the tokens of a new generation are stored: whole, by the codec there is, or by a new one."""

from __future__ import annotations

import time

from colrank.builder.progress import Progress
from colrank.centroids import faiss_is_there, require_faiss
from colrank.codec import StreamSample, train_codec, whole_vectors
from colrank.config import DEFAULT_BITS, RETRAIN_GROWTH, SMALL_TOKENS
from colrank.encoder import TokenFrequencies
from colrank.index import CodecEntry, IndexWriter, Manifest, Snapshot
from colrank.types import BuildReport, Problems


class Storage:
    """Decides how the tokens of a new generation are stored, and commits it.

    An index without `bits` keeps whole vectors below `SMALL_TOKENS` and is coded from there on, from the
    float16 spool, without encoding twice. A codec serves until the index has `RETRAIN_GROWTH` times the
    tokens that it was trained on; then a new one is trained from the spool and from what the old one
    decodes to.
    """

    def __init__(
        self,
        writer: IndexWriter,
        settings: Manifest,
        base: Snapshot | None,
        longest: int,
        prefilter: bool = True,
    ) -> None:
        self._prefilter = prefilter
        self._writer = writer
        self._settings = settings
        self._base = base
        if settings.codec is not None or stored_bits(settings, 0) < 16:
            require_faiss()  # said before anything is encoded
        self._sample = StreamSample(settings.dim, settings.seed)
        self.segment = writer.segment_writer(
            settings.generation + 1,
            whole_vectors(settings.dim, settings.whole_bits),
            longest if settings.pool > 1 else 0,
            self._sample,
        )

    def check(self) -> None:
        """Raise MissingExtra as soon as it is clear that the tokens must be coded and cannot be."""
        if stored_bits(self._settings, self.segment.tokens) < 16:
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
        bits = stored_bits(settings, segment.tokens)
        held = settings.codec if self._base else None
        if not segment.tokens and held is None:
            return None
        if held is not None and self._base is not None:
            if segment.tokens < RETRAIN_GROWTH * held.training.tokens:
                progress.start("coding", segment.tokens, "tokens")
                segment.code(self._base.codec, progress.advance)
                return held
        elif bits >= 16 and not (self._prefilter and segment.tokens >= SMALL_TOKENS and faiss_is_there()):
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


def stored_bits(settings: Manifest, tokens: int) -> int:
    """Bits that so many tokens are stored in; the codec that there is decides before all else."""
    if settings.codec is not None:
        return settings.codec.bits
    if settings.bits is not None:
        return settings.bits
    return DEFAULT_BITS if tokens >= SMALL_TOKENS else 16

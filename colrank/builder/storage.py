"""How the tokens of a new generation are stored: whole, by the codec there is, or by a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from colrank.builder.deleting import Removed, removed_entries
from colrank.builder.merging import merge_segments
from colrank.builder.progress import Progress
from colrank.centroids import can_cluster, require_clustering
from colrank.codec import StreamSample, train_codec, whole_vectors
from colrank.config import DEFAULT_BITS, RETRAIN_GROWTH, SMALL_TOKENS
from colrank.encoder import TokenFrequencies
from colrank.index import CodecEntry, IndexWriter, Manifest, Segment, SegmentEntry, Snapshot

_FRESH = "fresh"


class Storage:
    """Takes in new documents, decides how their tokens are stored, and commits the next generation.

    New tokens become a segment of their own, coded as those that are there. Whole vectors become residual
    codes as soon as there are enough of them (or when `bits` asks for codes): they are in the float16 spool,
    without encoding twice. A codec serves until the index has `RETRAIN_GROWTH` times the tokens that it was
    trained on; then a new one is trained from the spool and from what the old one decodes to, and all
    segments are written again as one.

    Args:
        writer: an entered `IndexWriter`.
        settings: the manifest of the generation before (generation 0 for a new index).
        base: that generation, of which everything is kept but what is removed; None for a new index.
        longest: most tokens of a passage before pooling.
        prefilter: whether whole vectors get the centroids that a prefilter needs.
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
        self._checked = False
        self._writer = writer
        self._settings = settings
        self._base = base
        if settings.codec is not None or stored_bits(settings, 0) < 16:
            require_clustering()  # said before anything is encoded
        self._sample = StreamSample(settings.dim, settings.seed, settings.centroids)
        self._longest = longest if settings.pool > 1 else 0
        self.segment = writer.segment_writer(
            settings.generation + 1,
            whole_vectors(settings.dim, settings.whole_bits),
            self._longest,
            self._sample,
            settings.hybrid,
        )

    def check(self) -> None:
        """Raise MissingExtra as soon as it is clear that the tokens must be coded and cannot be."""
        held = self._base.manifest.live_tokens if self._base else 0
        if not self._checked and stored_bits(self._settings, held + self.segment.tokens) < 16:
            require_clustering()
            self._checked = True

    def commit(self, frequencies: TokenFrequencies, removed: Removed, progress: Progress) -> Manifest:
        """Code the new tokens where they are to be coded, and make them part of the next generation.

        Args:
            frequencies: of the new passages.
            removed: documents of the base that are no longer part of the index.
            progress: told of training and coding.
        """
        base, fresh = self._base, self.segment
        kept = 0 if base is None else base.manifest.live_tokens - removed.tokens
        total = kept + fresh.tokens
        codec = self._settings.codec if base is not None else None
        if not self._must_train(codec, total):
            if codec is not None and base is not None:
                progress.start("coding", fresh.tokens, "tokens")
                fresh.code(base.codec, progress.advance)
            added = [fresh.finish(frequencies)] if fresh.documents else []
            entries: Sequence[SegmentEntry] = [*removed_entries(self._writer, base, removed), *added]
        elif base is None or not base.manifest.segments:
            codec = self._trained(total, progress)
            entries = [fresh.finish(frequencies)]
        else:
            codec, entry = self._merged(base, fresh.finish(frequencies), removed, total, progress)
            entries = [entry]
        manifest = self._settings.following(tuple(entries), codec)
        self._writer.commit(manifest)
        return manifest

    def _must_train(self, held: CodecEntry | None, tokens: int) -> bool:
        if not tokens:
            return False
        if held is not None:
            return tokens >= RETRAIN_GROWTH * held.training.tokens
        if stored_bits(self._settings, tokens) < 16:
            return True
        return self._prefilter and tokens >= SMALL_TOKENS and can_cluster()

    def _trained(self, tokens: int, progress: Progress) -> CodecEntry:
        """Train a codec for a first segment and code it."""
        settings = self._settings
        progress.start("training", 1, "codecs")
        self.segment.flush()
        codec, training = train_codec(
            self._sample,
            bits=stored_bits(settings, tokens),
            kind=settings.kind,
            seed=settings.seed,
            centroids=settings.centroids,
        )
        progress.advance(1)
        entry = self._writer.write_codec(settings.generation + 1, codec, training)
        progress.start("coding", tokens, "tokens")
        self.segment.code(codec, progress.advance)
        return entry

    def _merged(
        self, base: Snapshot, entry: SegmentEntry, removed: Removed, tokens: int, progress: Progress
    ) -> tuple[CodecEntry, SegmentEntry]:
        """Write all that is kept and the new documents as one segment, by a new codec."""
        settings = self._settings
        built = self._writer.building / entry.name
        fresh_folder = built.with_name(_FRESH)
        built.rename(fresh_folder)
        whole = whole_vectors(settings.dim, settings.whole_bits)
        fresh = Segment(Path(fresh_folder), replace(entry, name=_FRESH), whole)
        frequencies = TokenFrequencies()
        frequencies.include(base.frequencies)
        frequencies.subtract(removed.frequencies)
        frequencies.include(fresh.frequencies)
        live = removed.live(base.contents)
        made = merge_segments(
            self._writer,
            settings,
            [*zip(base.contents.segments, live, strict=True), (fresh, fresh.live)],
            frequencies,
            codec=None,
            bits=stored_bits(settings, tokens),
            longest=self._longest,
            progress=progress,
        )
        assert made.codec is not None
        return made.codec, made.segment


def stored_bits(settings: Manifest, tokens: int) -> int:
    """Bits that so many tokens are stored in; the codec that there is decides before all else."""
    if settings.codec is not None:
        return settings.codec.bits
    if settings.bits is not None:
        return settings.bits
    return DEFAULT_BITS if tokens >= SMALL_TOKENS else 16

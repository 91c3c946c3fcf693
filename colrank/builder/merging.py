"""Several segments written again as one, by the codec there is or by a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colrank.builder.progress import Progress
from colrank.codec import Codec, StreamSample, train_codec, whole_vectors
from colrank.encoder import TokenFrequencies
from colrank.index import CodecEntry, IndexWriter, Manifest, Segment, SegmentEntry


@dataclass(frozen=True, slots=True)
class Merged:
    """A segment that was made of others, and its codec where that is a new one."""

    segment: SegmentEntry
    codec: CodecEntry | None


def merge_segments(
    writer: IndexWriter,
    settings: Manifest,
    sources: Sequence[tuple[Segment, NDArray[np.bool_]]],
    frequencies: TokenFrequencies,
    *,
    codec: Codec | None,
    bits: int,
    longest: int,
    progress: Progress,
) -> Merged:
    """Write documents of several segments as one, in memory that does not grow with them.

    Tokens that are stored by the codec already are taken over as they are; others are decoded and coded.

    Args:
        writer: where the segment is built, for the generation after that of `settings`.
        sources: segments in order, and which of their documents, bool `[documents]`.
        frequencies: of all these documents.
        codec: what tokens are stored by; None trains one. One without centroids keeps whole vectors.
        bits: of a codec that is trained.
        longest: most tokens of a passage before pooling where tokens are pooled, else 0.
        progress: told of training and coding.
    """
    generation = settings.generation + 1
    sample = StreamSample(settings.dim, settings.seed, settings.centroids)
    target = writer.segment_writer(
        generation, whole_vectors(settings.dim, settings.whole_bits), longest, sample, settings.hybrid
    )
    entry = None
    with target:
        for segment, live in sources:
            target.add_segment(segment, live)
        if codec is None:
            target.sample_stored()
            progress.start("training", 1, "codecs")
            codec, training = train_codec(
                sample, bits=bits, kind=settings.kind, seed=settings.seed, centroids=settings.centroids
            )
            progress.advance(1)
            entry = writer.write_codec(generation, codec, training)
        if codec.centroids is not None:
            progress.start("coding", target.tokens, "tokens")
            target.code(codec, progress.advance)
        return Merged(target.finish(frequencies), entry)

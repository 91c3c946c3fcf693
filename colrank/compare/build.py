"""A variant of an index, built from the vectors of another: nothing is encoded again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colrank.builder import Progress
from colrank.centroids import CentroidIndex, can_cluster
from colrank.codec import Codec, StreamSample, Training, train_codec, whole_vectors
from colrank.codec.codec import even_levels, scale_table
from colrank.codec.train import codec_error, quantile_levels
from colrank.compare.variants import Variant
from colrank.config import SMALL_TOKENS
from colrank.encoder import Encoder
from colrank.index import IndexWriter, Manifest, SegmentWriter, Snapshot, open_snapshot
from colrank.passages import encoder_input
from colrank.pooling import pool_tokens
from colrank.types import Vectors

LeftOut = Mapping[int, NDArray[np.bool_]]
"""Tokens that are taken out, by row of the passage: bool `[tokens]`."""


class Centroids:
    """Centroids that variants of the same vectors share, and the nearest of every token, found once.

    Args:
        folder: where the nearest centroids are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._made: dict[tuple[int, int, int | None, str], tuple[Codec, Training]] = {}

    def codec(self, variant: Variant, dim: int, sample: StreamSample, seed: int) -> tuple[Codec, Training]:
        """The codec of a variant, and how it came about.

        Whole vectors take the centroids of linear codes, turned back: they serve their prefilter alone.
        """
        key = (dim, variant.pool, variant.centroids, variant.kind)
        if key not in self._made:
            self._made[key] = train_codec(
                sample, bits=2, kind=variant.kind, seed=seed, centroids=variant.centroids
            )
        shared, training = self._made[key]
        train, unseen = sample.split()
        codec = _of_bits(shared, variant, unseen if len(unseen) else train)
        error: tuple[float | None, float | None] = (None, None)
        if len(unseen) and codec.coded:
            error = codec_error(codec, unseen)
        name = "-".join("auto" if part is None else str(part) for part in key)
        near = _Nearest(codec.centroid_index, self._folder / f"nearest-{name}.npy", sample.seen)
        codec.__dict__["centroid_index"] = near  # where the cached property keeps it
        return codec, replace(training, squared_error=error[0], cosine=error[1])


def _of_bits(shared: Codec, variant: Variant, unseen: Vectors) -> Codec:
    """The codec of another width over the same centroids."""
    assert shared.centroids is not None
    dim, bits = shared.dim, variant.bits
    if bits >= 16:
        turned = shared.turn_back(shared.centroids)
        return Codec(dim, bits, centroids=turned.astype(np.float16).astype(np.float32))
    if variant.kind == "quantile":
        residual = unseen - shared.centroids[shared.centroid_index.assign(unseen)]
        return Codec(dim, bits, "quantile", shared.centroids, levels=quantile_levels(residual, bits))
    return Codec(
        dim, bits, "linear", shared.centroids, shared.rotation, even_levels(bits), scale_table(dim, bits)
    )


class _Nearest:
    """Stands for a codec's centroid index while tokens stream by, always the same in the same order."""

    def __init__(self, index: CentroidIndex, path: Path, tokens: int) -> None:
        self._index = index
        self._known = path.exists()
        self._partial = path.with_suffix(".partial.npy")
        self._path = path
        self._at = 0
        self._ids: NDArray[np.uint32] = (
            np.load(path, mmap_mode="r")
            if self._known
            else np.lib.format.open_memmap(self._partial, mode="w+", dtype=np.uint32, shape=(tokens,))
        )

    def assign(self, vectors: Vectors) -> NDArray[np.int64]:
        """The nearest centroid of the next tokens: int64 `[vectors]`."""
        end = self._at + len(vectors)
        if not self._known:
            self._ids[self._at : end] = self._index.assign(vectors)
        found = np.asarray(self._ids[self._at : end], dtype=np.int64)
        self._at = end
        if end == len(self._ids) and not self._known:
            self._ids.flush()  # type: ignore[attr-defined]
            self._partial.replace(self._path)
            self._known = True
        return found


def build_variant(
    folder: Path,
    base: Snapshot,
    variant: Variant,
    *,
    encoder: Encoder | None,
    centroids: Centroids,
    left_out: LeftOut,
    progress: Progress,
    location: str | None = None,
) -> Snapshot:
    """Build the index of a variant from whole vectors.

    What is stored is what indexing the corpus with these settings stores, down to the number of bytes.

    Args:
        folder: of the new index.
        base: whole float32 vectors, not pooled.
        encoder: its model, which knows the markers that pooling leaves alone; None for given vectors.
        centroids: shared with other variants.
        left_out: tokens that are taken out of their passages.
        progress: told of passages.
        location: where the new index finds the model, when not where the base does.
    """
    manifest = base.manifest
    dim = variant.dim or manifest.dim
    settings = Manifest(
        generation=0,  # counted on below, where there is an index to replace
        dim=dim,
        model=_cut_fingerprint(manifest, variant),
        model_location=manifest.model_location if location is None else location,
        dtype=manifest.dtype,
        passage_tokens=manifest.passage_tokens,
        overlap=manifest.overlap,
        token_weights=manifest.token_weights,
        bits=variant.bits,
        kind=variant.kind,
        pool=variant.pool,
        seed=manifest.seed,
        centroids=variant.centroids,
    )
    sample = StreamSample(dim, manifest.seed, variant.centroids)
    longest = (manifest.passage_tokens or 1 << 31) if variant.pool > 1 else 0
    with IndexWriter(folder) as writer:
        # Generations go on counting, so that no reader mistakes the new for the old.
        settings = replace(settings, generation=writer.newest_generation())
        number = settings.generation + 1
        whole = whole_vectors(dim, settings.whole_bits)
        with writer.segment_writer(number, whole, longest, sample) as segment:
            _fill(segment, base, settings, encoder, left_out, progress, variant.name)
            segment.flush()
            entry = None
            if segment.tokens and (variant.bits < 16 or (segment.tokens >= SMALL_TOKENS and can_cluster())):
                codec, training = centroids.codec(variant, dim, sample, manifest.seed)
                entry = writer.write_codec(number, codec, training)
                segment.code(codec)
            stored = segment.finish(base.contents.frequencies)
            writer.commit(settings.following((stored,), entry))
    return open_snapshot(folder)


def _cut_fingerprint(manifest: Manifest, variant: Variant) -> Any:
    if manifest.model is None or variant.dim is None:
        return manifest.model
    cut = f"{manifest.model.projection.partition('[:')[0]}[:{variant.dim}]"
    return replace(manifest.model, dim=variant.dim, projection=cut)


def _fill(
    segment: SegmentWriter,
    base: Snapshot,
    settings: Manifest,
    encoder: Encoder | None,
    left_out: LeftOut,
    progress: Progress,
    name: str,
) -> None:
    held = base.contents
    progress.start(name, held.counts.passages, "passages")
    pool = settings.pool
    for stored in held.live_documents():
        rows = held.passages_of(stored.row)
        written, passages = stored.written(held.passages(rows))
        ids = None
        if pool > 1 and encoder is not None and stored.encoded:
            texts = [encoder_input(passage.prefix, passage.text) for passage in passages]
            ids = encoder.passage_token_ids(texts)
        vectors, labels = [], []
        for place, row in enumerate(rows):
            block = _whole(base, row, settings)
            markers = None
            if ids is not None and encoder is not None and len(ids[place]) == len(block):
                markers = encoder.is_marker(ids[place])
            if row in left_out:
                block = block[~left_out[row]]
                markers = None if markers is None else markers[~left_out[row]]
            pooled, groups = pool_tokens(block, pool, markers)
            vectors.append(pooled)
            labels.append(groups)
        segment.add(
            written,
            stored.language,
            passages,
            vectors,
            encoded=stored.encoded,
            content=held.content_hashes([stored.row])[0],
            labels=labels if pool > 1 else None,
        )
        progress.advance(len(rows))


def _whole(base: Snapshot, row: int, settings: Manifest) -> Vectors:
    """The vectors of a passage as indexing has them before it pools: cut, and rounded as they are kept."""
    block = base.codec.turn_back(base.contents.passage_vectors(row).astype(np.float32))
    block = cut_vectors(block, settings.dim)
    return block if settings.whole_bits == 32 else block.astype(np.float16).astype(np.float32)


def cut_vectors(vectors: Vectors, dim: int) -> Vectors:
    """The first dimensions of unit vectors, of unit length again: float32 `[tokens, dim]`."""
    if vectors.shape[1] == dim:
        return vectors
    kept = vectors[:, :dim].astype(np.float64)
    norms = np.linalg.norm(kept, axis=1, keepdims=True)
    # A vector with nothing in these dimensions has no direction; it stays without length.
    return np.asarray(kept / np.maximum(norms, 1e-12), dtype=np.float32)

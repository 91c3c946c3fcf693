"""A codec from a sample of vectors, and its error on vectors that it did not see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colrank.centroids import centroid_count, train_centroids
from colrank.codec.codec import Codec, even_levels, scale_table
from colrank.codec.sample import StreamSample
from colrank.types import Vectors

_TURNED_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Training:
    """How a codec came about.

    Attributes:
        tokens: tokens of the collection when it was trained.
        trained: vectors that k-means saw.
        held_out: vectors that it did not see, on which the errors were measured. What an earlier codec
            decoded to is not among them: it has lost already what a codec loses.
        squared_error: mean of |vector - decoded|^2 over those held out; None without any.
        cosine: mean cosine of vector and decoded over those held out; None without any.
    """

    tokens: int
    trained: int
    held_out: int
    squared_error: float | None
    cosine: float | None


def train_codec(
    sample: StreamSample, *, bits: int, kind: str = "linear", seed: int = 0, centroids: int | None = None
) -> tuple[Codec, Training]:
    """Train centroids and levels.

    Args:
        sample: of at least one vector.
        bits: 1, 2, 4, 8; 16 or 32 train centroids only.
        kind: `linear` or `quantile`.
        seed: of k-means and of the rotation.
        centroids: their number, if not what `centroid_count` says; there are never more than vectors.
    """
    train, test = sample.split()
    dim = train.shape[1]
    trained = len(train)
    count = min(centroids, trained) if centroids else centroid_count(sample.seen, trained)
    if bits >= 16:
        codec = Codec(dim, bits, centroids=train_centroids(train, count, seed))
    elif kind == "quantile":
        found = train_centroids(train, count, seed)
        unseen = test if len(test) else train
        plain = Codec(dim, 16, centroids=found)
        residual = unseen - found[plain.centroid_index.assign(unseen)]
        codec = Codec(dim, bits, kind, found, levels=quantile_levels(residual, bits))
    else:
        rotation = random_rotation(dim, seed)
        for begin in range(0, len(train), _TURNED_AT_ONCE):
            # In place: these are a large part of the memory of a build.
            block = train[begin : begin + _TURNED_AT_ONCE]
            block[:] = block @ rotation
        codec = Codec(
            dim,
            bits,
            "linear",
            train_centroids(train, count, seed),
            rotation,
            even_levels(bits),
            scale_table(dim, bits),
        )
    originals = sample.unseen_originals()
    error = codec_error(codec, originals) if len(originals) else None
    return codec, Training(
        tokens=sample.seen,
        trained=trained,
        held_out=len(originals),
        squared_error=None if error is None else error[0],
        cosine=None if error is None else error[1],
    )


def codec_error(codec: Codec, vectors: Vectors) -> tuple[float, float]:
    """Mean squared distance and mean cosine between unit vectors `[vectors, dim]` and what is decoded."""
    decoded = codec.decode(codec.encode(vectors)).astype(np.float64)
    wanted = codec.turn(vectors.astype(np.float64))
    distance = ((decoded - wanted) ** 2).sum(axis=1)
    norms = np.linalg.norm(decoded, axis=1) * np.linalg.norm(wanted, axis=1)
    cosine = (decoded * wanted).sum(axis=1) / np.maximum(norms, 1e-12)
    return round(float(distance.mean()), 6), round(float(cosine.mean()), 6)


def random_rotation(dim: int, seed: int) -> Vectors:
    """A random orthonormal matrix, float32 `[dim, dim]` (Stewart 1980: QR of a normal matrix)."""
    normal = np.random.Generator(np.random.PCG64(seed)).standard_normal((dim, dim))
    q, r = np.linalg.qr(normal)
    rotation: NDArray[np.float64] = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    return rotation.astype(np.float32)


def quantile_levels(residual: Vectors, bits: int) -> NDArray[np.float32]:
    """Levels in the middle of `2 ** bits` equally full buckets of the residuals' values, ascending."""
    places = (np.arange(2**bits) + 0.5) / 2**bits
    levels: NDArray[np.float32] = np.quantile(residual.reshape(-1), places).astype(np.float32)
    return levels

"""Token vectors as columns of few bytes, and back.

A token is stored as the id of its nearest centroid and its residual in `bits` bits a dimension:

    linear     vector = centroid + scale x level(code)
    quantile   vector = inverse_norm x (centroid + level(code))
    none       the vector itself, float16 or float32, beside the centroid's id where there are centroids

Codes live in the codec's own space: kind `linear` turns every vector by one fixed rotation first, which
spreads a residual evenly over the dimensions and changes no dot product. Queries are turned likewise.

The scale of `linear` is, for 1 to 4 bits, the one that makes the decoded vector of unit length,
|centroid + scale x level| = 1, so that no norm is stored beside it. On cranfield (8,192 centroids) recall@10
of float32 exact was .914, .951 and .984 at 1, 2 and 4 bits; the least-squares scale with renormalising gave
.906, .950 and .988. The scale is kept as one byte, an index into a table of 256.

Sources: residuals over centroids are from ColBERTv2 (Santhanam et al. 2022, arXiv:2112.01488), which is
kind `quantile`; the random rotation before rounding from RaBitQ (Gao and Long 2024, arXiv:2405.12497).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from colrank_kernels import NativeTokens, decode_linear
from numpy.typing import NDArray

from colrank.centroids import CentroidIndex
from colrank.codec.bits import byte_table, pack, row_bytes
from colrank.errors import IndexDamaged
from colrank.native import native_is_there
from colrank.types import Vectors

Columns: TypeAlias = dict[str, NDArray[Any]]
"""Tokens as they are stored: columns of equal length."""

BLOCK = 4096
"""Tokens that are coded or decoded at a time."""

# Root mean square of the codes that each width gives to a residual of normal distribution.
_TYPICAL_LEVEL = {1: 0.5, 2: 1.0, 4: 2.8, 8: 42.0}
# Step of the even levels, in standard deviations of the residual: the optimum for a normal distribution
# (Max 1960, "Quantizing for Minimum Distortion"), and beside it what suits some tokens better.
_STEPS = {1: (1.6,), 2: (0.85, 0.92, 0.996, 1.08), 4: (0.25, 0.28, 0.31, 0.335, 0.36, 0.4)}
_LONGEST_RESIDUAL = 2.6
_SCALE_RANGE = 400.0


@dataclass(frozen=True)
class Codec:
    """Codes vectors `[tokens, dim]` as columns and decodes them.

    Attributes:
        dim: dimensions of a vector.
        bits: 1, 2, 4, 8 for codes; 16 or 32 for whole vectors.
        kind: `linear`, `quantile`, or `none` for whole vectors.
        centroids: float32 `[centroids, dim]` in the codec's space, or None without any.
        rotation: float32 `[dim, dim]`, orthonormal, or None: the codec's space is `vectors @ rotation`.
        levels: float32 `[2 ** bits]`, or None for whole vectors.
        scales: float32 `[256]`, what the scale byte stands for; None for all kinds but `linear`.
    """

    dim: int
    bits: int
    kind: str = "none"
    centroids: Vectors | None = None
    rotation: Vectors | None = None
    levels: NDArray[np.float32] | None = None
    scales: NDArray[np.float32] | None = None

    @property
    def coded(self) -> bool:
        """Whether tokens are kept as residual codes, not as whole vectors."""
        return self.levels is not None

    @cached_property
    def centroid_index(self) -> CentroidIndex:
        """Finds the nearest centroid of a vector in the codec's space."""
        assert self.centroids is not None
        return CentroidIndex(self.centroids)

    @cached_property
    def _id_type(self) -> type[np.unsignedinteger[Any]]:
        assert self.centroids is not None
        return np.uint16 if len(self.centroids) <= 1 << 16 else np.uint32

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns of a shard file."""
        columns: dict[str, pa.DataType] = {}
        if self.centroids is not None:
            columns["centroid"] = pa.from_numpy_dtype(self._id_type)
        if not self.coded:
            columns["vector"] = pa.list_(pa.float16() if self.bits == 16 else pa.float32(), self.dim)
        else:
            columns["code"] = pa.list_(pa.uint8(), row_bytes(self.dim, self.bits))
            if self.kind == "linear":
                columns["scale"] = pa.uint8()
            else:
                columns["inverse_norm"] = pa.float16()
        return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns.items()])

    def turn(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """Vectors in the codec's space, in their own precision: `[tokens, dim]`."""
        if self.rotation is None:
            return vectors
        turned: NDArray[Any] = vectors @ self.rotation.astype(vectors.dtype)
        return turned

    def turn_back(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """The inverse of `turn`."""
        if self.rotation is None:
            return vectors
        turned: NDArray[Any] = vectors @ self.rotation.T.astype(vectors.dtype)
        return turned

    def encode(
        self, vectors: NDArray[np.float32] | NDArray[np.float16], ids: NDArray[np.int64] | None = None
    ) -> Columns:
        """Code unit vectors `[tokens, dim]`, given in the space of the model.

        `ids` are the nearest centroids where they are known.
        """
        turned = self.turn(vectors.astype(np.float32))
        columns: Columns = {}
        if self.centroids is not None:
            ids = self.centroid_index.assign(turned) if ids is None else ids
            columns["centroid"] = ids.astype(self._id_type)
        if not self.coded:
            columns["vector"] = vectors.astype(np.float16 if self.bits == 16 else np.float32)
            return columns
        assert ids is not None
        code = self._linear if self.kind == "linear" else self._quantile
        parts = [
            code(turned[begin : begin + BLOCK], ids[begin : begin + BLOCK])
            for begin in range(0, max(1, len(turned)), BLOCK)
        ]
        for name in parts[0]:
            columns[name] = np.concatenate([part[name] for part in parts])
        return columns

    def _linear(self, turned: Vectors, ids: NDArray[np.int64]) -> Columns:
        assert self.centroids is not None
        assert self.scales is not None
        near = self.centroids[ids]
        residual = turned - near
        if self.bits == 8:
            return self._fine(residual)
        codes = even_codes(residual, self.bits)
        level = codes.astype(np.float32) - np.float32((2**self.bits - 1) / 2)
        exact = unit_scale(near, residual, level)
        middles = (self.scales[:-1] + self.scales[1:]) / 2
        scale = np.searchsorted(middles, exact).astype(np.uint8)
        return {"code": pack(codes, self.bits), "scale": scale}

    def _fine(self, residual: Vectors) -> Columns:
        """Codes of 8 bits: steps are so fine that the scale comes first, wide enough to cut nothing off,
        and codes are rounded by the scale as it is stored; a length of 1 follows by itself."""
        assert self.scales is not None
        widest = np.abs(residual).max(axis=1, initial=0.0) / np.float32(127.5)
        scale = np.minimum(np.searchsorted(self.scales, widest), 255).astype(np.uint8)
        codes = _rounded(residual, self.scales[scale][:, None], 128)
        return {"code": pack(codes, 8), "scale": scale}

    def _quantile(self, turned: Vectors, ids: NDArray[np.int64]) -> Columns:
        assert self.centroids is not None
        assert self.levels is not None
        near = self.centroids[ids]
        cuts = (self.levels[:-1] + self.levels[1:]) / 2
        codes = np.searchsorted(cuts, turned - near).astype(np.uint8)
        norms = np.linalg.norm((near + self.levels[codes]).astype(np.float64), axis=1)
        # A vector of no length has no direction to restore; it stays as it is.
        inverse = np.divide(1.0, norms, out=np.ones_like(norms), where=norms > 1e-4)
        return {"code": pack(codes, self.bits), "inverse_norm": inverse.astype(np.float16)}

    @cached_property
    def _byte_levels(self) -> NDArray[np.float32]:
        assert self.levels is not None
        return byte_table(self.levels, self.bits)

    def decode(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.float32] | NDArray[np.float16]:
        """Vectors in the codec's space, `[tokens, dim]`: float32, or as stored for whole vectors.

        Every number is made by the same few float32 operations whatever stands beside it, so a token
        decodes to the same bits alone and among others.

        Raises:
            IndexDamaged: a centroid id is out of range.
        """
        if not self.coded:
            vectors: NDArray[np.float32] | NDArray[np.float16] = columns["vector"]
            return vectors
        assert self.centroids is not None
        ids = columns["centroid"]
        if self.kind == "linear":
            assert self.scales is not None
            scale = self.scales[columns["scale"]]
            out = decode_linear(columns["code"], ids, scale, self.centroids, self._byte_levels)
        else:
            self.check_ids(ids)
            spread = np.take(self._byte_levels, columns["code"], axis=0)
            spread = spread.reshape(len(ids), spread.shape[1] * spread.shape[2])
            out = spread[:, : self.dim] + np.take(self.centroids, ids, axis=0)
            out *= columns["inverse_norm"].astype(np.float32)[:, None]
        if out is None:
            self.check_ids(ids)
            raise AssertionError("the kernel refused ids that are in range")
        return out

    def native(self, blocks: Sequence[Columns], first: int = 0) -> NativeTokens | None:
        """Stored tokens as the native kernels read them: None where these are not there.

        Args:
            blocks: columns of tokens, one after the other; they are not copied.
            first: number of the first token.
        """
        if not native_is_there():
            return None
        table = self._byte_levels if self.coded else None
        made = NativeTokens(self.dim, self.bits, self.kind, self.centroids, table, self.scales, first)
        vectors = "code" if self.coded else "vector"
        extra = "scale" if self.kind == "linear" else "inverse_norm"
        for block in blocks:
            made.add(block.get("centroid"), np.ascontiguousarray(block[vectors]), block.get(extra))
        return made

    def check_ids(self, ids: NDArray[Any]) -> None:
        """Raise IndexDamaged where a stored centroid id is out of range."""
        assert self.centroids is not None
        if len(ids) and int(ids.max()) >= len(self.centroids):
            raise IndexDamaged(
                f"A token names centroid {int(ids.max())} of {len(self.centroids)}; the index is damaged: "
                "index again with --overwrite."
            )


def whole_vectors(dim: int, bits: int = 16) -> Codec:
    """A codec that keeps vectors as they are, in float16 or float32, without centroids."""
    return Codec(dim, bits)


def even_levels(bits: int) -> NDArray[np.float32]:
    """Evenly spaced levels around zero, one apart: float32 `[2 ** bits]`."""
    return (np.arange(2**bits, dtype=np.float32) - np.float32((2**bits - 1) / 2)).astype(np.float32)


def scale_table(dim: int, bits: int) -> NDArray[np.float32]:
    """What a scale byte stands for: 0 and 255 steps of one ratio (2.4%), float32 `[256]`.

    The largest serves a residual longer than two unit vectors can be apart; the smallest is 400 times
    less, and what lies below it is nothing.
    """
    largest = _LONGEST_RESIDUAL / (np.sqrt(dim) * _TYPICAL_LEVEL[bits])
    steps = np.geomspace(largest / _SCALE_RANGE, largest, 255)
    return np.concatenate([[0.0], steps]).astype(np.float32)


def even_codes(residual: Vectors, bits: int) -> NDArray[np.uint8]:
    """Round residuals to evenly spaced levels of 1, 2 or 4 bits, each token by the best step of a few."""
    half = 2 ** (bits - 1)
    spread = np.sqrt(np.einsum("ij,ij->i", residual, residual) / residual.shape[1])[:, None]
    best: NDArray[np.uint8] | None = None
    for factor in _STEPS[bits]:
        codes = _rounded(residual, factor * spread, half)
        if len(_STEPS[bits]) == 1:
            return codes
        level = codes.astype(np.float32) - np.float32(half - 0.5)
        # What least squares leaves of the residual: |r|^2 - (r.l)^2 / |l|^2.
        dot = np.einsum("ij,ij->i", residual, level)
        gain = dot * dot / np.einsum("ij,ij->i", level, level)
        if best is None:
            best, best_gain = codes, gain
        else:
            better = gain > best_gain
            best[better], best_gain[better] = codes[better], gain[better]
    assert best is not None
    return best


def _rounded(residual: Vectors, step: NDArray[np.float32], half: int) -> NDArray[np.uint8]:
    scaled = np.floor(residual / np.maximum(step, np.float32(1e-12)))
    return (np.clip(scaled, -half, half - 1) + half).astype(np.uint8)


def unit_scale(near: Vectors, residual: Vectors, level: Vectors) -> NDArray[np.float32]:
    """The scale s that gives `near + s * level` unit length, never far from the least-squares scale.

    A line can leave the unit sphere far from where the residual ends, when the residual is small and
    rounded away from its direction; so s stays between half and twice the scale that fits best.

    Args:
        near, residual, level: the centroid of each token, its residual and that residual's levels,
            float32 `[tokens, dim]`.
    """
    square = np.einsum("ij,ij->i", level, level).astype(np.float64)
    cross = np.einsum("ij,ij->i", near, level).astype(np.float64)
    rest = 1.0 - np.einsum("ij,ij->i", near, near).astype(np.float64)
    fitting = np.maximum(np.einsum("ij,ij->i", residual, level), 0.0) / square
    root = np.sqrt(np.maximum(cross * cross + square * rest, 0.0))
    scale: NDArray[np.float32] = np.clip((root - cross) / square, fitting / 2, fitting * 2).astype(np.float32)
    return scale

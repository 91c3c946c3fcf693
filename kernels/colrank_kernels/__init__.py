"""Native kernels of colrank, each behind a plain Python function with a NumPy counterpart.

The package imports on every machine: where no compiler was there at install time, `available()` is
empty and every function runs its NumPy counterpart. It imports nothing of colrank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

try:
    from colrank_kernels import _cpu
except ImportError:  # installed as pure Python
    _cpu = None  # type: ignore[assignment]

__all__ = ["available", "decode_linear", "offsets_are_valid"]


def available() -> tuple[str, ...]:
    """Names of the compiled kernel modules of this installation: `("cpu",)`, or `()` in pure Python."""
    return () if _cpu is None else ("cpu",)


def offsets_are_valid(offsets: NDArray[np.int64], tokens: int) -> bool:
    """Whether ragged offsets are safe to index by.

    Args:
        offsets: int64 `[passages + 1]`, contiguous; passage `i` owns tokens `offsets[i]:offsets[i + 1]`.
        tokens: number of tokens stored.

    Returns:
        True when the offsets begin at 0, never decrease, and end at `tokens`.
    """
    if _cpu is not None:
        return _cpu.offsets_are_valid(offsets, tokens)
    return bool(
        len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == tokens and np.all(offsets[1:] >= offsets[:-1])
    )


def decode_linear(
    code: NDArray[np.uint8],
    ids: NDArray[np.uint16] | NDArray[np.uint32],
    scale: NDArray[np.float32],
    centroids: NDArray[np.float32],
    table: NDArray[np.float32],
) -> NDArray[np.float32] | None:
    """Decode packed residual codes over centroids: `scale * level + centroid`, two float32 roundings.

    Args:
        code: uint8 `[tokens, bytes]`, packed from the lowest bit up, rows padded to whole bytes.
        ids: uint16 or uint32 `[tokens]`, the centroid of each token.
        scale: float32 `[tokens]`.
        centroids: float32 `[centroids, dim]`.
        table: float32 `[256, codes a byte]`, the levels that each byte stands for.

    Returns:
        float32 `[tokens, dim]`, the same bits natively and in NumPy; None when an id is out of range.
    """
    dim = centroids.shape[1]
    if _cpu is not None:
        out = np.empty((len(code), dim), dtype=np.float32)
        right = _cpu.decode_linear(
            np.ascontiguousarray(code),
            ids if ids.flags.c_contiguous else ids.copy(),
            np.ascontiguousarray(scale),
            np.ascontiguousarray(centroids),
            np.ascontiguousarray(table),
            out,
        )
        return out if right else None
    if len(ids) and int(ids.max()) >= len(centroids):
        return None
    levels = np.take(table, code, axis=0)
    out = np.ascontiguousarray(levels.reshape(len(code), code.shape[1] * table.shape[1])[:, :dim])
    out *= scale[:, None]
    out += np.take(centroids, ids, axis=0)
    return out

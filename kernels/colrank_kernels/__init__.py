"""Native kernels of colrank, and what stands in for them.

The package imports on every machine: where no compiler was there at install time, `available()` is empty and
the plain functions here run their NumPy counterparts; what is larger (`NativeTokens`, `NativeQuery`,
`NativeLists`, `NativeGrouped`) is then not there: colrank scores in torch and clusters by FAISS. It imports
nothing of colrank.

`COLRANK_KERNEL` chooses an instruction set by name (`variants()` are those that this processor can run, best
first), or `none` for no native kernel at all; `COLRANK_THREADS` says how many threads score.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

try:
    from colrank_kernels import _cpu
except ImportError:  # installed as pure Python
    _cpu = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from colrank_kernels._cpu import Grouped as NativeGrouped
    from colrank_kernels._cpu import Lists as NativeLists
    from colrank_kernels._cpu import Query as NativeQuery
    from colrank_kernels._cpu import Tokens as NativeTokens
else:
    NativeGrouped = getattr(_cpu, "Grouped", None)
    NativeLists = getattr(_cpu, "Lists", None)
    NativeQuery = getattr(_cpu, "Query", None)
    NativeTokens = getattr(_cpu, "Tokens", None)

__all__ = [
    "NativeGrouped",
    "NativeLists",
    "NativeQuery",
    "NativeTokens",
    "available",
    "cluster_sums",
    "decode_linear",
    "largest",
    "native_is_there",
    "offsets_are_valid",
    "set_threads",
    "threads",
    "use_variant",
    "variant",
    "variants",
]


def native_is_there() -> bool:
    """Whether native kernels are there and were not forgone by `COLRANK_KERNEL=none`.

    Raises:
        ValueError: `COLRANK_KERNEL` names what this machine cannot run, or `COLRANK_THREADS` is no number.
    """
    _read_environment()
    return _cpu is not None and os.environ.get("COLRANK_KERNEL") != "none"


def variants() -> tuple[str, ...]:
    """Instruction sets that this processor can run, best first; each agreed with `plain` on an example."""
    return () if _cpu is None else tuple(_cpu.variants())


def variant() -> str:
    """The instruction set that is used: one of `variants()`, or "none".

    Raises:
        ValueError: as `native_is_there` says.
    """
    return _cpu.variant() if native_is_there() else "none"


def use_variant(name: str) -> None:
    """Use an instruction set for the queries that follow.

    Raises:
        ValueError: this processor does not have it, or the kernel was not compiled.
    """
    if _cpu is None or not _cpu.use_variant(name):
        there = ", ".join((*variants(), "none"))
        raise ValueError(f"COLRANK_KERNEL names {name!r}, which this machine cannot run; it can: {there}.")


def threads() -> int:
    """How many threads score."""
    return 1 if _cpu is None else int(_cpu.threads())


def set_threads(count: int) -> None:
    """Score with so many threads, at least 1."""
    if count < 1:
        raise ValueError(f"threads is {count}; it must be at least 1.")
    if _cpu is not None:
        _cpu.set_threads(count)


def largest(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Places of the `count` largest scores above -inf, ascending: int64; equal scores go by place."""
    if _cpu is not None:
        return _cpu.largest(np.ascontiguousarray(scores), count)
    there = np.flatnonzero(scores > -np.inf)
    if len(there) <= count:
        return there
    order = np.argsort(-scores[there], kind="stable")[:count]
    return np.sort(there[order])


def available() -> tuple[str, ...]:
    """Names of the compiled kernel modules of this installation: `("cpu",)`, or `()` in pure Python."""
    return () if _cpu is None else ("cpu",)


def cluster_sums(
    rows: NDArray[np.float32],
    ids: NDArray[np.int32],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> None:
    """Add up the rows of each cluster, in their order.

    Args:
        rows: float32 `[rows, dim]`.
        ids: int32 `[rows]`, the cluster of each.
        sums: float64 `[clusters, dim]`, written to.
        counts: int64 `[clusters]`, written to: rows of each.

    Raises:
        ValueError: an id names no cluster.
    """
    if _cpu is not None:
        if not _cpu.cluster_sums(rows, ids, sums, counts):
            raise ValueError("A row names a cluster that is not there.")
        return
    if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= len(counts)):
        raise ValueError("A row names a cluster that is not there.")
    counts[:] = np.bincount(ids, minlength=len(counts))
    sums[:] = 0
    np.add.at(sums, ids, rows)


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


@cache
def _read_environment() -> None:
    wanted = os.environ.get("COLRANK_KERNEL", "")
    if wanted not in ("", "none"):
        use_variant(wanted)
    if count := os.environ.get("COLRANK_THREADS", ""):
        if not count.isdigit() or int(count) < 1:
            raise ValueError(f"COLRANK_THREADS is {count!r}; it must be a whole number, at least 1.")
        set_threads(int(count))

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

__all__ = ["available", "offsets_are_valid"]


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

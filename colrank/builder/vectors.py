"""Vectors that a caller gives, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colrank.errors import InputError


def check_vectors(name: str, vectors: Any, dim: int | None) -> NDArray[np.float32]:
    """Check one document's or query's array and return it as unit vectors, float32 `[tokens, dim]`.

    Args:
        name: what it belongs to, by kind and id or number, such as "document 'a'" or "query 3".
        vectors: float `[tokens, dim]`, an array, a tensor, or lists.
        dim: the dimensions that it must have; None takes any.

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
        kind = name.partition(" ")[0]
        raise InputError(f"The vectors of {name} hold NaN or Inf; leave that {kind} out or encode it again.")
    wide = array.astype(np.float64)  # squares of large float32 numbers overflow in float32
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    if not norms.all():
        raise InputError(f"The vectors of {name} hold a zero vector, which has no direction.")
    # Rescaling what is of unit length already would only move its last bits.
    if np.abs(norms - 1.0).max() <= 1e-6:
        return array
    scaled: NDArray[np.float32] = (wide / norms).astype(np.float32)
    return scaled

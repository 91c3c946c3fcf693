"""Fewer dimensions: the fixed projection of the embedded encoder, and vectors cut to their first dimensions.

The fixed projection takes 384 dimensions to 128, the same for every index. The matrix holds the leading
eigenvectors of the uncentred second moment of token vectors of Spanish and English texts that are none of
the judged collections; `bench/fit_projection.py` made it. Because it is fixed, an index may begin with one
sentence and grow. Its columns are ordered by what they hold, so that the first of them are a projection of
their own: `truncate:64` keeps 64. So are the dimensions of models that were trained to be cut (Matryoshka).
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from colrank.errors import InputError

PROJECTION_FILE = Path(__file__).with_name("projection_384_128.npy")


@lru_cache(maxsize=1)
def fixed_projection() -> NDArray[np.float32]:
    """Return the projection, float32 `[384, 128]`, columns orthonormal."""
    matrix: NDArray[np.float32] = np.load(PROJECTION_FILE, allow_pickle=False)
    matrix.setflags(write=False)
    return matrix


@lru_cache(maxsize=1)
def fixed_projection_hash() -> str:
    """Hash of the projection's numbers, part of a model's fingerprint."""
    return f"fixed:{xxhash.xxh3_64_hexdigest(fixed_projection().tobytes())}"


def kept_dimensions(projection: str) -> int | None:
    """How many dimensions an option keeps: DIM of `truncate:DIM`; None for `auto`, `none` and `fixed`.

    Raises:
        InputError: it is none of these.
    """
    if projection in ("auto", "none", "fixed"):
        return None
    name, _, count = projection.partition(":")
    if name != "truncate" or not (count.isascii() and count.isdecimal() and int(count) >= 1):
        raise InputError(f"projection is {projection!r}; choose one of auto, none, fixed, truncate:DIM.")
    return int(count)


def projection_option(fingerprint: str) -> str:
    """The option that gives a model the projection of a fingerprint again."""
    cut = re.fullmatch(r".*\[:(\d+)\]", fingerprint)
    if cut:
        return f"truncate:{cut[1]}"
    return "none" if fingerprint == "none" else "fixed"

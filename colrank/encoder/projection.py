"""The fixed projection of the embedded encoder: 384 to 128 dimensions, the same for every index.

The matrix holds the leading eigenvectors of the uncentred second moment of token vectors of Spanish
and English texts that are none of the judged collections; `bench/fit_projection.py` made it. Because it
is fixed, an index may begin with one sentence and grow.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

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

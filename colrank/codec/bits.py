"""Small integers packed into bytes.

Integer j of a row occupies bits `j * width` to `(j + 1) * width` of the row's bytes, counted from the
lowest bit of the first byte. A row ends on a whole byte; the bits left over are zero. This is the layout
on disk, the same on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WIDTHS = (1, 2, 4, 8)


def row_bytes(columns: int, width: int) -> int:
    """Bytes of a row of so many integers."""
    return -(-columns * width // 8)


def pack(values: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """Pack integers below `2 ** width`: uint8 `[rows, columns]` to uint8 `[rows, row_bytes]`."""
    rows, columns = values.shape
    each = 8 // width
    padded = np.zeros((rows, row_bytes(columns, width) * each), dtype=np.uint8)
    padded[:, :columns] = values
    groups = padded.reshape(rows, row_bytes(columns, width), each)
    packed = groups[:, :, 0].copy()
    for place in range(1, each):
        packed |= groups[:, :, place] << np.uint8(place * width)
    return packed


def unpack(packed: NDArray[np.uint8], columns: int, width: int) -> NDArray[np.uint8]:
    """The inverse of `pack`: uint8 `[rows, columns]`."""
    shifts = np.arange(0, 8, width, dtype=np.uint8)
    mask = np.uint8((1 << width) - 1)
    spread = (packed[:, :, None] >> shifts) & mask
    return spread.reshape(len(packed), packed.shape[1] * len(shifts))[:, :columns]


def byte_table(levels: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """For each byte the levels of the integers that it holds: float32 `[256, 8 / width]`."""
    every = np.arange(256, dtype=np.uint8)[:, None]
    return np.ascontiguousarray(levels[unpack(every, 8 // width, width)])

"""Rows of documents by id: hashes in ascending order, so that a lookup does not grow with the segment.

ids.arrow  hash: uint64, ascending, XXH3 of 64 bits of the id's UTF-8; row: uint32 or uint64
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from colrank.errors import IndexDamaged
from colrank.index.schemas import IDS
from colrank.shards import map_table, one_chunk, write_table

FILE = "ids.arrow"


def id_hashes(ids: Sequence[str]) -> NDArray[np.uint64]:
    """Hash of each id: uint64 `[ids]`."""
    return np.fromiter((xxhash.xxh3_64_intdigest(name.encode()) for name in ids), np.uint64, len(ids))


def write_ids(folder: Path, hashes: NDArray[np.uint64]) -> None:
    """Write the lookup table of a segment; `hashes` are those of its documents, by row."""
    order = np.argsort(hashes, kind="stable")
    rows = order.astype(np.uint32 if len(order) <= 1 << 32 else np.uint64)
    write_table(pa.table({"hash": hashes[order], "row": rows}), folder / FILE, rows=max(1, len(order)))


class DocumentIds:
    """Which documents of a segment may have an id."""

    def __init__(self, hashes: NDArray[np.uint64], rows: NDArray[Any]) -> None:
        self._hashes = hashes
        self._rows = rows

    @classmethod
    def open(cls, folder: Path, documents: int) -> DocumentIds:
        """Map the table of a segment.

        Raises:
            IndexDamaged: it is missing or damaged, of another length, or names a row that is not there.
        """
        table = map_table(folder / FILE, *IDS)
        if len(table) != documents:
            raise IndexDamaged(f"The rows of {folder} do not fit its manifest; index again with --overwrite.")
        hashes, rows = one_chunk(table.column("hash")), one_chunk(table.column("row"))
        if len(rows) and int(rows.max()) >= documents:
            raise IndexDamaged(
                f"{FILE} of {folder} names a document that is not there; index again with --overwrite."
            )
        return cls(hashes, rows)

    @classmethod
    def of(cls, ids: Sequence[str]) -> DocumentIds:
        """The table of some ids, by row: for segments that keep none on the disk."""
        hashes = id_hashes(ids)
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], order)

    def candidates(self, hashes: NDArray[np.uint64]) -> list[NDArray[np.int64]]:
        """For each hash the rows of the documents that have it: nearly always none or one."""
        begin = np.searchsorted(self._hashes, hashes, side="left")
        end = np.searchsorted(self._hashes, hashes, side="right")
        return [self._rows[first:last].astype(np.int64) for first, last in zip(begin, end, strict=True)]

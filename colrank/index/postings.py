"""Postings: for every centroid the passages that hold a token of it, ascending.

postings.arrow         passage: uint8, uint16, uint32 or uint64, the narrowest that numbers all passages
posting-offsets.arrow  posting_offset: int64; centroid c owns postings offsets[c]:offsets[c + 1]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from colrank_kernels import NativeLists, offsets_are_valid
from numpy.typing import NDArray

from colrank.errors import IndexDamaged
from colrank.index.schemas import POSTING_OFFSETS, POSTINGS
from colrank.native import native_is_there
from colrank.shards import TokenVectors, map_table, one_chunk, ranges, write_table

FILE = "postings.arrow"
OFFSETS_FILE = "posting-offsets.arrow"
_BLOCK_TOKENS = 1 << 20


def write_postings(folder: Path, tokens: TokenVectors, offsets: NDArray[np.int64], centroids: int) -> None:
    """Write the postings of a segment; memory follows the number of centroids and one block of tokens.

    Args:
        folder: of the segment.
        tokens: all its tokens, with centroid ids.
        offsets: int64 `[passages + 1]`.
        centroids: their number.
    """
    passages = len(offsets) - 1
    counts = np.zeros(centroids, dtype=np.int64)
    for owners, _ in centroid_passages(tokens, offsets):
        counts += np.bincount(owners, minlength=centroids)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    scratch = folder / "postings.scratch"
    try:
        lists = np.memmap(scratch, dtype=_width(passages), mode="w+", shape=(max(1, int(starts[-1])),))
        ends = starts[:-1].copy()
        for owners, rows in centroid_passages(tokens, offsets):
            # Pairs come sorted by centroid, and blocks by passage, so that every list is ascending.
            here = np.bincount(owners, minlength=centroids)
            begin = np.cumsum(here) - here
            lists[ends[owners] + np.arange(len(owners)) - begin[owners]] = rows
            ends += here
        column = pa.array(lists[: int(starts[-1])])
        write_table(pa.table({"passage": column}), folder / FILE, rows=max(1, len(column)))
        del lists, column
    finally:
        scratch.unlink(missing_ok=True)
    write_table(pa.table({"posting_offset": starts}), folder / OFFSETS_FILE, rows=len(starts))


def _width(passages: int) -> Any:
    return np.min_scalar_type(max(0, passages - 1))


def centroid_passages(
    tokens: TokenVectors, offsets: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Every (centroid, passage) pair once, by blocks of passages, sorted within a block."""
    begin, passages = 0, len(offsets) - 1
    while begin < passages:
        end = int(np.searchsorted(offsets, offsets[begin] + _BLOCK_TOKENS, side="right")) - 1
        end = min(max(end, begin + 1), passages)
        ids = tokens.columns(int(offsets[begin]), int(offsets[end]), ["centroid"])["centroid"]
        local = np.repeat(np.arange(end - begin), np.diff(offsets[begin : end + 1]))
        keys = np.unique(ids.astype(np.int64) * (end - begin) + local)
        yield keys // (end - begin), keys % (end - begin) + begin
        begin = end


class Postings:
    """The postings of an opened segment, memory-mapped."""

    def __init__(self, folder: Path, centroids: int, passages: int) -> None:
        lists = map_table(folder / FILE, *POSTINGS).column("passage")
        offsets = map_table(folder / OFFSETS_FILE, POSTING_OFFSETS).column("posting_offset")
        self.offsets: NDArray[np.int64] = one_chunk(offsets)
        self._lists: NDArray[Any] = one_chunk(lists)
        self._passages = passages
        if len(self.offsets) != centroids + 1 or not offsets_are_valid(self.offsets, len(self._lists)):
            raise IndexDamaged(f"The postings of {folder} do not fit its manifest; index again.")

    def __len__(self) -> int:
        return len(self._lists)

    def passages(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The passages at some places of all lists: int64 `[places]`."""
        return self._lists[places].astype(np.int64)

    def add_to(self, lists: NativeLists) -> None:
        """Let native kernels read these postings."""
        lists.add(self.offsets, np.ascontiguousarray(self._lists), self._passages)

    def gather(self, centroids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Passages of some centroids, one list after the other.

        Returns:
            The passages, int64, and for each the place of its centroid among those asked for, int64.

        Raises:
            IndexDamaged: a posting names a passage that is not there.
        """
        begin = self.offsets[centroids]
        lengths = self.offsets[centroids + 1] - begin
        rows = self._lists[ranges(begin, lengths)].astype(np.int64)
        if len(rows) and int(rows.max()) >= self._passages:
            raise IndexDamaged("A posting names a passage that is not there; index again with --overwrite.")
        return rows, np.repeat(np.arange(len(centroids)), lengths)


class PostingsOfAll:
    """The postings of several segments as one.

    Args:
        parts: of each segment.
        starts: row of each segment's first passage.
        live: bool `[passages]`, which passages may be found; None for all.
    """

    def __init__(
        self, parts: Sequence[Postings], starts: NDArray[np.int64], live: NDArray[np.bool_] | None
    ) -> None:
        self._parts = list(zip(parts, starts.tolist(), strict=False))
        self._live = live

    @cached_property
    def native(self) -> NativeLists | None:
        """The same postings for the native kernels, deleted passages among them; None without these."""
        if not native_is_there() or not self._parts:
            return None
        made = NativeLists(len(self._parts[0][0].offsets) - 1)
        for part, _ in self._parts:
            part.add_to(made)
        return made

    def gather(self, centroids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Passages of some centroids, segment after segment, in each one list after the other.

        Returns:
            The passages, int64, and for each the place of its centroid among those asked for, int64.

        Raises:
            IndexDamaged: a posting names a passage that is not there.
        """
        found = [part.gather(centroids) for part, _ in self._parts]
        if len(found) == 1:
            rows, places = found[0]
        else:
            nothing = np.empty(0, dtype=np.int64)
            shifted = [part + start for (part, _), (_, start) in zip(found, self._parts, strict=True)]
            rows = np.concatenate([nothing, *shifted])
            places = np.concatenate([nothing, *(place for _, place in found)])
        if self._live is not None:
            kept = self._live[rows]
            rows, places = rows[kept], places[kept]
        return rows, places

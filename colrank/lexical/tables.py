"""The words of one segment, memory-mapped: which passages hold a term, how often, how long passages are.

words.arrow          term (utf8, ascending by its bytes), end (int64): its postings end here, and begin where
                     those of the term before end
word-postings.arrow  passage, count: each uint8, uint16, uint32 or uint64, the narrowest that will do
word-lengths.arrow   words (uint32), a row a passage
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from colrank_kernels import offsets_are_valid
from numpy.typing import NDArray

from colrank.errors import IndexDamaged
from colrank.shards import map_table, one_chunk

TERMS_FILE = "words.arrow"
POSTINGS_FILE = "word-postings.arrow"
LENGTHS_FILE = "word-lengths.arrow"
FILES = (TERMS_FILE, POSTINGS_FILE, LENGTHS_FILE)

TERMS = pa.schema([("term", pa.string()), ("end", pa.int64())])
LENGTHS = pa.schema([("words", pa.uint32())])
_WIDTHS = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
POSTINGS = tuple(
    pa.schema([("passage", passage), ("count", count)]) for passage, count in product(_WIDTHS, _WIDTHS)
)

Postings = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Passages, ascending, and how often a term occurs in each."""


class WordTables:
    """The words of an opened segment.

    Attributes:
        lengths: uint32 `[passages]`, words of each.

    Raises:
        IndexDamaged: the tables do not fit each other or the segment.
    """

    def __init__(self, folder: Path, passages: int) -> None:
        terms = map_table(folder / TERMS_FILE, TERMS)
        postings = map_table(folder / POSTINGS_FILE, *POSTINGS)
        self.lengths: NDArray[np.uint32] = one_chunk(
            map_table(folder / LENGTHS_FILE, LENGTHS).column("words")
        )
        self._ends: NDArray[np.int64] = one_chunk(terms.column("end"))
        self._passages: NDArray[Any] = one_chunk(postings.column("passage"))
        self._counts: NDArray[Any] = one_chunk(postings.column("count"))
        self._terms = terms.column("term")
        self._folder = folder
        bounds = np.concatenate([[0], self._ends])
        if len(self.lengths) != passages or not offsets_are_valid(bounds, len(postings)):
            raise self._damaged("do not fit its manifest")

    def __len__(self) -> int:
        """How many terms there are."""
        return len(self._ends)

    def term(self, place: int) -> str:
        """The term of a row."""
        try:
            return str(self._terms[place].as_py())
        except ValueError as error:
            raise self._damaged("hold broken text") from error

    def postings(self, term: str) -> Postings:
        """The passages that hold a term; none where it is not there.

        Raises:
            IndexDamaged: a posting names a passage that is not there.
        """
        wanted = term.encode()
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.term(middle).encode() < wanted:
                low = middle + 1
            else:
                high = middle
        if low == len(self) or self.term(low) != term:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return self.at(low)

    def at(self, place: int) -> Postings:
        """The postings of the term of a row; raises as `postings`."""
        begin, end = int(self._ends[place - 1]) if place else 0, int(self._ends[place])
        passages = self._passages[begin:end].astype(np.int64)
        if len(passages) and int(passages.max()) >= len(self.lengths):
            raise self._damaged("name a passage that is not there")
        return passages, self._counts[begin:end].astype(np.int64)

    def _damaged(self, how: str) -> IndexDamaged:
        return IndexDamaged(f"The words of {self._folder} {how}; index again with --overwrite.")

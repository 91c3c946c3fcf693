"""Writes the words of a segment: terms, postings and lengths (`colrank.lexical.tables`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from colrank.lexical.tables import LENGTHS_FILE, POSTINGS_FILE, TERMS, TERMS_FILE
from colrank.lexical.terms import passage_terms
from colrank.shards import write_table

_FOUND = np.dtype([("term", np.int32), ("passage", np.int64), ("count", np.int64)])
_AT_ONCE = 1 << 20
"""Postings that are held before they go to the disk."""


def write_words(folder: Path, passages: Iterable[tuple[str, str]]) -> None:
    """Write the words of a segment's passages.

    Memory follows the number of different terms, four bytes a passage, and one block of postings; all
    postings lie in a scratch file meanwhile.

    Args:
        folder: of the segment.
        passages: language and text (title and body) of each, in order.
    """
    numbers: dict[str, int] = {}
    lengths: list[int] = []
    most = total = held = 0
    scratch = folder / "words.scratch"
    block: list[tuple[int, int, int]] = []
    try:
        with scratch.open("wb") as out:
            for passage, (language, text) in enumerate(passages):
                terms, words = passage_terms(text, language)
                lengths.append(words)
                for term, count in terms.items():
                    block.append((numbers.setdefault(term, len(numbers)), passage, count))
                    most = max(most, count)
                held = len(block)
                if held >= _AT_ONCE:
                    np.array(block, dtype=_FOUND).tofile(out)
                    total, block = total + held, []
            np.array(block, dtype=_FOUND).tofile(out)
            total += len(block)
        _write_postings(folder, scratch, numbers, total, len(lengths), most)
    finally:
        scratch.unlink(missing_ok=True)
    column = pa.array(np.array(lengths, dtype=np.uint32))
    write_table(pa.table({"words": column}), folder / LENGTHS_FILE, rows=max(1, len(lengths)))


def _write_postings(
    folder: Path, scratch: Path, numbers: dict[str, int], total: int, passages: int, most: int
) -> None:
    terms = sorted(numbers, key=str.encode)
    places = np.empty(len(terms), dtype=np.int64)
    places[[numbers[term] for term in terms]] = np.arange(len(terms))
    found: NDArray[Any] = np.empty(0, dtype=_FOUND)
    if total:
        found = np.memmap(scratch, dtype=_FOUND, mode="r")
    lists = np.zeros(len(terms), dtype=np.int64)
    for part in _parts(found):
        lists += np.bincount(places[part["term"]], minlength=len(terms))
    ends = np.cumsum(lists)
    ordered = folder / "word-postings.scratch"
    try:
        shape = (max(1, total),)
        owners = np.memmap(ordered, dtype=np.min_scalar_type(max(0, passages - 1)), mode="w+", shape=shape)
        counts = np.empty(total, dtype=np.min_scalar_type(most))
        at = ends - lists
        for part in _parts(found):
            # Blocks come by passage, and a stable order keeps that within a term.
            order = np.argsort(places[part["term"]], kind="stable")
            own = places[part["term"]][order]
            here = np.bincount(own, minlength=len(terms))
            target = at[own] + np.arange(len(own)) - (np.cumsum(here) - here)[own]
            owners[target], counts[target] = part["passage"][order], part["count"][order]
            at += here
        table = pa.table({"passage": pa.array(owners[:total]), "count": pa.array(counts)})
        write_table(table, folder / POSTINGS_FILE, rows=max(1, total))
        del owners, table
    finally:
        ordered.unlink(missing_ok=True)
    held = pa.table({"term": pa.array(terms, pa.string()), "end": pa.array(ends)}, schema=TERMS)
    write_table(held, folder / TERMS_FILE, rows=max(1, len(terms)))


def _parts(found: NDArray[Any]) -> Iterable[NDArray[Any]]:
    for first in range(0, len(found), _AT_ONCE):
        yield found[first : first + _AT_ONCE]

"""Ranked lists by query, in memory and as TREC run files."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from colrank.errors import InputError
from colrank.evaluate.judgements import text_lines
from colrank.types import is_utf8

Run: TypeAlias = Mapping[str, Sequence[tuple[str, float]]]
"""For each query its documents with their scores, best first: the order counts, not the scores."""


def read_run(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Read a TREC run file: query, Q0, document, rank, score and tag on each line.

    As trec_eval does, the score decides the order; among equal scores it is the rank, then the line.

    Raises:
        InputError: the file cannot be read, holds no line, a line is something else, or a query has a
            document twice.
    """
    lines: dict[str, dict[str, tuple[float, int]]] = {}
    for number, line in text_lines(path, "run"):
        columns = line.split()
        try:
            query, _, document, rank, score, _ = columns
            place, value = int(rank), float(score)
            if not math.isfinite(value):
                raise ValueError
        except ValueError as error:
            raise InputError(
                f"{path} line {number} is not a query, Q0, a document, a rank, a score and a tag (TREC run)."
            ) from error
        held = lines.setdefault(query, {})
        if document in held:
            raise InputError(
                f"{path} line {number} ranks document {document!r} for query {query!r} a second time; keep "
                "one line of each."
            )
        held[document] = (-value, place)
    if not lines:
        raise InputError(f"There is no line in the run {path}.")
    return {
        query: [(document, -held[document][0]) for document in sorted(held, key=held.__getitem__)]
        for query, held in lines.items()
    }


def check_run(run: Run) -> None:
    """Raise InputError when a query has a document twice."""
    for query, ranked in run.items():
        seen: set[str] = set()
        for document, _ in ranked:
            if document in seen:
                raise InputError(f"The run ranks document {document!r} twice for query {query!r}.")
            seen.add(document)


def write_run(path: Path, run: Run, tag: str = "colrank") -> None:
    """Write a TREC run file, whole or not at all; an older file of that name gives way.

    Raises:
        InputError: an id or the tag has a space in it, which the format cannot carry, or the file cannot
            be written.
    """
    for name in (tag, *run, *(document for ranked in run.values() for document, _ in ranked)):
        if name.split() != [name] or not is_utf8(name):
            raise InputError(
                f"A TREC run cannot carry the id {name!a}, which is empty or holds a space; give documents "
                "and queries ids without spaces."
            )
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            for query, ranked in run.items():
                for rank, (document, score) in enumerate(ranked, start=1):
                    file.write(f"{query} Q0 {document} {rank} {float(score)!r} {tag}\n")
        partial.replace(path)
    except OSError as error:
        raise InputError(f"Cannot write the run {path}: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)

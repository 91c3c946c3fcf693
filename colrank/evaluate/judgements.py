"""Queries and what is known of their answers: JSON lines, TSV, TREC files, and folders in BEIR layout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from colrank.errors import InputError
from colrank.evaluate.arrays import Arrays

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Grades by query and document; a grade of at least 1 means relevant."""

LARGEST_GRADE = 1_000_000
"""Grades lie between this and its negative: trec_eval, which computes the measures, holds an array as long as
the largest grade of a query, and gives 0 for every measure when there is no room for it."""

_RANGE = f"a whole number from {-LARGEST_GRADE:,} to {LARGEST_GRADE:,}"
_TSV_LINE = f"a query, a document and a grade ({_RANGE}) with tabs between"
_TREC_LINE = f"a query, an iteration, a document and a grade as in TREC's files, nor {_TSV_LINE}"
_GRADE_NAMES = ("score", "grade", "relevance", "rel", "label")


def read_queries(path: Path) -> list[tuple[str | None, str]]:
    """Queries of a file with their ids: JSON lines with `text` and maybe `_id`, TSV of id and query, else
    one a line; - is standard input, one a line.

    Raises:
        InputError: the file cannot be read, holds no query, or a line is not what it should be.
    """
    if path.suffix.lower() not in ("", ".txt", ".tsv", ".jsonl", ".json") and str(path) != "-":
        raise InputError(f"Queries are read from .txt, .tsv and .jsonl files, not from {path}.")
    found: list[tuple[str | None, str]] = []
    for number, line in text_lines(path, "queries"):
        if path.suffix.lower() == ".tsv":
            name, tab, query = line.partition("\t")
            if not tab or not query.strip():
                raise InputError(f"{path} line {number} is not an id, a tab and a query.")
            found.append((name.strip(), query.strip()))
            continue
        if path.suffix.lower() not in (".jsonl", ".json"):
            found.append((None, line.strip()))
            continue
        try:
            record = json.loads(line)
            query = record["text"]
            name = record.get("_id", record.get("id"))
            if not isinstance(query, str) or not query.strip():
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{path} line {number} is not a JSON object with a text that is not empty."
            ) from error
        found.append((None if name is None else str(name), query))
    if not found:
        raise InputError(f"There is no query in {path}.")
    return found


def text_lines(path: Path, what: str) -> Iterator[tuple[int, str]]:
    """Lines of a UTF-8 file that are not blank, with their numbers; - is standard input.

    Raises:
        InputError: the file cannot be read or is not UTF-8.
    """
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"Cannot read the {what} {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"The {what} {path} are not UTF-8; save the file as UTF-8.") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def judged_queries(given: Mapping[str, Any] | str | Path) -> dict[str, Any]:
    """Queries by id: a mapping to text or vectors, a file of either, or a folder that holds queries.jsonl.

    Raises:
        InputError: as `read_queries`; a query has no id, or an id comes twice.
    """
    if isinstance(given, Mapping):
        for key in given:
            if not isinstance(key, str):
                raise InputError(f"The id of a query is {key!r}; give strings.")
        return dict(given)
    path = Path(given)
    if path.is_dir():
        path = path / "queries.jsonl"
        if not path.exists():
            raise InputError(f"There is no queries.jsonl in {path.parent}; name the file of queries.")
    if path.suffix.lower() == ".npz":
        return dict(Arrays(path))
    queries: dict[str, Any] = {}
    for name, text in read_queries(path):
        if not name:
            raise InputError(
                f"A query of {path} has no id ({text[:60]!r}), and judgements go by id; give .tsv (id, "
                "query) or .jsonl (_id, text)."
            )
        if name in queries:
            raise InputError(f"{path} holds the query {name!r} twice; make ids unique.")
        queries[name] = text
    return queries


def judgements(given: Qrels | str | Path) -> dict[str, dict[str, int]]:
    """Grades by query and document: a mapping, a file, or a folder in BEIR layout.

    A folder is read from qrels/test.tsv, or from the only .tsv file in qrels/.

    Raises:
        InputError: as `read_qrels`; a grade of a mapping is no whole number or beyond `LARGEST_GRADE`; the
            folder holds no qrels, or several and no test.tsv.
    """
    if isinstance(given, Mapping):
        for query, grades in given.items():
            for document, grade in grades.items():
                whole = isinstance(grade, int | np.integer) and not isinstance(grade, bool)
                if not whole or abs(int(grade)) > LARGEST_GRADE:
                    raise InputError(
                        f"The grade of document {document!r} for query {query!r} is {grade!r}; give {_RANGE}."
                    )
        return {query: {name: int(grade) for name, grade in held.items()} for query, held in given.items()}
    path = Path(given)
    if not path.is_dir():
        return read_qrels(path)
    chosen = path / "qrels" / "test.tsv"
    if not chosen.exists():
        held = sorted((path / "qrels").glob("*.tsv"))
        if not held:
            raise InputError(f"There is no .tsv file in {path / 'qrels'}; name the file of judgements.")
        if len(held) > 1:
            names = ", ".join(file.name for file in held)
            raise InputError(f"{path / 'qrels'} holds {names} and no test.tsv; name one of them.")
        chosen = held[0]
    return read_qrels(chosen)


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Read judgements: TSV of query, document and grade, with or without BEIR's header, or TREC's four
    columns of query, iteration, document and grade; the first line decides.

    Raises:
        InputError: the file cannot be read, holds no judgement, a line is not what the first one promises,
            or a document has two grades for one query.
    """
    found: dict[str, dict[str, int]] = {}
    trec = False
    for row, (number, line) in enumerate(text_lines(path, "judgements")):
        columns = [column.strip() for column in line.split("\t")]
        if row == 0:
            if len(columns) == 3 and columns[2].lower() in _GRADE_NAMES:
                continue
            trec = len(columns) != 3
        if trec and len(columns) != 4:
            columns = line.split()
        grade = _whole(columns[-1])
        if len(columns) != (4 if trec else 3) or grade is None or not all(columns):
            wanted = _TREC_LINE if trec else _TSV_LINE
            raise InputError(f"{path} line {number} is not {wanted}.")
        query, document = columns[0], columns[-2]
        if found.setdefault(query, {}).setdefault(document, grade) != grade:
            raise InputError(
                f"{path} line {number} gives document {document!r} a second grade for query {query!r}; keep "
                "one of them."
            )
    if not found:
        raise InputError(f"There is no judgement in {path}.")
    return found


def _whole(text: str) -> int | None:
    """The grade that a text spells (1 or 1.0), or None where that is none or beyond `LARGEST_GRADE`."""
    try:
        value = int(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            return None
        if not number.is_integer():  # nor are NaN and Inf
            return None
        value = int(number)
    return value if abs(value) <= LARGEST_GRADE else None

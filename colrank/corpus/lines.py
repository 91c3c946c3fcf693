"""JSONL: one record a line. BEIR's `corpus.jsonl` is one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from colrank.config import FieldNames
from colrank.corpus.faults import NOT_JSON, NOT_UTF8_RECORD, Fault, Notes
from colrank.corpus.records import document_from_record
from colrank.corpus.source import TextSource
from colrank.types import Document


def read_jsonl(source: TextSource, fields: FieldNames, notes: Notes) -> Iterator[Document]:
    """The documents of a JSONL file, in its order."""
    for number, line in enumerate(source.lines(), 1):
        if not line or line.isspace():
            continue
        where = f"{source.label} line {number}"
        record = _parse(line)
        if isinstance(record, Fault):
            # A torso is noted already, as a file cut short.
            if not source.torso:
                notes.add(record, where)
            continue
        document = document_from_record(
            record,
            fields,
            where=where,
            fallback_id=f"{source.label}:{number}",
            source=source.label,
            problems=notes.problems,
            strict=notes.strict,
        )
        if document is not None:
            yield document


def _parse(line: bytes) -> dict[str, Any] | Fault:
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return NOT_UTF8_RECORD
    except (ValueError, RecursionError):
        # ValueError rather than JSONDecodeError: a number of too many digits is one, too.
        return NOT_JSON
    return record if isinstance(record, dict) else NOT_JSON

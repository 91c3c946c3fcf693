"""From a record, a mapping of fields, to a document."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from colrank.config import FieldNames
from colrank.corpus.faults import (
    BROKEN_CHARACTERS,
    EMPTY,
    NO_FIELDS,
    NO_FIELDS_RECORD,
    NO_ID,
    Notes,
)
from colrank.corpus.values import UnusableRecord, Values
from colrank.errors import InputError
from colrank.types import Document, Problems

_SHOWN_COLUMNS = 12


def document_from_record(
    record: Mapping[str, Any],
    fields: FieldNames,
    *,
    where: str,
    fallback_id: str,
    source: str,
    problems: Problems,
    strict: bool = False,
) -> Document | None:
    """The document that a record holds, or None, counted in `problems`, when it holds none.

    Fields that are neither id, title nor text become the metadata.

    Args:
        record: the fields by name.
        fields: which of them hold what.
        where: how problems name the record, such as `corpus.jsonl line 7`.
        fallback_id: the id of a record that has none.
        source: the document's source.
        problems: where problems are counted.
        strict: raise them instead.

    Raises:
        CorpusError: `strict` is set and something is wrong with the record.
    """
    notes = Notes(problems, strict)
    id_key, title_key, text_key = (
        _present(record, names) for names in (fields.id_field, fields.title_field, fields.text_field)
    )
    if title_key is None and text_key is None:
        notes.add(NO_FIELDS_RECORD, where)
        return None
    values = Values()
    try:
        title = values.text(None if title_key is None else record[title_key])
        text = values.text(None if text_key is None else record[text_key])
        id = values.id(None if id_key is None else record[id_key])
        metadata = values.plain(
            {key: value for key, value in record.items() if key not in (id_key, title_key, text_key)}
        )
    except UnusableRecord as unusable:
        notes.add(unusable.fault, where)
        return None
    if is_blank(title) and is_blank(text):
        notes.add(EMPTY, where if id is None else f"{id} ({where})")
        return None
    if values.repaired:
        notes.add(BROKEN_CHARACTERS, where)
    if id is None:
        notes.add(NO_ID, where)
        id = fallback_id
    return Document(id, text, title, metadata, source)


def plain_metadata(metadata: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The metadata as JSON can hold it: NaN as null, dates as ISO strings, bytes as base64.

    Raises:
        InputError: it is nested too deeply; `where` names whose it is.
    """
    try:
        plain: dict[str, Any] = Values().plain(dict(metadata))
    except UnusableRecord as unusable:
        raise InputError(unusable.fault.error.format(name=where)) from unusable
    return plain


def has_fields(columns: Collection[str], fields: FieldNames, label: str, notes: Notes) -> bool:
    """Whether one of a table's columns is the text or the title; noted, with the columns, when not."""
    if not set(fields.text_field + fields.title_field).isdisjoint(columns):
        return True
    shown = [*columns][:_SHOWN_COLUMNS]
    more = ", ..." if len(columns) > len(shown) else ""
    notes.add(NO_FIELDS, f"{label} (columns: {Values().string(', '.join(shown))}{more})")
    return False


def column_names(names: Collection[str]) -> list[str]:
    """The names of a table's columns, made distinct and never empty, so that no column is lost."""
    distinct: dict[str, None] = {}
    for position, name in enumerate(names, 1):
        stem = name.strip() or f"column_{position}"
        candidates = (stem, *(f"{stem}_{count}" for count in range(2, len(names) + 2)))
        distinct[next(candidate for candidate in candidates if candidate not in distinct)] = None
    return list(distinct)


def is_blank(text: str) -> bool:
    """Whether there is nothing to see in the text."""
    return not text or text.isspace()


def _present(record: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of the names that has a value, else the first that is there at all."""
    there = [name for name in names if name in record]
    return next((name for name in there if record[name] is not None), there[0] if there else None)

"""CSV and TSV, with a header; TSV also without one, as MS MARCO has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from colrank.config import FieldNames
from colrank.corpus.faults import BROKEN_QUOTE, NO_FIELDS, NOT_UTF8, NOT_UTF8_RECORD, WRONG_CELLS, Notes
from colrank.corpus.quoting import Row, literal_rows, quoted_rows, split_quoted
from colrank.corpus.records import column_names, document_from_record, has_fields
from colrank.corpus.source import TextSource
from colrank.types import Document

# Excel separates by semicolons wherever the comma is the decimal sign.
_SEPARATORS = (",", ";", "\t")

# MS MARCO: collection.tsv has two columns, the documents have four.
_HEADERLESS = {2: ("id", "text"), 3: ("id", "title", "text"), 4: ("id", "url", "title", "text")}
_HEADERLESS_FIELDS = FieldNames(("id",), ("title",), ("text",))


def read_csv(source: TextSource, fields: FieldNames, notes: Notes) -> Iterator[Document]:
    """The documents of a CSV file with a header, separated by commas or semicolons."""
    first, lines = _peek(_lines(source))
    rows = quoted_rows(lines, _separator(first, fields), source.line_end)
    yield from _with_header(source, rows, fields, notes)


def read_tsv(source: TextSource, fields: FieldNames, notes: Notes) -> Iterator[Document]:
    """The documents of a TSV file; without a header it has an id, a text, and between them a title."""
    first, lines = _peek(_lines(source))
    known = {*fields.id_field, *fields.title_field, *fields.text_field}
    if known.isdisjoint(column_names(split_quoted(first, "\t"))):
        yield from _without_header(source, literal_rows(lines, "\t"), notes)
    else:
        rows = quoted_rows(lines, "\t", source.line_end)
        # Programs that write TSV often leave quotes as they are, so a row that makes no sense with
        # quoting is read without, if that makes sense.
        yield from _with_header(source, rows, fields, notes, literal="\t")


def _lines(source: TextSource) -> Iterator[str]:
    for line in source.lines(source.line_end):
        # Bytes that are not UTF-8 become surrogates, by which the row they fall into is recognised.
        yield line.decode("utf-8", "surrogateescape")


def _peek(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The first line that is not blank, or "", and an iterator that still has it."""
    seen = []
    for line in lines:
        seen.append(line)
        if line not in ("", "\r"):
            break
    return seen[-1] if seen else "", chain(seen, lines)


def _separator(header: str, fields: FieldNames) -> str:
    known = {*fields.title_field, *fields.text_field}

    def fit(separator: str) -> tuple[bool, int]:
        names = column_names(split_quoted(header, separator))
        return not known.isdisjoint(names), len(names)

    return max(_SEPARATORS, key=fit)


def _with_header(
    source: TextSource, rows: Iterator[Row], fields: FieldNames, notes: Notes, literal: str | None = None
) -> Iterator[Document]:
    header = next(rows, None)
    if header is None:
        return
    if not all(map(_is_utf8, header.cells or (header.text,))):
        notes.add(NOT_UTF8, source.label)
        return
    if header.cells is None:
        notes.add(BROKEN_QUOTE, f"{source.label} line {header.line}")
        return
    names = column_names(header.cells)
    if has_fields(names, fields, source.label, notes):
        yield from _documents(source, rows, names, fields, notes, literal)


def _without_header(source: TextSource, rows: Iterator[Row], notes: Notes) -> Iterator[Document]:
    first = next(rows, None)
    if first is None or first.cells is None:
        return
    names = _HEADERLESS.get(len(first.cells))
    if names is None:
        notes.add(NO_FIELDS, f"{source.label} ({len(first.cells)} columns without a header)")
        return
    yield from _documents(source, chain((first,), rows), names, _HEADERLESS_FIELDS, notes)


def _documents(
    source: TextSource,
    rows: Iterator[Row],
    names: Sequence[str],
    fields: FieldNames,
    notes: Notes,
    literal: str | None = None,
) -> Iterator[Document]:
    for row in rows:
        where = f"{source.label} line {row.line}"
        cells = row.cells
        if source.torso:
            # What a quote left open there has swallowed is not tried as rows, as it may well be one cell.
            if cells is None:
                notes.add(BROKEN_QUOTE, where)
            return
        if literal is not None and (cells is None or len(cells) != len(names)):
            plain = row.text.removesuffix("\r").split(literal)
            cells = plain if len(plain) == len(names) else cells
        if cells is None:
            notes.add(BROKEN_QUOTE, where)
        elif not all(map(_is_utf8, cells)):
            notes.add(NOT_UTF8_RECORD, where)
        elif len(cells) != len(names):
            notes.add(WRONG_CELLS, where)
        else:
            document = document_from_record(
                dict(zip(names, cells, strict=True)),
                fields,
                where=where,
                fallback_id=f"{source.label}:{row.line}",
                source=source.label,
                problems=notes.problems,
                strict=notes.strict,
            )
            if document is not None:
                yield document


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True

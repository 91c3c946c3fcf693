"""Reading a corpus: each file by the reader for its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

from colrank.config import FieldNames
from colrank.corpus.columns import read_columns
from colrank.corpus.faults import UNREADABLE_FILE, Notes
from colrank.corpus.files import CorpusFile, find_files, suffix_of
from colrank.corpus.lines import read_jsonl
from colrank.corpus.pages import read_html, read_markdown, read_text
from colrank.corpus.source import ByteCounter, TextSource
from colrank.corpus.tables import read_csv, read_tsv
from colrank.errors import InputError
from colrank.types import Document, Problems

_PAGES: dict[str, Callable[[TextSource, Notes], Iterator[Document]]] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".rst": read_text,
    ".html": read_html,
    ".htm": read_html,
}
_RECORDS: dict[str, Callable[[TextSource, FieldNames, Notes], Iterator[Document]]] = {
    ".jsonl": read_jsonl,
    ".csv": read_csv,
    ".tsv": read_tsv,
}


def read_corpus(
    paths: Sequence[Path],
    fields: FieldNames,
    problems: Problems,
    *,
    strict: bool = False,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Document]:
    """The documents of all the files, which are looked for at once and read as documents are taken.

    Raises:
        InputError: see `find_files`.
        CorpusError: see `read_file`.
    """
    files = find_files(paths, problems, strict=strict)
    return chain.from_iterable(
        read_file(file, fields, problems, strict=strict, on_bytes=on_bytes) for file in files
    )


def read_file(
    file: CorpusFile,
    fields: FieldNames,
    problems: Problems,
    *,
    strict: bool = False,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Document]:
    """The documents of one file, in its order; what cannot be read is counted in `problems`.

    Args:
        file: what to read.
        fields: which fields of records hold what.
        problems: where problems are counted.
        strict: raise them instead.
        on_bytes: called with the bytes read on disk since the last call; they add up to the file's size.

    Raises:
        CorpusError: `strict` is set and something cannot be read.
        MissingExtra: `strict` is set and reading HTML needs a package that is not installed.
    """
    suffix = suffix_of(file.path)
    if suffix is None:
        raise InputError(f"{file.label} is of an unknown type; give it to find_files first.")
    notes = Notes(problems, strict)
    counter = ByteCounter(file.size, on_bytes)
    unpacked = suffix.removesuffix(".gz")
    text = unpacked in _PAGES or unpacked in _RECORDS
    try:
        handle = (
            TextSource(file.path, file.label, packed=suffix != unpacked, counter=counter, notes=notes)
            if text
            else file.path.open("rb")
        )
    except OSError:
        notes.add(UNREADABLE_FILE, file.label)
        counter.finish()
        return
    with closing(handle):
        if not isinstance(handle, TextSource):
            yield from read_columns(handle, file.label, file.size, fields, notes, counter)
        elif (fault := handle.sniff()) is not None:
            notes.add(fault, file.label)
        elif unpacked in _PAGES:
            yield from _PAGES[unpacked](handle, notes)
        else:
            yield from _RECORDS[unpacked](handle, fields, notes)
    counter.finish()

"""Files that are one document each: plain text, Markdown, reStructuredText and HTML."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from typing import Any

from colrank.corpus.faults import BROKEN_CHARACTERS, EMPTY, FRONT_MATTER, HTML_EXTRA, NOT_UTF8, Notes
from colrank.corpus.records import is_blank
from colrank.corpus.source import TextSource
from colrank.errors import MissingExtra
from colrank.types import Document

_META_CHARSET = re.compile(rb"""<meta\s[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_META_WITHIN = 4096


def read_text(source: TextSource, notes: Notes) -> Iterator[Document]:
    """The document that a file of plain text or reStructuredText is."""
    text = _decoded(source, source.whole(), "utf-8", notes)
    if text is not None:
        yield from _document(source, "", text, notes)


def read_markdown(source: TextSource, notes: Notes) -> Iterator[Document]:
    """The document that a Markdown file is.

    Front matter is its metadata and no part of its text. Its title is the one that the front matter gives,
    else the heading with which the text begins. An `id` in front matter is metadata like any other: the
    file's name is the document's id, as sites repeat such ids from folder to folder.
    """
    text = _decoded(source, source.whole(), "utf-8", notes)
    if text is None:
        return
    metadata, text = _metadata_and_rest(source, text, notes)
    title, rest = _heading_and_rest(text)
    named = metadata.get("title")
    if isinstance(named, str) and not is_blank(named):
        del metadata["title"]
        # A heading that says something else stays in the text.
        if named.strip() != title:
            title, rest = named.strip(), text
    yield from _document(source, title, rest, notes, metadata)


def read_html(source: TextSource, notes: Notes) -> Iterator[Document]:
    """The document that an HTML file is: its title and the text that a browser would show."""
    try:
        from colrank.corpus.html import parse_html
    except ImportError as error:
        if notes.strict:
            raise MissingExtra(
                f"{source.label} is HTML, which needs the extra 'formats'; "
                "install it with: pip install 'colrank[formats]'."
            ) from error
        notes.problems.add(HTML_EXTRA, source.label)
        return
    data = source.whole()
    text = _decoded(source, data, "utf-8" if source.marked else _charset(data), notes)
    if text is not None:
        yield from _document(source, *parse_html(text), notes)


def _metadata_and_rest(source: TextSource, text: str, notes: Notes) -> tuple[dict[str, Any], str]:
    """What the front matter says and the text after it, or nothing and all of the text."""
    if not text.startswith(("---", "+++")):
        return {}, text
    # YAML is loaded only where there may be some.
    from colrank.corpus.frontmatter import Unreadable, split_front_matter

    try:
        found = split_front_matter(text)
    except Unreadable:
        notes.add(FRONT_MATTER, source.label)
        return {}, text
    if found is None:
        return {}, text
    if found.repaired:
        notes.add(BROKEN_CHARACTERS, source.label)
    return found.metadata, found.text


def _heading_and_rest(text: str) -> tuple[str, str]:
    """The first-level heading with which a text begins and what follows, or "" and all of the text."""
    start = len(text) - len(text.lstrip(" \t\r\n"))
    indent = start - (text.rfind("\n", 0, start) + 1)
    line, _, rest = text[start:].partition("\n")
    # Four spaces make a block of code.
    if indent > 3 or not line.startswith(("# ", "#\t")):
        return "", text
    title = line[1:].strip()
    unmarked = title.rstrip("#")
    if unmarked.endswith((" ", "\t")):
        title = unmarked.rstrip()
    blank = len(rest) - len(rest.lstrip(" \t\r\n"))
    return title, rest[rest.rfind("\n", 0, blank) + 1 :]


def _document(
    source: TextSource, title: str, text: str, notes: Notes, metadata: Mapping[str, Any] | None = None
) -> Iterator[Document]:
    if is_blank(title) and is_blank(text):
        if not source.cut:
            notes.add(EMPTY, source.label)
    else:
        yield Document(source.label, text, title, metadata or {}, source.label)


def _decoded(source: TextSource, data: bytes, charset: str, notes: Notes) -> str | None:
    try:
        # A file cut short may end within a character.
        return codecs.getincrementaldecoder(charset)().decode(data, final=not source.cut)
    except UnicodeError:
        notes.add(NOT_UTF8, source.label)
        return None


def _charset(data: bytes) -> str:
    declared = _META_CHARSET.search(data[:_META_WITHIN])
    if declared is None:
        return "utf-8"
    try:
        name = codecs.lookup(declared[1].decode("ascii", "replace")).name
        "".encode(name)
    except LookupError:
        # Unknown, or one of Python's codecs that are not for text.
        return "utf-8"
    if name in ("iso8859-1", "ascii"):
        # As browsers do: pages that say so are mostly written in the Windows character set.
        return "cp1252"
    # Also as browsers do: who could read the declaration is not reading UTF-16.
    return "utf-8" if name.startswith(("utf-16", "utf-32", "utf-7")) else name

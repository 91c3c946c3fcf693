"""The text of an HTML page, by selectolax (extra `formats`)."""

from __future__ import annotations

from typing import Any

from selectolax.lexbor import LexborHTMLParser

# A title in the body is that of a drawing.
_DROPPED = frozenset(("script", "style", "template", "title", "noscript", "noframes", "noembed", "iframe"))
_BLOCK_TAGS = (
    "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main menu nav ol optgroup "
    "option p pre search section select summary table tbody tfoot thead tr ul"
)
_BLOCKS = frozenset(_BLOCK_TAGS.split())
_CELLS = frozenset(("td", "th"))
_SPACE = " \t\n\r\f"
_TO_SPACE = str.maketrans(dict.fromkeys(_SPACE, " "))


def parse_html(html: str) -> tuple[str, str]:
    """Title and text of a page.

    Without a title the first h1 serves, and is then left out of the text. Blocks are separated by line
    ends; white space is collapsed except in `pre`.
    """
    # The standard has line ends unified before anything else.
    tree = LexborHTMLParser(html.replace("\r\n", "\n").replace("\r", "\n"))
    named = tree.head.css_first("title") if tree.head is not None else None
    title = " ".join(named.text().split()) if named is not None else ""
    body = tree.body
    if body is None:
        return title, ""
    if not title and (heading := body.css_first("h1")) is not None:
        title = " ".join(_text(heading).split())
        heading.decompose()
    return title, _text(body)


def _text(top: Any) -> str:
    writer = _Writer()
    # By hand rather than by recursion, as pages may nest deeper than Python's stack.
    stack: list[tuple[Any, bool]] = [(top, True)]
    while stack:
        node, entering = stack.pop()
        tag = node.tag
        if tag == "-text":
            writer.add(node.text_content or "")
        elif entering and tag not in _DROPPED:
            writer.enter(tag)
            stack.append((node, False))
            children = []
            child = node.child
            while child is not None:
                children.append((child, True))
                child = child.next
            stack.extend(reversed(children))
        elif not entering:
            writer.leave(tag)
    return writer.finish()


class _Writer:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line: list[str] = []
        self._within_pre = 0

    def add(self, text: str) -> None:
        self._line.append(text)

    def enter(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._end_line()
        elif tag in _CELLS:
            self._line.append(" ")
        self._within_pre += tag == "pre"

    def leave(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._end_line()
        self._within_pre -= tag == "pre"

    def finish(self) -> str:
        self._end_line()
        return "\n".join(self._lines)

    def _end_line(self) -> None:
        text = "".join(self._line)
        self._line.clear()
        if self._within_pre:
            text = text.strip("\n")
        else:
            # Not str.split(): a space that must not break is part of the text.
            text = " ".join(word for word in text.translate(_TO_SPACE).split(" ") if word)
        if text.strip(_SPACE):
            self._lines.append(text)

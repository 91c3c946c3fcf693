"""Rows of separated cells, with or without quotes.

The csv module is not used: once a quote is left open it swallows the rows that follow, its limit on the
size of a cell is one setting for the whole process, and it tells only where a row ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

ROW_LIMIT = 1 << 28
"""Most characters of one row; a quote open for longer was never meant to be closed."""


class Row(NamedTuple):
    """The line on which a row began, its cells, or None when a quote is broken, and its first line."""

    line: int
    cells: list[str] | None
    text: str


class _Scanner:
    """Splits one row, line by line, and keeps the cell that is open at the end of a line."""

    def __init__(self, separator: str, line_end: str) -> None:
        self.cells: list[str] = []
        self.open = False
        self._separator = separator
        self._line_end = line_end
        self._parts: list[str] = []

    def feed(self, line: str) -> bool:
        """Scan a line; False when there is text after a closing quote. `open` tells if the row goes on."""
        position = 0
        while True:
            if not self.open:
                if not line.startswith('"', position):
                    end = line.find(self._separator, position)
                    if end < 0:
                        self.cells.append(line[position:].removesuffix("\r"))
                        return True
                    self.cells.append(line[position:end])
                    position = end + 1
                    continue
                self.open = True
                position += 1
            end = line.find('"', position)
            if end < 0:
                self._parts += (line[position:], self._line_end)
                return True
            self._parts.append(line[position:end])
            position = end + 1
            if line.startswith('"', position):
                self._parts.append('"')
                position += 1
                continue
            self.cells.append("".join(self._parts))
            self._parts.clear()
            self.open = False
            if line[position:] in ("", "\r"):
                return True
            if not line.startswith(self._separator, position):
                return False
            position += 1


def split_quoted(line: str, separator: str) -> list[str]:
    """The cells of a row that is one line, as far as its quotes are sound."""
    scanner = _Scanner(separator, "\n")
    scanner.feed(line)
    return scanner.cells


def quoted_rows(lines: Iterable[str], separator: str, line_end: str = "\n") -> Iterator[Row]:
    """Rows whose cells may be quoted and then hold separators, line ends and doubled quotes.

    After a broken quote reading goes on with the line after the one on which its row began, so that
    one mistake costs one row. A row that goes over several lines and then has not as many cells as the
    first row counts as broken, too: most likely its quote was not meant to be one.
    """
    width = 0
    numbered = enumerate(lines, 1)
    waiting: deque[tuple[int, str]] = deque()

    def take() -> tuple[int, str] | None:
        return waiting.popleft() if waiting else next(numbered, None)

    while (first := take()) is not None:
        number, line = first
        if line in ("", "\r"):
            continue
        if '"' not in line:
            cells = line.removesuffix("\r").split(separator)
            width = width or len(cells)
            yield Row(number, cells, line)
            continue
        scanner = _Scanner(separator, line_end)
        taken: list[tuple[int, str]] = []
        length = len(line)
        sound = scanner.feed(line)
        while sound and scanner.open and length < ROW_LIMIT and (following := take()) is not None:
            taken.append(following)
            length += len(following[1])
            sound = scanner.feed(following[1])
        sound = sound and not scanner.open
        if sound and (not taken or not width or len(scanner.cells) == width):
            width = width or len(scanner.cells)
            yield Row(number, scanner.cells, line)
        else:
            waiting.extendleft(reversed(taken))
            yield Row(number, None, line)


def literal_rows(lines: Iterable[str], separator: str) -> Iterator[Row]:
    """Rows of one line each, in which a quote is a character like any other."""
    for number, line in enumerate(lines, 1):
        if line not in ("", "\r"):
            yield Row(number, line.removesuffix("\r").split(separator), line)

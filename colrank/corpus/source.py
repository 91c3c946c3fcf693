"""The bytes of one text file, unpacked and in blocks, with the bytes read on disk reported on the way."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from colrank.corpus.faults import BINARY, CUT_SHORT, EMPTY, NOT_UTF8, Fault, Notes

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK = 1 << 18
"""Most bytes read at a time."""

_SNIFFED = 8192
_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


class ByteCounter:
    """Reports how far a file has been read; the increments never add up to more than its size."""

    def __init__(self, size: int, on_bytes: Callable[[int], None] | None) -> None:
        self._size = size
        self._on_bytes = on_bytes
        self._at = 0

    def add(self, count: int) -> None:
        """Report that so many more bytes were read."""
        self.reach(self._at + count)

    def reach(self, position: int) -> None:
        """Report that the file was read up to this byte."""
        position = min(position, self._size)
        if position > self._at:
            step, self._at = position - self._at, position
            if self._on_bytes is not None:
                self._on_bytes(step)

    def finish(self) -> None:
        """Report what is left, when a file is done with."""
        self.reach(self._size)


class _CountedFile(io.FileIO):
    def __init__(self, path: Path, counter: ByteCounter) -> None:
        super().__init__(path)
        self._counter = counter

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        count = super().readinto(buffer)
        self._counter.add(count or 0)
        return count


class TextSource:
    """A text file being read once, from its start, past a UTF-8 byte order mark.

    Attributes:
        label: the file's label, for names.
        cut: whether the file broke off; known once what comes before the break was read.
        torso: whether the lines have come to such a break, so that the last of them is only a part.
        marked: whether the file began with a UTF-8 byte order mark; known after `sniff`.
        line_end: what ends the lines of a table: a carriage return in files of old Macintosh programs,
            else a line feed; known after `sniff`.
    """

    def __init__(self, path: Path, label: str, *, packed: bool, counter: ByteCounter, notes: Notes) -> None:
        self.label = label
        self.cut = False
        self.torso = False
        self.line_end = "\n"
        self.marked = False
        self._notes = notes
        # Blocks come out as they are read: a second buffer inside gzip would lose its last part when
        # the file turns out to be cut short, so all is read with read1.
        self._raw = io.BufferedReader(_CountedFile(path, counter), BLOCK)
        self._unpacked = gzip.GzipFile(fileobj=self._raw, mode="rb") if packed else self._raw
        self._head = b""

    def close(self) -> None:
        """Close the file; it can be read no more."""
        self._unpacked.close()
        self._raw.close()

    def sniff(self) -> Fault | None:
        """Look at the first bytes: the fault for which the whole file is to be skipped, if any."""
        while len(self._head) < _SNIFFED and (block := self._read()):
            self._head += block
        if self._head.startswith(_UTF16_BOMS):
            return NOT_UTF8
        if b"\0" in self._head[:_SNIFFED]:
            return BINARY
        self.marked = self._head.startswith(_BOM)
        self._head = self._head.removeprefix(_BOM)
        if b"\r" in self._head and b"\n" not in self._head:
            self.line_end = "\r"
        return None if self._head or self.cut else EMPTY

    def whole(self) -> bytes:
        """All that can be read of the file."""
        return b"".join(self._blocks())

    def lines(self, end: str = "\n") -> Iterator[bytes]:
        """The lines without their ends; see `torso` for the last."""
        held: list[bytes] = []
        for block in self._blocks():
            first, *others = block.split(end.encode())
            held.append(first)
            if others:
                yield b"".join(held)
                yield from others[:-1]
                held = [others[-1]]
        self.torso = self.cut
        if last := b"".join(held):
            yield last

    def _blocks(self) -> Iterator[bytes]:
        block, self._head = self._head, b""
        while block:
            yield block
            block = self._read()

    def _read(self) -> bytes:
        if self.cut:
            return b""
        try:
            return self._unpacked.read1(BLOCK)
        except (EOFError, OSError, zlib.error):
            # BadGzipFile is an OSError.
            self.cut = True
        self._notes.add(CUT_SHORT, self.label)
        return b""

"""Reading a folder again: which documents of the index are no longer in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from colrank.config import FieldNames
from colrank.corpus import HARMLESS, CorpusFile, find_files, read_file
from colrank.index import Contents
from colrank.types import Document, Problems

KEPT = "documents kept though they were not read, as their files could not be read whole"


class CorpusReading:
    """Files of a corpus, read once, and what a sync of an index with them deletes.

    A document belongs to the corpus by its source: the label of a file, which begins with the name of the
    path that was given. Documents from other paths, or without a source, are none of a sync's business. What
    could not be read whole is not taken for gone.

    Args:
        paths: folders and files.
        fields: which fields of records hold what.
        problems: where problems are counted.
        strict: problems are errors.
        on_bytes: told of the bytes that were read.

    Raises:
        InputError: as `colrank.corpus.find_files`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        fields: FieldNames,
        problems: Problems,
        *,
        strict: bool = False,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self.files: list[CorpusFile] = find_files(paths, problems, strict=strict)
        self._fields = fields
        self._problems = problems
        self._strict = strict
        self._on_bytes = on_bytes
        self._all_found = not self._faults()
        self._unread: set[str] = set()

    @property
    def bytes(self) -> int:
        """Of all files, on the disk."""
        return sum(file.size for file in self.files)

    def documents(self) -> Iterator[Document]:
        """The documents of all files."""
        for file in self.files:
            before = self._faults()
            yield from read_file(
                file, self._fields, self._problems, strict=self._strict, on_bytes=self._on_bytes
            )
            if self._faults() > before:
                self._unread.add(file.label)

    def vanished(self, contents: Contents, read: Collection[str]) -> list[str]:
        """Ids of the documents of these paths that the index holds and that were not read."""
        roots = {file.root for file in self.files}
        seen = set(read)
        out = []
        for document in contents.live_documents():
            if document.id in seen or not document.source:
                continue
            if not any(document.source == root or document.source.startswith(f"{root}/") for root in roots):
                continue
            if self._all_found and document.source not in self._unread:
                out.append(document.id)
            else:
                self._problems.add(KEPT, document.id)
        return out

    def _faults(self) -> int:
        return sum(self._problems.count(kind) for kind in self._problems.kinds() if kind not in HARMLESS)

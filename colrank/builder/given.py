"""Documents whose token vectors the caller made: one passage each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from colrank.builder.spool import DUPLICATES
from colrank.builder.vectors import check_vectors
from colrank.corpus import plain_metadata
from colrank.errors import InputError
from colrank.types import Document, Problems, Vectors, is_utf8


class GivenDocuments:
    """Ids with an array `[tokens, dim]` each, read once as a stream, checked as they come.

    Args:
        ids: of the documents; of two with the same id the later counts, which `problems` say.
        arrays: as many.
        texts, titles, metadata: of each document, or None.

    Raises:
        InputError: no id, lists of different lengths, or an id, text, title or metadata that is none.
    """

    def __init__(
        self,
        ids: Sequence[str],
        arrays: Iterable[Any],
        texts: Sequence[str] | None,
        titles: Sequence[str] | None,
        metadata: Sequence[Mapping[str, Any]] | None,
    ) -> None:
        self._ids = ids
        self._columns = {"texts": texts, "titles": titles, "metadata": metadata}
        if not ids:
            raise InputError("No ids were given; add at least one document.")
        sized = {**self._columns, "arrays": arrays}
        for name, column in sized.items():
            if isinstance(column, Sequence) and len(column) != len(ids):
                raise InputError(f"{len(ids)} ids were given and {len(column)} {name}; give one for each id.")
        self.problems = Problems()
        self.last: dict[str, int] = {}
        for place, name in enumerate(ids):
            if not _is_text(name) or not name:
                raise InputError(f"The id {name!a} is not a non-empty string of valid characters.")
            if name in self.last:
                self.problems.add(DUPLICATES, name)
            self.last[name] = place
        self._arrays = iter(arrays)
        self._dim: int | None = None

    def first(self, dim: int | None) -> Vectors:
        """The first array, which says the dimensions where `dim` does not; it stays in the stream.

        Raises:
            InputError: it is not a matrix of unit vectors, or has other dimensions.
        """
        for array in self._arrays:
            found = check_vectors(f"document {self._ids[0]!r}", array, dim)
            self._dim = found.shape[1]
            self._arrays = chain([found], self._arrays)
            return found
        raise InputError(f"{len(self._ids)} ids were given and no arrays; give one for each id.")

    def stream(self) -> Iterator[tuple[Document, Vectors]]:
        """Documents with their unit vectors, in order.

        Raises:
            InputError: there are fewer or more arrays than ids, or one is wrong, naming the document.
        """
        count = 0
        for count, array in enumerate(self._arrays, start=1):
            if count > len(self._ids):
                raise InputError(f"{len(self._ids)} ids were given and more arrays; give one for each id.")
            name = self._ids[count - 1]
            vectors = check_vectors(f"document {name!r}", array, self._dim)
            yield self._document(count - 1), vectors
        if count < len(self._ids):
            raise InputError(f"{len(self._ids)} ids were given and {count} arrays; give one for each id.")

    def _document(self, place: int) -> Document:
        name = self._ids[place]
        text = self._value("texts", place, "")
        title = self._value("titles", place, "")
        held = self._value("metadata", place, {})
        if not _is_text(text) or not _is_text(title):
            raise InputError(f"The text or title of document {name!r} is not a valid string.")
        if not isinstance(held, Mapping):
            raise InputError(f"The metadata of document {name!r} are not a dictionary.")
        return Document(name, text, title, plain_metadata(held, f"document {name!r}"))

    def _value(self, column: str, place: int, default: Any) -> Any:
        values = self._columns[column]
        return default if values is None else values[place]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_utf8(value)

"""The vectors of an index's passages before pooling and coding: encoded again, or given again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colrank.builder import Progress, check_vectors
from colrank.encoder import Encoder
from colrank.errors import InputError
from colrank.evaluate.arrays import Arrays
from colrank.index import Snapshot
from colrank.passages import encoder_input
from colrank.types import Problems, Vectors

WINDOW_PASSAGES = 256
UNUSED = "arrays of the vectors that belong to no document of given vectors, not used"


class Originals:
    """Gives the vectors of every passage once more, window by window.

    Args:
        encoder: gives the index's model; None for an index of given vectors.
        vectors: one array `[tokens, dim]` for each document that was added as vectors, by its id, or the
            .npz file that holds them.
        problems: where arrays without use are counted.

    Raises:
        InputError: a document was added as vectors and is not among `vectors`, or no document was and there
            are `vectors`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        encoder: Callable[[], Encoder] | None,
        vectors: Mapping[str, Any] | str | Path | None,
        problems: Problems,
    ) -> None:
        self._contents = snapshot.contents
        self._dim = snapshot.manifest.dim
        self._encoder = encoder
        self._vectors = Arrays(Path(vectors)) if isinstance(vectors, str | Path) else vectors
        given = 0
        names: set[str] = set()
        for document in self._contents.live_documents():
            if document.encoded:
                continue
            given += 1
            if self._vectors is None:
                raise InputError(
                    f"The document {document.id!r} was added as vectors, which cannot be encoded again; give "
                    "the vectors of such documents with --vectors (vectors=)."
                )
            if document.id not in self._vectors:
                raise InputError(
                    f"The vectors hold no array for the document {document.id!r}; give one for each document "
                    "that was added as vectors."
                )
            names.add(document.id)
        if self._vectors is not None and not given:
            raise InputError("No document of the index was added as vectors; leave out --vectors (vectors=).")
        for name in self._vectors or ():
            if name not in names:
                problems.add(UNUSED, str(name))

    def windows(self, progress: Progress) -> Iterator[tuple[NDArray[np.int64], list[Vectors]]]:
        """Rows of passages, ascending, and the float32 unit vectors `[tokens, dim]` of each.

        Raises:
            InputError: a given array is not a matrix of the index's dim, naming the document.
        """
        every = np.flatnonzero(self._contents.live_passages)
        progress.start("encoding", len(every), "passages")
        for first in range(0, len(every), WINDOW_PASSAGES):
            rows = every[first : first + WINDOW_PASSAGES]
            yield rows, self._window(rows.tolist())
            progress.advance(len(rows))

    def _window(self, rows: Sequence[int]) -> list[Vectors]:
        held = self._contents.passages(rows)
        owners = sorted({passage.document for passage in held})
        documents = dict(zip(owners, self._contents.documents(owners), strict=True))
        inputs: dict[int, str] = {}
        out: dict[int, Vectors] = {}
        for passage in held:
            document = documents[passage.document]
            if document.encoded:
                inputs[passage.row] = encoder_input(document.prefix_of(passage), passage.text)
            else:
                assert self._vectors is not None
                array = self._vectors[document.id]
                out[passage.row] = check_vectors(f"document {document.id!r}", array, self._dim)
        if inputs:
            assert self._encoder is not None
            out |= dict(zip(inputs, self._encoder().encode_texts(list(inputs.values())), strict=True))
        return [out[row] for row in rows]

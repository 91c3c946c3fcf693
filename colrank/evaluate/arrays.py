"""Vectors of the caller's own in an .npz file, read one array at a time."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from colrank.errors import InputError

_DAMAGED = (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, KeyError)


class Arrays(Mapping[str, Any]):
    """The arrays of an .npz file by name; each is read when it is asked for, and nothing is kept.

    Raises:
        InputError: the file cannot be read, or holds something else than arrays of numbers.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            opened = np.load(path, allow_pickle=False)
        except OSError as error:
            raise InputError(f"Cannot read the vectors {path}: {error.strerror or error}.") from error
        except _DAMAGED as error:
            raise InputError(self._not_arrays()) from error
        if not isinstance(opened, np.lib.npyio.NpzFile):
            raise InputError(self._not_arrays())
        self._file = opened
        self._names = dict.fromkeys(opened.files)

    def _not_arrays(self) -> str:
        return f"{self._path} is no .npz file of one array of numbers an id; write it with numpy.savez."

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        try:
            return self._file[name]
        except _DAMAGED as error:
            raise InputError(
                f"{self._path} holds no array of numbers as {name!r}; write it with numpy.savez."
            ) from error

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

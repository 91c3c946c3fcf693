"""Which files make up a corpus, in which order, and the label by which each is known."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from colrank.config import INDEX_LOCK
from colrank.corpus.faults import (
    BEIR_LEFT_OUT,
    BESIDE_BEIR,
    UNKNOWN_TYPE,
    UNREADABLE_FILE,
    UNREADABLE_FOLDER,
    Notes,
)
from colrank.corpus.labels import Root, distinct_labels, portable
from colrank.errors import InputError
from colrank.types import Problems

_TEXT_SUFFIXES = (".txt", ".md", ".rst", ".html", ".htm", ".jsonl", ".csv", ".tsv")
_ARROW_SUFFIXES = (".parquet", ".arrow")

SUFFIXES = (*_TEXT_SUFFIXES, *_ARROW_SUFFIXES, *(f"{suffix}.gz" for suffix in _TEXT_SUFFIXES))
"""Endings of the files that colrank reads."""

_KNOWN = f"{' '.join(_TEXT_SUFFIXES + _ARROW_SUFFIXES)}, and the text ones with .gz"


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """One file to read: where it is, the relative name by which it is known, its bytes on disk.

    `root` is the beginning of the label that stands for the path that the user gave.
    """

    path: Path
    label: str
    size: int
    root: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    path: Path
    inside: tuple[str, ...]
    size: int
    real: Path
    linked: bool = False


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path
    inside: tuple[str, ...] = ()
    left_out: str | None = None
    linked: bool = False


def suffix_of(path: Path) -> str | None:
    """The suffix of `SUFFIXES` in which the name ends, in lower case; None when there is none."""
    name = path.name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def find_files(paths: Sequence[Path], problems: Problems, *, strict: bool = False) -> list[CorpusFile]:
    """All files of the given files and folders that colrank can read, each once.

    The order is that of `paths` and, inside a folder, of the relative names. Hidden files, and indexes
    of colrank, are left out of folders; what else is left out is counted in `problems`.

    Raises:
        InputError: there is no path, a path does not exist or is of an unknown type, or a folder has
            nothing to read.
        CorpusError: `strict` is set and there is a broken link or a folder that cannot be listed.
    """
    if not paths:
        raise InputError("No path was given; name the files or folders to read.")
    notes = Notes(problems, strict)
    # Dictionaries, because they keep the order: roots by where they really are, files likewise.
    roots: dict[Path, Root] = {}
    found: dict[Path, tuple[Root, _Found]] = {}
    for path in map(Path, paths):
        where, files = _look(path, notes, skip=roots)
        root = roots.setdefault(where, Root(where.parts[len(Path(where.anchor).parts) :]))
        for file in files:
            found.setdefault(file.real, (root, file))
    labels = distinct_labels([(root, file.inside) for root, file in found.values()], list(roots.values()))
    return [
        CorpusFile(file.path, label, file.size, _root_of(label, file.inside))
        for (_, file), label in zip(found.values(), labels, strict=True)
    ]


def _root_of(label: str, inside: tuple[str, ...]) -> str:
    return label.removesuffix(portable(inside)).rstrip("/") if inside else label


def _look(path: Path, notes: Notes, *, skip: dict[Path, Root]) -> tuple[Path, list[_Found]]:
    try:
        info = path.stat()
        # A file keeps the name it was given by: a link is often better named than its target.
        where = path.resolve() if stat.S_ISDIR(info.st_mode) else path.parent.resolve() / path.name
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; check the path.") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); check the path and its permissions.") from error
    if where in skip:
        return where, []
    if stat.S_ISDIR(info.st_mode):
        files = _walk(where, notes)
        if not files:
            raise InputError(f"There is no document of a known kind in {path}; colrank reads {_KNOWN}.")
        return where, files
    if suffix_of(path) is None:
        raise InputError(f"{path} is of an unknown type; colrank reads {_KNOWN}.")
    if not stat.S_ISREG(info.st_mode):
        raise InputError(f"{path} is not a regular file; save what it holds to one first.")
    return where, [_Found(where, (), info.st_size, path.resolve())]


def _walk(top: Path, notes: Notes) -> list[_Found]:
    found: list[_Found] = []
    folders, links = deque([_Folder(top)]), deque[_Folder]()
    seen: set[Path] = set()
    # Linked folders come last, so that what is reachable both ways has the name without the link.
    while folders or links:
        folder = folders.popleft() if folders else links.popleft()
        if folder.path in seen:
            continue
        seen.add(folder.path)
        try:
            with os.scandir(folder.path) as entries:
                visible = sorted((e for e in entries if not e.name.startswith(".")), key=lambda e: e.name)
        except OSError:
            notes.add(UNREADABLE_FOLDER, portable((top.name, *folder.inside)))
            continue
        if any(entry.name == INDEX_LOCK for entry in visible):
            continue
        beir = _beir_corpus(visible)
        for entry in visible:
            left_out = folder.left_out or (_beir_kind(entry.name, beir) if beir else None)
            item = _visit(entry, folder, left_out, portable((top.name, *folder.inside, entry.name)), notes)
            if isinstance(item, _Found):
                found.append(item)
            elif item is not None:
                (links if item.linked else folders).append(item)
    once: dict[Path, _Found] = {}
    for file in sorted(found, key=lambda file: (file.linked, file.inside)):
        once.setdefault(file.real, file)
    return sorted(once.values(), key=lambda file: "/".join(file.inside))


def _visit(
    entry: os.DirEntry[str], folder: _Folder, left_out: str | None, name: str, notes: Notes
) -> _Found | _Folder | None:
    path, inside, linked = folder.path / entry.name, (*folder.inside, entry.name), entry.is_symlink()
    try:
        info = entry.stat()
    except OSError as error:
        if error.errno != errno.ELOOP:
            notes.add(UNREADABLE_FILE, name)
        return None
    if stat.S_ISDIR(info.st_mode):
        real = path.resolve() if linked else path
        loop = linked and (real == folder.path or real in folder.path.parents)
        return None if loop else _Folder(real, inside, left_out, linked)
    if left_out is not None:
        notes.problems.add(left_out, name)
        return None
    if suffix_of(path) is None:
        notes.problems.add(UNKNOWN_TYPE, name)
        return None
    if not stat.S_ISREG(info.st_mode):
        # Opening a pipe would wait for ever.
        notes.add(UNREADABLE_FILE, name)
        return None
    return _Found(path, inside, info.st_size, path.resolve() if linked else path, linked)


def _beir_corpus(entries: list[os.DirEntry[str]]) -> str | None:
    names = {entry.name for entry in entries}
    if names & {"queries.jsonl", "queries.jsonl.gz"} or any(
        e.name == "qrels" and Path(e).is_dir() for e in entries
    ):
        return next((name for name in ("corpus.jsonl", "corpus.jsonl.gz") if name in names), None)
    return None


def _beir_kind(name: str, corpus: str) -> str | None:
    if name == corpus:
        return None
    return BEIR_LEFT_OUT if name in ("queries.jsonl", "queries.jsonl.gz", "qrels") else BESIDE_BEIR

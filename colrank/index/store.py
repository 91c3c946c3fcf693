"""The folder of an index: one writer at a time, readers that keep the snapshot they opened."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from colrank.codec import Codec, StreamSample, Training
from colrank.config import INDEX_LOCK
from colrank.encoder import TokenFrequencies, weights_apply
from colrank.errors import IndexDamaged, IndexLocked, InputError
from colrank.filters import MetadataTable, Where
from colrank.index.codec_files import checksum_faults, read_codec, write_codec
from colrank.index.contents import Contents
from colrank.index.entries import CodecEntry, SegmentEntry
from colrank.index.generations import (
    manifest_generations,
    manifest_path,
    read_manifest,
    write_manifest,
)
from colrank.index.manifest import Manifest
from colrank.index.segment import Segment
from colrank.index.segment_writer import SegmentWriter
from colrank.shards import sync_file

_BUILDING = "building"
_RESUMED = "encoded"
_PATIENCE = 100
_PARTS = ("segment-*", "codec-*", "deleted-*")


class Snapshot:
    """One committed generation, opened for reading."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.codec = read_codec(folder, manifest)
        segments = [Segment(folder / entry.name, entry, self.codec) for entry in manifest.segments]
        self.contents = Contents(segments, self.codec)
        if manifest.hybrid and any(segment.words is None for segment in segments):
            raise IndexDamaged(f"A segment of {folder} lacks its words; index again with --overwrite.")

    @property
    def frequencies(self) -> TokenFrequencies:
        """In how many passages each token id occurs."""
        return self.contents.frequencies

    @cached_property
    def metadata(self) -> MetadataTable:
        """What documents can be filtered by.

        Raises:
            IndexDamaged: the metadata of a document are no text, or no JSON object.
        """
        try:
            return MetadataTable([segment.document_table for segment in self.contents.segments])
        except UnicodeDecodeError as error:
            raise IndexDamaged(
                f"The metadata of documents in {self.folder} are no text ({error}); index again with "
                "--overwrite."
            ) from error

    def matching(self, where: Where) -> NDArray[np.int64]:
        """Rows of the documents that a search or a deletion is limited to, ascending, without deleted ones.

        Raises:
            InputError: the filter is not one, or the index holds no document of an id.
        """
        chosen = self.contents.live.copy()
        if where.ids is not None:
            rows = self.contents.rows_of(list(where.ids))
            for name in where.ids:
                if name not in rows:
                    raise InputError(
                        f"There is no document {name!r} in the index; ids are those that search prints."
                    )
            named = np.zeros(len(chosen), dtype=bool)
            named[list(rows.values())] = True
            chosen &= named
        if where.filter is not None or where.path_prefix is not None:
            chosen &= self.metadata.rows(replace(where, ids=None))
        return np.flatnonzero(chosen)

    def findable(self, where: Where) -> tuple[NDArray[np.int64], list[str]]:
        """Rows of the passages with tokens that a search is limited to, and what to know of the filter.

        Raises:
            InputError: as `matching`.
        """
        chosen = np.zeros(self.contents.document_rows, dtype=bool)
        chosen[self.matching(where)] = True
        filled = self.contents.filled
        words = set(re.findall(r"\w+", (where.filter or "").lower()))
        told = []
        if words:
            told = [text for name, text in self.metadata.conflicts.items() if name.lower() in words]
        return filled[chosen[self.contents.passage_documents[filled]]], told

    @property
    def weighted(self) -> bool:
        """Whether text queries are weighted by token frequency in this snapshot."""
        model = self.manifest.model
        return model is not None and weights_apply(
            self.manifest.token_weights,  # type: ignore[arg-type]
            embedded=self.manifest.model_location == "embedded",
            language_tokens=self.contents.counts.language_tokens,
        )


def open_snapshot(folder: Path, *, check_reads: bool = False) -> Snapshot:
    """Open the newest committed generation.

    Sizes, rows and offsets are always checked. `check_reads` compares the checksum of every file as well,
    which reads all of the index once.

    A commit between reading the manifest and opening its files may take them away; the newer
    generation is opened then.

    Raises:
        IndexMissing, IndexFormat, IndexDamaged: as their names say.
    """
    for _ in range(_PATIENCE):
        seen = max(manifest_generations(folder), default=0)
        try:
            manifest = read_manifest(folder)
            if check_reads:
                _check_files(folder, manifest)
            return Snapshot(folder, manifest)
        except (IndexDamaged, FileNotFoundError):
            if max(manifest_generations(folder), default=0) <= seen:
                raise
    raise IndexLocked(f"{folder} is being rewritten faster than it can be opened; try again.")


def _check_files(folder: Path, manifest: Manifest) -> None:
    for part, files in manifest.parts.items():
        for name, fault in checksum_faults(folder / part, files):
            raise IndexDamaged(
                f"{part}/{name} {fault}; see colrank verify, and restore it or index again with --overwrite."
            )


def is_index(folder: Path) -> bool:
    """Whether a folder holds a committed index."""
    return bool(manifest_generations(folder))


class IndexWriter:
    """Holds the writer's lock, a folder to build in, and the commit that ends it.

    Used as a context manager. Left by an error, Ctrl-C included, it removes what was being built, but for
    what the next build can go on from (`resumed`), and the folder itself where nothing is left in it. What a
    killed writer left behind is removed by the next one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.building = folder / _BUILDING
        self._lock: int | None = None
        self._created: list[Path] = []
        self._moved: list[Path] = []

    def __enter__(self) -> IndexWriter:
        _check_target(self.folder)
        missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._created = missing
            self._lock = _locked(self.folder)
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"process {os.getpid()}".encode(), 0)
            self.building.mkdir(exist_ok=True)
            self._clear()
            self._clear_strays()
        except OSError as error:
            self._release()
            raise InputError(f"Cannot write an index at {self.folder}: {error.strerror}.") from error
        return self

    @property
    def resumed(self) -> Path:
        """Folder of what the next writer goes on from when this one is killed or fails."""
        return self.building / _RESUMED

    def _clear(self) -> None:
        """Remove what was being built, but for what a later writer can go on from."""
        for path in self.building.iterdir() if self.building.is_dir() else ():
            if path.name != _RESUMED:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _clear_strays(self) -> None:
        """Remove what writers that were killed around their commits left: parts that no generation names."""
        if is_index(self.folder):
            newest = read_manifest(self.folder)
            self._remove_others(newest.generation, newest.parts)

    def _remove_others(self, generation: int, parts: Collection[str]) -> None:
        for older in manifest_generations(self.folder):
            if older < generation:
                manifest_path(self.folder, older).unlink()
        for pattern in _PARTS:
            for path in self.folder.glob(pattern):
                if path.name not in parts:
                    shutil.rmtree(path, ignore_errors=True)

    def newest_generation(self) -> int:
        """Number of the newest committed generation, 0 when there is none."""
        return max(manifest_generations(self.folder), default=0)

    def segment_writer(
        self,
        generation: int,
        whole: Codec,
        longest: int = 0,
        sample: StreamSample | None = None,
        words: bool = False,
    ) -> SegmentWriter:
        """A writer for the segment of a generation, inside the folder of what is being built.

        Args:
            whole, longest, sample, words: see `SegmentWriter`.
        """
        return SegmentWriter(self.building / f"segment-{generation:08d}", whole, longest, sample, words)

    def write_codec(self, generation: int, codec: Codec, training: Training) -> CodecEntry:
        """Write the tables of a codec, inside the folder of what is being built."""
        return write_codec(self.building / f"codec-{generation:08d}", codec, training)

    def deletions_folder(self, generation: int, segment: SegmentEntry) -> Path:
        """Where a generation builds what it deletes from a segment."""
        return self.building / f"deleted-{generation:08d}-{segment.number}"

    def commit(self, manifest: Manifest) -> None:
        """Move the built segments into place, commit the manifest, and remove older generations.

        A reader that has an older generation open keeps it: its files stay mapped.
        """
        kept = manifest.parts
        for name in kept:
            built = self.building / name
            if built.is_dir():
                target = self.folder / name
                shutil.rmtree(target, ignore_errors=True)  # of a writer killed before its commit
                self._moved.append(target)
                built.rename(target)
        sync_file(self.folder)
        write_manifest(self.folder, manifest, self.building)
        self._moved = []
        self._remove_others(manifest.generation, kept)
        shutil.rmtree(self.resumed, ignore_errors=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()
        with suppress(OSError):
            self.resumed.rmdir()  # nothing to go on from
        with suppress(OSError):
            self.building.rmdir()
        if self._moved:
            # Stopped between moving segments and the commit, or just after it.
            named = read_manifest(self.folder).parts if is_index(self.folder) else {}
            for path in self._moved:
                if path.name not in named:
                    shutil.rmtree(path, ignore_errors=True)
        self._release()

    def _release(self) -> None:
        """Give the lock back; take the folder away where nothing is in it."""
        if self._lock is not None and not is_index(self.folder) and not self.building.exists():
            (self.folder / INDEX_LOCK).unlink(missing_ok=True)
        if not is_index(self.folder):
            for path in self._created:
                with suppress(OSError):
                    path.rmdir()
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None


def _locked(folder: Path) -> int:
    """Open and lock the writer's lock file.

    A writer that leaves nothing behind removes the file: a lock on a file that is no longer there
    keeps nobody out, so it is taken again.
    """
    path = folder / INDEX_LOCK
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(handle, 64, 0).decode(errors="replace").strip() or "another process"
            os.close(handle)
            raise IndexLocked(f"{folder} is being written by {holder}; wait until it ends.") from error
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(handle).st_ino:
                return handle
        os.close(handle)


def _check_target(folder: Path) -> None:
    """Refuse to write an index over something that is not one."""
    if not folder.exists() or is_index(folder):
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder for the index.")
    ours = (INDEX_LOCK, _BUILDING)
    names = [path.name for path in folder.iterdir()]
    strangers = [name for name in names if name not in ours and not any(map(Path(name).match, _PARTS))]
    if strangers:
        raise InputError(f"{folder} is not an index and holds {strangers[0]!r}; name an empty or new folder.")

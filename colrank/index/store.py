"""The folder of an index: one writer at a time, readers that keep the snapshot they opened."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from colrank.codec import Codec, StreamSample, Training
from colrank.config import INDEX_LOCK
from colrank.encoder import TokenFrequencies, weights_apply
from colrank.errors import IndexDamaged, IndexLocked, InputError
from colrank.index.codec_files import read_codec, write_codec
from colrank.index.manifest import (
    CodecEntry,
    Manifest,
    manifest_generations,
    manifest_path,
    read_manifest,
    write_manifest,
)
from colrank.index.segment import Segment
from colrank.index.segment_writer import SegmentWriter
from colrank.shards import sync_file

_BUILDING = "building"
_PATIENCE = 100
_PARTS = ("segment-*", "codec-*")


class Snapshot:
    """One committed generation, opened for reading."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        if len(manifest.segments) != 1:
            raise IndexDamaged(
                f"The manifest of {folder} names {len(manifest.segments)} segments, and this colrank writes "
                "one; index again with --overwrite."
            )
        self.folder = folder
        self.manifest = manifest
        self.codec = read_codec(folder, manifest)
        self.segment = Segment(folder / manifest.segments[0].name, manifest.segments[0], self.codec)
        self.frequencies: TokenFrequencies = self.segment.frequencies()

    @property
    def weighted(self) -> bool:
        """Whether text queries are weighted by token frequency in this snapshot."""
        model = self.manifest.model
        return model is not None and weights_apply(
            self.manifest.token_weights,  # type: ignore[arg-type]
            embedded=self.manifest.model_location == "embedded",
            language_tokens=self.segment.entry.language_tokens,
        )


def open_snapshot(folder: Path) -> Snapshot:
    """Open the newest committed generation.

    A commit between reading the manifest and opening its files may take them away; the newer
    generation is opened then.

    Raises:
        IndexMissing, IndexFormat, IndexDamaged: as their names say.
    """
    for _ in range(_PATIENCE):
        seen = max(manifest_generations(folder), default=0)
        try:
            return Snapshot(folder, read_manifest(folder))
        except (IndexDamaged, FileNotFoundError):
            if max(manifest_generations(folder), default=0) <= seen:
                raise
    raise IndexLocked(f"{folder} is being rewritten faster than it can be opened; try again.")


def is_index(folder: Path) -> bool:
    """Whether a folder holds a committed index."""
    return bool(manifest_generations(folder))


class IndexWriter:
    """Holds the writer's lock, a folder to build in, and the commit that ends it.

    Used as a context manager. Left by an error, Ctrl-C included, it removes what was being built, and
    the folder itself where nothing was ever committed in it. What a killed writer left behind is
    removed by the next one.
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
        except OSError as error:
            raise InputError(f"Cannot write an index at {self.folder}: {error.strerror}.") from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"process {os.getpid()}".encode(), 0)
        shutil.rmtree(self.building, ignore_errors=True)
        self.building.mkdir()
        return self

    def newest_generation(self) -> int:
        """Number of the newest committed generation, 0 when there is none."""
        return max(manifest_generations(self.folder), default=0)

    def segment_writer(
        self, generation: int, whole: Codec, longest: int = 0, sample: StreamSample | None = None
    ) -> SegmentWriter:
        """A writer for the segment of a generation, inside the folder of what is being built.

        Args:
            whole, longest, sample: see `SegmentWriter`.
        """
        return SegmentWriter(self.building / f"segment-{generation:08d}", whole, longest, sample)

    def write_codec(self, generation: int, codec: Codec, training: Training) -> CodecEntry:
        """Write the tables of a codec, inside the folder of what is being built."""
        return write_codec(self.building / f"codec-{generation:08d}", codec, training)

    def commit(self, manifest: Manifest) -> None:
        """Move the built segments into place, commit the manifest, and remove older generations.

        A reader that has an older generation open keeps it: its files stay mapped.
        """
        kept = _parts(manifest)
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
        for generation in manifest_generations(self.folder):
            if generation < manifest.generation:
                manifest_path(self.folder, generation).unlink()
        for pattern in _PARTS:
            for path in self.folder.glob(pattern):
                if path.name not in kept:
                    shutil.rmtree(path, ignore_errors=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.building, ignore_errors=True)
        if self._moved:
            # Stopped between moving segments and the commit, or just after it.
            named = _parts(read_manifest(self.folder)) if is_index(self.folder) else set()
            for path in self._moved:
                if path.name not in named:
                    shutil.rmtree(path, ignore_errors=True)
        if not is_index(self.folder):
            (self.folder / INDEX_LOCK).unlink(missing_ok=True)
            for path in self._created:
                with suppress(OSError):
                    path.rmdir()
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)


def _parts(manifest: Manifest) -> set[str]:
    """Folders that a generation consists of."""
    codec = set() if manifest.codec is None else {manifest.codec.name}
    return codec | {entry.name for entry in manifest.segments}


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

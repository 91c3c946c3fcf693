"""Generations in a folder: one manifest each, of which the highest number is the current one.

`manifest-00000007.json` is generation 7. A commit creates the next number and never changes a file that
is there, so that a store without rename can hold an index too.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from colrank.errors import IndexDamaged, IndexLocked, IndexMissing
from colrank.index.manifest import Manifest, manifest_from_json
from colrank.shards import sync_file

# What file systems without hard links answer.
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)

_NAME = re.compile(r"manifest-(\d{8})\.json")


def manifest_generations(folder: Path) -> list[int]:
    """Generations that have a manifest in the folder, ascending."""
    try:
        names = [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def manifest_path(folder: Path, generation: int) -> Path:
    """Where the manifest of a generation lies."""
    return folder / f"manifest-{generation:08d}.json"


def read_manifest(folder: Path) -> Manifest:
    """Read the newest manifest.

    Raises:
        IndexMissing: there is no index.
        IndexFormat: it is of another format version.
        IndexDamaged: it cannot be read.
    """
    generations = manifest_generations(folder)
    if not generations:
        raise IndexMissing(
            f"There is no index at {folder}; make one with: colrank index PATH --index {folder}"
        )
    path = manifest_path(folder, generations[-1])
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise IndexDamaged(f"The manifest {path.name} is damaged; index again with --overwrite.") from error
    manifest = manifest_from_json(text, path.name)
    if manifest.generation != generations[-1]:
        raise IndexDamaged(
            f"The manifest {path.name} says that it is of generation {manifest.generation}; index again with "
            "--overwrite."
        )
    return manifest


def write_manifest(folder: Path, manifest: Manifest, building: Path) -> None:
    """Commit a generation: the file appears whole, on the disk, or not at all.

    Args:
        building: a folder on the same disk for the file while it is written.

    Raises:
        IndexLocked: that generation was committed by somebody else.
    """
    path = manifest_path(folder, manifest.generation)
    temporary = building / path.name
    temporary.write_text(manifest.to_json(), encoding="utf-8")
    sync_file(temporary)
    try:
        os.link(temporary, path)  # unlike rename, refuses to replace
    except FileExistsError as error:
        raise IndexLocked(
            f"Another process committed generation {manifest.generation} of {folder}; try again."
        ) from error
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        temporary.rename(path)  # the writer's lock keeps others away
    sync_file(folder)

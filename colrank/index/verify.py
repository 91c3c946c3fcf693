"""Reads every file of an index and says what is broken, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from colrank.codec import Codec
from colrank.errors import ColRankError, IndexMissing
from colrank.index.codec_files import checksum_faults, read_codec
from colrank.index.generations import manifest_generations, manifest_path, read_manifest
from colrank.index.manifest import Manifest
from colrank.index.segment import Segment
from colrank.index.verify_segment import segment_faults

_OURS = ("colrank.lock", "building")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is broken, in one sentence, and the file, relative to the index."""

    file: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.file}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked, and what is broken.

    Attributes:
        generation: the newest.
        segments, documents, passages, tokens: of it, without what was deleted.
        files, bytes: that were read.
        faults: what is broken; none where the index is whole.
        strays: what lies in the folder and belongs to no generation, which harms nothing.
    """

    generation: int
    segments: int
    documents: int
    passages: int
    tokens: int
    files: int
    bytes: int
    faults: tuple[Fault, ...]
    strays: tuple[str, ...]


def verify(folder: Path) -> Verification:
    """Check all files of the newest generation: checksums, tables, and that they fit each other.

    Memory follows one block of tokens and the ids of the documents; time follows the bytes.

    Raises:
        IndexMissing: there is no index.
    """
    try:
        manifest = read_manifest(folder)
    except IndexMissing:
        raise
    except ColRankError as error:
        newest = manifest_generations(folder)[-1]
        fault = Fault(manifest_path(folder, newest).name, str(error))
        return Verification(newest, 0, 0, 0, 0, 1, 0, (fault,), ())
    faults: list[Fault] = []
    files = size = 0
    for part, held in manifest.parts.items():
        faults += [Fault(f"{part}/{name}", told) for name, told in checksum_faults(folder / part, held)]
        files += len(held)
        size += sum(length for length, _ in held.values())
    faults += _tables(folder, manifest)
    # A damaged file is named once, by its checksum; what follows from it would only repeat that.
    once = {(fault.file, fault.sentence): fault for fault in faults}
    return Verification(
        generation=manifest.generation,
        segments=len(manifest.segments),
        documents=sum(entry.live_documents for entry in manifest.segments),
        passages=sum(entry.live_passages for entry in manifest.segments),
        tokens=manifest.live_tokens,
        files=files + 1,
        bytes=size + manifest_path(folder, manifest.generation).stat().st_size,
        faults=tuple(once.values()),
        strays=tuple(sorted(_strays(folder, manifest))),
    )


def _tables(folder: Path, manifest: Manifest) -> list[Fault]:
    """Tables that do not fit each other, though each may be as it was written."""
    faults: list[Fault] = []
    codec: Codec | None = None

    def tried(file: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (ColRankError, OSError, ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
            faults.append(Fault(file, str(error) or type(error).__name__))

    def open_codec() -> None:
        nonlocal codec
        codec = read_codec(folder, manifest)

    tried(manifest.codec.name if manifest.codec else "codec", open_codec)
    if codec is None:
        return faults
    found: dict[str, str] = {}
    for entry in manifest.segments:

        def check(entry=entry) -> None:  # type: ignore[no-untyped-def]
            segment = Segment(folder / entry.name, entry, codec)
            for file, sentence in segment_faults(segment, found):
                faults.append(Fault(file, sentence))

        tried(entry.name, check)
    return faults


def _strays(folder: Path, manifest: Manifest) -> Iterator[str]:
    newest = manifest_path(folder, manifest.generation).name
    for path in folder.iterdir():
        if path.name in _OURS or path.name == newest:
            continue
        files = manifest.parts.get(path.name)
        if files is None:
            yield path.name
            continue
        for inside in path.iterdir():
            if inside.name not in files:
                yield f"{path.name}/{inside.name}"

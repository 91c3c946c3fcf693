"""The manifest: one JSON file a generation, which names all that belongs to it.

`manifest-00000007.json` is generation 7. A commit creates the next number and never changes a file that
is there, so that a store without rename can hold an index too. The highest number is the current one.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import xxhash

from colrank.codec import Training
from colrank.encoder import Fingerprint
from colrank.errors import IndexDamaged, IndexFormat, IndexLocked, IndexMissing
from colrank.shards import sync_file

FORMAT_VERSION = 2
"""Version of the layout on disk that is written (docs/format.md)."""

READABLE_VERSIONS = (1, 2)
"""Versions that are read: 1 is 2 without codecs, postings and pooling."""

# What file systems without hard links answer.
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)

_NAME = re.compile(r"manifest-(\d{8})\.json")


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment as the manifest names it: its counts, and size and checksum of each file.

    `tokens` are those stored, `unpooled_tokens` those encoded, more where tokens are pooled.
    `squared_error` is the mean of |vector - decoded|^2 over tokens that were coded for this segment from
    their whole vectors, which those of an earlier codec are not; None without any.
    """

    name: str
    documents: int
    passages: int
    tokens: int
    shards: tuple[str, ...]
    language_tokens: Mapping[str, int]
    files: Mapping[str, tuple[int, str]]
    unpooled_tokens: int = 0
    squared_error: float | None = None


@dataclass(frozen=True, slots=True)
class CodecEntry:
    """A codec as the manifest names it: its folder, its settings, its training and its files."""

    name: str
    bits: int
    kind: str
    centroids: int
    training: Training
    files: Mapping[str, tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Knobs:
    """Settings of the prefilter that an index keeps; None means the default for k.

    `k` is the number of hits that they were tuned for; None where it is not known.
    """

    nprobe: int | None = None
    shortlist: int | None = None
    prune: float | None = None
    k: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one generation of an index consists of, and how its vectors were made.

    `model` is None for an index of given vectors. `model_location` is where the model was found: the
    name on a hub, or a folder relative to the index; `dtype` is the precision that it ran in. `bits` and
    `kind` are what was asked for (`bits` None: whole vectors while the index is small, then the default),
    `codec` what there is: None while whole vectors are kept without centroids.
    """

    generation: int
    dim: int
    model: Fingerprint | None = None
    model_location: str = ""
    dtype: str = "float32"
    passage_tokens: int = 0
    overlap: int = 0
    token_weights: str = "auto"
    bits: int | None = None
    kind: str = "linear"
    pool: int = 1
    seed: int = 0
    codec: CodecEntry | None = None
    knobs: Knobs = Knobs()
    segments: tuple[SegmentEntry, ...] = field(default=())

    @property
    def stored_bits(self) -> int:
        """Bits a dimension of the tokens as they are stored."""
        return self.whole_bits if self.codec is None else self.codec.bits

    @property
    def whole_bits(self) -> int:
        """Bits a dimension of whole vectors, stored or spooled."""
        return 32 if self.bits == 32 else 16

    def following(self, segments: tuple[SegmentEntry, ...], codec: CodecEntry | None) -> Manifest:
        """The next generation, of other segments; settings tuned on another codec are dropped."""
        return replace(
            self,
            generation=self.generation + 1,
            segments=segments,
            codec=codec,
            knobs=self.knobs if codec == self.codec else Knobs(),
        )

    def to_json(self) -> str:
        """Canonical JSON with a checksum of its own content."""
        body = {
            "format": "colrank",
            "format_version": FORMAT_VERSION,
            "generation": self.generation,
            "dim": self.dim,
            "model": None if self.model is None else self.model.to_json(),
            "model_location": self.model_location,
            "dtype": self.dtype,
            "passage_tokens": self.passage_tokens,
            "overlap": self.overlap,
            "token_weights": self.token_weights,
            "bits": self.bits,
            "kind": self.kind,
            "pool": self.pool,
            "seed": self.seed,
            "knobs": _knobs_to_json(self.knobs),
            "codec": None
            if self.codec is None
            else {**asdict(self.codec), "files": _files_to_json(self.codec.files)},
            "segments": [
                {
                    "name": entry.name,
                    "documents": entry.documents,
                    "passages": entry.passages,
                    "tokens": entry.tokens,
                    "shards": list(entry.shards),
                    "language_tokens": dict(entry.language_tokens),
                    "unpooled_tokens": entry.unpooled_tokens,
                    "squared_error": entry.squared_error,
                    "files": _files_to_json(entry.files),
                }
                for entry in self.segments
            ],
        }
        return json.dumps({**body, "checksum": _checksum(body)}, indent=1, sort_keys=True) + "\n"


def _knobs_to_json(knobs: Knobs) -> dict[str, Any]:
    return {name: value for name, value in asdict(knobs).items() if name != "k" or value is not None}


def _files_to_json(files: Mapping[str, tuple[int, str]]) -> dict[str, dict[str, Any]]:
    return {name: {"bytes": size, "xxh3": checksum} for name, (size, checksum) in files.items()}


def _files(body: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    return {name: (part["bytes"], part["xxh3"]) for name, part in body.items()}


def _codec(body: Mapping[str, Any] | None) -> CodecEntry | None:
    if body is None:
        return None
    return CodecEntry(**{**body, "training": Training(**body["training"]), "files": _files(body["files"])})


def _checksum(body: Mapping[str, Any]) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(body, sort_keys=True).encode())


def _from_json(text: str, name: str) -> Manifest:
    remedy = "index again with --overwrite"
    try:
        body = json.loads(text)
        version = body["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise IndexDamaged(f"The manifest {name} is damaged; {remedy}.") from error
    if body.get("format") != "colrank" or version not in READABLE_VERSIONS:
        raise IndexFormat(
            f"The index has format version {version}, and this colrank reads versions "
            f"{' and '.join(map(str, READABLE_VERSIONS))}; install a newer colrank, or {remedy}."
        )
    if body.pop("checksum", None) != _checksum(body):
        raise IndexDamaged(f"The manifest {name} is damaged: its checksum does not fit; {remedy}.")
    try:
        return Manifest(
            generation=body["generation"],
            dim=body["dim"],
            model=None if body["model"] is None else Fingerprint(**body["model"]),
            model_location=body["model_location"],
            dtype=body["dtype"],
            passage_tokens=body["passage_tokens"],
            overlap=body["overlap"],
            token_weights=body["token_weights"],
            **_since_version_2(body, version),
            segments=tuple(
                SegmentEntry(
                    name=entry["name"],
                    documents=entry["documents"],
                    passages=entry["passages"],
                    tokens=entry["tokens"],
                    shards=tuple(entry["shards"]),
                    language_tokens=entry["language_tokens"],
                    files=_files(entry["files"]),
                    unpooled_tokens=entry.get("unpooled_tokens", entry["tokens"]),
                    squared_error=entry.get("squared_error"),
                )
                for entry in body["segments"]
            ),
        )
    except (KeyError, TypeError) as error:
        raise IndexDamaged(f"The manifest {name} lacks {error}; {remedy}.") from error


def _since_version_2(body: Mapping[str, Any], version: int) -> dict[str, Any]:
    if version < 2:
        return {}
    return {
        "bits": body["bits"],
        "kind": body["kind"],
        "pool": body["pool"],
        "seed": body["seed"],
        "knobs": Knobs(**body["knobs"]),
        "codec": _codec(body["codec"]),
    }


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
    return _from_json(text, path.name)


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

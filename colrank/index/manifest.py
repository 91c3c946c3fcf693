"""The manifest: what one generation of an index consists of, as JSON with a checksum of itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from colrank.encoder import Fingerprint
from colrank.errors import IndexDamaged, IndexFormat
from colrank.index.entries import CodecEntry, Files, Knobs, SegmentEntry

FORMAT_VERSION = 4
"""Version of the layout on disk that is written (docs/format.md)."""

READABLE_VERSIONS = (1, 2, 3, 4)
"""Versions that are read: 3 is 4 without words, 2 is 3 with one segment and without deletions, 1 is 2 without
codecs, postings and pooling."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one generation of an index consists of, and how its vectors were made.

    `model` is None for an index of given vectors. `model_location` is where the model was found: the
    name on a hub, or a folder relative to the index; `dtype` is the precision that it ran in. `bits`,
    `kind` and `centroids` are what was asked for (`bits` None: whole vectors while the index is small, then
    the default; `centroids` None: their number follows the tokens), `codec` what there is: None while whole
    vectors are kept without centroids. `hybrid` says that segments keep the words of passages, for BM25.
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
    centroids: int | None = None
    hybrid: bool = False
    codec: CodecEntry | None = None
    knobs: Knobs = field(default_factory=Knobs)
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
            "centroids": self.centroids,
            "hybrid": self.hybrid,
            "knobs": self.knobs.to_json(),
            "codec": None if self.codec is None else self.codec.to_json(),
            "segments": [entry.to_json() for entry in self.segments],
        }
        return json.dumps({**body, "checksum": _checksum(body)}, indent=1, sort_keys=True) + "\n"

    @property
    def live_tokens(self) -> int:
        """Stored tokens of all documents that are not deleted."""
        return sum(entry.live_tokens for entry in self.segments)

    @property
    def bytes(self) -> int:
        """What the generation takes on the disk."""
        files = sum(size for held in self.parts.values() for size, _ in held.values())
        return files + len(self.to_json().encode())

    @property
    def parts(self) -> dict[str, Files]:
        """Folders that the generation consists of, and the files of each."""
        found = {} if self.codec is None else {self.codec.name: self.codec.files}
        for entry in self.segments:
            found[entry.name] = entry.files
            if entry.deletions:
                found[entry.deletions.name] = entry.deletions.files
        return found


def _checksum(body: Mapping[str, Any]) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(body, sort_keys=True).encode())


def manifest_from_json(text: str, name: str) -> Manifest:
    """The inverse of `Manifest.to_json`; `name` is that of the file.

    Raises:
        IndexFormat: it is of another format version.
        IndexDamaged: it cannot be read, or its checksum does not fit.
    """
    remedy = "index again with --overwrite"
    try:
        body = json.loads(text)
        version = body["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise IndexDamaged(f"The manifest {name} is damaged; {remedy}.") from error
    if body.get("format") != "colrank" or version not in READABLE_VERSIONS:
        raise IndexFormat(
            f"The index has format version {version}, and this colrank reads versions "
            f"{READABLE_VERSIONS[0]} to {READABLE_VERSIONS[-1]}; install a newer colrank, or {remedy}."
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
            segments=tuple(map(SegmentEntry.from_json, body["segments"])),
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
        "codec": None if body["codec"] is None else CodecEntry.from_json(body["codec"]),
        # Version 2 let the number follow the tokens always.
        "centroids": body["centroids"] if version >= 3 else None,
        "hybrid": body["hybrid"] if version >= 4 else False,
    }


DRIFT = 1.5
"""A segment whose tokens the codec keeps with so many times the error of its training sample has drifted."""


def drifted(manifest: Manifest, entry: SegmentEntry) -> bool:
    """Whether a segment's text is unlike what the codec was trained on."""
    if manifest.codec is None or entry.squared_error is None:
        return False
    trained = manifest.codec.training.squared_error
    return trained is not None and entry.squared_error > DRIFT * trained

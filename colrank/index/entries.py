"""What a manifest names: segments, what was deleted from them, the codec, and the prefilter's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from colrank.codec import Training

Files = Mapping[str, tuple[int, str]]
"""Size and xxh3 of each file of a folder, by name."""


@dataclass(frozen=True, slots=True)
class DeletionEntry:
    """What was deleted from a segment: the folder that says so, how much is gone, and its files.

    Counts are of all that is gone from the segment, not only of what went last.
    """

    name: str
    documents: int
    passages: int
    tokens: int
    unpooled_tokens: int
    language_tokens: Mapping[str, int]
    files: Files

    def to_json(self) -> dict[str, Any]:
        """As the manifest holds it."""
        return {**asdict(self), "files": files_to_json(self.files)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> DeletionEntry:
        """The inverse of `to_json`."""
        return cls(**{**body, "files": files_from_json(body["files"])})


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment as the manifest names it: its counts, and size and checksum of each file.

    Counts are of what its files hold; what `deletions` takes away is no longer part of the index.

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
    files: Files
    unpooled_tokens: int = 0
    squared_error: float | None = None
    deletions: DeletionEntry | None = None

    @property
    def live_documents(self) -> int:
        """Documents that are not deleted."""
        return self.documents - (self.deletions.documents if self.deletions else 0)

    @property
    def live_passages(self) -> int:
        """Passages of documents that are not deleted."""
        return self.passages - (self.deletions.passages if self.deletions else 0)

    @property
    def live_tokens(self) -> int:
        """Stored tokens of documents that are not deleted."""
        return self.tokens - (self.deletions.tokens if self.deletions else 0)

    @property
    def number(self) -> str:
        """What its name ends in: the generation that it came with."""
        return self.name.rpartition("-")[2]

    def to_json(self) -> dict[str, Any]:
        """As the manifest holds it."""
        return {
            "name": self.name,
            "documents": self.documents,
            "passages": self.passages,
            "tokens": self.tokens,
            "shards": list(self.shards),
            "language_tokens": dict(self.language_tokens),
            "unpooled_tokens": self.unpooled_tokens,
            "squared_error": self.squared_error,
            "files": files_to_json(self.files),
            "deletions": self.deletions.to_json() if self.deletions else None,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> SegmentEntry:
        """The inverse of `to_json`; versions 1 and 2 know no deletions, version 1 no pooling."""
        deletions = body.get("deletions")
        return cls(
            name=body["name"],
            documents=body["documents"],
            passages=body["passages"],
            tokens=body["tokens"],
            shards=tuple(body["shards"]),
            language_tokens=body["language_tokens"],
            files=files_from_json(body["files"]),
            unpooled_tokens=body.get("unpooled_tokens", body["tokens"]),
            squared_error=body.get("squared_error"),
            deletions=DeletionEntry.from_json(deletions) if deletions else None,
        )


@dataclass(frozen=True, slots=True)
class CodecEntry:
    """A codec as the manifest names it: its folder, its settings, its training and its files."""

    name: str
    bits: int
    kind: str
    centroids: int
    training: Training
    files: Files

    def to_json(self) -> dict[str, Any]:
        """As the manifest holds it."""
        return {**asdict(self), "files": files_to_json(self.files)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> CodecEntry:
        """The inverse of `to_json`."""
        training = Training(**body["training"])
        return cls(**{**body, "training": training, "files": files_from_json(body["files"])})


@dataclass(frozen=True, slots=True)
class Knobs:
    """Settings of the prefilter that an index keeps; None means the default for k.

    `k` is the number of hits that they were tuned for; None where it is not known.
    """

    nprobe: int | None = None
    shortlist: int | None = None
    prune: float | None = None
    k: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As the manifest holds it."""
        held = asdict(self)
        return held if self.k is not None else {name: held[name] for name in held if name != "k"}


def files_to_json(files: Files) -> dict[str, dict[str, Any]]:
    """Sizes and checksums as a manifest holds them."""
    return {name: {"bytes": size, "xxh3": checksum} for name, (size, checksum) in files.items()}


def files_from_json(body: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """The inverse of `files_to_json`."""
    return {name: (part["bytes"], part["xxh3"]) for name, part in body.items()}

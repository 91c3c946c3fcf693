"""The values that travel between the layers: documents, passages, hits, reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""Token vectors, float32 `[tokens, dim]`, each of unit length unless said otherwise."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document as read from the user's corpus.

    `source` is the file it came from, relative (never absolute), or "" when it came from memory.
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of one document that is encoded as a unit.

    `text` is `body[start:end]`, where the body is the document's text, or its title when it has no
    text. What is encoded is `prefix` (the title, or as much of it as fits) and then `text`.
    """

    ordinal: int
    text: str
    start: int
    end: int
    prefix: str = ""


class Span(NamedTuple):
    """Characters `start:end` of a text."""

    start: int
    end: int


def is_utf8(text: str) -> bool:
    """Whether UTF-8 can hold a string: it has no half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


class Problems:
    """Counts what went wrong while reading or encoding, by kind, and keeps the first names of each.

    Memory stays bounded however many problems there are: all are counted, `keep` of each kind named.
    """

    def __init__(self, keep: int = 20) -> None:
        self._keep = keep
        self._counts: dict[str, int] = {}
        self._names: dict[str, list[str]] = {}

    def add(self, kind: str, name: str) -> None:
        """Count one problem of this kind and remember its name if there is room."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        names = self._names.setdefault(kind, [])
        if len(names) < self._keep:
            names.append(name)

    def count(self, kind: str) -> int:
        """How many problems of this kind there were."""
        return self._counts.get(kind, 0)

    def names(self, kind: str) -> list[str]:
        """The first names of this kind, in the order in which they came."""
        return list(self._names.get(kind, ()))

    def kinds(self) -> list[str]:
        """The kinds that occurred, in order of first occurrence."""
        return list(self._counts)

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __repr__(self) -> str:
        return f"Problems({self._counts})"

    def sentences(self, shown: int = 10) -> list[str]:
        """One sentence a kind: how many, and the first names."""
        out = []
        for kind, count in self._counts.items():
            names = self._names[kind][:shown]
            more = f", and {count - len(names)} more" if count > len(names) else ""
            out.append(f"{count} {kind}: {', '.join(names)}{more}")
        return out


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did: counts of the whole index after it, and what went wrong on the way.

    `replaced` is how many documents of the index before gave way to new ones of the same id.
    """

    documents: int
    passages: int
    tokens: int
    bytes: int
    seconds: float
    problems: Problems
    replaced: int = 0

    @property
    def warnings(self) -> list[str]:
        """One sentence for each kind of problem."""
        return self.problems.sentences()


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage that a search found.

    Attributes:
        id: the passage's id, `document#ordinal`.
        document: the document's id as the user gave it.
        score: score of the last stage that ran; here the weighted MaxSim.
        scores: score by stage (`maxsim`).
        text: the passage's text; `start` and `end` are its characters in the document.
        highlights: characters of `text` that matched best, in order, or empty when not asked for.
    """

    id: str
    document: str
    score: float
    scores: Mapping[str, float]
    title: str
    text: str
    start: int
    end: int
    source: str
    metadata: Mapping[str, Any]
    highlights: tuple[Span, ...] = ()


class Hits(Sequence[Hit]):
    """The hits of one query, best first, list-like.

    Attributes:
        query: the query's text, or "" when vectors were given.
        timings: seconds by stage (`encode`; `scan`, or `prefilter` and `score`; `select`; and those that
            were asked for); what a list of queries shares is shared out evenly.
        warnings: sentences about this query, for example that it was cut.
        verdict: what a judge said of the hits; None when none was asked.
    """

    def __init__(
        self,
        hits: Sequence[Hit],
        *,
        query: str = "",
        timings: Mapping[str, float] | None = None,
        warnings: Sequence[str] = (),
        verdict: None = None,
    ) -> None:
        self._hits = list(hits)
        self.query = query
        self.timings = dict(timings or {})
        self.warnings = list(warnings)
        self.verdict = verdict

    def __len__(self) -> int:
        return len(self._hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | list[Hit]:
        return self._hits[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self._hits)

    def __repr__(self) -> str:
        return f"Hits({self.query!r}, {[(hit.id, round(hit.score, 4)) for hit in self._hits]})"


@dataclass(frozen=True, slots=True)
class TokenMatch:
    """What one query token found in a passage.

    Attributes:
        token: the query token as the tokenizer spells it.
        weight: its weight in the score (1 when tokens are not weighted).
        match: the passage token whose vector is nearest, or the tokens that were pooled into it; "" when
            the passage has no tokens to name.
        similarity: dot product of the two vectors.
        spans: characters of the match in the passage's text, or in the title when `in_title`: one range
            a token, none for a marker that stands for no character.
    """

    token: str
    weight: float
    match: str
    similarity: float
    spans: tuple[Span, ...]
    in_title: bool = False

    @property
    def start(self) -> int:
        """Where the first range begins, -1 without any."""
        return self.spans[0].start if self.spans else -1

    @property
    def end(self) -> int:
        """Where the first range ends, -1 without any."""
        return self.spans[0].end if self.spans else -1

    @property
    def contribution(self) -> float:
        """What this token adds to the passage's score."""
        return self.weight * self.similarity


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a passage got its score: the score is the sum of the tokens' contributions."""

    query: str
    id: str
    document: str
    score: float
    title: str
    text: str
    tokens: tuple[TokenMatch, ...]

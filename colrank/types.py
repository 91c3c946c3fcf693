"""The values that travel between the layers: documents, passages, hits, reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, overload

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


def human_bytes(size: float) -> str:
    """Bytes in the unit that reads best, powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


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

    `added` are documents with a new id, `replaced` those that came again with other content, `unchanged`
    those that came again as they were, `deleted` those that a sync no longer found; `resumed` is how many
    passages a build that was stopped had encoded before; `notes` is what else to
    know, for example that the model does not read the language of the text.
    """

    documents: int
    passages: int
    tokens: int
    bytes: int
    seconds: float
    problems: Problems
    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    resumed: int = 0
    notes: tuple[str, ...] = ()

    @property
    def warnings(self) -> list[str]:
        """One sentence for each kind of problem, and the notes."""
        return [*self.problems.sentences(), *self.notes]


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage that a search found.

    Attributes:
        id: the passage's id, `document#ordinal`.
        document: the document's id as the user gave it.
        score: score of the last stage that gave one: the weighted MaxSim, or a reranker's.
        scores: score by stage: `maxsim`; `rerank` in [0, 1], what it was made from (`rerank_logit`,
            `rerank_maxsim`) and `blend`; `judge`; `mmr`, the gain for which the hit was chosen.
        text: the passage's text; `start` and `end` are its characters in the document.
        highlights: characters of `text` that matched best, in order, or empty when not asked for.
        unscored: the reranker was asked and gave no score, so that the hit stands in its earlier order.
        tier: `high`, `topical` or `noise` where a judge looked at the hit, else "".
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
    unscored: bool = False
    tier: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a reranker was sent.

    Attributes:
        pairs: pairs of query and text that were scored; windows count one each.
        tokens: tokens of the pairs (of a service: those that it says it counted), None when not known.
        calls: requests to a service, retries among them.
        cut: texts that lost their end because the pair was longer than the model reads, None when not
            known.
        seconds: time in the model's own forward pass or in waiting for the service.
    """

    pairs: int = 0
    tokens: int | None = None
    calls: int = 0
    cut: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge said of a query's hits.

    Attributes:
        status: `approved` (each hit reached the floor), `refused` (none did, and none is handed on), or
            `unjudged` (the reranker failed or left hits unscored: neither).
        reason: one sentence.
        best: the best score, None when there is none.
        floor: the least score that passes.
        note: what to know before trusting the floor.
        fallback: what to tell the user instead of an answer, when refused; else "".
    """

    status: Literal["approved", "refused", "unjudged"]
    reason: str
    best: float | None
    floor: float
    note: str = ""
    fallback: str = ""


class Hits(Sequence[Hit]):
    """The hits of one query, best first, list-like.

    Attributes:
        query: the query's text, or "" when vectors were given.
        timings: seconds by stage (`encode`; `scan`, or `prefilter` and `score`; `select`; and those that
            were asked for: `rerank`, `judge`, `dedupe`, `mmr` with its parts `mmr_vectors` and
            `mmr_reduce`, or `cut`, and `highlight`); what a list of queries shares is shared
            out evenly.
        warnings: sentences about this query, for example that it was cut.
        verdict: what a judge said of the hits; None when none was asked.
        left_out: ids that a stage took out, best first, by reason: `judge`, `unscored`, `dedupe`,
            `max_per_document`, `k`.
        usage: what the reranker was sent; None when none ran.
    """

    def __init__(
        self,
        hits: Sequence[Hit],
        *,
        query: str = "",
        timings: Mapping[str, float] | None = None,
        warnings: Sequence[str] = (),
        verdict: Verdict | None = None,
        left_out: Mapping[str, Sequence[str]] | None = None,
        usage: Usage | None = None,
    ) -> None:
        self._hits = list(hits)
        self.query = query
        self.timings = dict(timings or {})
        self.warnings = list(warnings)
        self.verdict = verdict
        self.left_out = {reason: list(ids) for reason, ids in (left_out or {}).items()}
        self.usage = usage

    def having(self, hits: Sequence[Hit]) -> Hits:
        """The same answer with other hits: everything else that is known of the query stays."""
        return Hits(
            hits,
            query=self.query,
            timings=self.timings,
            warnings=self.warnings,
            verdict=self.verdict,
            left_out=self.left_out,
            usage=self.usage,
        )

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

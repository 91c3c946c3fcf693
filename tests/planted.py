"""Hits made by hand, and a reranker whose scores are planted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from colrank.rerankers import Reranked
from colrank.types import Hit, Hits, Usage

NAN = float("nan")

CORPUS = [
    {"id": "guarantee", "text": "The legal guarantee lasts six months."},
    {"id": "maker", "text": "The maker's own guarantee is a courtesy."},
    {"id": "again", "text": "THE LEGAL  GUARANTEE lasts six months."},
    {"id": "refund", "title": "Refunds", "text": "Money is given back within thirty days."},
    {
        "id": "shipping",
        "text": "Parcels leave the warehouse on Mondays. They reach the regions within five working days. "
        "Islands wait for the next ship, which takes two more days. Express parcels cost twice as much. "
        "A parcel that is lost on the way is sent again without any cost to the buyer.",
    },
]
QUERY = "how long does the guarantee last"


class Planted:
    """Scores texts as told; `asked` keeps every call, a query and its texts.

    Args:
        scores: of each text, or `score(query, text)`; NaN leaves a text unscored.
        raw: what the scores are said to be made from, by text; None says nothing of it.
        fails: raised instead of an answer; a set of queries fails for these alone.
        default: score of a text that is not among the scores.
    """

    def __init__(
        self,
        scores: Mapping[str, float] | Callable[[str, str], float],
        *,
        raw: Mapping[str, float] | None = None,
        name: str = "planted",
        listwise: bool = False,
        steady: bool = True,
        fails: Exception | None = None,
        failing: Sequence[str] | None = None,
        default: float = 0.0,
        tokens: int | None = None,
        calls: int = 0,
        cut: int | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        self.name, self.listwise, self.steady = name, listwise, steady
        self.asked: list[tuple[str, list[str]]] = []
        self._scores, self._raw, self._default = scores, raw, default
        self._fails, self._failing = fails, failing
        self._usage: dict[str, Any] = {"tokens": tokens, "calls": calls, "cut": cut}
        self._warnings = tuple(warnings)

    def of(self, query: str, text: str) -> float:
        """The planted score of one text."""
        if callable(self._scores):
            return self._scores(query, text)
        return self._scores.get(text, self._default)

    def score(self, query: str, texts: Sequence[str]) -> Reranked:
        self.asked.append((query, list(texts)))
        if self._fails is not None and (self._failing is None or query in self._failing):
            raise self._fails
        scores = np.array([self.of(query, text) for text in texts], dtype=np.float64)
        raw = None
        if self._raw is not None:
            raw = np.array([self._raw.get(text, NAN) for text in texts], dtype=np.float64)
        return Reranked(scores, raw, usage=Usage(pairs=len(texts), **self._usage), warnings=self._warnings)


class Bare:
    """A reranker of the user's own: nothing but `score`, which gives whatever it was told to give."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def score(self, query: str, texts: Sequence[str]) -> Any:
        if isinstance(self._given, Exception):
            raise self._given
        return self._given(texts) if callable(self._given) else self._given


def hit(
    name: str,
    score: float = 0.0,
    *,
    document: str | None = None,
    text: str | None = None,
    title: str = "",
    scores: Mapping[str, float] | None = None,
    unscored: bool = False,
) -> Hit:
    """A hit; its text is its name unless given."""
    text = name if text is None else text
    return Hit(
        id=name,
        document=name if document is None else document,
        score=score,
        scores={"maxsim": score} if scores is None else dict(scores),
        title=title,
        text=text,
        start=0,
        end=len(text),
        source="",
        metadata={},
        unscored=unscored,
    )


def reranked(name: str, score: float, **more: Any) -> Hit:
    """A hit as a reranker leaves it; NaN is one that it left unscored."""
    if np.isnan(score):
        return hit(name, 7.0, unscored=True, **more)
    return hit(name, score, scores={"maxsim": 7.0, "rerank": score}, **more)


def searched(names: Sequence[str]) -> Hits:
    """Hits of a search, best first."""
    return Hits([hit(name, float(len(names) - at)) for at, name in enumerate(names)], query="q")


def ids(hits: Sequence[Hit]) -> list[str]:
    """Their ids, in order."""
    return [each.id for each in hits]

"""The contract of a reranker: a query and texts in, a score in [0, 1] for each text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colrank.config import CascadeConfig
from colrank.errors import InputError
from colrank.types import Usage

LOGIT = "rerank_logit"
"""Name among a hit's scores of the number that a sigmoid turned into the reranker's score."""

MAXSIM = "rerank_maxsim"
"""Name among a hit's scores of the MaxSim that the reranker's score was made from."""


@dataclass(frozen=True, slots=True)
class Reranked:
    """What a reranker said of some texts, in the order in which they were given.

    Attributes:
        scores: float64 `[texts]` in [0, 1]; NaN where it gave none.
        raw: float64 `[texts]`, the numbers that the scores were made from; None where scores came as such.
        raw_name: what the raw numbers are: `LOGIT` or `MAXSIM`.
        usage: what it was sent.
        warnings: sentences for the user.
    """

    scores: NDArray[np.float64]
    raw: NDArray[np.float64] | None = None
    raw_name: str = LOGIT
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()


@runtime_checkable
class Reranker(Protocol):
    """Scores texts for a query; knows nothing of indexes.

    Attributes:
        name: as the user writes it (`hf:cross-encoder/ms-marco-MiniLM-L6-v2`); holds no key.
        listwise: a text's score may depend on the texts beside it, as a language model's does.
        steady: the same pair gets the same score tomorrow; a language model's drifts.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def listwise(self) -> bool: ...  # noqa: D102
    @property
    def steady(self) -> bool: ...  # noqa: D102

    def score(self, query: str, texts: Sequence[str]) -> Reranked:
        """Score each text for the query.

        Raises:
            StageFailed: the model or the service failed; no text was scored.
        """
        ...


def refuse_options(name: str, config: CascadeConfig, options: Sequence[str]) -> None:
    """Raise InputError for an option that was set and that this reranker has no use for."""
    for option in config.set_among(options):
        raise InputError(f"{name} has no use for {option}; leave it out.")


def sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + exp(-x)) without overflow: float64, any shape."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1 / (1 + small), small / (1 + small))

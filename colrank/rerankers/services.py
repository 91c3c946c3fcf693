"""Reranking services, public and on a server of one's own: one adapter to all of `families`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colrank.config import CascadeConfig
from colrank.errors import InputError
from colrank.rerankers.address import find_address, shown
from colrank.rerankers.base import LOGIT, Reranked, refuse_options, sigmoid
from colrank.rerankers.families import FAMILIES, Kind
from colrank.rerankers.http import Client, Reply, Spent
from colrank.types import Usage

COSINE = "rerank_cosine"
"""Name among a hit's scores of the cosine that the reranker's score was made from."""

_LIMITS: dict[Kind, tuple[float, float]] = {
    "probability": (0, 1),
    "logit": (-math.inf, math.inf),
    "cosine": (-1, 1),
}
_ROUNDING = 1e-6
_UNFIT = ("rerank_windows", "rerank_instruction", "rerank_device", "rerank_dtype", "rerank_backend")

# A pair that answers and pairs that do not: logits of these lie further apart than 1.
_PROBE = (
    "What is the capital of France?",
    ("Paris is the capital of France.", "The train was late again on Monday.", "Mix the eggs with sugar."),
)


class ServiceReranker:
    """Asks a reranking service for scores.

    Exactly one sigmoid is applied: a service that can give logits is asked for them, and they are kept
    beside the scores; one that gives probabilities is taken at its word, and a number that is none fails.
    What vLLM, Infinity and llama.cpp give depends on the model and the version. A number beyond 1 or below
    -1 shows that they are logits; where a first answer has none, one more request is made, of three pairs
    of which one answers, and what is known then holds for the life of the object. Cosines are scaled to
    [0, 1] as (1 + cosine) / 2.

    Args:
        family: one of `FAMILIES`.
        target: a public service's model; for a server of one's own its URL, and after `#` the model, where
            it serves several (`vllm:http://localhost:8000#BAAI/bge-reranker-v2-m3`).
        config: `rerank_url` (a URL in place of the usual one; the family's path is appended but for what
            the URL has of it already), `rerank_timeout`, `rerank_retries`, `rerank_max_length` (vLLM only).
            A public service's key is sent to that service alone; to every other address goes the key in
            `COLRANK_RERANK_KEY`.

    Attributes:
        listwise: True for models that are known to read all texts at once.

    Raises:
        InputError: there is no such family, the URL cannot be used, a key is missing, or an option does
            not fit.
        MissingExtra: httpx is not installed.
    """

    steady = True

    def __init__(self, family: str, target: str, config: CascadeConfig) -> None:
        if family not in FAMILIES:
            raise InputError(f"There is no service {family!r}; choose one of {', '.join(FAMILIES)}.")
        self._family = FAMILIES[family]
        url, model = self._target(family, target)
        self.name = family + ":" + (model if url is None else shown(url) + (f"#{model}" if model else ""))
        refuse_options(self.name, config, _UNFIT if self._family.length else (*_UNFIT, "rerank_max_length"))
        lower = model.lower()
        self.listwise = any(part in lower for part in self._family.listwise)
        self._kind = "cosine" if any(part in lower for part in self._family.cosine) else self._family.kind
        self._fixed: dict[str, Any] = {**({"model": model} if model else {}), **self._family.extra}
        if self._family.length is not None and config.rerank_max_length is not None:
            self._fixed[self._family.length] = config.rerank_max_length
        address = find_address(
            self.name,
            config.rerank_url or url,
            home=self._family.home,
            path=self._family.path,
            keys=self._family.keys,
        )
        self._client = Client(self.name, address, config.rerank_timeout, config.rerank_retries)

    def __repr__(self) -> str:
        return f"ServiceReranker({self.name!r})"

    def score(self, query: str, texts: Sequence[str]) -> Reranked:
        """Score each text for the query, in as many requests as the service's limit asks for.

        Returns:
            Scores in [0, 1], float64 `[texts]`, and the logits or cosines that they are made of, where the
            service gives such.

        Raises:
            StageFailed: the service did not answer, or not with one number of its kind for each text.
        """
        if not texts:
            return Reranked(np.zeros(0), usage=Usage(tokens=0, cut=0))
        spent = Spent()
        size = self._family.most or len(texts)
        parts = [texts[begin : begin + size] for begin in range(0, len(texts), size)]
        numbers = np.concatenate([self._numbers(query, part, spent) for part in parts])
        if self._kind is None:
            shows = numbers
            if _kind_of(numbers) != "logit":
                shows = np.concatenate([numbers, self._numbers(*_PROBE, spent)])
            self._kind = _kind_of(shows)
        least, most = _LIMITS[self._kind]
        outside = numbers[(numbers < least - _ROUNDING) | (numbers > most + _ROUNDING)]
        if len(outside):
            raise self._client.failure(
                f"gave {outside[0]:g} as a {self._kind}, which lies between {least:g} and {most:g}",
                "name the server by its own family, such as llamacpp:URL or tei:URL",
            )
        numbers = np.clip(numbers, least, most)
        usage = spent.usage(len(texts))
        if self._kind == "logit":
            return Reranked(sigmoid(numbers), numbers, LOGIT, usage)
        if self._kind == "cosine":
            return Reranked((1 + numbers) / 2, numbers, COSINE, usage)
        return Reranked(numbers, usage=usage)

    def _target(self, family: str, target: str) -> tuple[str | None, str]:
        """The URL that the target is, if it is one, and the model."""
        if self._family.home is not None:
            if not target.strip():
                raise InputError(f"{family} needs the name of a model, such as {family}:MODEL.")
            return None, target
        url, _, model = target.partition("#")
        if not shown(url):
            raise InputError(
                f"{family} needs the URL of a server, such as {family}:http://localhost:8080, and takes a "
                "model after #."
            )
        return url, model

    def _numbers(self, query: str, texts: Sequence[str], spent: Spent) -> NDArray[np.float64]:
        """What one request gives for each text."""
        body = {**self._fixed, "query": query, self._family.texts: list(texts)}
        reply = self._client.post(body, spent)
        spent.count_tokens(self._tokens(reply))
        results = reply.body
        if self._family.results is not None:
            results = results.get(self._family.results) if isinstance(results, dict) else None
        if not isinstance(results, list):
            raise self._client.unusable(f"there is no list of {self._family.results or 'results'}")
        numbers = np.full(len(texts), np.nan)
        for result in results:
            index, number = self._result(result, len(texts))
            if not np.isnan(numbers[index]):
                raise self._client.unusable(f"index {index} comes twice")
            numbers[index] = number
        if missing := int(np.isnan(numbers).sum()):
            raise self._client.unusable(f"{missing} of {len(texts)} texts are missing")
        return numbers

    def _result(self, result: Any, count: int) -> tuple[int, float]:
        """Index and finite score of one result."""
        if not isinstance(result, dict):
            raise self._client.unusable("a result is no object")
        index, number = result.get("index"), result.get(self._family.score)
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
            raise self._client.unusable(f"a result's index is not one of {count} texts")
        if not isinstance(number, int | float) or isinstance(number, bool) or not _finite(number):
            raise self._client.unusable(f"{self._family.score} of index {index} is no finite number")
        return index, float(number)

    def _tokens(self, reply: Reply) -> Any:
        where = self._family.tokens
        if len(where) == 1:
            said = reply.headers.get(where[0], "")
            return int(said) if said.isascii() and said.isdigit() and len(said) < 16 else None
        return reply.inside(where) if where else None


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _kind_of(numbers: NDArray[np.float64]) -> Kind:
    """What numbers are that show it: logits lie beyond [-1, 1], and probabilities are never negative."""
    if np.abs(numbers).max() > 1 + _ROUNDING:
        return "logit"
    return "cosine" if numbers.min() < -_ROUNDING else "probability"

"""Rerankers by name: `family:rest`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from colrank.config import RERANKER_OPTIONS, CascadeConfig
from colrank.errors import InputError
from colrank.rerankers.base import Reranked, Reranker, refuse_options
from colrank.rerankers.families import FAMILIES as SERVICES
from colrank.types import Usage

CHATS = ("ollama", "openai")
EXACT = "exact"
FAMILIES = ("hf", *SERVICES, *CHATS, "colbert")


def load_reranker(config: CascadeConfig, exact: Callable[[], Reranker]) -> Reranker | None:
    """The reranker that `config.rerank` names; None where it names none.

        hf:MODEL_OR_FOLDER                                      a cross-encoder on this machine
        cohere:MODEL voyage:MODEL jina:MODEL mixedbread:MODEL   a service
        tei:URL vllm:URL infinity:URL llamacpp:URL              a server of one's own
        ollama:MODEL openai:MODEL                               a language model
        colbert:MODEL                                           another late-interaction model
        exact                                                   float32 MaxSim of the index's own model

    Args:
        config: with `rerank` as text, or an object with a method `score(query, texts)`.
        exact: makes the reranker `exact`.

    Raises:
        InputError: there is no such family, an option does not fit it, or a service's key is not set.
        ModelError: a model cannot be found or used.
        MissingExtra: the family needs a package that is not installed.
    """
    named = config.rerank
    if named is None:
        return None
    if not isinstance(named, str):
        if not callable(getattr(named, "score", None)):
            raise InputError(
                f"rerank is {type(named).__name__}; give a name such as hf:BAAI/bge-reranker-v2-m3, or an "
                "object with a method score(query, texts)."
            )
        given = _Given(named)
        refuse_options(given.name, config, RERANKER_OPTIONS)
        return given
    family, colon, rest = named.partition(":")
    if named == EXACT:
        refuse_options(EXACT, config, RERANKER_OPTIONS)
        return exact()
    if not colon or family not in FAMILIES or not rest.strip():
        guess = f"; a model on the hub or a folder is hf:{named}" if named and not colon else ""
        raise InputError(
            f"There is no reranker {named!r}: name {', '.join(f'{each}:...' for each in FAMILIES)} or "
            f"{EXACT}{guess}."
        )
    return _loaded(family, rest.strip(), config)


def _loaded(family: str, rest: str, config: CascadeConfig) -> Reranker:
    # Each family is imported when it is asked for: none of them costs the others anything.
    if family == "hf":
        from colrank.rerankers.cross_encoder import CrossEncoderReranker

        encoder = CrossEncoderReranker(rest, config)
        encoder.load()  # so that a wrong name is told before the search, and no query pays for loading
        return encoder
    if family == "colbert":
        from colrank.rerankers.late import load_late

        return load_late(rest, config)
    if family in CHATS:
        from colrank.rerankers.chat import ChatReranker

        return ChatReranker(family, rest, config)
    from colrank.rerankers.services import ServiceReranker

    return ServiceReranker(family, rest, config)


class _Given:
    """A reranker of the user's own, which may give bare scores and say nothing of itself."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self.name = str(getattr(given, "name", type(given).__name__))
        self.listwise = bool(getattr(given, "listwise", False))
        self.steady = bool(getattr(given, "steady", True))

    def score(self, query: str, texts: Sequence[str]) -> Reranked:
        begin = time.perf_counter()
        said: Any = self._given.score(query, texts)
        if isinstance(said, Reranked):
            return said
        usage = Usage(pairs=len(texts), seconds=time.perf_counter() - begin)
        return Reranked(np.asarray(said, dtype=np.float64), usage=usage)

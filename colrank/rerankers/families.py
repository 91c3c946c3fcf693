"""How reranking services differ: the table of what each is called, asked and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["probability", "logit", "cosine"]
"""What a service's scores are."""


@dataclass(frozen=True, slots=True)
class Family:
    """How a service differs from the others. All take `query` and name a text by its `index`.

    Attributes:
        path: of the request.
        home: URL of the public service; None for a server of one's own.
        keys: environment variables of the public service's key.
        texts: field of the texts.
        results: field of the results; None where the answer is the bare list of them.
        score: field of a result's score.
        kind: what scores are; None where that depends on the model or the version served.
        most: most texts a request; None where no limit is known.
        extra: fields that are always sent. None of them limits how many results come back.
        tokens: where the token count is, field by field, or the one name of a header; () where the service
            gives none, or counts something else.
        length: field of the longest pair in tokens.
        cosine: parts of the names of models whose scores are cosines.
        listwise: parts of the names of models that read all texts at once.
    """

    path: str
    home: str | None = None
    keys: tuple[str, ...] = ()
    texts: str = "documents"
    results: str | None = "results"
    score: str = "relevance_score"
    kind: Kind | None = "probability"
    most: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    tokens: tuple[str, ...] = ("usage", "total_tokens")
    length: str | None = None
    cosine: tuple[str, ...] = ()
    listwise: tuple[str, ...] = ()


FAMILIES: dict[str, Family] = {
    "cohere": Family(
        path="/v2/rerank",
        home="https://api.cohere.com",
        keys=("CO_API_KEY", "COHERE_API_KEY"),
        most=1000,
        tokens=("meta", "tokens", "input_tokens"),
    ),
    "voyage": Family(
        path="/v1/rerank",
        home="https://api.voyageai.com",
        keys=("VOYAGE_API_KEY",),
        results="data",
        most=1000,
        extra={"return_documents": False, "truncation": True},
    ),
    "jina": Family(
        path="/v1/rerank",
        home="https://api.jina.ai",
        keys=("JINA_API_KEY",),
        most=1000,
        extra={"return_documents": False},
        cosine=("reranker-v3",),
        listwise=("reranker-v3",),
    ),
    "mixedbread": Family(
        path="/v1/reranking",
        home="https://api.mixedbread.com",
        keys=("MXBAI_API_KEY", "MIXEDBREAD_API_KEY"),
        texts="input",
        results="data",
        score="score",
        most=1000,
        extra={"return_input": False},
        listwise=("listwise",),
    ),
    # A server refuses more texts than its --max-client-batch-size, and long ones unless told to cut them.
    "tei": Family(
        path="/rerank",
        texts="texts",
        results=None,
        score="score",
        kind="logit",
        most=32,
        extra={"raw_scores": True, "return_text": False, "truncate": True},
        tokens=("x-compute-tokens",),
    ),
    # Older servers ignore use_activation. A pair longer than the model reads is an error unless cut.
    "vllm": Family(
        path="/v1/rerank",
        kind=None,
        extra={"use_activation": False, "truncate_prompt_tokens": -1},
        length="truncate_prompt_tokens",
    ),
    # Older servers ignore raw_scores. What it gives as tokens are characters unless it was set up otherwise.
    "infinity": Family(
        path="/rerank",
        kind=None,
        most=2048,
        extra={"raw_scores": True, "return_documents": False},
        tokens=(),
    ),
    # Logits of a classification head, but probabilities of Qwen3-Reranker, whose softmax is in the graph.
    "llamacpp": Family(path="/v1/rerank", kind=None),
}
"""The services by the name that begins the reranker's."""

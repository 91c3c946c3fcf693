"""Language models as rerankers: `ollama:MODEL` and `openai:MODEL`."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from colrank.config import CascadeConfig
from colrank.errors import InputError, StageFailed
from colrank.rerankers.address import find_address, shown
from colrank.rerankers.answers import parse_scores
from colrank.rerankers.base import Reranked, refuse_options
from colrank.rerankers.http import Client, Refused, Reply, Spent
from colrank.rerankers.prompt import SCHEMA, messages_for
from colrank.types import Usage

MOST_PASSAGES = 50
"""Passages a request."""

_UNFIT = (
    "rerank_windows",
    "rerank_max_length",
    "rerank_device",
    "rerank_dtype",
    "rerank_backend",
)


@dataclass(frozen=True, slots=True)
class _Api:
    """Where a chat API is, and what it calls things."""

    home: str
    path: str
    keys: tuple[str, ...]
    content: tuple[str | int, ...]
    tokens: tuple[tuple[str, ...], ...]


_APIS = {
    "ollama": _Api(
        "https://ollama.com",
        "/api/chat",
        ("OLLAMA_API_KEY",),
        ("message", "content"),
        (("prompt_eval_count",), ("eval_count",)),
    ),
    "openai": _Api(
        "https://api.openai.com/v1",
        "/v1/chat/completions",
        ("OPENAI_API_KEY",),
        ("choices", 0, "message", "content"),
        (("usage", "total_tokens"),),
    ),
}


class ChatReranker:
    """Asks a language model for a score from 0 to 1 for each of numbered passages.

    Up to 50 passages go in one request, more in several: scores are absolute, so that those of two
    requests compare. Temperature is 0 and the answer bound to a JSON schema, where the server takes both;
    one that refuses either is asked without it from then on.

    Ollama is told how long the prompt is, since it else reads what fits into its usual context, and
    refuses what is longer than the model's.

    Args:
        family: `ollama`, or `openai` for any server with chat completions.
        model: its name there.
        config: `rerank_url` (else `OLLAMA_HOST`, http://localhost:11434, or https://api.openai.com/v1),
            `rerank_instruction`, `rerank_timeout`, `rerank_retries`. `OPENAI_API_KEY` and `OLLAMA_API_KEY`
            go to OpenAI and to ollama.com alone, `COLRANK_RERANK_KEY` to any other address.

    Raises:
        InputError: there is no such family, the model cannot be used so, the URL cannot be used, a key is
            missing, or an option does not fit.
        MissingExtra: httpx is not installed.
    """

    listwise = True
    steady = False

    def __init__(self, family: str, model: str, config: CascadeConfig) -> None:
        if family not in _APIS:
            raise InputError(f"There is no chat API {family!r}; choose one of {', '.join(_APIS)}.")
        self.name = f"{family}:{model}"
        if not model.strip():
            raise InputError(f"{family} needs the name of a model, such as {family}:MODEL.")
        if family == "ollama" and "rerank" in model.lower():
            raise InputError(
                f"Ollama gives embeddings of {model}, not relevance, so it cannot rerank with it: use "
                "hf:BAAI/bge-reranker-v2-m3, a server such as tei:URL or llamacpp:URL, or a chat model as "
                "ollama:llama3.2:3b."
            )
        refuse_options(self.name, config, _UNFIT)
        self._model = model
        self._ollama = family == "ollama"
        self._api = api = _APIS[family]
        self._instruction = config.rerank_instruction
        url, path = config.rerank_url, api.path
        if self._ollama:
            url = url or ollama_url(os.environ.get("OLLAMA_HOST", ""))
        elif url and urlsplit(shown(url)).path:
            # As every client of such servers has it: a path in the URL stands for `/v1`.
            path = "/chat/completions"
        address = find_address(self.name, url, home=api.home, path=path, keys=api.keys)
        self._client = Client(self.name, address, config.rerank_timeout, config.rerank_retries)
        self._optional: dict[str, Any] = {}
        if not self._ollama:
            schema = {"name": "scores", "strict": True, "schema": SCHEMA}
            self._optional = {
                "temperature": 0,
                "response_format": {"type": "json_schema", "json_schema": schema},
            }

    def __repr__(self) -> str:
        return f"ChatReranker({self.name!r})"

    def score(self, query: str, texts: Sequence[str]) -> Reranked:
        """Score each text for the query, in the light of the others.

        Returns:
            Scores in [0, 1], float64 `[texts]`; NaN where the answer gave none, which a warning counts.

        Raises:
            StageFailed: the service did not answer, or not as a chat.
        """
        if not texts:
            return Reranked(np.zeros(0), usage=Usage(tokens=0, cut=0))
        spent = Spent()
        parts = [texts[begin : begin + MOST_PASSAGES] for begin in range(0, len(texts), MOST_PASSAGES)]
        scores = np.concatenate([self._scores(query, part, spent) for part in parts])
        return Reranked(scores, usage=spent.usage(len(texts)), warnings=self._warnings(scores))

    def _scores(self, query: str, texts: Sequence[str], spent: Spent) -> NDArray[np.float64]:
        messages = messages_for(query, texts, self._instruction)
        body: dict[str, Any] = {"model": self._model, "messages": messages, "stream": False}
        if self._ollama:
            size = sum(len(each["content"].encode("utf-8", "replace")) for each in messages)
            options = {"temperature": 0, "num_ctx": _context(size, len(texts))}
            reply = self._post({**body, "format": SCHEMA, "options": options, "truncate": False}, spent)
        else:
            reply = self._post_without_refused(body, spent)
        for where in self._api.tokens:
            spent.count_tokens(reply.inside(where))
        return parse_scores(self._content(reply), len(texts))

    def _post(self, body: Mapping[str, Any], spent: Spent) -> Reply:
        try:
            return self._client.post(body, spent)
        except Refused as error:
            if not self._ollama or error.status != 404 or "model" not in error.said.lower():
                raise
            raise self._client.failure(
                f'does not have the model ("{error.said}")', f"fetch it with `ollama pull {self._model}`"
            ) from error

    def _post_without_refused(self, body: Mapping[str, Any], spent: Spent) -> Reply:
        """Post with the optional fields; without one that the server refuses, from then on."""
        optional = dict(self._optional)
        while True:
            try:
                reply = self._post({**body, **optional}, spent)
            except Refused as error:
                refused = next((name for name in optional if name in error.said), "response_format")
                if error.status not in (400, 422) or refused not in optional:
                    raise
                del optional[refused]
            else:
                # Only now is it known that the request was refused because of them.
                self._optional = optional
                return reply

    def _content(self, reply: Reply) -> str:
        """The answer's text, without what a model thought aloud before it."""
        *path, last = self._api.content
        message = reply.inside(path)
        if not isinstance(message, dict):
            raise self._unusable()
        content = message.get(str(last))
        if isinstance(content, list):
            said = [part.get("text") for part in content if isinstance(part, dict)]
            content = "".join(text for text in said if isinstance(text, str))
        return content.rpartition("</think>")[2] if isinstance(content, str) else ""

    def _unusable(self) -> StageFailed:
        return self._client.unusable("there is no message")

    def _warnings(self, scores: NDArray[np.float64]) -> tuple[str, ...]:
        without = int(np.isnan(scores).sum())
        if not without:
            return ()
        if without == len(scores):
            return (
                f"Nothing in the answer of {self.name} could be read as scores: the earlier order stands.",
            )
        return (
            f"{self.name} gave {without} of {len(scores)} passages no score that could be read: they follow "
            "the others in their earlier order.",
        )


def ollama_url(host: str) -> str:
    """URL of the server that `OLLAMA_HOST` names, as Ollama itself reads it.

    The value may lack the scheme (http), the host (this machine) and the port (11434, or the scheme's own
    where it names one); an address that only a server can listen on stands for this machine.
    """
    host = host.strip()
    if host in ("", "ollama.com"):
        return "https://ollama.com" if host else "http://localhost:11434"
    scheme, named, rest = host.rpartition("://")
    netloc, slash, path = rest.partition("/")
    login, at, netloc = netloc.rpartition("@")
    name, port = _host_and_port(netloc)
    if not port and not named:
        port = "11434"
    return f"{scheme or 'http'}://{login}{at}{name}{':' if port else ''}{port}{slash}{path}"


def _host_and_port(netloc: str) -> tuple[str, str]:
    name, colon, port = netloc.rpartition(":")
    if not colon or not port.isdigit() or (":" in name and not name.endswith("]")):
        name, port = netloc.rstrip(":"), ""
    try:
        address = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return name or "localhost", port
    if address.version == 6:
        return "[::1]" if address.is_unspecified else f"[{address}]", port
    return "127.0.0.1" if address.is_unspecified else str(address), port


def _context(size: int, entries: int) -> int:
    """Tokens of context for a prompt of so many bytes: a power of two, as each new size loads the model anew.

    A token is taken to be 3 bytes, fewer than in most languages, and an entry of the answer 24 tokens.
    """
    need = size // 3 + 24 * entries + 512
    return max(4096, 1 << (need - 1).bit_length())

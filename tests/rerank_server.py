"""A server on this machine that speaks the forms of reranking services, and fails as they do.

    with RerankServer(refusal(429, "slow down", Retry_After="7"), then=speak("cohere", len)) as server:
        ...  # asked at server.url; what was asked is in server.asked

What each service documents is written down here a second time, apart from the table under test.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

PATHS = {
    "cohere": "/v2/rerank",
    "voyage": "/v1/rerank",
    "jina": "/v1/rerank",
    "mixedbread": "/v1/reranking",
    "tei": "/rerank",
    "vllm": "/v1/rerank",
    "infinity": "/rerank",
    "llamacpp": "/v1/rerank",
}
TEXTS = {"mixedbread": "input", "tei": "texts"}
KNOWN = {
    "cohere": {"model", "query", "documents", "top_n", "max_tokens_per_doc", "priority"},
    "voyage": {"model", "query", "documents", "top_k", "return_documents", "truncation"},
    "jina": {"model", "query", "documents", "top_n", "return_documents"},
    "mixedbread": {"model", "query", "input", "rank_fields", "top_k", "return_input", "rewrite_query"},
    "tei": {"query", "texts", "raw_scores", "return_text", "truncate", "truncation_direction"},
    "vllm": {"model", "query", "documents", "top_n", "use_activation", "truncate_prompt_tokens"},
    "infinity": {"model", "query", "documents", "top_n", "raw_scores", "return_documents"},
    "llamacpp": {"model", "query", "documents", "top_n"},
}
MOST = {"cohere": 1000, "voyage": 1000, "jina": 1000, "mixedbread": 1000, "tei": 32, "infinity": 2048}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came: path, headers by lower-case name, decoded body."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Says:
    """An answer: a body (bytes as they are, else as JSON), or a way to give none.

    Attributes:
        how: `whole`; `hangs` never answers; `cuts` ends the connection without an answer; `breaks` ends it
            within the body; `drips` sends the body byte by byte, over and over, while someone listens.
    """

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    how: str = "whole"


Reply = Says | Callable[[Asked], Says]


class RerankServer:
    """Answers requests with the scripted replies in turn, then with `then` for ever."""

    def __init__(self, *script: Reply, then: Reply | None = None) -> None:
        self.asked: list[Asked] = []
        self._script = list(script)
        self._then = then
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    @property
    def bodies(self) -> list[Any]:
        return [asked.body for asked in self.asked]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _reply(self, asked: Asked) -> Says:
        with self._lock:
            self.asked.append(asked)
            reply = self._script.pop(0) if self._script else self._then
        if reply is None:
            return Says(500, {"message": "the script is over"})
        return reply if isinstance(reply, Says) else reply(asked)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                says = server._reply(Asked(self.path, headers, json.loads(content)))
                try:
                    self._say(says)
                except OSError:
                    self.close_connection = True

            def _say(self, says: Says) -> None:
                if says.how in ("hangs", "cuts"):
                    if says.how == "hangs":
                        server._closing.wait(30)
                    self.close_connection = True
                    return
                body = says.body if isinstance(says.body, bytes) else json.dumps(says.body).encode()
                self.send_response(says.status)
                for name, value in says.headers.items():
                    self.send_header(name, value)
                length = len(body) + (2**30 if says.how in ("breaks", "drips") else 0)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(body)
                while says.how == "drips" and not server._closing.is_set():
                    self.wfile.write(body)
                if says.how == "breaks":
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def speak(family: str, number_of: Callable[[str], float], *, tokens: bool = True) -> Callable[[Asked], Says]:
    """A service of a family: refuses what it does not document, and answers best first.

    Args:
        family: as in a reranker's name.
        number_of: the number that it gives a text.
        tokens: whether it says what it counted.
    """

    def answer(asked: Asked) -> Says:
        field_of_texts = TEXTS.get(family, "documents")
        texts = asked.body.get(field_of_texts, [])
        unknown = set(asked.body) - KNOWN[family]
        if asked.path != PATHS[family]:
            return Says(404, {"detail": "Not Found"})
        if unknown or not texts or len(texts) > MOST.get(family, len(texts)):
            return Says(400, {"message": f"bad request: {sorted(unknown)}, {len(texts)} texts"})
        rows = sorted(((number_of(text), row) for row, text in enumerate(texts)), reverse=True)
        name = "score" if family in ("tei", "mixedbread") else "relevance_score"
        results = [{"index": row, name: number} for number, row in rows]
        count = sum(len(text.split()) for text in texts)
        if family == "tei":
            return Says(200, results, {"x-compute-tokens": str(count)} if tokens else {})
        if family == "cohere":
            meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1.0}}
            meta |= {"tokens": {"input_tokens": float(count)}} if tokens else {}
            return Says(200, {"id": "1", "results": results, "meta": meta})
        if family == "vllm":
            results = [{**result, "document": {"text": texts[result["index"]]}} for result in results]
        usage = {"usage": {"prompt_tokens": count, "total_tokens": count}} if tokens else {}
        where = "data" if family in ("voyage", "mixedbread") else "results"
        return Says(200, {"object": "list", "model": "m", where: results, **usage})

    return answer


def chat(family: str, content: Any) -> Says:
    """The answer of a chat API that holds this text."""
    message = {"role": "assistant", "content": content}
    if family == "ollama":
        counts = {"prompt_eval_count": 90, "eval_count": 10}
        return Says(200, {"model": "m", "message": message, "done": True, "done_reason": "stop", **counts})
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return Says(200, {"object": "chat.completion", "choices": [choice], "usage": {"total_tokens": 100}})


def refusal(status: int, message: str, **headers: str) -> Says:
    """An error in the form of OpenAI's and vLLM's."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Says(status, {"error": {"message": message, "type": "error", "code": status}}, named)

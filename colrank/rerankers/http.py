"""One JSON request to a service: its time limit, its tries, and one sentence for whatever goes wrong."""

from __future__ import annotations

import json
import random
import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from time import monotonic, sleep
from types import ModuleType
from typing import Any

from colrank.errors import InputError, MissingExtra, StageFailed
from colrank.rerankers.address import Address
from colrank.types import Usage

RETRIED = frozenset({408, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed."""

LONGEST_WAIT = 60.0
"""Seconds; a service that asks for a longer wait is not waited for."""

FIRST_WAIT = 0.5
MOST_BYTES = 64 * 2**20
_SAID = 200
_HIDDEN = "[key]"
_HINT = 8


@dataclass(slots=True)
class Spent:
    """What answering one query took so far.

    Attributes:
        calls: requests, those sent again among them.
        seconds: of waiting for the service, between tries too.
        tokens: as the service counted them; None once an answer did not say.
    """

    calls: int = 0
    seconds: float = 0.0
    tokens: int | None = 0

    def count_tokens(self, said: Any) -> None:
        """Add a service's count; anything but a whole number makes the sum unknown."""
        known = isinstance(said, int | float) and not isinstance(said, bool) and 0 <= said < 2**53
        if not known or said != int(said):
            self.tokens = None
        elif self.tokens is not None:
            self.tokens += int(said)

    def usage(self, pairs: int) -> Usage:
        """The same as a reranker reports it. What the service cut is not known."""
        return Usage(pairs=pairs, tokens=self.tokens, calls=self.calls, seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class Reply:
    """A service's answer: decoded JSON, and the headers by lower-case name."""

    body: Any
    headers: Mapping[str, str]

    def inside(self, where: Sequence[str | int]) -> Any:
        """What stands in the body under these names and places, None where nothing does."""
        found = self.body
        for name in where:
            if isinstance(name, str):
                found = found.get(name) if isinstance(found, dict) else None
            else:
                found = found[name] if isinstance(found, list) and len(found) > name else None
        return found


class Refused(StageFailed):
    """An answer that the same request would get again; `said` is the service's own message."""

    def __init__(self, sentence: str, status: int, said: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.said = said


class Client:
    """Posts JSON to one address.

    A request that times out, cannot be delivered, is cut, or is answered with one of `RETRIED` is sent
    again, after a wait that doubles from half a second (less up to a half of it by chance) or that the
    service asks for. No redirect is followed: the key would go with it.

    Args:
        name: the reranker's, which begins each sentence.
        address: where to, and with which key.
        timeout: seconds that a request may take.
        retries: how often it is sent again.

    Raises:
        MissingExtra: httpx is not installed.
        InputError: httpx cannot use the URL.
    """

    def __init__(self, name: str, address: Address, timeout: float, retries: int) -> None:
        self.name = name
        self.address = address
        self._timeout = timeout
        self._retries = retries
        self._httpx = httpx = _import_httpx(name)
        headers = {"content-type": "application/json", "accept": "application/json"}
        if address.authorization is not None:
            headers["authorization"] = address.authorization
        try:
            self._url = httpx.URL(address.url)
        except httpx.InvalidURL as error:
            raise InputError(f"{name} cannot be asked at {address.url}; check the URL.") from error
        try:
            self._client = httpx.Client(
                headers=headers, timeout=timeout, follow_redirects=False, verify=_trusted()
            )
        except (ImportError, ValueError, httpx.InvalidURL):
            # What httpx says of a proxy can hold its password.
            raise InputError(
                f"{name} cannot be asked through the proxy that the environment names; check HTTPS_PROXY, "
                "HTTP_PROXY and ALL_PROXY."
            ) from None
        weakref.finalize(self, self._client.close)

    def post(self, body: Mapping[str, Any], spent: Spent) -> Reply:
        """Send `body` until it is answered, and count it in `spent`.

        Raises:
            Refused: an answer that sending again would not change.
            StageFailed: no answer after the last try, or one that is no JSON.
        """
        # A lone surrogate, which no UTF-8 can hold, must not fail a whole query.
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        begin = monotonic()
        try:
            for attempt in range(self._retries + 1):
                last = attempt == self._retries
                spent.calls += 1
                wait = FIRST_WAIT * 2 ** min(attempt, 7) * random.uniform(0.5, 1)
                try:
                    status, headers, answer = self._once(content)
                except self._httpx.TransportError as error:
                    if last or isinstance(
                        error, self._httpx.LocalProtocolError | self._httpx.UnsupportedProtocol
                    ):
                        raise self._undelivered(error, attempt + 1) from error
                else:
                    if 200 <= status < 300:
                        return Reply(self._decoded(answer), headers)
                    if last or status not in RETRIED:
                        raise self._refused(status, answer, attempt + 1)
                    wait = self._asked_wait(status, headers.get("retry-after", "")) or wait
                sleep(min(wait, LONGEST_WAIT))
            raise AssertionError("the last try returns or raises")
        finally:
            spent.seconds += monotonic() - begin

    def failure(self, what: str, remedy: str) -> StageFailed:
        """The error of one sentence: what happened, and what to do."""
        return StageFailed(f"{self.name} {what}: {remedy}.")

    def unusable(self, why: str) -> StageFailed:
        """The error for an answer that is JSON and not what was asked for."""
        return self.failure(
            f"gave an answer that cannot be used ({why})",
            f"check that {self.address.url} is a service of that kind, or ask again",
        )

    def _once(self, content: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body. httpx limits each read; the whole is limited here."""
        deadline = monotonic() + self._timeout
        parts: list[bytes] = []
        size = 0
        try:
            with self._client.stream("POST", self._url, content=content) as response:
                for part in response.iter_bytes():
                    parts.append(part)
                    size += len(part)
                    if size > MOST_BYTES:
                        raise self.unusable(f"more than {MOST_BYTES >> 20} MiB")
                    if monotonic() > deadline:
                        raise self._httpx.ReadTimeout("the answer takes too long")
                headers = {name.lower(): value for name, value in response.headers.items()}
                return response.status_code, headers, b"".join(parts)
        except self._httpx.DecodingError as error:
            raise self.unusable("it cannot be decompressed") from error

    def _decoded(self, answer: bytes) -> Any:
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise self.unusable("it is no JSON") from error

    def _undelivered(self, error: Exception, tries: int) -> StageFailed:
        httpx, after = self._httpx, _after(tries)
        if isinstance(error, httpx.ConnectError | httpx.ProxyError):
            why = f" ({said})" if (said := self._one_line(str(error))) else ""
            return self.failure(
                f"cannot be reached at {self.address.url}{after}{why}",
                "check the address, and that the service runs",
            )
        if isinstance(error, httpx.TimeoutException):
            return self.failure(
                f"did not answer within {self._timeout:g} s{after}",
                "raise rerank_timeout, or lower candidates",
            )
        if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
            return self.failure(f"cannot be asked at {self.address.url}", "check the address")
        return self.failure(f"cut the connection{after}", "ask again later, or raise rerank_retries")

    def _refused(self, status: int, answer: bytes, tries: int) -> Refused:
        said = self._one_line(_message(answer))
        quoted = f' ("{said}")' if said else ""
        sentence = self.failure(f"answered {status}{quoted}{_after(tries)}", self._remedy(status))
        return Refused(str(sentence), status, said)

    def _remedy(self, status: int) -> str:
        if status in (401, 403):
            if not self.address.variable:
                return "check the user and password in its URL"
            verb = "check the key in" if self.address.authorization else "set its key as"
            return f"{verb} the environment variable {self.address.variable}"
        if status == 429:
            return "ask again later, or raise rerank_retries"
        if status in RETRIED or status >= 500:
            return "ask again later, or check the service"
        if status == 404:
            return f"check the model's name and the address {self.address.url}"
        if status == 413:
            return "send it less: lower candidates, or index shorter passages"
        if 300 <= status < 400:
            return "it has moved, and keys are not sent after it: give its new address as rerank_url"
        return "check the model's name, the address, and how long query and passages are"

    def _asked_wait(self, status: int, asked: str) -> float:
        """Seconds that a `Retry-After` asks for, 0 where it asks for none; StageFailed when too many."""
        wait = _retry_after(asked)
        if wait > LONGEST_WAIT:
            raise self.failure(
                f"answered {status} and asks to wait {wait:,.0f} s, more than the {LONGEST_WAIT:g} s that "
                "are waited for",
                "ask again then, or lower candidates",
            )
        return wait

    def _one_line(self, said: str) -> str:
        """A service's message in one line of at most 200 characters, without control characters and keys."""
        said = "".join(character if character.isprintable() else " " for character in said)
        said = " ".join(said.split())
        for secret in self.address.secrets:
            # A key may come back cut short, as a hint which one it was.
            hint = re.escape(secret[:_HINT]) + r"\S*" if len(secret) > _HINT else re.escape(secret)
            said = re.sub(hint, _HIDDEN, said, flags=re.IGNORECASE)
        said = said.replace('"', "'").rstrip(". ")
        return said if len(said) <= _SAID else said[: _SAID - 1].rstrip() + "…"


def _import_httpx(name: str) -> ModuleType:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtra(f"{name} is asked over httpx: run `pip install 'colrank[rerank]'`.") from error
    return httpx


@cache
def _trusted() -> Any:
    """The certificates that are trusted, read once a process: that takes longer than many a request."""
    return _import_httpx("").create_ssl_context()


def _after(tries: int) -> str:
    return f" after {tries} tries" if tries > 1 else ""


def _message(answer: bytes) -> str:
    """What an error body says, in the forms of these services; "" for a page of HTML."""
    text = answer[:MOST_BYTES].decode("utf-8", "replace").strip()
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.startswith("<") else text
    for _ in range(4):
        if isinstance(found, list) and found:
            found = found[0]
        elif isinstance(found, dict):
            names = (name for name in ("message", "error", "detail", "msg") if found.get(name))
            found = found.get(next(names, ""), "")
    return found if isinstance(found, str) else ""


def _retry_after(asked: str) -> float:
    """Seconds, from a number of them or an HTTP date; 0 for what is neither."""
    asked = asked.strip()
    if re.fullmatch(r"\d+(\.\d+)?", asked, re.ASCII):
        return float(asked)
    try:
        date = parsedate_to_datetime(asked)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return max(0.0, (date - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return 0.0

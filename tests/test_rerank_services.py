"""Reranking services: each one's documented form, one sigmoid, tries, keys, and every answer that is none."""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest
from rerank_server import RerankServer, Says, refusal, speak

from colrank.config import CascadeConfig
from colrank.errors import InputError, MissingExtra, StageFailed
from colrank.rerankers import http
from colrank.rerankers.address import SHARED_KEY, find_address, shown
from colrank.rerankers.base import LOGIT, Reranker
from colrank.rerankers.families import FAMILIES
from colrank.rerankers.services import COSINE, ServiceReranker

QUERY = "how long is the guarantee"
TEXTS = ["shipping takes a week", "six months", "claim it with the receipt", "", "größe: señal — 保証"]
PUBLIC = ("cohere", "voyage", "jina", "mixedbread")
SERVERS = ("tei", "vllm", "infinity", "llamacpp")
SECRET = "sk-a-very-secret-key-0123456789"

BODIES: dict[str, dict[str, Any]] = {
    "cohere": {"model": "m", "documents": TEXTS},
    "voyage": {"model": "m", "documents": TEXTS, "return_documents": False, "truncation": True},
    "jina": {"model": "m", "documents": TEXTS, "return_documents": False},
    "mixedbread": {"model": "m", "input": TEXTS, "return_input": False},
    "tei": {"texts": TEXTS, "raw_scores": True, "return_text": False, "truncate": True},
    "vllm": {"documents": TEXTS, "use_activation": False, "truncate_prompt_tokens": -1},
    "infinity": {"documents": TEXTS, "raw_scores": True, "return_documents": False},
    "llamacpp": {"documents": TEXTS},
}


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    keys = [key for family in FAMILIES.values() for key in family.keys]
    proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
    for variable in [*keys, SHARED_KEY, *proxies, *(name.lower() for name in proxies)]:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def waits(monkeypatch):
    """What was waited between tries; nobody sleeps."""
    seconds: list[float] = []
    monkeypatch.setattr(http, "sleep", seconds.append)
    return seconds


def config(**options: Any) -> CascadeConfig:
    """A configuration that names a reranker, as options of one have to; which one is given apart from it."""
    return CascadeConfig(rerank="family:model", **options)


def reranker(family: str, server: RerankServer, **options: Any) -> ServiceReranker:
    """A reranker of a family that asks the server on this machine."""
    options = {"rerank_timeout": 60.0, **options}
    if family in PUBLIC:
        return ServiceReranker(family, "m", config(rerank_url=server.url, **options))
    return ServiceReranker(family, server.url, config(**options))


def share(text: str) -> float:
    """A probability that tells texts apart."""
    return (sum(text.encode()) % 97) / 97


def logit(text: str) -> float:
    return 12 * share(text) - 8


def answered(results: Any) -> Says:
    return Says(200, {"results": results})


# --- the form of each service -----------------------------------------------------------------------


@pytest.mark.parametrize("family", [*PUBLIC, *SERVERS])
def test_each_service_is_asked_and_understood_as_it_documents(family):
    number_of = share if family in PUBLIC else logit
    with RerankServer(then=speak(family, number_of)) as server:
        asked = reranker(family, server)
        found = asked.score(QUERY, TEXTS)
        assert server.bodies == [{"query": QUERY, **BODIES[family]}]
    numbers = np.array([number_of(text) for text in TEXTS])
    assert found.scores.dtype == np.float64
    if family in PUBLIC:
        assert found.scores == pytest.approx(numbers)
        assert found.raw is None
    else:
        assert found.scores == pytest.approx(1 / (1 + np.exp(-numbers)))
        assert found.raw == pytest.approx(numbers)
        assert found.raw_name == LOGIT
    assert isinstance(asked, Reranker)
    assert asked.steady
    assert not asked.listwise
    assert found.warnings == ()
    counted = None if family == "infinity" else sum(len(text.split()) for text in TEXTS)
    assert (found.usage.calls, found.usage.pairs, found.usage.tokens) == (1, len(TEXTS), counted)
    assert found.usage.cut is None
    assert found.usage.seconds > 0


@pytest.mark.parametrize("family", ["cohere", "voyage", "tei", "llamacpp"])
def test_tokens_are_unknown_where_the_service_does_not_say(family):
    number_of = share if family in PUBLIC else logit
    with RerankServer(then=speak(family, number_of, tokens=False)) as server:
        assert reranker(family, server).score(QUERY, TEXTS).usage.tokens is None


@pytest.mark.parametrize("family", [*PUBLIC, *SERVERS])
def test_no_text_is_no_call(family):
    with RerankServer() as server:
        found = reranker(family, server).score(QUERY, [])
        assert server.asked == []
    assert found.scores.shape == (0,)
    assert found.usage.calls == 0


@pytest.mark.parametrize(("family", "most"), [("tei", 32), ("cohere", 1000), ("voyage", 1000)])
def test_more_texts_than_a_service_takes_go_in_several_requests(family, most):
    texts = [f"text {number}" for number in range(2 * most + 1)]
    number_of = logit if family == "tei" else share
    with RerankServer(then=speak(family, number_of)) as server:
        found = reranker(family, server).score(QUERY, texts)
        field = "texts" if family == "tei" else "documents"
        assert [len(body[field]) for body in server.bodies] == [most, most, 1]
    numbers = np.array([number_of(text) for text in texts])
    got = found.raw if family == "tei" else found.scores
    assert got == pytest.approx(numbers)
    assert (found.usage.calls, found.usage.pairs, found.usage.tokens) == (3, len(texts), 2 * len(texts))


@pytest.mark.parametrize("family", ["vllm", "infinity", "llamacpp"])
def test_a_server_of_several_models_is_told_which(family):
    with RerankServer(then=speak(family, logit)) as server:
        asked = ServiceReranker(family, f"{server.url}/#BAAI/bge-reranker-v2-m3", config())
        asked.score(QUERY, TEXTS)
        assert server.bodies[0]["model"] == "BAAI/bge-reranker-v2-m3"
        assert asked.name == f"{family}:{server.url}#BAAI/bge-reranker-v2-m3"


def test_the_longest_pair_is_set_where_a_service_has_such_a_field():
    with RerankServer(then=speak("vllm", logit)) as server:
        reranker("vllm", server, rerank_max_length=512).score(QUERY, TEXTS)
        assert server.bodies[0]["truncate_prompt_tokens"] == 512


# --- exactly one sigmoid ----------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["vllm", "infinity", "llamacpp"])
def test_probabilities_of_a_server_that_gives_no_logits_get_no_sigmoid(family):
    """llama.cpp with Qwen3-Reranker, or servers too old for the field: a sigmoid would give .5 to .73."""

    def number_of(text: str) -> float:
        return {"Paris is the capital of France.": 0.99}.get(text, share(text) / 10)

    with RerankServer(then=speak(family, number_of)) as server:
        asked = reranker(family, server)
        first, second = asked.score(QUERY, TEXTS), asked.score(QUERY, TEXTS[:1])
        assert len(server.asked) == 3
    assert first.scores == pytest.approx([number_of(text) for text in TEXTS])
    assert first.raw is None
    assert second.scores[0] == first.scores[0]
    assert (first.usage.calls, second.usage.calls) == (2, 1)
    assert first.usage.pairs == len(TEXTS)


@pytest.mark.parametrize("family", ["vllm", "infinity", "llamacpp"])
def test_logits_that_look_like_probabilities_get_their_sigmoid(family):
    """The first texts alone do not tell; a pair that answers and two that do not tell them apart."""
    number_of = {"Paris is the capital of France.": 6.0, "six months": 0.4, "a week": 0.1}
    with RerankServer(then=speak(family, lambda text: number_of.get(text, -9.0))) as server:
        asked = reranker(family, server)
        found = asked.score(QUERY, ["a week", "six months"])
        assert found.raw == pytest.approx([0.1, 0.4])
        assert found.scores == pytest.approx([1 / (1 + math.exp(-0.1)), 1 / (1 + math.exp(-0.4))])
        again = asked.score(QUERY, ["six months"])
        assert again.scores[0] == found.scores[1]
        assert len(server.asked) == 3


def test_cosines_are_scaled_and_kept():
    def number_of(text: str) -> float:
        return share(text) - 0.4

    with RerankServer(then=speak("jina", number_of)) as server:
        asked = ServiceReranker("jina", "jina-reranker-v3.5", config(rerank_url=server.url))
        found = asked.score(QUERY, TEXTS)
    assert asked.listwise
    assert found.raw == pytest.approx([number_of(text) for text in TEXTS])
    assert found.scores == pytest.approx((1 + found.raw) / 2)
    assert found.raw_name == COSINE
    with RerankServer(then=speak("llamacpp", number_of)) as server:
        assert reranker("llamacpp", server).score(QUERY, TEXTS).raw_name == COSINE


@pytest.mark.parametrize("number", [1.2, -0.01, 7.5, 1 + 3e-6])
def test_a_probability_outside_zero_and_one_fails(number):
    with RerankServer(answered([{"index": 0, "relevance_score": number}])) as server:
        with pytest.raises(StageFailed, match=r"cohere:m gave .* as a probability") as raised:
            reranker("cohere", server).score(QUERY, ["a"])
        assert_one_sentence(raised.value)


def test_rounding_beyond_the_ends_is_clipped():
    rows = [{"index": 0, "relevance_score": 1 + 5e-7}, {"index": 1, "relevance_score": -5e-7}]
    with RerankServer(answered(rows)) as server:
        assert reranker("cohere", server).score(QUERY, ["a", "b"]).scores.tolist() == [1.0, 0.0]


# --- answers that are none --------------------------------------------------------------------------


def assert_one_sentence(error: Exception) -> None:
    text = str(error)
    assert text.endswith(".")
    assert "\n" not in text
    assert ". " not in text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{", "no JSON"),
        (b"\xff\xfe\x00", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"", "no JSON"),
        ([], "no list of results"),
        ({"data": []}, "no list of results"),
        ({"results": {}}, "no list of results"),
        ({"results": []}, "2 of 2 texts are missing"),
        ({"results": [1, 2]}, "a result is no object"),
        ({"results": [{"index": 0, "relevance_score": 0.5}]}, "1 of 2 texts are missing"),
        ({"results": [{"index": 0, "relevance_score": 0.5}] * 2}, "index 0 comes twice"),
        *(
            ({"results": [{"index": index, "relevance_score": 0.5}]}, "not one of 2 texts")
            for index in (2, -1, 0.0, "0", None, True, 10**30)
        ),
        ({"results": [{"relevance_score": 0.5}]}, "not one of 2 texts"),
        *(
            ({"results": [{"index": 0, "relevance_score": number}]}, "no finite number")
            for number in (None, "0.5", True, math.nan, math.inf, 10**400, [0.5])
        ),
        ({"results": [{"index": 0}]}, "no finite number"),
    ],
)
def test_an_answer_that_is_none_fails_and_says_why(body, why, waits):
    with RerankServer(Says(200, body)) as server:
        with pytest.raises(StageFailed, match=why) as raised:
            reranker("cohere", server).score(QUERY, ["a", "b"])
        assert len(server.asked) == 1
    assert "cohere:m" in str(raised.value)
    assert_one_sentence(raised.value)
    assert waits == []


# --- failures and tries -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        *((refusal(status, "sorry"), f"answered {status}") for status in (408, 429, 500, 502, 503, 504)),
        (Says(how="cuts"), "cut the connection"),
        (Says(how="breaks", body=b'{"results": ['), "cut the connection"),
    ],
)
def test_what_may_pass_is_tried_again_and_counted(failure, why, waits):
    with RerankServer(failure, failure, then=speak("cohere", share)) as server:
        found = reranker("cohere", server).score(QUERY, TEXTS)
        assert server.bodies[0] == server.bodies[1] == server.bodies[2]
    assert found.scores == pytest.approx([share(text) for text in TEXTS])
    assert found.usage.calls == 3
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1
    waits.clear()
    with RerankServer(then=failure) as server:
        with pytest.raises(StageFailed, match=f"{why}.* after 2 tries") as raised:
            reranker("cohere", server, rerank_retries=1).score(QUERY, TEXTS)
        assert len(server.asked) == 2
    assert len(waits) == 1
    assert_one_sentence(raised.value)


def test_a_service_that_does_not_answer_in_time_is_asked_again(monkeypatch):
    with RerankServer(Says(how="hangs"), then=speak("cohere", share)) as server:
        asked = reranker("cohere", server, rerank_timeout=0.05)
        client = asked._client

        def patience(_: float) -> None:
            client._timeout = client._client.timeout = 60

        monkeypatch.setattr(http, "sleep", patience)
        assert asked.score(QUERY, TEXTS).usage.calls == 2


def test_a_service_that_never_answers_fails(waits):
    with RerankServer(then=Says(how="hangs")) as server:
        asked = reranker("cohere", server, rerank_timeout=0.05, rerank_retries=2)
        with pytest.raises(StageFailed, match=r"did not answer within 0\.05 s after 3 tries") as raised:
            asked.score(QUERY, TEXTS)
    assert len(waits) == 2
    assert_one_sentence(raised.value)


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 413, 422, 501])
def test_what_will_not_pass_is_not_tried_again(status, waits):
    with RerankServer(refusal(status, "no such thing", Location="http://127.0.0.1:9/")) as server:
        with pytest.raises(
            StageFailed, match=f'cohere:m answered {status} \\("no such thing"\\): '
        ) as raised:
            reranker("cohere", server).score(QUERY, TEXTS)
        assert len(server.asked) == 1
    assert waits == []
    assert_one_sentence(raised.value)


def test_nobody_there(waits):
    with RerankServer() as server:
        url = server.url
    asked = ServiceReranker("tei", url, config(rerank_retries=2))
    with pytest.raises(
        StageFailed, match=f"tei:{url} cannot be reached at {url}/rerank after 3 tries"
    ) as raised:
        asked.score(QUERY, TEXTS)
    assert len(waits) == 2
    assert_one_sentence(raised.value)


def test_an_answer_that_drips_is_ended_by_the_time_limit(monkeypatch, waits):
    clock = iter(range(10**6))
    monkeypatch.setattr(http, "monotonic", lambda: float(next(clock)))
    with (
        RerankServer(then=Says(how="drips", body=b" " * 65536)) as server,
        pytest.raises(StageFailed, match="did not answer within 60 s"),
    ):
        reranker("cohere", server, rerank_retries=0).score(QUERY, TEXTS)


def test_an_answer_without_end_is_ended_by_its_size(monkeypatch):
    monkeypatch.setattr(http, "MOST_BYTES", 2**20)
    with (
        RerankServer(then=Says(how="drips", body=b" " * 65536)) as server,
        pytest.raises(StageFailed, match="more than 1 MiB"),
    ):
        reranker("cohere", server, rerank_retries=0).score(QUERY, TEXTS)


@pytest.mark.parametrize(
    ("asks", "least", "most"),
    [
        ("7", 7, 7),
        ("2.5", 2.5, 2.5),
        ("60", 60, 60),
        (lambda: format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True), 20, 30),
        (lambda: format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True), 0.25, 0.5),
        ("0", 0.25, 0.5),
        ("soon", 0.25, 0.5),
        ("-5", 0.25, 0.5),
        ("", 0.25, 0.5),
    ],
)
def test_a_wait_that_is_asked_for_is_kept(asks, least, most, waits):
    asks = asks() if callable(asks) else asks
    with RerankServer(Says(429, headers={"Retry-After": asks}), then=speak("voyage", share)) as server:
        assert reranker("voyage", server).score(QUERY, TEXTS).usage.calls == 2
    assert least <= waits[0] <= most
    assert len(waits) == 1


@pytest.mark.parametrize("asks", ["61", "3600", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_wait_that_is_too_long_fails_and_says_how_long(asks, waits):
    with RerankServer(then=Says(503, headers={"Retry-After": asks})) as server:
        with pytest.raises(StageFailed, match=r"answered 503 and asks to wait [\d,inf]+ s") as raised:
            reranker("voyage", server).score(QUERY, TEXTS)
        assert len(server.asked) == 1
    assert waits == []
    assert_one_sentence(raised.value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"message": "model not found"}, '("model not found")'),
        ({"detail": [{"loc": ["body"], "msg": "field required"}]}, '("field required")'),
        ({"error": "Model is overloaded", "error_type": "overloaded"}, '("Model is overloaded")'),
        ({"error": {"message": "too\r\n  long\x1b[31m\x00.", "code": 400}}, '("too long [31m")'),
        (b"plain words", '("plain words")'),
        (b"<html><body>Bad gateway</body></html>", "answered 400: "),
        (b"", "answered 400: "),
        ({"message": 'say "no"'}, "(\"say 'no'\")"),
        ({"message": {"a": 1}}, "answered 400: "),
    ],
)
def test_the_services_own_words_in_one_line(body, said):
    with RerankServer(Says(400, body)) as server, pytest.raises(StageFailed) as raised:
        reranker("cohere", server).score(QUERY, TEXTS)
    assert said in str(raised.value)
    assert_one_sentence(raised.value)


def test_long_words_are_shortened():
    long = refusal(400, "far too long " * 1000)
    with RerankServer(long) as server, pytest.raises(StageFailed) as raised:
        reranker("cohere", server).score(QUERY, TEXTS)
    quoted = str(raised.value).split('"')[1]
    assert len(quoted) <= 200
    assert quoted.endswith("…")


def test_threads_share_a_reranker():
    with RerankServer(then=speak("tei", logit)) as server:
        asked = reranker("tei", server)
        found: list[Any] = []
        threads = [
            threading.Thread(target=lambda: found.append(asked.score(QUERY, TEXTS).usage.calls))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [1] * 8


# --- keys -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", PUBLIC)
def test_a_public_service_needs_its_key_and_gets_no_other(family, monkeypatch):
    variables = FAMILIES[family].keys
    monkeypatch.setenv(SHARED_KEY, "shared")
    with pytest.raises(InputError, match=f"{family}:m needs a key.*{variables[0]}"):
        ServiceReranker(family, "m", config())
    for variable in variables:
        monkeypatch.setenv(variable, f" {SECRET}\n")
        asked = ServiceReranker(family, "m", config())
        address = asked._client.address
        assert address.url == FAMILIES[family].home + FAMILIES[family].path
        assert (address.authorization, address.variable) == (f"Bearer {SECRET}", variable)
        for thing in (asked, asked._client, address, asked.name):
            assert SECRET not in repr(thing)
        monkeypatch.delenv(variable)


def test_a_public_services_key_goes_nowhere_else(monkeypatch):
    monkeypatch.setenv("CO_API_KEY", SECRET)
    for url in ("http://api.cohere.com", "https://api.cohere.com.evil.example", "https://api.cohere.com:444"):
        asked = ServiceReranker("cohere", "m", config(rerank_url=url))
        assert asked._client.address.authorization is None
    same = ServiceReranker("cohere", "m", config(rerank_url="https://API.cohere.com:443/v2/"))
    assert same._client.address.authorization == f"Bearer {SECRET}"
    with RerankServer(then=speak("cohere", share)) as server:
        reranker("cohere", server).score(QUERY, TEXTS)
        assert "authorization" not in server.asked[0].headers
        monkeypatch.setenv(SHARED_KEY, "shared")
        reranker("cohere", server).score(QUERY, TEXTS)
        assert server.asked[1].headers["authorization"] == "Bearer shared"


def test_the_key_does_not_follow_a_redirect(monkeypatch):
    monkeypatch.setenv(SHARED_KEY, SECRET)
    with RerankServer(then=speak("cohere", share)) as elsewhere:
        moved = Says(307, headers={"Location": f"{elsewhere.url}/v2/rerank"})
        with RerankServer(then=moved) as server, pytest.raises(StageFailed, match="it has moved"):
            reranker("cohere", server).score(QUERY, TEXTS)
        assert elsewhere.asked == []


def test_user_and_password_of_a_url_are_sent_and_not_shown(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(SHARED_KEY, SECRET)
    with RerankServer(refusal(403, "dXNlcjpwQHNzdzByZA== is not user:p@ssw0rd")) as server:
        url = f"http://user:p%40ssw0rd@{server.host}"
        asked = ServiceReranker("tei", url, config())
        with pytest.raises(StageFailed, match="check the user and password") as raised:
            asked.score(QUERY, TEXTS)
        assert server.asked[0].headers["authorization"] == "Basic dXNlcjpwQHNzdzByZA=="
    assert asked.name == f"tei:{server.url}"
    told = f"{raised.value} {raised.value.__cause__!r} {asked!r} {asked._client!r} {caplog.text}"
    for secret in ("ssw0rd", "dXNlcj", SECRET):
        assert secret not in told


@pytest.mark.parametrize("echo", [SECRET, SECRET[:12] + "***", SECRET.upper(), "a " * 96 + SECRET])
@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_key_that_comes_back_is_not_shown(echo, status, monkeypatch, waits, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(SHARED_KEY, SECRET)
    echoed = refusal(status, f"Incorrect key: {echo}")
    with RerankServer(then=echoed) as server, pytest.raises(StageFailed) as raised:
        reranker("cohere", server, rerank_retries=1).score(QUERY, TEXTS)
    told = f"{raised.value} {raised.value.__cause__!r} {caplog.text}".lower()
    assert SECRET[:8] not in told
    if status == 401:
        assert f"check the key in the environment variable {SHARED_KEY}" in str(raised.value)
    assert_one_sentence(raised.value)


def test_a_missing_key_is_named_when_one_is_asked_for():
    wanted = f"set its key as the environment variable {SHARED_KEY}"
    with RerankServer(refusal(401, "no key")) as server, pytest.raises(StageFailed, match=wanted):
        reranker("tei", server).score(QUERY, TEXTS)


def test_a_key_that_is_none_is_refused_without_showing_it(monkeypatch):
    for key in ("two words", "line\nbreak", "schlüssel"):
        monkeypatch.setenv(SHARED_KEY, key)
        with pytest.raises(InputError, match=SHARED_KEY) as raised:
            ServiceReranker("tei", "http://localhost:1", config())
        assert key not in str(raised.value)


# --- addresses and options --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "path", "whole"),
    [
        ("http://h:1", "/v1/rerank", "http://h:1/v1/rerank"),
        ("http://h/", "/v1/rerank", "http://h/v1/rerank"),
        ("http://h/v1", "/v1/rerank", "http://h/v1/rerank"),
        ("http://h/v1/rerank/", "/v1/rerank", "http://h/v1/rerank"),
        ("http://h/rerank", "/v2/rerank", "http://h/rerank"),
        ("https://H/api/v1", "/v1/rerank", "https://h/api/v1/rerank"),
        ("http://h/v1", "/v1/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1/chat", "/v1/chat/completions", "http://h/v1/chat/completions"),
    ],
)
def test_the_path_is_appended_but_for_what_is_there(url, path, whole):
    assert find_address("x", url, home=None, path=path).url == whole


@pytest.mark.parametrize(
    "url",
    ["localhost:8080", "ftp://h", "http://", "http://[::1", "http://h:port", "h", "http://a b", "file:///x"],
)
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(InputError, match="http://localhost:8080"):
        ServiceReranker("tei", url, config())
    with pytest.raises(InputError, match="http://localhost:8080"):
        ServiceReranker("cohere", "m", config(rerank_url=url))
    assert shown(url) == ""


def test_keys_in_a_query_are_refused_without_showing_them():
    with pytest.raises(InputError, match=SHARED_KEY) as raised:
        ServiceReranker("tei", f"http://user:{SECRET}@h/?key={SECRET}", config())
    assert SECRET not in str(raised.value)


def test_a_server_can_be_moved():
    with RerankServer(then=speak("tei", logit)) as server:
        asked = ServiceReranker("tei", "http://localhost:1", config(rerank_url=server.url))
        assert asked.score(QUERY, TEXTS).usage.calls == 1
        assert asked.name == "tei:http://localhost:1"


@pytest.mark.parametrize(
    "options",
    [
        {"rerank_windows": True},
        {"rerank_instruction": "prefer new ones"},
        {"rerank_max_length": 512},
        {"rerank_device": "cpu"},
        {"rerank_dtype": "float16"},
        {"rerank_backend": "onnx"},
    ],
)
def test_options_of_other_rerankers_are_refused(options):
    with pytest.raises(InputError, match=f"has no use for {next(iter(options))}"):
        ServiceReranker("tei", "http://localhost:1", config(**options))


def test_what_cannot_be_asked_at_all(monkeypatch):
    with pytest.raises(InputError, match="no service 'other'"):
        ServiceReranker("other", "m", config())
    with pytest.raises(InputError, match="needs the name of a model"):
        ServiceReranker("cohere", " ", config())
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtra, match=r"pip install 'colrank\[rerank\]'"):
        ServiceReranker("tei", "http://localhost:1", config())


def test_a_proxy_that_cannot_be_used_is_named_and_its_password_is_not(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", f"gopher://user:{SECRET}@proxy:1")
    with pytest.raises(InputError, match="ALL_PROXY") as raised:
        ServiceReranker("tei", "http://localhost:1", config())
    assert SECRET not in f"{raised.value} {raised.value.__cause__}"


def test_text_that_no_encoding_holds_does_not_fail_a_query():
    with RerankServer(then=speak("tei", logit)) as server:
        reranker("tei", server).score(QUERY, ["a \ud800 b", "\x00"])
        assert json.dumps(server.bodies[0]["texts"]) == json.dumps(["a ? b", "\x00"])

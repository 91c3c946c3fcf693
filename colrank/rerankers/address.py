"""Where a service is, which key goes there, and what of both may be shown."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from colrank.errors import InputError

SHARED_KEY = "COLRANK_RERANK_KEY"
"""Environment variable of the key for an address that is not a public service's own."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests go, and with which key. Only `url` may be shown.

    Attributes:
        url: the whole address, without user and password.
        variable: environment variable that holds the key, or that may hold one; "" where the key came as
            user and password in a URL.
        authorization: the header's value; None sends none.
        secrets: what must never be shown: the key, the user and the password in every form they are sent.
    """

    url: str
    variable: str = ""
    authorization: str | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def find_address(
    name: str, given: str | None, *, home: str | None, path: str, keys: Sequence[str] = ()
) -> Address:
    """Where a service is, and the key that goes there.

    A public service's key goes to that service alone, over https: any other address gets the key in
    `COLRANK_RERANK_KEY`, where there is one, or the user and password that stand in the URL.

    Args:
        name: the reranker's, for the sentences.
        given: a URL that replaces `home`. The path is appended, but for what the URL has of it already.
        home: the public service's own URL; None where there is none.
        path: of the request, such as `/v1/rerank`.
        keys: environment variables of the public service's key, of which one must be set.

    Raises:
        InputError: the URL cannot be used, or the key of a public service is not set.
    """
    url, host, login = _parsed(name, given or home or "")
    whole = url + _missing(urlsplit(url).path, path)
    if login is not None:
        user, password = login
        encoded = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
        secrets = (encoded, f"{user}:{password}", password, user)
        return Address(whole, "", f"Basic {encoded}", tuple(each for each in secrets if each))
    own = home is not None and url.startswith("https:") and host == urlsplit(home).netloc
    if own and keys:
        for variable in keys:
            if key := _key(variable):
                return Address(whole, variable, f"Bearer {key}", (key,))
        raise InputError(f"{name} needs a key: set the environment variable {' or '.join(keys)}.")
    key = _key(SHARED_KEY)
    return Address(whole, SHARED_KEY, f"Bearer {key}" if key else None, (key,) if key else ())


def shown(url: str) -> str:
    """A URL as it may be shown: without user, password and query; "" where it is none."""
    try:
        return _parsed("", url.partition("?")[0])[0]
    except InputError:
        return ""


def _parsed(name: str, url: str) -> tuple[str, str, tuple[str, str] | None]:
    """The URL without user and password, its host and port as written, and user and password."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    spaced = any(character.isspace() or not character.isprintable() for character in url)
    if not host or spaced or parts.scheme not in ("http", "https"):
        raise InputError(f"{name} needs the URL of a service, such as http://localhost:8080.")
    if parts.query or parts.fragment:
        raise InputError(
            f"The URL of {name} has a part after ? or #, which would show up in logs; leave it out, and give "
            f"a key as {SHARED_KEY}."
        )
    login = None
    if parts.username is not None or parts.password is not None:
        login = unquote(parts.username or ""), unquote(parts.password or "")
    netloc = parts.netloc.rpartition("@")[2].lower()
    standing = parts.path.rstrip("/")
    return f"{parts.scheme}://{netloc}{standing}", netloc.removesuffix(":443"), login


def _missing(standing: str, path: str) -> str:
    """What is to be appended to a URL's path: `/v1` needs `/rerank` of `/v1/rerank`, `/x/rerank` nothing."""
    have, want = standing.strip("/").split("/"), path.strip("/").split("/")
    if have[-1] == want[-1]:
        return ""
    shared = max(count for count in range(len(want)) if count == 0 or have[-count:] == want[:count])
    return "".join(f"/{part}" for part in want[shared:])


def _key(variable: str) -> str:
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise InputError(f"The environment variable {variable} holds what is no key; set it anew.")
    return key

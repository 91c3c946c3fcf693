"""From text to terms: words, lower case, stemmed by the language of their document, without accents.

A word of a passage has one term, or two where its accents change the stem: *garantía* is kept as *garant*,
for whoever writes *garantías*, and as *garanti*, which is what *garantia* becomes. A word of a query has one
term for each language of the index. So accents may be left out of a query, ñ too, but what has one in the
query (*año*) finds only words that have it.

Scripts that write no spaces between words are cut into pairs of characters.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

from colrank.errors import MissingExtra
from colrank.language import UNKNOWN

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+")
_KEPT_TILDE = "ñ"
"""A letter of its own where it is written, whatever is done to accents."""

_STEMMERS = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
"""Snowball's name of a language; the words of others are kept as they are."""

_MOST_KNOWN = 1 << 16
"""Words whose terms are remembered."""

_lock = threading.Lock()
"""A stemmer may be used by one thread at a time."""


def require_stemmer() -> None:
    """Raise MissingExtra when words cannot be stemmed."""
    try:
        import Stemmer  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            'BM25 needs the stemmer, which is not installed; run: pip install "colrank[hybrid]".'
        ) from error


def passage_terms(text: str, language: str) -> tuple[Counter[str], int]:
    """How often each term occurs in a passage, and how many words it has."""
    terms: Counter[str] = Counter()
    words = Counter(_words(text))
    for word, times in words.items():
        for term in _passage_forms(word, language):
            terms[term] += times
    return terms, words.total()


def query_terms(text: str, languages: Collection[str]) -> dict[tuple[str, ...], int]:
    """The words of a query, each as the terms that it may be kept as, and how often it occurs.

    Args:
        languages: of the documents.
    """
    # Documents without a stemmer keep the word as it is.
    stemmed = sorted({language if language in _STEMMERS else UNKNOWN for language in languages} or {UNKNOWN})
    found: Counter[tuple[str, ...]] = Counter()
    for word in _words(text):
        found[tuple(sorted({_stripped(_stem(word, language)) for language in stemmed}))] += 1
    return dict(found)


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).lower()):
        if _UNSPACED.search(word):
            yield from _pairs(word)
        else:
            yield word


def _pairs(word: str) -> Iterator[str]:
    """Words of other scripts whole; of those without spaces each two neighbours, or the only character."""
    at = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > at:
            yield word[at : run.start()]
        characters = run.group()
        if len(characters) == 1:
            yield characters
        for first in range(len(characters) - 1):
            yield characters[first : first + 2]
        at = run.end()
    if at < len(word):
        yield word[at:]


@lru_cache(maxsize=_MOST_KNOWN)
def _passage_forms(word: str, language: str) -> tuple[str, ...]:
    written = _stripped(_stem(word, language))
    if word.isascii():
        return (written,)
    plain = _stem(_bare(word), language)
    return (written,) if plain == written else (written, plain)


def _stem(word: str, language: str) -> str:
    name = _STEMMERS.get(language)
    if name is None:
        return word
    with _lock:
        return str(_stemmer(name).stemWord(word))


@lru_cache(maxsize=len(_STEMMERS))
def _stemmer(name: str) -> Any:
    require_stemmer()
    import Stemmer

    # Its own memory would only double what `_passage_forms` remembers.
    return Stemmer.Stemmer(name, 0)


def _stripped(word: str) -> str:
    """The word without accents; ñ stays."""
    if word.isascii():
        return word
    return _KEPT_TILDE.join(map(_bare, word.split(_KEPT_TILDE)))


def _bare(word: str) -> str:
    """The word without any accent."""
    return "".join(mark for mark in unicodedata.normalize("NFD", word) if not unicodedata.combining(mark))

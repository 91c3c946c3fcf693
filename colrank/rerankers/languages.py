"""Models that read few languages, from a list: on others they get worse without any error."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from colrank.language import UNKNOWN
from colrank.rerankers.base import Reranker

FILE = "model_languages.toml"

LEAST_SHARE = 0.1
"""A language counts from this share on; less may be names, quotations and wrong guesses."""

_CHOICES = 3


@dataclass(frozen=True, slots=True)
class _Choice:
    name: str
    role: str
    reads: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _Known:
    patterns: tuple[tuple[str, tuple[str, ...]], ...]
    choices: tuple[_Choice, ...]
    names: Mapping[str, str]


@lru_cache(maxsize=1)
def _known() -> _Known:
    content: dict[str, Any] = tomllib.loads(files("colrank").joinpath(FILE).read_text(encoding="utf-8"))
    patterns = [(name, tuple(entry["reads"])) for entry in content["models"] for name in entry["names"]]
    choices = [
        _Choice(entry["name"], entry["role"], tuple(entry["reads"]) if "reads" in entry else None)
        for entry in content["choices"]
    ]
    return _Known(tuple(patterns), tuple(choices), content["languages"])


def languages_read(model: str) -> tuple[str, ...] | None:
    """ISO 639 codes of what a listed model reads; None when the model is not listed.

    Args:
        model: its name or folder, without the family in front (`hf:`).
    """
    whole = model.strip().rstrip("/").lower()
    for pattern, reads in _known().patterns:
        if fnmatchcase(whole, pattern) or fnmatchcase(whole.rpartition("/")[2], pattern):
            return reads
    return None


def language_warning(
    model: str, languages: Mapping[str, int] | Sequence[str], role: Literal["encoder", "reranker"]
) -> str | None:
    """One sentence when much of the text is in a language that the model does not read, else None.

    Args:
        model: its name or folder, without the family in front (`hf:`).
        languages: tokens, texts or the like by ISO 639 code, or a code for each text; what is of unknown
            language counts for nothing.
        role: whose model it is, which decides the models that are named instead.
    """
    reads = languages_read(model)
    counts = Counter(languages)
    del counts[UNKNOWN]
    total = sum(counts.values())
    if reads is None or not total:
        return None
    foreign = {code: count for code, count in counts.items() if code not in reads}
    code = max(foreign, key=lambda each: (foreign[each], each), default=None)
    if code is None or foreign[code] < LEAST_SHARE * total:
        return None
    known = _known()
    better = [
        choice.name
        for choice in known.choices
        if choice.role == role and (choice.reads is None or code in choice.reads)
    ]
    return (
        f"The {role} {model} reads {' and '.join(known.names[each] for each in reads)} only, and "
        f"{foreign[code] / total:.0%} of the text is in {known.names.get(code, f'the language {code!r}')}, "
        f"where it does worse without any error; name a multilingual one, such as "
        f"{', '.join(better[:_CHOICES])}."
    )


def language_warnings(reranker: Reranker | None, languages: Mapping[str, int] | Sequence[str]) -> list[str]:
    """The warning about a reranker, where there are both."""
    if reranker is None:
        return []
    warning = language_warning(reranker.name.partition(":")[2] or reranker.name, languages, "reranker")
    return [warning] if warning else []

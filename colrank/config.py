"""Every option of colrank: one name, one default, the same in Python, on the command line and in TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, Literal, SupportsIndex

from colrank.errors import InputError

EMBEDDED_MODEL = "embedded"
"""Name of the default encoder, whose weights come from a package (extra `embedded`)."""

INDEX_LOCK = "colrank.lock"
"""The writer's lock inside an index; a folder that holds it is an index and never part of a corpus."""

TokenWeights = Literal["auto", "none", "idf"]
By = Literal["passage", "document"]


@dataclass(frozen=True, slots=True)
class FieldNames:
    """Which fields of a record hold what; several names mean the first that is there."""

    id_field: tuple[str, ...] = ("_id", "id")
    title_field: tuple[str, ...] = ("title",)
    text_field: tuple[str, ...] = ("text",)


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """How text becomes vectors. All but `device` and `dtype` are part of the model's fingerprint.

    `projection` is "auto" (the fixed one for the embedded model, none for others), "none" or "fixed".
    """

    model: str = EMBEDDED_MODEL
    device: str | None = None
    dtype: str = "float32"
    projection: str = "auto"
    trust_remote_code: bool = False


@dataclass(frozen=True, slots=True)
class PassageConfig:
    """How documents are split. `passage_tokens` None means the model's own document length."""

    passage_tokens: int | None = None
    overlap: int = 0

    def __post_init__(self) -> None:
        if self.passage_tokens is not None and self.passage_tokens < 8:
            raise InputError(f"passage_tokens is {self.passage_tokens}; it must be at least 8.")
        if self.overlap < 0:
            raise InputError(f"overlap is {self.overlap}; it counts tokens and must be at least 0.")
        if self.passage_tokens is not None and self.overlap * 2 > self.passage_tokens:
            raise InputError(
                f"overlap ({self.overlap}) must be at most half of passage_tokens ({self.passage_tokens})."
            )


def check_k(k: SupportsIndex) -> int:
    """Return `k` as an int, or raise InputError when it is no whole number or below 1."""
    try:
        number = 0 if isinstance(k, bool) else index(k)
    except TypeError:
        number = 0
    if number < 1:
        raise InputError(f"k is {k!r}; ask for at least 1 hit.")
    return number


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Return `value`, or raise InputError when it is none of the choices."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}; choose one of {', '.join(choices)}.")
    return value


def load_toml(path: Path) -> dict[str, dict[str, Any]]:
    """Read a preset: a table for each command (`[index]`, `[search]`) of option names and values.

    Raises:
        InputError: the file is not there, is not TOML, or has something outside a table.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read the configuration {path}: {error.strerror or error}.") from error
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f"The configuration {path} is not valid TOML: {error}.") from error
    for name, table in content.items():
        if not isinstance(table, Mapping):
            raise InputError(f"{path}: put the option {name!r} under a command, such as [index] or [search].")
    return content

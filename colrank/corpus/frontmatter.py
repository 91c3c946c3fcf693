"""The front matter of a Markdown file: a block of YAML or TOML before the text."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, NamedTuple

import yaml

from colrank.corpus.values import UnusableRecord, Values

_YAML = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_TOML = re.compile(r"\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)

# What is longer is no front matter, and would be read slowly.
_MOST_CHARACTERS = 1 << 16

# Beside errors of their own, the readers pass on what Python says of impossible dates and numbers.
_TROUBLE = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


class FrontMatter(NamedTuple):
    """Front matter that was read.

    Attributes:
        metadata: what it says, as JSON can hold it.
        text: what follows it.
        repaired: whether the metadata had broken characters.
    """

    metadata: dict[str, Any]
    text: str
    repaired: bool


class Unreadable(Exception):
    """There is a block like front matter, but it is no mapping in YAML or TOML."""


def split_front_matter(text: str) -> FrontMatter | None:
    """The front matter with which a text begins; None when it begins with none.

    Raises:
        Unreadable: the block is not what it looks like.
    """
    block = (_YAML if text.startswith("---") else _TOML).match(text)
    if block is None:
        return None
    if len(block[1]) > _MOST_CHARACTERS:
        raise Unreadable
    values = Values()
    try:
        said = tomllib.loads(block[1]) if text.startswith("+") else yaml.load(block[1], _Loader)
        # Nothing, or comments alone.
        metadata = values.plain({} if said is None else said)
        # Hexadecimal numbers may have more digits than Python writes.
        json.dumps(metadata)
    except (*_TROUBLE, RecursionError, UnusableRecord) as error:
        raise Unreadable from error
    if not isinstance(metadata, dict):
        raise Unreadable
    return FrontMatter(metadata, text[block.end() :], values.repaired)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML without what metadata cannot be, each refused rather than changed or dropped.

    That are aliases, by which a few lines stand for gigabytes, keys that are no scalars, and keys given
    twice. Keys stay as they are written: `on` is no truth value.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "an alias", self.peek_event().start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in mapping:
                raise yaml.constructor.ConstructorError(None, None, "not a key", key.start_mark)
            mapping[key.value] = self.construct_object(value, deep=True)
        return mapping

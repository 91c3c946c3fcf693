"""What a reranking service asks for 1,000 queries, from a table that the user edits."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeAlias

from colrank.config import load_toml
from colrank.errors import InputError


@dataclass(frozen=True, slots=True)
class Price:
    """A service's price in US dollars: by searches of at most so many documents, by tokens, or both."""

    usd_per_1000_searches: float = 0.0
    documents_per_search: int = 100
    usd_per_million_tokens: float = 0.0

    def of_1000_queries(self, pairs: float, tokens: float | None) -> float | None:
        """Price of 1,000 queries of so many pairs and tokens each; None where tokens are not known."""
        if self.usd_per_million_tokens and tokens is None:
            return None
        searches = math.ceil(pairs / self.documents_per_search)
        return searches * self.usd_per_1000_searches + (tokens or 0) * self.usd_per_million_tokens / 1000


Prices: TypeAlias = dict[str, Price]


def read_prices(path: Path) -> Prices:
    """Read a TOML file of a table a reranker, named as in `--rerank`.

    Raises:
        InputError: the file cannot be read, or holds what is no price.
    """
    known = {field.name for field in fields(Price)}
    found = {}
    for name, table in load_toml(path).items():
        for key, value in table.items():
            good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
            if key not in known or not good or (key == "documents_per_search" and value < 1):
                raise InputError(
                    f"{path}: {key} of {name} is {value!r}; give numbers of at least 0 named "
                    f"{', '.join(sorted(known))}."
                )
        found[name] = Price(**table)
    return found

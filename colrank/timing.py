"""Seconds of named parts of a search."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def timed(timings: dict[str, float], name: str) -> Iterator[None]:
    """Add what the block takes to a part's seconds."""
    begin = time.perf_counter()
    try:
        yield
    finally:
        timings[name] = timings.get(name, 0.0) + time.perf_counter() - begin

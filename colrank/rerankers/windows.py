"""A text that is too long for a model, read in overlapping windows: its score is its best window's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from colrank.types import Span

OVERLAP = 4
"""One part in so many of a window is the end of the one before it, so that no sentence is always cut."""


def windows(text: str, spans: Sequence[tuple[int, int]], size: int, overlap: int) -> list[Span]:
    """Characters of a text's windows, in order; every token lies in at least one.

    There are as few as can be, of equal length to within one token: a stray end would be read without
    what comes before it.

    Args:
        text: the whole text.
        spans: characters of each of its tokens, in order.
        size: most tokens of a window, at least 1.
        overlap: tokens that a window repeats of the one before it, from 0 to `size` - 1.

    Raises:
        ValueError: `size` or `overlap` is none of these.
    """
    if size < 1 or not 0 <= overlap < size:
        raise ValueError(f"windows of {size} tokens cannot overlap by {overlap}")
    tokens = len(spans)
    if tokens <= size:
        return [Span(0, len(text))]
    count = -((overlap - tokens) // (size - overlap))
    length, longer = divmod(tokens + (count - 1) * overlap, count)
    out = []
    first = 0
    for place in range(count):
        last = first + length + (place < longer)
        # What lies before the first token and behind the last belongs to the text too.
        start = spans[first][0] if place else 0
        end = spans[last - 1][1] if place < count - 1 else len(text)
        out.append(Span(start, end))
        first = last - overlap
    return out


def fit(
    text: str,
    spans: Sequence[tuple[int, int]],
    room: int,
    count: Callable[[Sequence[str]], Sequence[int]],
) -> list[str]:
    """Windows of a text, each of at most `room` tokens once it stands alone.

    A part may have more tokens alone than inside the whole (a word cut in two is spelled anew), so each is
    counted as the model will read it, and the windows become shorter until all fit.

    Args:
        text, spans: as in `windows`.
        room: most tokens of a window, at least 1.
        count: tokens of each of some texts.
    """
    size = room
    while True:
        pieces = [text[start:end] for start, end in windows(text, spans, size, size // OVERLAP)]
        over = max(count(pieces)) - room
        if over <= 0 or size == 1:
            return pieces
        size = max(1, size - over)


def best_of(values: NDArray[np.float64], owners: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """The largest value of each owner.

    Args:
        values: float64 `[pieces]`; NaN counts for nothing.
        owners: int64 `[pieces]`, from 0 to `count` - 1.
        count: how many owners there are.

    Returns:
        float64 `[count]`; NaN where an owner has no value.
    """
    best = np.full(count, np.nan)
    np.fmax.at(best, owners, values)
    return best

"""Windows cover every token, fit, overlap as said, and are one where one fits."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colrank.rerankers.windows import OVERLAP, best_of, fit, windows


def spans_of(text: str) -> list[tuple[int, int]]:
    return [found.span() for found in re.finditer(r"\S+", text)]


def tokens_in(spans: list[tuple[int, int]], start: int, end: int) -> list[int]:
    return [row for row, (first, last) in enumerate(spans) if start <= first and last <= end]


@given(st.lists(st.integers(1, 4), max_size=120), st.integers(1, 40), st.data())
def test_every_token_is_read_and_no_window_is_too_long(lengths, size, data):
    text = "  " + "  ".join("x" * length for length in lengths) + " "
    spans = spans_of(text)
    overlap = data.draw(st.integers(0, size - 1))
    found = windows(text, spans, size, overlap)
    held = [tokens_in(spans, start, end) for start, end in found]
    assert sorted({row for rows in held for row in rows}) == list(range(len(spans)))
    assert all(len(rows) <= size for rows in held)
    assert (found[0].start, found[-1].end) == (0, len(text))
    if len(spans) <= size:
        assert found == [(0, len(text))]
    else:
        # Each repeats exactly `overlap` tokens, they are of one length, and no fewer would do.
        assert all(left[len(left) - overlap :] == right[:overlap] for left, right in pairwise(held))
        assert max(map(len, held)) - min(map(len, held)) <= 1
        assert size + (len(found) - 2) * (size - overlap) < len(spans)


def test_windows_by_hand():
    text = "a b c d e f g"
    assert [text[start:end] for start, end in windows(text, spans_of(text), 4, 1)] == ["a b c d", "d e f g"]
    assert [text[start:end] for start, end in windows(text, spans_of(text), 3, 1)] == [
        *("a b c", "c d e", "e f g"),
    ]
    assert windows("", [], 3, 1) == [(0, 0)]


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (3, 3), (3, -1)])
def test_impossible_windows_are_refused(size, overlap):
    with pytest.raises(ValueError, match="cannot overlap"):
        windows("a b", [(0, 1), (2, 3)], size, overlap)


@given(st.text(alphabet="abc ", max_size=80), st.integers(8, 30), st.integers(1, 3))
def test_parts_fit_as_they_are_counted_alone(text, room, growth):
    """A part has more tokens alone than inside the whole: `growth` more wherever it is cut."""

    def count(parts):
        return [len(spans_of(part)) + growth * (part != text) for part in parts]

    parts = fit(text, spans_of(text), room, count)
    assert all(number <= room for number in count(parts))
    assert {text[start:end] for start, end in spans_of(text)} <= {
        word for part in parts for word in part.split()
    }


def test_a_token_that_never_fits_ends_the_search():
    text = "a b c d"
    parts = fit(text, spans_of(text), 2, lambda parts: [9 for _ in parts])
    assert parts == ["a", "b", "c", "d"]


def test_a_window_begins_with_a_quarter_of_the_one_before():
    text = " ".join(map(str, range(20)))
    first, second = fit(text, spans_of(text), 12, lambda parts: [len(spans_of(part)) for part in parts])
    shared = 12 // OVERLAP
    assert first.split()[-shared:] == second.split()[:shared]


def test_the_best_window_counts():
    values = np.array([0.5, -2.0, 3.0, np.nan, np.nan])
    found = best_of(values, np.array([1, 0, 0, 0, 2]), 4)
    np.testing.assert_array_equal(found, [3.0, 0.5, np.nan, np.nan])

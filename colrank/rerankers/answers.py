"""A language model's answer, whatever stands around it, into one score a passage."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Whole numbers come as float too: Python refuses to read some that are thousands of digits long.
_DECODER = json.JSONDecoder(parse_int=float)

_START = re.compile(r"\[(?=[ \t\n\r]*\{)|\{(?=[ \t\n\r]*\")")
"""Where an array of objects, or an object with fields, may begin."""

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"\d{1,9}(\.\d{0,32})?|\.\d{1,32}", re.ASCII)

_FAILURES = 500
"""Places that may turn out not to begin what they seem to; each costs a decoder some of the whole answer."""


def parse_scores(answer: str, count: int) -> NDArray[np.float64]:
    """Read `{"id": passage from 1, "score": number from 0 to 1}` objects out of an answer.

    The first JSON array of objects is taken, wherever it stands: in prose, in a code fence, in an object.
    Where there is no whole one, the whole objects of the first that breaks off are. In it the first entry
    of an id wins. Entries are skipped whose id is no number or none of the passages', or whose score is
    no number from 0 to 1; numbers may be written as text. Never raises; the time is linear in the answer.

    Returns:
        float64 `[count]`; NaN for a passage without a score.
    """
    scores = np.full(count, np.nan)
    for entry in _first_array(answer):
        if not isinstance(entry, dict):
            continue
        place, score = _number(entry.get("id")), _number(entry.get("score"))
        if place is None or score is None or not place.is_integer() or not 0 <= score <= 1:
            continue
        row = int(place) - 1
        if 0 <= row < count and np.isnan(scores[row]):
            scores[row] = score
    return scores


def _first_array(answer: str) -> list[Any]:
    """Elements of the first array of objects, or of the first broken one, or none."""
    broken: list[Any] = []
    position = failures = 0
    while failures < _FAILURES and (found := _START.search(answer, position)):
        position = found.start()
        if answer[position] == "[":
            elements, position, whole = _elements(answer, position + 1)
            if elements and whole:
                return elements
            broken = broken or elements
            failures += 1
            continue
        value, end = _decode(answer, position)
        for array in _arrays(value):
            return array
        failures += end is None
        position = end or position + 1
    return broken


def _elements(answer: str, position: int) -> tuple[list[Any], int, bool]:
    """Elements of the array that a bracket before a place opens, where they end, and whether it is whole."""
    elements: list[Any] = []
    while True:
        position = _after_space(answer, position)
        value, end = _decode(answer, position)
        if end is None:
            return elements, position, False
        elements.append(value)
        position = _after_space(answer, end)
        mark = answer[position : position + 1]
        if mark != ",":
            return elements, position + len(mark), mark == "]"
        position += 1


def _decode(answer: str, begin: int) -> tuple[Any, int | None]:
    """The JSON value at a place, and where it ends; None twice where there is none."""
    try:
        return _DECODER.raw_decode(answer, begin)
    except (ValueError, RecursionError):
        return None, None


def _arrays(value: Any) -> Iterator[list[Any]]:
    """Arrays of objects inside a decoded value, in the order in which they begin."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield value
        elif isinstance(value, list | dict):
            inside = value if isinstance(value, list) else list(value.values())
            waiting.extend(reversed(inside))


def _after_space(answer: str, position: int) -> int:
    found = _SPACE.match(answer, position)
    return found.end() if found else position


def _number(value: Any) -> float | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    return value if isinstance(value, float) else None

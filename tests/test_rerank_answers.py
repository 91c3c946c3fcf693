"""A language model's answer as scores: what stands around them, what is missing, what is no score."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from colrank.rerankers import answers
from colrank.rerankers.answers import _decode, parse_scores

NONE = None
GOOD = '[{"id": 1, "score": 0.9}, {"id": 2, "score": 0.25}, {"id": 3, "score": 0}]'
SCORES = [0.9, 0.25, 0.0]


def read(answer: str, count: int = 3) -> list[float | None]:
    found = parse_scores(answer, count)
    assert found.dtype == np.float64
    assert found.shape == (count,)
    return [None if np.isnan(score) else float(score) for score in found]


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here are the scores:\n\n{GOOD}\n\nI hope this helps [1].",
        f'{{"results": {GOOD}}}',
        f'{{"note": "see [1], [{{}}] and [{{\\"id\\": 3}}]", "results": {GOOD}}}',
        f"The passages [1] and [2, 3] were graded as {{so}}: {GOOD}",
        f'Format: [{{"id": 1, "score": 0.5}}, ...]\n{GOOD}',
        f'{{"a": [1, 2], "b": {{"c": []}}, "d": [[{GOOD[1:-1]}]]}}',
        GOOD.replace(" ", "\n\t\r "),
        GOOD.replace("}", ', "why": "says [so] {and} \\"]\\" so", "more": [{"id": 9, "score": 1}]}'),
        f'{GOOD} [{{"id": 1, "score": 0.1}}, {{"id": 2, "score": 0.1}}]',
        '{"id": 7} {"id": 8}' + GOOD,
    ],
)
def test_the_first_array_of_objects_is_found_wherever_it_stands(answer):
    assert read(answer) == SCORES


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot score these passages.",
        "[]",
        "{}",
        "[0.9, 0.2, 0.1]",
        '["a", "b"]',
        '{"results": []}',
        '{"id": 1, "score": 0.9}',
        "[{'id': 1, 'score': 0.9}]",
        "[{id: 1, score: 0.9}]",
        '[{"passage": 1, "relevance": 0.9}]',
        "null",
        '"[{"',
        "[" * 5000,
        '[{"id":' * 5000,
        '{"results":' * 5000,
        '[{"id": 1, "score": ' + "[" * 100_000 + "]" * 100_000 + "}]",
        "\ud800 \x00 [{",
    ],
)
def test_nothing_to_read_is_no_score(answer):
    assert read(answer) == [NONE] * 3


@pytest.mark.parametrize(
    ("identity", "found"),
    [
        ("2", True),
        ('"2"', True),
        ('" 2 "', True),
        ("2.0", True),
        ("2e0", True),
        ('"2.0"', True),
        *((other, False) for other in ("2.5", "0", "4", "-2", "true", "null", '"two"', '"2a"', "[2]", '""')),
        *(
            (other, False)
            for other in ("NaN", "Infinity", "-Infinity", "9" * 10_000, '"²"', '"' + "9" * 99 + '"')
        ),
    ],
)
def test_only_numbers_of_passages_are_ids(identity, found):
    answer = f'[{{"id": {identity}, "score": 0.5}}, {{"id": 3, "score": 1}}]'
    assert read(answer) == [NONE, 0.5 if found else NONE, 1.0]


@pytest.mark.parametrize(
    ("score", "found"),
    [
        ("0", 0.0),
        ("1", 1.0),
        ("0.5", 0.5),
        ('"0.5"', 0.5),
        ('".5"', 0.5),
        ("5e-1", 0.5),
        ("-0.0", 0.0),
        *((other, NONE) for other in ("1.0001", "-0.1", "7", "85", "1e999", "NaN", "Infinity", "-Infinity")),
        *((other, NONE) for other in ("true", "null", '"high"', '"0.5/1"', "[0.5]", "{}", "9" * 10_000)),
    ],
)
def test_only_numbers_from_zero_to_one_are_scores(score, found):
    assert read(f'[{{"id": 1, "score": {score}}}, {{"id": 2, "score": 0.2}}]', 2) == [found, 0.2]


def test_what_is_missing_stays_without_a_score():
    assert read('[{"id": 3, "score": 0.4}, {"score": 0.5}, {"id": 1}, 7, null, "x", [], {}]') == [
        NONE,
        NONE,
        0.4,
    ]


def test_the_first_entry_of_an_id_wins():
    assert read('[{"id": 1, "score": 0.4}, {"id": "1", "score": 0.9}, {"id": 1.0, "score": 0.1}]') == [
        0.4,
        NONE,
        NONE,
    ]


def test_an_entry_without_a_score_that_can_be_read_is_as_if_it_were_not_there():
    assert read('[{"id": 1, "score": 5}, {"id": 1, "score": 0.9}]', 1) == [0.9]


@pytest.mark.parametrize(
    "rest",
    [
        "",
        ",",
        ', {"id": 3',
        ', {"id": 3, "score": 0.',
        ", ...]",
        ', {"id": 3; "score": 1}]',
        ",]",
        "}",
        " and so",
    ],
)
@pytest.mark.parametrize("before", ["", '{"results": ', "```json\n"])
def test_whole_objects_before_a_break_are_read(before, rest):
    assert read(
        f'{before}[{{"id": 1, "score": 0.9}}, {{"id": 2, "score": 0.2, "x": [{{"id": 3, "score": 1}}]}}{rest}'
    ) == [
        0.9,
        0.2,
        NONE,
    ]


def test_no_passages():
    assert read(GOOD, 0) == []


@pytest.mark.parametrize(
    "part",
    ["[", "{", "[{", '[{"a":', "[{},", '{"a":', "[ ", '[{"', '{"', '[{"id":1,"score":0.5},', '{"a":1}', '"'],
)
def test_what_fails_to_decode_is_not_tried_without_end(part, monkeypatch):
    """Each failure costs up to the whole answer: as many as there are brackets would take minutes."""
    failures = []

    def decode(answer: str, begin: int) -> tuple[Any, int | None]:
        value, end = _decode(answer, begin)
        if end is None:
            failures.append(begin)
        return value, end

    monkeypatch.setattr(answers, "_decode", decode)
    parse_scores(part * (300_000 // len(part)), 3)
    assert len(failures) <= answers._FAILURES


values = st.one_of(
    st.integers(-3, 9),
    st.integers(),
    st.floats(),
    st.floats(0, 1),
    st.booleans(),
    st.none(),
    st.text(max_size=4),
    st.integers(0, 9).map(str),
    st.lists(st.integers(), max_size=2),
)
entries = st.one_of(
    st.fixed_dictionaries({"id": values, "score": values}),
    st.dictionaries(st.sampled_from(["id", "score", "x"]), values, max_size=3),
    values,
)


@st.composite
def answers_of_models(draw: st.DrawFn) -> str:
    """JSON of entries, wrapped, cut, and with noise around and inside."""
    text = json.dumps(draw(st.lists(entries, max_size=6)))
    if draw(st.booleans()):
        text = f'{{"results": {text}}}'
    noise = st.one_of(st.text(max_size=12), st.text('[]{}",:\\ 0123456789idscore', max_size=12))
    text = draw(noise) + text + draw(noise)
    if draw(st.booleans()):
        text = text[: draw(st.integers(0, len(text)))]
    if draw(st.booleans()):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(noise) + text[place:]
    return text


@given(
    st.one_of(answers_of_models(), st.text(), st.text('[]{}",:\\ .-eE0123456789idscore\n')), st.integers(0, 8)
)
@example('[{"id": 1, "score": 1e400}]', 2)
@settings(deadline=None, max_examples=150)
def test_whatever_the_answer_each_passage_has_one_score_or_none(answer, count):
    found = parse_scores(answer, count)
    assert found.shape == (count,)
    known = found[~np.isnan(found)]
    assert ((known >= 0) & (known <= 1)).all()


@given(st.permutations(range(1, 7)), st.lists(st.floats(0, 1), min_size=6, max_size=6), st.integers(0, 6))
@settings(deadline=None)
def test_no_id_is_lost_or_doubled(order, scores, kept):
    listed = [{"id": number, "score": scores[number - 1]} for number in order[:kept]]
    doubled = [{"id": entry["id"], "score": 1 - entry["score"]} for entry in listed]
    found = read(f"Scores: {json.dumps(listed + doubled)}.", 6)
    expected = [scores[number - 1] if number in order[:kept] else NONE for number in range(1, 7)]
    assert found == expected

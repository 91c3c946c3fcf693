"""The judged cases: that the data are what they say, and that the reader refuses what is not."""

import json
import re
from collections import Counter
from itertools import combinations

import pytest
from cases import ANSWERS, CASES, KINDS, LANGUAGES, Case, diverse, read_cases, solved

from colrank.language import detect_language

ALL = read_cases()


def _named(kind: str) -> list[Case]:
    return [case for case in ALL if case.kind == kind]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _by_id(name: str) -> Case:
    return next(case for case in ALL if case.id == name)


def test_there_are_sixty_cases_half_of_them_in_each_language():
    assert Counter(case.lang for case in ALL) == {"es": 30, "en": 30}


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_three_cases_or_more_in_each_language(lang: str, kind: str):
    assert sum(case.lang == lang for case in _named(kind)) >= 3


def test_nothing_stands_twice():
    for values in (
        [case.id for case in ALL],
        [case.query for case in ALL],
        [passage.text for case in ALL for passage in case.passages],
    ):
        assert [value for value, count in Counter(values).items() if count > 1] == []


def test_the_order_of_the_retriever_seldom_has_the_answer_first():
    places = Counter(
        next(place for place, passage in enumerate(case.passages) if passage.grade == ANSWERS)
        for case in ALL
        if case.answerable
    )
    assert 1 <= places[0] <= 6
    assert set(places) >= {0, 1, 2, 3, 4}


def test_most_passages_are_of_the_topic_so_that_grades_cannot_be_told_by_it():
    for case in ALL:
        assert sum(passage.grade >= 1 for passage in case.passages) >= 4, case.id


@pytest.mark.parametrize("case", _named("tail"), ids=lambda case: case.id)
def test_a_tail_is_at_the_end_of_one_long_passage(case: Case):
    (holder,) = (passage for passage in case.passages if passage.grade == ANSWERS)
    assert 250 <= len(_words(holder.text)) <= 500
    assert holder.text.index(case.answer) >= 0.75 * len(holder.text)
    assert all(len(_words(p.text)) < 60 for p in case.passages if p is not holder)


@pytest.mark.parametrize("case", _named("near_duplicate"), ids=lambda case: case.id)
def test_near_duplicates_share_most_of_their_words(case: Case):
    for one, other in combinations(case.passages, 2):
        first, second = set(_words(one.text)), set(_words(other.text))
        shared = len(first & second) / len(first | second)
        alike = bool(one.same) and one.same == other.same
        assert (shared > 0.5) if alike else (shared < 0.4), (one.id, other.id, shared)


@pytest.mark.parametrize("case", _named("near_duplicate"), ids=lambda case: case.id)
def test_three_different_passages_can_stand_in_front_and_two_alike_are_told(case: Case):
    different = list({passage.same or passage.id: passage.id for passage in case.passages}.values())
    assert len(different) >= 3
    assert diverse(case, different[:3])
    for one, other in combinations([passage for passage in case.passages if passage.same], 2):
        assert diverse(case, [one.id, other.id]) is (one.same != other.same)


def test_only_the_first_three_have_to_differ():
    case = _by_id("es-near-duplicate-reembolso")
    assert [passage.same for passage in case.passages[:5]] == ["", "plazo", "plazo", "plazo", ""]
    assert diverse(case, ["p1", "p2", "p5", "p3"])
    assert not diverse(case, ["p1", "p2", "p3"])
    assert diverse(_by_id("es-guarantee-lavadora"), ["p1", "p2", "p3"])


def test_texts_are_in_the_language_that_is_said():
    texts = [(case.lang, passage.text) for case in ALL for passage in case.passages]
    agreeing = sum(detect_language(text) == lang for lang, text in texts)
    assert agreeing >= 0.97 * len(texts)
    queries = sum(detect_language(case.query) == case.lang for case in ALL)
    assert queries >= 0.9 * len(ALL)


@pytest.mark.parametrize(
    ("ranking", "refused", "right"),
    [
        (["p4", "p1"], False, True),
        (["p1", "p4"], False, False),
        (["p4"], True, False),
        ([], True, False),
        ([], False, False),
    ],
)
def test_an_answerable_case_is_solved_by_the_answer_in_front(ranking, refused, right):
    case = _by_id("es-guarantee-lavadora")
    assert case.passage("p4").grade == ANSWERS
    assert solved(case, ranking, refused) is right


@pytest.mark.parametrize(("ranking", "refused", "right"), [([], True, True), (["p1"], False, False)])
def test_an_unanswerable_case_is_solved_by_refusing(ranking, refused, right):
    assert solved(_by_id("en-unanswerable-metrics-port"), ranking, refused) is right


def test_a_ranking_names_passages_of_its_case():
    with pytest.raises(KeyError, match="p99"):
        solved(_by_id("es-guarantee-lavadora"), ["p99"], False)


def test_candidates_do_not_tell_the_grades():
    case = ALL[0]
    assert [set(candidate) for candidate in case.candidates()] == [{"id", "document", "text"}] * len(
        case.passages
    )


def _raw(name: str) -> dict:
    lines = CASES.read_text(encoding="utf-8").splitlines()
    return next(record for record in map(json.loads, lines) if record["id"] == name)


@pytest.mark.parametrize(
    ("name", "spoil", "said"),
    [
        ("es-guarantee-lavadora", lambda c: c.pop("lang"), "lang"),
        ("es-guarantee-lavadora", lambda c: c.update(note="x"), "note"),
        ("es-guarantee-lavadora", lambda c: c.update(lang="fr"), "fr"),
        ("es-guarantee-lavadora", lambda c: c.update(kind="other"), "other"),
        ("es-guarantee-lavadora", lambda c: c.update(kind="negation"), "begin with"),
        ("es-guarantee-lavadora", lambda c: c.update(query=" two  spaces"), "query"),
        ("es-guarantee-lavadora", lambda c: c.update(passages="none"), "not a list"),
        ("es-guarantee-lavadora", lambda c: c.update(passages=c["passages"][:3]), "3 passages"),
        ("es-guarantee-lavadora", lambda c: c.update(answerable="yes"), "answerable"),
        ("es-guarantee-lavadora", lambda c: c.update(answer="tres años"), "tail"),
        ("es-guarantee-lavadora", lambda c: c["passages"][0].update(grade=4), "grade 4"),
        ("es-guarantee-lavadora", lambda c: c["passages"][0].update(grade=True), "True"),
        ("es-guarantee-lavadora", lambda c: c["passages"][0].update(id="p2"), "same id"),
        ("es-guarantee-lavadora", lambda c: c["passages"][3].update(grade=2), "highest grade is 2"),
        ("es-guarantee-lavadora", lambda c: c["passages"][0].update(same="x"), "near_duplicate"),
        ("en-near-duplicate-sick-call", lambda c: c["passages"][0].update(same="x"), "nothing repeats"),
        ("en-near-duplicate-sick-call", lambda c: c["passages"][1].update(grade=2), "different grades"),
        ("en-near-duplicate-sick-call", lambda c: c["passages"][1].update(document="d3"), "one document"),
        ("en-tail-library-card", lambda c: c.pop("answer"), "tail"),
        ("en-tail-library-card", lambda c: c.update(answer="For nothing."), "word for word"),
        ("en-unanswerable-metrics-port", lambda c: c["passages"][0].update(grade=2), "grade 2"),
        ("en-unanswerable-metrics-port", lambda c: c.update(answerable=True), "highest grade is 1"),
    ],
)
def test_a_malformed_case_is_refused_by_line_and_fault(tmp_path, name, spoil, said):
    record = _raw(name)
    spoil(record)
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"cases.jsonl line 1: .*{said}"):
        read_cases(path)


def test_an_id_that_stands_twice_and_a_broken_line_are_refused(tmp_path):
    line = json.dumps(_raw("es-guarantee-lavadora"))
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{line}\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 2: .* stands twice"):
        read_cases(path)
    path.write_text("{\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 1"):
        read_cases(path)

"""Judged cases of our own writing: a query, its candidates in the order of a retriever, and their grades.

One JSON object a line of `data/cases.jsonl`:

    {"id": "es-guarantee-lavadora", "lang": "es", "kind": "guarantee", "query": "...", "answerable": true,
     "passages": [{"id": "p1", "document": "d1", "text": "...", "grade": 1}, ...]}

Grades: 3 answers the query, 2 answers a part of it, 1 is about the same topic, 0 is noise. Passages of
several documents that state the same bear the same name under `same`. A case of the kind `tail` names its
answer, word for word, under `answer`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "data" / "cases.jsonl"
LANGUAGES = ("es", "en")
KINDS = ("guarantee", "negation", "opposite", "near_duplicate", "outdated", "tail", "unanswerable")
ANSWERS = 3
"""The grade of a passage that answers the query."""
TOPICAL = 1
"""The highest grade in a case that has no answer."""
FEWEST_PASSAGES, MOST_PASSAGES = 4, 8

_CASE_KEYS = {"id", "lang", "kind", "query", "passages", "answerable"}
_PASSAGE_KEYS = {"id", "document", "text", "grade"}


@dataclass(frozen=True, slots=True)
class CasePassage:
    """A candidate. `id` is unique within its case; `same` names what it repeats, "" when nothing."""

    id: str
    document: str
    text: str
    grade: int
    same: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A query and its candidates, in the order of a retriever. `answer` is "" but in the kind `tail`."""

    id: str
    lang: str
    kind: str
    query: str
    passages: tuple[CasePassage, ...]
    answerable: bool
    answer: str = ""

    def passage(self, name: str) -> CasePassage:
        """The passage of an id.

        Raises:
            KeyError: the case has none of this id.
        """
        for passage in self.passages:
            if passage.id == name:
                return passage
        raise KeyError(f"{self.id} has no passage {name!r}.")

    def candidates(self) -> list[dict[str, str]]:
        """The passages as `colrank.rerank` takes them: what a retriever knows, and so without grades."""
        return [{"id": p.id, "document": p.document, "text": p.text} for p in self.passages]


def read_cases(path: Path = CASES) -> list[Case]:
    """Cases of a file, in its order.

    Raises:
        ValueError: a line is no well-formed case (the text names line and fault), or an id stands twice.
    """
    cases: list[Case] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            case = _case(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path.name} line {number}: {error}") from error
        if any(case.id == other.id for other in cases):
            raise ValueError(f"{path.name} line {number}: the id {case.id!r} stands twice.")
        cases.append(case)
    return cases


def solved(case: Case, ranking: Sequence[str], refused: bool) -> bool:
    """Whether a stage did right by a case.

    Args:
        ranking: ids of the passages handed on, best first.
        refused: the stage said that there is no answer.

    Returns:
        Of an answerable case: nothing was refused, and an answering passage stands first. Of another: it
        was refused.
    """
    if not case.answerable:
        return refused
    return not refused and bool(ranking) and case.passage(ranking[0]).grade == ANSWERS


def diverse(case: Case, top3: Sequence[str]) -> bool:
    """Whether no two of the first three ids state the same."""
    groups = [case.passage(name).same for name in top3[:3]]
    named = [group for group in groups if group]
    return len(named) == len(set(named))


def _case(record: Any) -> Case:
    _check_keys(record, "the case", _CASE_KEYS, {"answer"})
    name = _text(record, "id")
    lang, kind = (_one_of(record, key, choices) for key, choices in (("lang", LANGUAGES), ("kind", KINDS)))
    if not name.startswith(f"{lang}-{kind.replace('_', '-')}-"):
        raise ValueError(f"the id {name!r} does not begin with language and kind.")
    if not isinstance(record["answerable"], bool):
        raise ValueError(f"{name}: answerable is {record['answerable']!r}, not true or false.")
    if not isinstance(record["passages"], list):
        raise ValueError(f"{name}: passages is not a list.")
    case = Case(
        id=name,
        lang=lang,
        kind=kind,
        query=_text(record, "query"),
        passages=tuple(_passage(passage) for passage in record["passages"]),
        answerable=record["answerable"],
        answer=_text(record, "answer") if "answer" in record else "",
    )
    fault = _fault(case)
    if fault:
        raise ValueError(f"{name}: {fault}")
    return case


def _passage(record: Any) -> CasePassage:
    _check_keys(record, "a passage", _PASSAGE_KEYS, {"same"})
    grade = record["grade"]
    if isinstance(grade, bool) or grade not in range(ANSWERS + 1):
        raise ValueError(f"the grade {grade!r} is none of 0, 1, 2, 3.")
    return CasePassage(
        id=_text(record, "id"),
        document=_text(record, "document"),
        text=_text(record, "text"),
        grade=grade,
        same=_text(record, "same") if "same" in record else "",
    )


def _fault(case: Case) -> str:
    """What is wrong with a case whose fields are all there, "" when nothing."""
    passages = case.passages
    if not FEWEST_PASSAGES <= len(passages) <= MOST_PASSAGES:
        return f"{len(passages)} passages, and {FEWEST_PASSAGES} to {MOST_PASSAGES} are asked for."
    for key in ("id", "text"):
        if len({getattr(passage, key) for passage in passages}) < len(passages):
            return f"two passages have the same {key}."
    best = max(passage.grade for passage in passages)
    if case.answerable and best != ANSWERS:
        return f"it is answerable, and the highest grade is {best}."
    if not case.answerable and best > TOPICAL:
        return f"it is not answerable, and a passage has the grade {best}."
    if case.answerable == (case.kind == "unanswerable"):
        return f"a case of the kind {case.kind} cannot have answerable {case.answerable}."
    groups: dict[str, list[CasePassage]] = {}
    for passage in passages:
        if passage.same:
            groups.setdefault(passage.same, []).append(passage)
    if bool(groups) != (case.kind == "near_duplicate"):
        return "passages that state the same belong into near_duplicate, and every such case has some."
    for group, members in groups.items():
        if len(members) < 2:
            return f"nothing repeats the passage of the group {group!r}."
        if len({member.grade for member in members}) > 1:
            return f"passages of the group {group!r} state the same and have different grades."
        if len({member.document for member in members}) < len(members):
            return f"two passages of the group {group!r} are of one document."
    # Else no order of the passages has three different ones in front.
    if groups and len(groups) + sum(not passage.same for passage in passages) < 3:
        return "fewer than three passages state something different."
    if bool(case.answer) != (case.kind == "tail"):
        return "an answer is named in the kind tail, and there alone."
    holders = [passage for passage in passages if case.answer and case.answer in passage.text]
    if case.answer and [passage.grade for passage in holders] != [ANSWERS]:
        return "the answer does not stand, word for word, in one passage that has the highest grade."
    return ""


def _check_keys(record: Any, what: str, needed: set[str], allowed: set[str]) -> None:
    if not isinstance(record, Mapping):
        raise ValueError(f"{what} is not a JSON object.")
    missing, unknown = needed - record.keys(), record.keys() - needed - allowed
    if missing or unknown:
        raise ValueError(f"{what} lacks {sorted(missing)} and has the unknown keys {sorted(unknown)}.")


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record[key]
    if not isinstance(value, str) or not value or value != " ".join(value.split()):
        raise ValueError(f"{key} is {value!r}; it is a text without breaks and needless spaces.")
    return value


def _one_of(record: Mapping[str, Any], key: str, choices: Sequence[str]) -> str:
    value = record[key]
    if value not in choices:
        raise ValueError(f"{key} is {value!r}, and none of {', '.join(choices)}.")
    return str(value)

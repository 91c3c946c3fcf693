"""Passages: ranges cover the text, everything fits, nothing is lost."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colrank.passages import CUT_TITLES, SPLIT_WORDS, Splitter, encoder_input
from colrank.types import Document, Problems, Span


def words(text: str) -> list[Span]:
    """A tokenizer by words and marks: easy to count by hand."""
    return [Span(*match.span()) for match in re.finditer(r"\w+|[^\w\s]", text)]


def letters(text: str) -> list[Span]:
    """A tokenizer by characters: every word has many tokens."""
    return [Span(at, at + 1) for at, character in enumerate(text) if not character.isspace()]


def split(text: str, budget: int, overlap: int = 0, title: str = "", spans=words, language: str = "en"):
    problems = Problems()
    passages = Splitter(spans, budget, overlap).split(Document("d", text, title), language, problems)
    return passages, problems


def test_a_document_that_fits_is_one_passage_with_all_its_text():
    passages, problems = split("One two three. Four five.", 8)
    assert [(p.text, p.start, p.end) for p in passages] == [("One two three. Four five.", 0, 25)]
    assert not problems


def test_cuts_fall_at_sentence_ends():
    text = "One two three four. Five six seven eight. Nine ten eleven twelve."
    passages, _ = split(text, 6)
    assert [p.text for p in passages] == [
        "One two three four. ",
        "Five six seven eight. ",
        "Nine ten eleven twelve.",
    ]
    assert [p.ordinal for p in passages] == [0, 1, 2]


def test_spanish_abbreviations_and_inverted_marks_do_not_cut():
    text = "La Sra. Pérez llegó tarde ayer. ¿Cuánto dura la garantía legal? ¡Dura seis meses enteros aquí!"
    passages, _ = split(text, 9, language="es")
    assert [p.text.strip() for p in passages] == [
        "La Sra. Pérez llegó tarde ayer.",
        "¿Cuánto dura la garantía legal?",
        "¡Dura seis meses enteros aquí!",
    ]


def test_passages_are_of_about_equal_length_instead_of_leaving_a_stray_end():
    text = " ".join(f"Sentence number {i} here." for i in range(11))  # 5 tokens each, 55 in all
    passages, _ = split(text, 50)
    assert [len(words(p.text)) for p in passages] == [30, 25]


def test_a_sentence_longer_than_a_passage_is_cut_between_words_without_a_report():
    text = "w " * 25
    passages, problems = split(text.strip(), 10)
    assert [len(words(p.text)) for p in passages] == [10, 10, 5]
    assert not problems


def test_an_endless_word_is_cut_inside_nothing_lost_and_reported():
    text = "start " + "x" * 95 + " end"
    passages, problems = split(text, 20, spans=letters)
    assert "".join(p.text for p in passages) == text
    assert max(len(letters(p.text)) for p in passages) <= 20
    assert problems.count(SPLIT_WORDS) > 0
    assert problems.names(SPLIT_WORDS)[0] == "d"


def test_the_title_is_kept_with_every_passage_and_counts():
    text = "One two three four. Five six seven eight."
    passages, _ = split(text, 8, title="The title")
    assert [p.prefix for p in passages] == ["The title", "The title"]
    assert encoder_input(passages[0].prefix, passages[0].text) == "The title One two three four. "
    assert all(len(words(encoder_input(p.prefix, p.text))) <= 8 for p in passages)


def test_a_title_longer_than_half_a_passage_is_kept_in_part_and_reported():
    passages, problems = split("One two.", 8, title="a b c d e f g h")
    assert passages[0].prefix == "a b c d"
    assert problems.names(CUT_TITLES) == ["d"]


def test_a_document_of_a_title_only_is_its_own_text_and_can_be_split():
    passages, problems = split("", 4, title="One two three. Four five six.")
    assert [p.text for p in passages] == ["One two three. ", "Four five six."]
    assert [p.prefix for p in passages] == ["", ""]
    assert not problems


def test_overlap_repeats_at_most_that_many_tokens_and_begins_at_words():
    text = " ".join(f"w{i}" for i in range(40))
    passages, _ = split(text, 10, overlap=3)
    for before, after in pairwise(passages):
        assert 0 < len(words(text[after.start : before.end])) <= 3
    assert all(len(words(p.text)) <= 10 for p in passages)


TEXTS = st.text(alphabet=st.sampled_from("ab .?!¿\n\tñé😀'\"-1"), max_size=300)


@given(TEXTS, st.integers(4, 30), st.integers(0, 10), st.sampled_from([words, letters]), TEXTS)
def test_ranges_cover_the_text_and_fit(text, budget, overlap, spans, title):
    if not text.strip() and not title.strip():
        return
    passages, _ = split(text, budget, overlap, title, spans)
    body = text if text.strip() else title
    assert passages[0].start == 0
    assert passages[-1].end == len(body)
    covered = 0
    for passage in passages:
        assert passage.text == body[passage.start : passage.end]
        assert passage.start <= covered
        assert passage.end > passage.start or not body
        covered = max(covered, passage.end)
        assert len(spans(encoder_input(passage.prefix, passage.text))) <= budget
    assert covered == len(body)
    if not overlap:
        assert "".join(p.text for p in passages) == body


@pytest.mark.parametrize("overlap", [0, 4])
def test_splitting_is_the_same_every_time(overlap):
    text = "Una frase. Otra frase más larga, con coma. " * 20
    assert split(text, 17, overlap)[0] == split(text, 17, overlap)[0]

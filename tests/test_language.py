"""Language of a text, sampled."""

import pytest

from colrank.encoder import weights_apply
from colrank.language import UNKNOWN, detect_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("La garantía legal dura seis meses desde la entrega del producto.", "es"),
        ("Storms made the airport cancel every evening flight.", "en"),
        ("Die Garantie gilt sechs Monate ab dem Tag der Lieferung.", "de"),
        ("", UNKNOWN),
        ("12 345 - 678 :: 99", UNKNOWN),
        ("ok", UNKNOWN),
    ],
)
def test_language_of_short_texts(text: str, language: str):
    assert detect_language(text) == language


def test_only_the_beginning_is_looked_at_and_newlines_do_no_harm():
    text = "El envío tarda cinco días.\nLa garantía dura seis meses.\n\n" * 20
    assert detect_language(text + "English words follow here. " * 10_000) == "es"


@pytest.mark.parametrize(
    ("mode", "embedded", "tokens", "applies"),
    [
        ("auto", True, {"en": 49, "es": 51}, True),
        ("auto", True, {"en": 50, "es": 50}, False),
        ("auto", False, {"es": 100}, False),
        ("auto", True, {}, False),
        ("idf", False, {"en": 1}, True),
        ("none", True, {"es": 1}, False),
    ],
)
def test_when_query_tokens_are_weighted(mode, embedded, tokens, applies):
    assert weights_apply(mode, embedded=embedded, language_tokens=tokens) is applies

"""What can be wrong with a corpus: how the report counts it, and the error that `strict` makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from colrank.errors import CorpusError
from colrank.types import Problems


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault: `counted` follows the number in the report, `error` is the strict sentence."""

    counted: str
    error: str


@dataclass(frozen=True, slots=True)
class Notes:
    """Where the readers report faults: counted and named, or raised when `strict`."""

    problems: Problems
    strict: bool = False

    def add(self, fault: Fault, name: str) -> None:
        """Count the fault under this name.

        Raises:
            CorpusError: `strict` is set.
        """
        if self.strict:
            raise CorpusError(fault.error.format(name=name))
        self.problems.add(fault.counted, name)


# Left out on purpose: counted, but no error under `strict`.
UNKNOWN_TYPE = "files of an unknown type skipped"
BEIR_LEFT_OUT = "files of BEIR queries and judgements left out"
BESIDE_BEIR = "files beside a BEIR corpus left out"
HTML_EXTRA = "HTML files skipped because the extra 'formats' is missing (pip install 'colrank[formats]')"

UNREADABLE_FILE = Fault(
    "files that cannot be read skipped", "{name} cannot be read; check that it is there and its permissions."
)
UNREADABLE_FOLDER = Fault(
    "folders that cannot be read skipped", "{name} cannot be listed; check its permissions."
)
BINARY = Fault("binary files skipped", "{name} is binary; leave it out, or convert it to text.")
NOT_UTF8 = Fault(
    "files that are not UTF-8 skipped (save them as UTF-8)", "{name} is not UTF-8; convert it to UTF-8."
)
CUT_SHORT = Fault("files cut short", "{name} ends in the middle or is corrupt; fetch or write it again.")
DAMAGED = Fault("damaged files skipped", "{name} is damaged; fetch or write it again.")
NO_FIELDS = Fault(
    "files without a text or title field skipped (name yours with --text-field)",
    "{name} has neither a text nor a title field; name yours with text_field or title_field.",
)
FRONT_MATTER = Fault(
    "files with front matter that cannot be read, which was indexed as text",
    "{name} has front matter that is no mapping in YAML or TOML; correct it, or begin the file otherwise.",
)

NOT_UTF8_RECORD = Fault("records that are not UTF-8 skipped", "{name} is not UTF-8; convert it to UTF-8.")
NOT_JSON = Fault(
    "records that are not JSON objects skipped", "{name} is not a JSON object; write one object on each line."
)
WRONG_CELLS = Fault(
    "rows with the wrong number of cells",
    "{name} has not as many cells as the first row; correct it or put quotes around cells with separators.",
)
BROKEN_QUOTE = Fault(
    "rows with a broken quote skipped",
    "{name} has a quote that is not closed, or text after the closing one; write quotes inside a cell twice.",
)
NO_FIELDS_RECORD = Fault(
    "records without a text or title field skipped",
    "{name} has neither a text nor a title field; name yours with text_field or title_field.",
)
NOT_TEXT = Fault(
    "records with a text that is not text skipped",
    "{name} has a text or title that is not text; make it a string, a number or a list of strings.",
)
TOO_DEEP = Fault(
    "records nested too deeply skipped", "{name} has metadata nested too deeply; flatten or remove it."
)
BROKEN_CHARACTERS = Fault(
    "records with broken characters repaired",
    "{name} has half of a surrogate pair, which is no character; correct it.",
)
LOST_VALUES = Fault(
    "columns with metadata values left empty",
    "{name} has values that Python cannot hold; convert or remove the column.",
)
NO_ID = Fault(
    "records without an id, which were given one",
    "{name} has no id; give it a string or a whole number, or name the field with id_field.",
)
EMPTY = Fault("empty documents skipped", "{name} is empty; give it a text or a title, or remove it.")

HARMLESS = frozenset(
    (
        UNKNOWN_TYPE,
        BEIR_LEFT_OUT,
        BESIDE_BEIR,
        *(fault.counted for fault in (EMPTY, NO_ID, LOST_VALUES, BROKEN_CHARACTERS, FRONT_MATTER)),
    )
)
"""Kinds of problems after which a file was read whole all the same."""

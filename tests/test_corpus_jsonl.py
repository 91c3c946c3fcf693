"""JSONL, and the rules that hold for every record."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colrank.config import FieldNames
from colrank.corpus import find_files, read_file
from colrank.errors import CorpusError
from colrank.types import Document, Problems

NOT_JSON = "records that are not JSON objects skipped"
NO_ID = "records without an id, which were given one"
REPAIRED = "records with broken characters repaired"

# What UTF-8 can hold: everything but halves of surrogate pairs.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def read(
    path: Path,
    content: bytes,
    problems: Problems | None = None,
    *,
    fields: FieldNames | None = None,
    strict: bool = False,
) -> list[Document]:
    path.write_bytes(content)
    problems = Problems() if problems is None else problems
    [file] = find_files([path], problems)
    return list(read_file(file, fields or FieldNames(), problems, strict=strict))


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_one_object_a_line(tmp_path):
    content = (
        b'\xef\xbb\xbf{"_id": "d1", "title": "T", "text": "one\\ntwo\\t\\"q\\"", "metadata": {"url": "u"}}'
    )
    content += b'\r\n\n  \r\n{"id": "d2", "text": "x", "year": 2020, "tags": ["a", null], "ok": true}'
    problems = Problems()
    assert read(tmp_path / "c.jsonl", content, problems) == [
        Document("d1", 'one\ntwo\t"q"', "T", {"metadata": {"url": "u"}}, "c.jsonl"),
        Document("d2", "x", "", {"year": 2020, "tags": ["a", None], "ok": True}, "c.jsonl"),
    ]
    assert not problems


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXT.filter(bool), TEXT, TEXT), max_size=5), st.booleans())
def test_any_text_and_id_comes_back(tmp_path, rows, ascii):
    records = [{"_id": id, "title": title, "text": text} for id, title, text in rows]
    content = "\n".join(json.dumps(record, ensure_ascii=ascii) for record in records)
    found = read(tmp_path / "c.jsonl", content.encode())
    kept = [row for row in rows if row[1].strip() or row[2].strip()]
    assert [(document.id, document.title, document.text) for document in found] == kept


def test_ids_are_kept_as_given(tmp_path):
    ids: list[Any] = ["007", "a b/ü", " ", 5, 0, -3, 12.0, 10**400, "5.0"]
    content = lines(*({"_id": id, "text": "x"} for id in ids))
    expected = ["007", "a b/ü", " ", "5", "0", "-3", "12", str(10**400), "5.0"]
    assert [document.id for document in read(tmp_path / "c.jsonl", content)] == expected


@pytest.mark.parametrize("id", [None, "", True, 1.5, [1], {"a": 1}, float("nan")])
def test_without_an_id_the_file_and_line_are_it(tmp_path, id):
    content = lines({"_id": "a", "text": "x"}, {"_id": id, "text": "y"}, {"text": "z"})
    problems = Problems()
    found = read(tmp_path / "c.jsonl", content, problems)
    assert [document.id for document in found] == ["a", "c.jsonl:2", "c.jsonl:3"]
    assert problems.names(NO_ID) == ["c.jsonl line 2", "c.jsonl line 3"]
    with pytest.raises(CorpusError, match=r"c\.jsonl line 2 has no id"):
        read(tmp_path / "c.jsonl", content, strict=True)


@pytest.mark.parametrize(
    "bad", [b"{broken", b"[1]", b'"text"', b"3", b"[" * 100_000, b'{"a": %b}' % (b"1" * 5000)]
)
def test_what_is_not_an_object_is_skipped_by_line(tmp_path, bad):
    content = b'{"id": "a", "text": "x"}\n' + bad + b'\n{"id": "b", "text": "y"}\n'
    problems = Problems()
    assert [document.id for document in read(tmp_path / "c.jsonl", content, problems)] == ["a", "b"]
    assert problems.sentences() == [f"1 {NOT_JSON}: c.jsonl line 2"]
    with pytest.raises(CorpusError, match=r"c\.jsonl line 2 is not a JSON object; write"):
        read(tmp_path / "c.jsonl", content, strict=True)


def test_record_that_is_not_utf8_is_skipped_by_line(tmp_path):
    content = b'{"id": "a", "text": "x"}\n{"id": "b", "text": "caf\xe9"}\n{"id": "c", "text": "y"}'
    problems = Problems()
    assert [document.id for document in read(tmp_path / "c.jsonl", content, problems)] == ["a", "c"]
    assert problems.sentences() == ["1 records that are not UTF-8 skipped: c.jsonl line 2"]


def test_utf16_file_is_not_utf8(tmp_path):
    problems = Problems()
    assert read(tmp_path / "c.jsonl", '{"id": "a", "text": "x"}'.encode("utf-16"), problems) == []
    assert problems.names("files that are not UTF-8 skipped (save them as UTF-8)") == ["c.jsonl"]


def test_halves_of_surrogate_pairs_are_replaced(tmp_path):
    content = rb'{"id": "a\ud800", "title": "\udc00t", "text": "x\ud83d\ude00", "k\ud801": ["\udfff"]}'
    problems = Problems()
    [document] = read(tmp_path / "c.jsonl", content, problems)
    assert document == Document("a\ufffd", "x\U0001f600", "\ufffdt", {"k\ufffd": ["\ufffd"]}, "c.jsonl")
    assert problems.sentences() == [f"1 {REPAIRED}: c.jsonl line 1"]


def test_numbers_that_are_not_finite_become_null(tmp_path):
    content = b'{"id": "a", "text": "x", "n": NaN, "i": [-Infinity, 1e999], "d": {"x": Infinity}}'
    [document] = read(tmp_path / "c.jsonl", content)
    assert document.metadata == {"n": None, "i": [None, None], "d": {"x": None}}


@pytest.mark.parametrize(
    ("value", "text"), [(7, "7"), (1.5, "1.5"), (["a", "b"], "a\nb"), (10**400, str(10**400))]
)
def test_numbers_and_lists_of_strings_are_text(tmp_path, value, text):
    [document] = read(tmp_path / "c.jsonl", lines({"id": "a", "title": value, "text": value}))
    assert (document.title, document.text) == (text, text)


@pytest.mark.parametrize("value", [True, {"a": "b"}, [1], ["a", None]])
@pytest.mark.parametrize("field", ["title", "text"])
def test_text_that_is_not_text_is_counted(tmp_path, field, value):
    content = lines({"id": "a", "title": "t", "text": "x"} | {field: value})
    problems = Problems()
    assert read(tmp_path / "c.jsonl", content, problems) == []
    assert problems.names("records with a text that is not text skipped") == ["c.jsonl line 1"]


def test_title_alone_and_text_alone_are_documents(tmp_path):
    content = lines(
        {"id": "a", "title": "t"}, {"id": "b", "text": "x"}, {"id": "c", "title": "t", "text": None}
    )
    found = read(tmp_path / "c.jsonl", content)
    assert [(document.title, document.text) for document in found] == [("t", ""), ("", "x"), ("t", "")]


@pytest.mark.parametrize("text", ["", " \n\u2003", None, float("nan"), []])
def test_empty_document_is_named_by_id_and_line(tmp_path, text):
    content = lines({"id": "a", "text": text}, {"title": "", "text": text})
    problems = Problems()
    assert read(tmp_path / "c.jsonl", content, problems) == []
    assert problems.sentences() == ["2 empty documents skipped: a (c.jsonl line 1), c.jsonl line 2"]
    with pytest.raises(CorpusError, match=r"a \(c\.jsonl line 1\) is empty"):
        read(tmp_path / "c.jsonl", content, strict=True)


def test_record_without_the_fields_is_counted(tmp_path):
    content = lines({"id": "a", "body": "x"}, {"id": "b", "text": "y"})
    problems = Problems()
    assert [document.id for document in read(tmp_path / "c.jsonl", content, problems)] == ["b"]
    assert problems.names("records without a text or title field skipped") == ["c.jsonl line 1"]


def test_fields_can_be_named(tmp_path):
    fields = FieldNames(id_field=("docno", "key"), title_field=("head",), text_field=("body", "contents"))
    content = lines(
        {"docno": 1, "head": "h", "body": "b", "id": "kept", "text": "kept"},
        {"docno": None, "key": "k", "body": None, "contents": "c"},
    )
    assert read(tmp_path / "c.jsonl", content, fields=fields) == [
        Document("1", "b", "h", {"id": "kept", "text": "kept"}, "c.jsonl"),
        Document("k", "c", "", {"docno": None, "body": None}, "c.jsonl"),
    ]


def test_lines_longer_than_the_blocks_read(tmp_path):
    texts = ["é" * 1_000_000, "x", "y" * 700_000]
    content = lines(*({"id": i, "text": text} for i, text in enumerate(texts)))
    assert [document.text for document in read(tmp_path / "c.jsonl", content)] == texts

"""CSV and TSV: quoting, headers, and rows that are not as they should be."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colrank.config import FieldNames
from colrank.corpus import find_files, read_file
from colrank.errors import CorpusError
from colrank.types import Document, Problems

NO_FIELDS = "files without a text or title field skipped (name yours with --text-field)"
BROKEN_QUOTE = "rows with a broken quote skipped"
WRONG_CELLS = "rows with the wrong number of cells"
NOT_UTF8_RECORD = "records that are not UTF-8 skipped"
AWKWARD = 'tab\there, "quoted", semi;colon\nnext line\r\nlast'

# NUL would make the file a binary one.
CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    str.strip
)


def read(
    path: Path,
    content: str | bytes,
    problems: Problems | None = None,
    *,
    fields: FieldNames | None = None,
    strict: bool = False,
) -> list[Document]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    problems = Problems() if problems is None else problems
    [file] = find_files([path], problems)
    return list(read_file(file, fields or FieldNames(), problems, strict=strict))


def pairs(documents: list[Document]) -> list[tuple[str, str]]:
    return [(document.id, document.text) for document in documents]


def table(rows: list[list[str]], delimiter: str = ",", **options: object) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, **options).writerows(rows)
    return out.getvalue()


def test_csv_columns_become_fields_and_metadata(tmp_path):
    content = "\ufeffyear,id,title,text, tag ,\r\n1999,007,T,x,,z\r\n\r\n2001,a,,y,b,\r\n"
    problems = Problems()
    assert read(tmp_path / "c.csv", content, problems) == [
        Document("007", "x", "T", {"year": "1999", "tag": "", "column_6": "z"}, "c.csv"),
        Document("a", "y", "", {"year": "2001", "tag": "b", "column_6": ""}, "c.csv"),
    ]
    assert not problems


def test_columns_of_one_name_are_all_kept(tmp_path):
    [document] = read(tmp_path / "c.csv", "id,text,a,a,a_2\n1,x,p,q,r\n")
    assert document.metadata == {"a": "p", "a_2": "q", "a_2_2": "r"}


@pytest.mark.parametrize(
    ("name", "delimiter"), [("c.csv", ","), ("c.csv", ";"), ("c.csv", "\t"), ("c.tsv", "\t")]
)
def test_newlines_tabs_and_quotes_in_cells(tmp_path, name, delimiter):
    content = table([["id", "text"], ["1", AWKWARD], ["2", '""'], ["3", "after"]], delimiter)
    assert pairs(read(tmp_path / name, content)) == [("1", AWKWARD), ("2", '""'), ("3", "after")]


@pytest.mark.parametrize("name", ["c.csv", "c.tsv"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELLS, CELLS), max_size=4), quote_all=st.booleans())
def test_any_cells_come_back(tmp_path, name, rows, quote_all):
    content = table(
        [["id", "text"], *map(list, rows)],
        "\t" if name == "c.tsv" else ",",
        quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL,
    )
    assert pairs(read(tmp_path / name, content)) == rows


def test_semicolons_separate_when_the_header_says_so(tmp_path):
    content = "id;text;precio\n1;uno, dos;3,50\n"
    [document] = read(tmp_path / "c.csv", content)
    assert (document.text, document.metadata) == ("uno, dos", {"precio": "3,50"})


def test_old_macintosh_line_ends(tmp_path):
    assert pairs(read(tmp_path / "c.csv", 'id,text\r1,"a\rb"\r2,c\r')) == [("1", "a\rb"), ("2", "c")]


@pytest.mark.parametrize("name", ["c.csv", "c.tsv"])
def test_very_large_cells(tmp_path, name):
    big = 'word "quoted"\n' * 200_000
    content = table([["id", "text"], ["1", big], ["2", "x" * 3_000_000]], "\t" if name == "c.tsv" else ",")
    assert pairs(read(tmp_path / name, content)) == [("1", big), ("2", "x" * 3_000_000)]


def test_csv_without_the_fields_names_its_columns(tmp_path):
    problems = Problems()
    assert read(tmp_path / "c.csv", "id,body\n1,x\n", problems) == []
    assert problems.sentences() == [f"1 {NO_FIELDS}: c.csv (columns: id, body)"]
    with pytest.raises(CorpusError, match=r"c\.csv \(columns: id, body\) has neither .* text_field"):
        read(tmp_path / "c.csv", "id,body\n1,x\n", strict=True)
    fields = FieldNames(text_field=("body",))
    assert pairs(read(tmp_path / "c.csv", "id,body\n1,x\n", fields=fields)) == [("1", "x")]


def test_rows_with_the_wrong_number_of_cells(tmp_path):
    content = "id,text\n1,a,b\n2\n3,c\n"
    problems = Problems()
    assert pairs(read(tmp_path / "c.csv", content, problems)) == [("3", "c")]
    assert problems.names(WRONG_CELLS) == ["c.csv line 2", "c.csv line 3"]
    with pytest.raises(CorpusError, match=r"c\.csv line 2 has not as many cells"):
        read(tmp_path / "c.csv", content, strict=True)


def test_quote_that_is_never_closed_costs_one_row(tmp_path):
    content = 'id,text\n1,a\n2,"open\n3,c\n4,d\n'
    problems = Problems()
    assert pairs(read(tmp_path / "c.csv", content, problems)) == [("1", "a"), ("3", "c"), ("4", "d")]
    assert problems.sentences() == [f"1 {BROKEN_QUOTE}: c.csv line 3"]
    with pytest.raises(CorpusError, match=r"c\.csv line 3 has a quote that is not closed"):
        read(tmp_path / "c.csv", content, strict=True)


def test_quote_closed_by_a_later_row_costs_one_row(tmp_path):
    content = 'id,text\n1,"open\n2,"good, really"\n3,"two\nlines"\n'
    problems = Problems()
    assert pairs(read(tmp_path / "c.csv", content, problems)) == [("2", "good, really"), ("3", "two\nlines")]
    assert problems.names(BROKEN_QUOTE) == ["c.csv line 2"]


def test_quote_that_joins_rows_into_too_many_cells_costs_one_row(tmp_path):
    content = 'id,text,n\n1,a "b",0\n2,"open,0\n3,c,"0"\n4,d,0\n5,"e,0"\n6,f,0\n'
    problems = Problems()
    assert [document.id for document in read(tmp_path / "c.csv", content, problems)] == ["1", "3", "4", "6"]
    assert problems.names(BROKEN_QUOTE) == ["c.csv line 3"]
    assert problems.names(WRONG_CELLS) == ["c.csv line 6"]


def test_lines_are_counted_where_rows_begin(tmp_path):
    content = 'text\n"a\n\nb"\n\nc\n'
    problems = Problems()
    assert pairs(read(tmp_path / "c.csv", content, problems)) == [("c.csv:2", "a\n\nb"), ("c.csv:6", "c")]
    assert problems.names("records without an id, which were given one") == [
        "c.csv line 2",
        "c.csv line 6",
    ]


@pytest.mark.parametrize(("name", "separator"), [("c.csv", b","), ("c.tsv", b"\t")])
def test_row_that_is_not_utf8_is_skipped_by_line(tmp_path, name, separator):
    content = b'id,text\n1,"a\ncaf\xe9"\n2,b\n3,\xff\n'.replace(b",", separator)
    problems = Problems()
    assert pairs(read(tmp_path / name, content, problems)) == [("2", "b")]
    assert problems.names(NOT_UTF8_RECORD) == [f"{name} line 2", f"{name} line 5"]


def test_header_that_is_not_utf8_tells_that_the_file_is_not(tmp_path):
    problems = Problems()
    assert read(tmp_path / "c.csv", "id;título;text\n1;a;b\n".encode("latin-1"), problems) == []
    assert problems.names("files that are not UTF-8 skipped (save them as UTF-8)") == ["c.csv"]


@pytest.mark.parametrize(
    ("row", "document"),
    [
        ("7\tsome text", Document("7", "some text", "", {}, "collection.tsv")),
        ("D7\ta title\tsome text", Document("D7", "some text", "a title", {}, "collection.tsv")),
        (
            "D7\thttp://u\tT\tsome text",
            Document("D7", "some text", "T", {"url": "http://u"}, "collection.tsv"),
        ),
    ],
)
def test_tsv_without_a_header(tmp_path, row, document):
    assert read(tmp_path / "collection.tsv", f"\ufeff{row}\r\n\n{row}\n") == [document, document]


def test_quotes_in_tsv_without_a_header_are_characters(tmp_path):
    content = '0\t"open\n3\ta "b" c\n9\t"whole"\n'
    problems = Problems()
    found = pairs(read(tmp_path / "c.tsv", content, problems, fields=FieldNames(id_field=("docno",))))
    assert found == [("0", '"open'), ("3", 'a "b" c'), ("9", '"whole"')]
    assert not problems


def test_tsv_without_a_header_skips_rows_of_another_width(tmp_path):
    problems = Problems()
    content = "0\ta\n1\tb\tc\n2\n\td\n4\t \n5\te"
    assert pairs(read(tmp_path / "c.tsv", content, problems)) == [("0", "a"), ("c.tsv:4", "d"), ("5", "e")]
    assert problems.names(WRONG_CELLS) == ["c.tsv line 2", "c.tsv line 3"]
    assert problems.names("empty documents skipped") == ["4 (c.tsv line 5)"]


@pytest.mark.parametrize("row", ["alone", "a\tb\tc\td\te"])
def test_tsv_of_a_shape_that_says_nothing(tmp_path, row):
    problems = Problems()
    assert read(tmp_path / "c.tsv", row, problems) == []
    assert problems.names(NO_FIELDS) == [f"c.tsv ({len(row.split())} columns without a header)"]


def test_tsv_with_a_header(tmp_path):
    content = 'id\ttext\ttitle\n1\t"a ""q"" b"\tT\n2\t"He said" so\tU\n3\t"never closed\tV\n4\tx\tW\n'
    problems = Problems()
    found = read(tmp_path / "c.tsv", content, problems)
    assert [(document.id, document.text, document.title) for document in found] == [
        ("1", 'a "q" b', "T"),
        ("2", '"He said" so', "U"),
        ("3", '"never closed', "V"),
        ("4", "x", "W"),
    ]
    assert not problems


def test_header_alone_has_no_documents(tmp_path):
    problems = Problems()
    assert read(tmp_path / "c.csv", "id,text\n", problems) == []
    assert not problems

"""Files that are one document each: plain text, Markdown, reStructuredText, HTML."""

import sys
from pathlib import Path

import pytest

from colrank.config import FieldNames
from colrank.corpus import find_files, read_file
from colrank.errors import CorpusError, MissingExtra
from colrank.types import Document, Problems

NOT_UTF8 = "files that are not UTF-8 skipped (save them as UTF-8)"


def read(path: Path, content: str | bytes, problems: Problems | None = None, strict: bool = False):
    """The one document, or None, of a file with this content."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    problems = Problems() if problems is None else problems
    [file] = find_files([path], problems)
    documents = list(read_file(file, FieldNames(), problems, strict=strict))
    assert len(documents) < 2
    return documents[0] if documents else None


@pytest.mark.parametrize("name", ["a.txt", "a.rst"])
def test_plain_text_is_kept_exactly(tmp_path, name):
    text = "\n  Título\r\n======\n\n\tcafe\u0301 \u2028 \U0001f600  \n"
    assert read(tmp_path / name, text) == Document(id=name, text=text, title="", metadata={}, source=name)


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.rst", "a.html"])
def test_byte_order_mark_is_no_text(tmp_path, name):
    assert read(tmp_path / name, b"\xef\xbb\xbfword").text == "word"


@pytest.mark.parametrize(
    ("content", "title", "text"),
    [
        ("# Title\n\nBody\n", "Title", "Body\n"),
        ("\n \n# Title #\r\n\r\n    code\r\n", "Title", "    code\r\n"),
        ("# C#\nBody", "C#", "Body"),
        ("# Only", "Only", ""),
        ("Intro\n\n# Title\n", "", "Intro\n\n# Title\n"),
        ("## Second\nBody", "", "## Second\nBody"),
        ("#tag\nBody", "", "#tag\nBody"),
        ("    # code\nBody", "", "    # code\nBody"),
    ],
)
def test_markdown_title_is_the_heading_it_begins_with(tmp_path, content, title, text):
    document = read(tmp_path / "a.md", content)
    assert (document.title, document.text) == (title, text)


def test_markdown_heading_takes_linear_time(tmp_path):
    assert read(tmp_path / "a.md", "# a" + " #" * 200_000 + "b\n" + " " * 200_000 + "c").title.startswith("a")


def test_html_text_and_title(tmp_path):
    page = """<!DOCTYPE html><html><head><title> The
      title &amp; more</title><style>p {}</style><script>var x</script></head><body>
      <h1>Heading</h1><p>One &eacute; <b>bold</b>word,
      two&nbsp;three<br>next</p><!-- comment --><script>no()</script><style>no</style>
      <template><p>no</p></template><noscript>no</noscript>
      <ul><li>a<li>b</ul><table><tr><td>1</td><td>2</td></tr></table>
      <pre>
  x = 1

    y</pre>tail</body></html>"""
    document = read(tmp_path / "a.html", page)
    assert document.title == "The title & more"
    assert document.text == (
        "Heading\nOne é boldword, two\u00a0three\nnext\na\nb\n1 2\n  x = 1\n\n    y\ntail"
    )


def test_html_without_a_title_takes_the_first_heading(tmp_path):
    document = read(tmp_path / "a.htm", "<svg><title>no</title></svg><h1>A <i>b</i></h1><p>c<h1>d</h1>")
    assert (document.title, document.text) == ("A b", "c\nd")


def test_html_nested_deeper_than_the_stack(tmp_path):
    assert read(tmp_path / "a.html", "<div>" * 5000 + "deep").text == "deep"


@pytest.mark.parametrize(
    ("charset", "codec"), [("windows-1251", "cp1251"), ("Shift_JIS", "shift_jis"), ("iso-8859-1", "cp1252")]
)
def test_html_charset_may_be_declared(tmp_path, charset, codec):
    text = {"cp1251": "Привет", "shift_jis": "日本", "cp1252": "a\u2019b"}[codec]
    page = f'<meta http-equiv="Content-Type" content="text/html; charset={charset}"><p>{text}'
    assert read(tmp_path / "a.html", page.encode(codec)).text == text
    page = f"<head><meta charset='{charset}'></head><p>{text}"
    assert read(tmp_path / "a.html", page.encode(codec)).text == text


@pytest.mark.parametrize("charset", ["utf-16", "nonsense", "base64", "utf-8"])
def test_html_charset_that_cannot_be_is_utf8(tmp_path, charset):
    assert read(tmp_path / "a.html", f"<meta charset={charset}><p>é").text == "é"


def test_html_that_is_not_utf8_is_counted(tmp_path):
    problems = Problems()
    assert read(tmp_path / "a.html", b"<p>caf\xe9", problems) is None
    assert problems.names(NOT_UTF8) == ["a.html"]


def test_html_byte_order_mark_goes_before_the_declaration(tmp_path):
    assert read(tmp_path / "a.html", "\ufeff<meta charset=cp1251><p>é").text == "é"


def test_html_without_the_extra_is_counted(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "colrank.corpus.html", None)
    problems = Problems()
    assert read(tmp_path / "a.html", "<p>x", problems) is None
    kind = "HTML files skipped because the extra 'formats' is missing (pip install 'colrank[formats]')"
    assert problems.names(kind) == ["a.html"]
    with pytest.raises(MissingExtra, match=r"a\.html .*colrank\[formats\]"):
        read(tmp_path / "a.html", "<p>x", strict=True)


@pytest.mark.parametrize(
    "content", [b"caf\xe9", "café".encode("utf-16"), "café".encode("utf-16-be"), b"\xff"]
)
def test_text_that_is_not_utf8_is_counted(tmp_path, content):
    problems = Problems()
    assert read(tmp_path / "a.txt", content, problems) is None
    # UTF-16 without its mark has the NUL bytes of a binary file.
    kind = "binary files skipped" if b"\0c" in content[:2] else NOT_UTF8
    assert problems.kinds() == [kind]
    assert problems.names(kind) == ["a.txt"]
    with pytest.raises(CorpusError, match=r"a\.txt is (binary|not UTF-8)"):
        read(tmp_path / "a.txt", content, strict=True)


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.jsonl", "a.csv", "a.tsv"])
def test_binary_is_counted(tmp_path, name):
    problems = Problems()
    assert read(tmp_path / name, b"\x89PNG\r\n" + bytes(100), problems) is None
    assert problems.names("binary files skipped") == [name]


def test_only_the_first_bytes_tell_that_a_file_is_binary(tmp_path):
    assert read(tmp_path / "a.txt", b"x" * 8191 + b"\0") is None
    assert read(tmp_path / "a.txt", b"x" * 8192 + b"\0").text == "x" * 8192 + "\0"


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.rst", "a.html", "a.jsonl", "a.csv", "a.tsv"])
def test_empty_file_is_counted(tmp_path, name):
    problems = Problems()
    assert read(tmp_path / name, "", problems) is None
    assert problems.sentences() == [f"1 empty documents skipped: {name}"]
    with pytest.raises(CorpusError, match="is empty"):
        read(tmp_path / name, "", strict=True)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt", " \n\t"), ("a.txt", "\ufeff"), ("a.md", "\n\n"), ("a.html", "<p> <script>x</script>")],
)
def test_blank_document_is_counted(tmp_path, name, content):
    problems = Problems()
    assert read(tmp_path / name, content, problems) is None
    assert problems.names("empty documents skipped") == [name]

"""Front matter of Markdown files."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colrank.config import FieldNames
from colrank.corpus import find_files, read_file
from colrank.corpus.frontmatter import Unreadable, split_front_matter
from colrank.errors import CorpusError
from colrank.types import Document, Problems

UNREADABLE = "files with front matter that cannot be read, which was indexed as text"


def read(path: Path, content: str | bytes, problems: Problems | None = None, strict: bool = False):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    problems = Problems() if problems is None else problems
    [file] = find_files([path], problems)
    documents = list(read_file(file, FieldNames(), problems, strict=strict))
    assert len(documents) < 2
    return documents[0] if documents else None


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("close", ["---", "...", "--- \t"])
def test_yaml_is_metadata_and_no_text(tmp_path, end, close):
    lines = [
        "--- ",
        "year: 2024",
        "tags: [a, 'b']",
        "at: {x: 1.5}",
        "draft: no",
        close,
        "",
        "Body",
        "---",
        "more",
    ]
    problems = Problems()
    assert read(tmp_path / "a.md", end.join(lines), problems) == Document(
        id="a.md",
        text=end.join(["", "Body", "---", "more"]),
        title="",
        metadata={"year": 2024, "tags": ["a", "b"], "at": {"x": 1.5}, "draft": False},
        source="a.md",
    )
    assert not problems


def test_toml_is_metadata_and_no_text(tmp_path):
    content = "+++\ntitle = 'T'\nyear = 2024\nday = 2024-01-31\n[more]\ntags = ['a']\n+++\nBody\n"
    problems = Problems()
    document = read(tmp_path / "a.md", content, problems)
    assert (document.title, document.text) == ("T", "Body\n")
    assert document.metadata == {"year": 2024, "day": "2024-01-31", "more": {"tags": ["a"]}}
    assert not problems


def test_packed_and_marked_files_have_front_matter(tmp_path):
    content = "\ufeff---\na: 1\n---\nBody".encode()
    assert read(tmp_path / "a.md", content).metadata == {"a": 1}
    document = read(tmp_path / "a.md.gz", gzip.compress(content))
    assert (document.text, document.metadata) == ("Body", {"a": 1})


@pytest.mark.parametrize("name", ["a.txt", "a.rst"])
def test_other_files_have_none(tmp_path, name):
    content = "---\na: 1\n---\nBody"
    document = read(tmp_path / name, content)
    assert (document.text, document.metadata) == (content, {})


@pytest.mark.parametrize(
    ("block", "metadata"),
    [
        ("", {}),
        ("# only a comment\n", {}),
        ("{}\n", {}),
        (
            "day: 2024-01-31\nat: 2024-01-31 10:20:30\nutc: 2024-01-31T10:20:30Z\n",
            {"day": "2024-01-31", "at": "2024-01-31T10:20:30", "utc": "2024-01-31T10:20:30+00:00"},
        ),
        (
            "on: push\n1: x\nnull: y\n2024-01-31: z\n",
            {"on": "push", "1": "x", "null": "y", "2024-01-31": "z"},
        ),
        ("a: .nan\nb: .inf\nc: ~\n", {"a": None, "b": None, "c": None}),
        ("a: !!binary aGk=\nb: !!set {x}\n", {"a": "aGk=", "b": ["x"]}),
        ("a: |\n  ---\n  b\n", {"a": "---\nb\n"}),
        ("text: t\n_id: 7\nid: 8\n", {"text": "t", "_id": 7, "id": 8}),
    ],
)
def test_values_are_those_that_json_holds(tmp_path, block, metadata):
    problems = Problems()
    document = read(tmp_path / "a.md", f"---\n{block}---\nBody", problems)
    assert document == Document("a.md", "Body", "", metadata, "a.md")
    assert json.loads(json.dumps(document.metadata, allow_nan=False)) == metadata
    assert not problems


@pytest.mark.parametrize(
    ("block", "body", "title", "text", "metadata"),
    [
        ("title: ' T '", "Body", "T", "Body", {}),
        ("title: T", "# T\n\nBody", "T", "Body", {}),
        ("title: T", "# Other\n\nBody", "T", "# Other\n\nBody", {}),
        ("title: T", "", "T", "", {}),
        ("a: 1", "\n# Head\nBody", "Head", "Body", {"a": 1}),
        ("title: ''", "# Head\nBody", "Head", "Body", {"title": ""}),
        ("title: 1984", "# Head\nBody", "Head", "Body", {"title": 1984}),
        ("title: [a, b]", "Body", "", "Body", {"title": ["a", "b"]}),
        ("Title: T", "Body", "", "Body", {"Title": "T"}),
    ],
)
def test_title(tmp_path, block, body, title, text, metadata):
    document = read(tmp_path / "a.md", f"---\n{block}\n---\n{body}")
    assert (document.title, document.text, document.metadata) == (title, text, metadata)


def test_front_matter_alone_is_an_empty_document(tmp_path):
    problems = Problems()
    assert read(tmp_path / "a.md", "---\na: 1\n---\n", problems) is None
    assert problems.names("empty documents skipped") == ["a.md"]


LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    "content",
    [
        "---\na: b: c\n---\nBody",
        "---\n- a\n---\nBody",
        "---\nA line between rules.\n---\nBody",
        "---\na: 2024-13-45\n---\nBody",
        "---\na: !!python/object:os.system x\n---\nBody",
        "---\na: !!int ''\n---\nBody",
        "---\na: !!timestamp x\n---\nBody",
        "---\na: 1\na: 2\n---\nBody",
        "---\n{{ a }}: 1\n---\nBody",
        "---\na: \x07\n---\nBody",
        "---\na: &x [*x]\n---\nBody",
        f"---\n{LAUGHS}---\nBody",
        f"---\na: {'[' * 2000}{']' * 2000}\n---\nBody",
        f"---\na: {'[' * 80}{']' * 80}\n---\nBody",
        f"---\na: 0x{'f' * 9000}\n---\nBody",
        f"---\na: {'x' * 70_000}\n---\nBody",
        "---\na: 1\n+++\n---\nBody",
        "+++\na: 1\n+++\nBody",
        "+++\na = 1\na = 2\n+++\nBody",
        "+++\na = 1979-02-30\n+++\nBody",
    ],
)
def test_what_cannot_be_read_is_text_and_counted(tmp_path, content):
    problems = Problems()
    document = read(tmp_path / "a.md", content, problems)
    assert (document.text, document.title, document.metadata) == (content, "", {})
    assert problems.kinds() == [UNREADABLE]
    assert problems.names(UNREADABLE) == ["a.md"]
    with pytest.raises(CorpusError, match=r"a\.md has front matter that is no mapping .*; correct it"):
        read(tmp_path / "a.md", content, strict=True)


@pytest.mark.parametrize(
    "content",
    [
        "---\na: 1\nBody",
        "---\na: 1\n ---\nBody",
        "\n---\na: 1\n---\nBody",
        " ---\na: 1\n---\nBody",
        "----\na: 1\n----\nBody",
        "--- a\na: 1\n---\nBody",
        "+++\na = 1\n---\nBody",
        "---\na: 1\n----\nBody",
        "---",
        "+++",
    ],
)
def test_what_only_resembles_it_is_text(tmp_path, content):
    problems = Problems()
    document = read(tmp_path / "a.md", content, problems)
    assert (document.text, document.metadata) == (content, {})
    assert not problems


def test_broken_characters_are_repaired_and_counted(tmp_path):
    problems = Problems()
    assert read(tmp_path / "a.md", '---\na: "\\ud800"\n---\nBody', problems).metadata == {"a": "\ufffd"}
    assert problems.names("records with broken characters repaired") == ["a.md"]


def test_file_cut_short_within_front_matter_is_text(tmp_path):
    content = b"---\n" + b"".join(b"key%d: value %d\n" % (n, n * n) for n in range(20_000)) + b"---\nBody"
    problems = Problems()
    document = read(tmp_path / "a.md.gz", gzip.compress(content)[:-20_000], problems)
    assert document.text.startswith("---\nkey0: value 0\n")
    assert problems.kinds() == ["files cut short"]


@given(
    st.sampled_from(["---\n", "+++\n"]),
    st.text(st.sampled_from("ab1:=-.[]{}'\"!&*?|>#%@, \n\t0x"), max_size=30),
)
def test_any_block_is_read_or_refused(mark, block):
    text = f"{mark}{block}\n{mark}Body"
    try:
        found = split_front_matter(text)
    except Unreadable:
        return
    assert found is not None
    assert text.endswith(found.text)
    json.dumps(found.metadata, allow_nan=False)

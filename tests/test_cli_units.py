"""Parts of the command line without a subprocess: presets, query files, what reaches the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from colrank.cli.hits import hit_record, print_hits, shown_passage
from colrank.cli.main import main
from colrank.cli.render import print_build
from colrank.errors import InputError
from colrank.evaluate import read_queries
from colrank.types import BuildReport, Hit, Hits, Problems, Span


def hit(**values: object) -> Hit:
    plain = {
        "id": "d#0",
        "document": "d",
        "score": 1.0,
        "scores": {"maxsim": 1.0},
        "title": "",
        "text": "text",
        "start": 0,
        "end": 4,
        "source": "",
        "metadata": {},
    }
    return Hit(**(plain | values))


@pytest.mark.parametrize(
    ("preset", "told"),
    [
        ("[search]\nk = [1]", "k of search is [1]; give a whole number"),
        ("[search]\nk = 2.7", "give a whole number"),
        ("[search]\nk = true", "give a whole number"),
        ("[search]\nindex = 5", "give a string"),
        ("[index]\noverwrite = 1", "give true or false"),
        ("[index]\ntext_field = 3", "give a string or a list of strings"),
        ("[search]\nnothing = 3", "search has no option 'nothing'"),
        ("[sing]\nk = 3", "no command 'sing'"),
        ("k = 3", "under a command"),
        ("[search", "not valid TOML"),
    ],
)
def test_a_preset_that_is_wrong_is_named(tmp_path: Path, preset: str, told: str):
    (tmp_path / "c.toml").write_text(preset)
    done = CliRunner().invoke(main, ["--config", str(tmp_path / "c.toml"), "search", "x"])
    assert isinstance(done.exception, InputError)
    assert told in str(done.exception)


@pytest.mark.parametrize("fields", ['"body"', '["body", "abstract"]'])
def test_a_preset_may_name_one_field_or_several(tmp_path: Path, fields: str):
    (tmp_path / "c.toml").write_text(f"[index]\ntext_field = {fields}\n")
    done = CliRunner().invoke(main, ["--config", str(tmp_path / "c.toml"), "index", str(tmp_path / "none")])
    assert "none does not exist" in str(done.exception)


def test_queries_of_every_kind_of_file(tmp_path: Path):
    (tmp_path / "q.txt").write_text("\ufeffone\n\n two \r\n", encoding="utf-8")
    assert read_queries(tmp_path / "q.txt") == [(None, "one"), (None, "two")]
    (tmp_path / "q.JSONL").write_text('{"_id": 7, "text": "one"}\n{"text": "two"}\n')
    assert read_queries(tmp_path / "q.JSONL") == [("7", "one"), (None, "two")]
    (tmp_path / "q.tsv").write_text("11\twhat is one\n12\ttwo\n")
    assert read_queries(tmp_path / "q.tsv") == [("11", "what is one"), ("12", "two")]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("q.jsonl", b'{"text": "one"}\n{"text": " "}', "line 2"),
        ("q.jsonl", b"[" * 100_000, "line 1"),
        ("q.jsonl", b"{", "line 1"),
        ("q.tsv", b"only", "line 1"),
        ("q.txt", b"caf\xe9", "not UTF-8"),
        ("q.txt", b"\n \n", "no query"),
    ],
)
def test_a_broken_file_of_queries_is_named(tmp_path: Path, name: str, content: bytes, told: str):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=told):
        read_queries(tmp_path / name)


def test_control_characters_do_not_reach_the_terminal(capsys):
    print_hits(
        Hits([hit(id="a\x1b[2J\nb#0", title="t\x07", text="x\x1b]0;y\x07z", source="s\x9b")]),
        several=False,
        told=set(),
    )
    shown = capsys.readouterr().out
    assert not set(shown) & {"\x1b", "\x07", "\x9b"}
    assert "a [2J b#0" in shown


def test_brackets_are_text_not_markup(capsys, tmp_path: Path):
    report = BuildReport(1, 1, 2, 3, 0.5, Problems())
    stats = {
        "bytes_per_token": 1.5,
        "model": "[red]m[/red]",
        "passage_tokens": 256,
        "weighted": False,
        "language_tokens": {"en": 2},
        "bits": 16,
        "codec": None,
        "pool": 1,
    }
    print_build(Path("my[red].index[/b]"), report, stats, [])
    shown = capsys.readouterr().out
    assert "my[red].index[/b]" in shown
    assert "[red]m[/red]" in shown


def test_a_long_passage_shows_the_stretch_with_most_matches():
    text = "word " * 200 + "the answer is saffron indeed " + "word " * 200
    at = text.index("saffron")
    shown = shown_passage(hit(text=text, highlights=(Span(at, at + 7),)), most=120)
    assert "saffron" in shown.plain
    assert shown.plain.startswith("… ")
    assert shown.plain.endswith(" …")
    assert [shown.plain[s.start : s.end] for s in shown.spans if s.style == "bold"] == ["saffron"]


def test_a_record_of_a_hit_is_json():
    record = hit_record("q", "7", 1, hit(metadata={"year": 2024, "tags": ["a"]}))
    assert json.loads(json.dumps(record))["metadata"] == {"year": 2024, "tags": ["a"]}
    assert list(record)[:3] == ["query_id", "query", "rank"]

"""The real command line in a subprocess: what a user sees, and exit codes."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from colrank.cli.main import main

ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "COLRANK_INDEX"} | {
    "COLUMNS": "120",
    "NO_COLOR": "1",
}


def colrank(*arguments: object, cwd: Path | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "colrank", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=ENVIRONMENT,
        input=stdin,
        check=False,
        timeout=240,
    )


def fails(*arguments: object, cwd: Path | None = None) -> str:
    """Run what must fail with one sentence and exit code 2; return the sentence."""
    done = colrank(*arguments, cwd=cwd)
    assert done.returncode == 2, done.stderr + done.stdout
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("Error: ")
    return lines[0]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Path:
    index = tmp_path_factory.mktemp("cli") / "sample.index"
    done = colrank("index", sample, "--index", index, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert re.search(r"Indexed 24 documents \(\d+ passages, [\d,]+ tokens\) into", done.stdout)
    assert "token weights on" in done.stdout
    return index


def rows(done: subprocess.CompletedProcess[str]) -> list[dict]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


QUESTIONS = {
    "How much does it cost to store my bike over the winter?": "sample/en/winter-storage.md",
    "What is the range of the electric bikes?": "sample/en/e-bike-batteries.md",
    "How many millimetres of brake pad must be left before I replace it?": "sample/en/safety-guide.md",
    "¿Cuánto dura la garantía de una reparación?": "sample/es/garantia-reparaciones.md",
    "¿Cuándo me devuelven la fianza si me doy de baja?": "sample/es/alta-y-fianza.md",
    "¿Hasta qué edad puede ir un niño en la silla infantil?": "sample/es/silla-infantil.md",
}


def test_questions_in_both_languages_find_their_document(built: Path):
    found = rows(colrank("search", *QUESTIONS, "--index", built, "-k", 3, "--json", "--by", "document"))
    assert len(found) == 18
    first = {row["query"]: row["document"] for row in found if row["rank"] == 1}
    assert first == QUESTIONS
    assert set(found[0]) == {
        *("query", "rank", "id", "document", "score", "scores", "title", "text", "start", "end"),
        *("source", "metadata"),
    }


def test_the_table_shows_rank_score_document_and_passage(built: Path):
    done = colrank("search", "¿Cuánto dura la garantía de una reparación?", "--index", built, "-k", 2)
    assert done.returncode == 0
    assert re.search(r"^  1 +\d+\.\d{4}  sample/es/garantia-reparaciones\.md#\d", done.stdout)
    assert "garantía" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120


def test_matching_words_are_bold_on_a_terminal(built: Path):
    script = shutil.which("script")
    if script is None:
        pytest.skip("the program `script` is not here")
    command = f"{sys.executable} -m colrank search 'winter storage' --index {built} -k 1"
    environment = {k: v for k, v in ENVIRONMENT.items() if k != "NO_COLOR"} | {"TERM": "xterm-256color"}
    done = subprocess.run(
        [script, "-qec", command, "/dev/null"], capture_output=True, text=True, env=environment, check=True
    )
    assert re.search(r"\x1b\[1m(winter|Storage|storage)\x1b", done.stdout)


def test_queries_of_a_file_and_of_standard_input(built: Path, tmp_path: Path):
    (tmp_path / "q.txt").write_text("winter storage\n\nlost keys\n", encoding="utf-8")
    found = rows(colrank("search", "--queries", tmp_path / "q.txt", "--index", built, "-k", 1, "--json"))
    assert [row["query"] for row in found] == ["winter storage", "lost keys"]
    (tmp_path / "q.jsonl").write_text('{"_id": "q7", "text": "fianza"}\n', encoding="utf-8")
    found = rows(colrank("search", "--queries", tmp_path / "q.jsonl", "--index", built, "-k", 2, "--json"))
    assert [(row["query_id"], row["query"], row["rank"]) for row in found] == [
        ("q7", "fianza", 1),
        ("q7", "fianza", 2),
    ]
    done = colrank("search", "--queries", "-", "--index", built, "-k", 1, "--json", stdin="casco\n")
    assert rows(done)[0]["query"] == "casco"


def test_more_hits_than_passages_gives_all_of_them_once(built: Path):
    stats = json.loads(colrank("stats", "--index", built, "--json").stdout)
    found = rows(colrank("search", "bicicleta", "--index", built, "-k", 1000, "--json"))
    assert len(found) == stats["passages"] == len({row["id"] for row in found})
    found = rows(colrank("search", "bicicleta", "--index", built, "-k", 1000, "--json", "--by", "document"))
    assert len(found) == stats["documents"] == len({row["document"] for row in found})


def test_metadata_of_records_is_kept(built: Path):
    row = rows(colrank("search", "curso de mecánica básica", "--index", built, "-k", 1, "--json"))[0]
    assert row["document"] == "aviso-02"
    assert row["metadata"].keys() == {"fecha", "tema"}
    assert row["source"] == "sample/es/avisos.jsonl"


def test_stats_for_people_and_programs(built: Path):
    done = colrank("stats", "--index", built)
    assert done.returncode == 0
    for name in ("Documents", "Passages", "Tokens", "Bytes a token", "Model", "Kernels", "Token weights"):
        assert name in done.stdout
    stats = json.loads(colrank("stats", "--index", built, "--json").stdout)
    assert stats["bytes"]["total"] == sum(p.stat().st_size for p in built.rglob("*") if p.is_file())


def test_explain_prints_each_query_token_and_writes_a_page(built: Path, tmp_path: Path):
    name = "sample/en/winter-storage.md#0"
    done = colrank(
        "explain", "winter storage price", name, "--index", built, "--html", tmp_path / "heat.html"
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^winter +winter", done.stdout, re.MULTILINE)
    page = (tmp_path / "heat.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert re.search(r"<mark[^>]*>(winter|storage|Storage|Winter)", page)
    assert "http" not in page  # self-contained
    tokens = rows(colrank("explain", "winter storage price", name, "--index", built, "--json"))
    assert [row["token"] for row in tokens] == ["[CLS]", "winter", "storage", "price", "[SEP]"]


def test_a_second_index_brings_the_first_up_to_date_unless_overwritten(tmp_path: Path):
    (tmp_path / "a.txt").write_text("First text.")
    assert colrank("index", "a.txt", cwd=tmp_path).returncode == 0
    assert "1 unchanged" in colrank("index", "a.txt", cwd=tmp_path).stdout
    assert "--overwrite" in fails("index", "a.txt", "--bits", "2", cwd=tmp_path)
    (tmp_path / "a.txt").write_text("Second text.")
    assert "1 replaced" in colrank("index", "a.txt", cwd=tmp_path).stdout
    assert rows(colrank("search", "text", "--json", cwd=tmp_path))[0]["text"] == "Second text."
    assert colrank("index", "a.txt", "--overwrite", "--bits", "32", cwd=tmp_path).returncode == 0
    assert rows(colrank("search", "text", "--json", cwd=tmp_path))[0]["text"] == "Second text."


def test_the_index_beside_its_corpus_is_not_indexed(tmp_path: Path):
    (tmp_path / "a.txt").write_text("Some text.")
    assert "Indexed 1 documents" in colrank("index", ".", cwd=tmp_path).stdout
    assert "Indexed 1 documents" in colrank("index", ".", "--overwrite", cwd=tmp_path).stdout


def test_what_cannot_be_read_is_counted_and_named(tmp_path: Path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "fine.txt").write_text("A fine text.", encoding="utf-8")
    (tmp_path / "c" / "latin.txt").write_bytes("Año".encode("latin-1"))
    (tmp_path / "c" / "image.txt").write_bytes(b"\x89PNG\x00\x00")
    (tmp_path / "c" / "blank.md").write_text(" \n")
    with gzip.open(tmp_path / "c" / "more.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write('{"_id": "x", "text": "with\\nnewline, \\t tab and \\"quotes\\""}\n{broken\n')
        file.write('{"_id": "x", "text": "the later one"}\n')
    done = colrank("index", "c", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "Indexed 2 documents" in told
    for name in ("latin.txt", "image.txt", "blank.md", "line 2", "duplicate ids"):
        assert name in told, name
    assert "Traceback" not in done.stderr
    fails("index", "c", "--index", "strict.index", "--strict", cwd=tmp_path)
    assert not (tmp_path / "strict.index").exists()


def test_bad_input_is_one_sentence_and_exit_code_2(built: Path, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "q.txt").write_text("\n")
    (tmp_path / "config.toml").write_text("[search]\nkk = 3\n")
    (tmp_path / "a.txt").write_text("text")
    assert "path" in fails("index", cwd=tmp_path).lower()
    assert "nowhere" in fails("index", "nowhere", cwd=tmp_path)
    assert "empty" in fails("index", "empty", cwd=tmp_path)
    assert "no-such-model" in fails("index", "a.txt", "--model", "./no-such-model", cwd=tmp_path)
    assert "9999" in fails("index", "a.txt", "--passage-tokens", 9999, cwd=tmp_path)
    assert "tpu" in fails("index", "a.txt", "--device", "tpu9", cwd=tmp_path)
    assert "no index" in fails("search", "x", cwd=tmp_path)
    assert "no index" in fails("stats", cwd=tmp_path)
    assert "k is 0" in fails("search", "x", "-k", 0, "--index", built)
    assert "empty" in fails("search", " ", "--index", built)
    assert "no query" in fails("search", "--index", built)
    assert "no query" in fails("search", "--queries", tmp_path / "q.txt", "--index", built)
    assert "knows no token" in fails("search", "ᚠᚡᚢ", "--index", built)
    assert "nothing-here" in fails("explain", "x", "nothing-here", "--index", built)
    assert "kk" in fails("--config", tmp_path / "config.toml", "search", "x", "--index", built)
    assert not (tmp_path / "colrank.index").exists()


def test_a_preset_sets_defaults_and_the_command_line_wins(built: Path, tmp_path: Path):
    (tmp_path / "c.toml").write_text(f'[search]\nk = 2\nindex = "{built}"\n')
    assert len(rows(colrank("--config", tmp_path / "c.toml", "search", "bici", "--json"))) == 2
    assert len(rows(colrank("--config", tmp_path / "c.toml", "search", "bici", "--json", "-k", 1))) == 1


def test_shipped_presets_parse_and_name_existing_options():
    configs = sorted((Path(__file__).parent.parent / "configs").glob("*.toml"))
    configs = [config for config in configs if config.name != "prices.toml"]  # a table of another kind
    assert configs
    for config in configs:
        assert colrank("--config", config, "search", "--help").returncode == 0


def test_help_loads_nothing_heavy():
    done = colrank("--help")
    assert done.returncode == 0
    for name in ("index", "search", "explain", "stats"):
        assert re.search(rf"^  {name} +\w", done.stdout, re.MULTILINE)
    loaded = (
        "import sys, colrank, colrank.cli.main; "
        "print({'torch', 'numpy', 'pyarrow', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("name", ["index", "search", "explain", "stats"])
def test_every_command_tells_what_each_option_does(name: str):
    runner = CliRunner()
    done = runner.invoke(main, [name, "--help"])
    assert done.exit_code == 0
    command = main.get_command(click.Context(main), name)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert parameter.opts[0] in done.output


def test_ctrl_c_leaves_nothing_that_opens_as_an_index(tmp_path: Path):
    with (tmp_path / "big.jsonl").open("w", encoding="utf-8") as file:
        for row in range(3000):
            file.write(
                json.dumps({"_id": str(row), "text": f"Document number {row} about things. " * 20}) + "\n"
            )
    process = subprocess.Popen(
        [sys.executable, "-m", "colrank", "index", "big.jsonl"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A job in the background of a script is started with Ctrl-C ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "colrank.index" / "building" / "segment-00000001").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130
    assert [line for line in told.splitlines() if line] == [
        "What was encoded is kept: the same command goes on from there. An index that was there before "
        "stands.",
        "Stopped.",
    ]
    assert "There is no index" in fails("search", "things", cwd=tmp_path)
    held = {path.name for path in (tmp_path / "colrank.index").rglob("*") if path.is_file()}
    assert all(name == "colrank.lock" or name.endswith(".arrow") for name in held)
    assert {path.name for path in (tmp_path / "colrank.index").glob("building/*")} <= {"encoded"}


def test_storage_and_search_options_from_the_command_line_and_from_a_preset(tmp_path: Path, sample: Path):
    (tmp_path / "c.toml").write_text("[index]\nbits = 2\npool = 2\n[search]\nprune = 0.2\nnprobe = 64\n")
    index = tmp_path / "i"
    done = colrank("--config", tmp_path / "c.toml", "index", sample / "en", "--index", index)
    assert done.returncode == 0, done.stderr
    assert "linear codes of 2 bits over" in done.stdout
    stats = json.loads(colrank("stats", "--index", index, "--json").stdout)
    assert (stats["bits"], stats["pool"]) == (2, 2)
    assert stats["unpooled_tokens"] > 1.7 * stats["tokens"]
    assert stats["codec"]["squared_error"] > 0
    assert stats["bytes"]["total"] == sum(p.stat().st_size for p in index.rglob("*") if p.is_file())
    shown = colrank("stats", "--index", index).stdout
    assert re.search(r"Stored as +linear codes of 2 bits over \d+ centroids", shown)
    assert re.search(r"Codec error +0\.\d+ squared, cosine 0\.\d+ \(\d+ tokens unseen in training\)", shown)
    query = ("search", "winter storage", "--index", index, "--json", "-k", 3)
    forced = rows(colrank("--config", tmp_path / "c.toml", *query, "--scan", "never", "--shortlist", 999))
    assert [row["id"] for row in forced] == [row["id"] for row in rows(colrank(*query, "--scan", "always"))]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("index", "{sample}", "--bits", 3), "bits is 3; choose one of 1, 2, 4, 8, 16, 32."),
        (("index", "{sample}", "--pool", 0), "pool is 0"),
        (("search", "bike", "--nprobe", 0), "nprobe is 0"),
        (("search", "bike", "--prune", 7), "prune is 7.0"),
        (("search", "bike", "--scan", "never"), "without centroids"),
        (("tune", "--recall", 2), "without centroids|recall is 2"),
        (("eval",), "queries.jsonl and qrels"),
        (("eval", "{tmp}"), "queries.jsonl"),
    ],
)
def test_new_options_out_of_range_are_one_sentence(
    built: Path, sample: Path, tmp_path: Path, arguments: tuple, said: str
):
    named = [str(a).format(sample=sample, tmp=tmp_path) for a in arguments]
    index = tmp_path / "new" if arguments[0] == "index" else built
    assert re.search(said, fails(*named, "--index", index))
    assert not (tmp_path / "new").exists()

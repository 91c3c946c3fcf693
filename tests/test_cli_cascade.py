"""The stages on the command line: what is shown, what is told once, and the exit codes."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from cross_encoders import cross_encoder
from planted import CORPUS, NAN, QUERY, Planted

import colrank.candidates
import colrank.index_cascade
import colrank.opened
from colrank import ColRank
from colrank.cli.main import main, run
from colrank.encoder import load_encoder
from colrank.judge import FALLBACKS
from colrank.rerankers import load_reranker

NOTE = "Note: The scores of"


def good(query: str, text: str) -> float:
    """The legal guarantee answers, the maker's is about it, all else is noise; of the weather nothing is."""
    if "weather" in query:
        return 0.1
    return 0.9 if "legal" in text.lower() else 0.78 if "maker" in text else 0.2


PLANTED: dict[str, Callable[[], Planted]] = {
    "planted": lambda: Planted(good, tokens=700),
    "planted:talkative": lambda: Planted(good, warnings=["Something is odd."]),
    "planted:model": lambda: Planted(good, name="a model", steady=False),
    "planted:broken": lambda: Planted(good, fails=OSError("the cable is cut")),
    "planted:partial": lambda: Planted(lambda _, text: NAN if "legal" in text.lower() else 0.3),
    "planted:english": lambda: Planted(good, name="hf:cross-encoder/ms-marco-MiniLM-L6-v2"),
}


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def told(self) -> list[str]:
        return [line for line in self.err.splitlines() if line]


Command = Callable[..., Done]


@pytest.fixture
def colrank_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line in this process, with rerankers whose scores are planted."""

    def load(config: Any, exact: Any) -> Any:
        return PLANTED[config.rerank]() if config.rerank in PLANTED else load_reranker(config, exact)

    monkeypatch.setattr(colrank.index_cascade, "load_reranker", load)
    monkeypatch.setattr(colrank.candidates, "load_reranker", load)
    monkeypatch.setattr(colrank.opened, "load_encoder", _encoder)
    monkeypatch.setattr(colrank.candidates, "load_encoder", _encoder)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLRANK_INDEX", raising=False)

    def command(*arguments: object, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "argv", ["colrank", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err + shown.out
        return Done(int(ended.value.code or 0), shown.out, shown.err)

    return command


_encoder = lru_cache(load_encoder)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "i"
    made = ColRank.create(path, device="cpu", passage_tokens=24)
    made.add(CORPUS)
    return path


@pytest.fixture
def search(colrank_command: Command, built: Path) -> Command:
    return lambda *arguments, **more: colrank_command("search", *arguments, "--index", built, **more)


def fails(done: Done, code: int = 2) -> str:
    """One sentence and nothing else."""
    assert done.code == code, done
    assert done.out == ""
    assert len(done.told) == 1, done.err
    assert done.told[0].startswith("Error: ")
    assert done.told[0].endswith(".")
    return done.told[0]


# Search


def test_people_see_scores_tiers_and_the_verdict(search: Command):
    done = search(QUERY, "--rerank", "planted", "--judge", 0.75, "--dedupe", "-k", 3)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    heads = [line.split() for line in lines if line.startswith("  1 ") or line.startswith("  2 ")]
    assert [head[:3] for head in heads] == [["1", "0.9000", "high"], ["2", "0.7800", "topical"]]
    assert heads[0][3] in ("guarantee#0", "again#0")
    assert "Judge: approved. 3 of 7 hits reach 0.75." in lines
    assert sum(line.startswith(NOTE) for line in lines) == 1
    assert lines[-1] == "Left out: 4 below the judge's floor, 1 repeating a better hit's text."
    assert max(map(len, lines)) <= 120


def test_programs_get_hits_and_one_line_about_the_stages(search: Command):
    done = search(QUERY, "--rerank", "planted", "--judge", 0.75, "--dedupe", "--mmr", 0.7, "-k", 3, "--json")
    assert (done.code, done.err) == (0, "")
    *hits, summary = done.rows
    assert [(hit["rank"], hit["score"], hit["tier"]) for hit in hits] == [
        (1, 0.9, "high"),
        (2, 0.78, "topical"),
    ]
    assert set(hits[0]["scores"]) == {"maxsim", "rerank", "judge", "mmr"}
    assert "unscored" not in hits[0]
    assert list(summary) == [
        *("query", "hits", "verdict", "left_out", "usage", "timings", "warnings"),
    ]
    assert (summary["query"], summary["hits"], summary["warnings"]) == (QUERY, 2, [])
    assert summary["verdict"]["status"] == "approved"
    assert summary["usage"] | {"seconds": 0} == {
        "pairs": 7,
        "tokens": 700,
        "calls": 0,
        "cut": None,
        "seconds": 0,
    }
    assert {name: len(ids) for name, ids in summary["left_out"].items()} == {"judge": 4, "dedupe": 1}
    assert {"encode", "scan", "rerank", "judge", "dedupe", "mmr"} <= summary["timings"].keys()
    # Without stages there is nothing to say of them.
    plain = search(QUERY, "-k", 2, "--json").rows
    assert [row["rank"] for row in plain] == [1, 2]
    assert all("tier" not in row for row in plain)


def test_a_refused_query_says_so_and_ends_with_3(search: Command):
    done = search("what is the weather", "--rerank", "planted", "--judge", 0.75)
    assert (done.code, done.err) == (3, "")
    assert done.out.splitlines()[0] == FALLBACKS["en"]
    assert "Judge: refused. The best score is 0.1000, below 0.75." in done.out
    assert "guarantee" not in done.out
    own = search("what is the weather", "--rerank", "planted", "--judge", 0.75, "--fallback", "Ask a person.")
    assert (own.code, own.out.splitlines()[0]) == (3, "Ask a person.")
    machine = search("what is the weather", "--rerank", "planted", "--judge", 0.75, "--json")
    (summary,) = machine.rows
    assert machine.code == 3
    assert (summary["hits"], summary["verdict"]["status"]) == (0, "refused")
    assert summary["verdict"]["fallback"] == FALLBACKS["en"]
    assert len(summary["left_out"]["judge"]) == 7


def test_of_several_queries_all_have_to_be_refused(search: Command, tmp_path: Path):
    options = ("--rerank", "planted", "--judge", 0.75)
    some = search("what is the weather", QUERY, *options)
    assert some.code == 0
    assert some.out.count("Judge: refused") == some.out.count("Judge: approved") == 1
    # The note is the same for all and told once.
    assert some.out.count(NOTE) == 1
    (tmp_path / "q.tsv").write_text("a\tthe weather\nb\tweather today\n")
    every = search("--queries", tmp_path / "q.tsv", *options, "--json")
    assert every.code == 3
    assert [(row["query_id"], row["hits"]) for row in every.rows] == [("a", 0), ("b", 0)]


def test_a_failed_reranker_is_a_warning_or_ends_with_4(search: Command):
    plain = search(QUERY, "-k", 2, "--json").rows
    done = search(QUERY, "-k", 2, "--rerank", "planted:broken", "--json")
    *hits, summary = done.rows
    assert done.code == 0
    assert [hit["id"] for hit in hits] == [hit["id"] for hit in plain]
    assert all(hit["unscored"] and "rerank" not in hit["scores"] for hit in hits)
    assert len(summary["warnings"]) == 1
    assert done.told == [f"Warning: {summary['warnings'][0]}"]
    assert "OSError: the cable is cut" in done.err
    shown = search(QUERY, "-k", 2, "--rerank", "planted:broken")
    assert shown.code == 0
    assert shown.out.count("unscored  ") == 2
    assert shown.out.startswith("Warning: planted failed")
    said = fails(search(QUERY, "--rerank", "planted:broken", "--on-rerank-error", "fail"), 4)
    assert "the cable is cut" in said


@pytest.mark.parametrize("name", ["planted:broken", "planted:partial"])
def test_what_was_not_judged_is_neither_refused_nor_approved(search: Command, name: str):
    done = search(QUERY, "--rerank", name, "--judge", 0.75)
    assert done.code == 0
    assert "Judge: unjudged." in done.out
    assert "nothing was judged" in done.out
    assert FALLBACKS["en"] not in done.out
    said = fails(search(QUERY, "--rerank", name, "--judge", 0.75, "--on-judge-error", "fail"), 4)
    assert "nothing was judged" in said
    (summary,) = [
        row for row in search(QUERY, "--rerank", name, "--judge", 0.75, "--json").rows if "hits" in row
    ]
    assert summary["verdict"]["status"] == "unjudged"


@pytest.mark.parametrize("as_json", [True, False])
def test_a_warning_is_told_once_however_many_queries_there_are(search: Command, as_json: bool):
    arguments = (QUERY, "parcels", "money back", "--rerank", "planted:talkative", "-k", 1)
    done = search(*arguments, *(["--json"] if as_json else []))
    assert (done.err if as_json else done.out).count("Warning: Something is odd.") == 1
    if as_json:
        assert [row["warnings"] for row in done.rows if "warnings" in row] == [["Something is odd."]] * 3


def test_a_language_model_is_warned_of_by_the_judge_alone(search: Command):
    done = search(QUERY, "--rerank", "planted:model", "--judge", 0.75)
    assert "Warning: a model is a language model: its scores drift" in done.out
    assert "drift" not in search(QUERY, "--rerank", "planted:model").out


def test_only_as_many_candidates_as_asked_for(search: Command):
    *hits, summary = search(QUERY, "--mmr", 1, "--candidates", 3, "-k", 2, "--json").rows
    assert len(hits) == 2
    assert len(summary["left_out"]["k"]) == 1
    *hits, summary = search(QUERY, "--max-per-document", 1, "--json").rows
    assert len({hit["document"] for hit in hits}) == len(hits) == 5
    assert len(summary["left_out"]["max_per_document"]) == 2


def test_a_preset_names_the_stages(colrank_command: Command, built: Path, tmp_path: Path):
    (tmp_path / "c.toml").write_text(
        f'[search]\nindex = "{built}"\nrerank = "planted"\njudge = 0.75\ndedupe = true\nk = 1\n'
    )
    *hits, summary = colrank_command("--config", tmp_path / "c.toml", "search", QUERY, "--json").rows
    assert len(hits) == 1
    assert summary["left_out"]["dedupe"]
    done = colrank_command("--config", tmp_path / "c.toml", "search", QUERY, "--json", "--judge", 0.95)
    assert done.code == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--judge", 0.5), "judge needs a reranker"),
        (("--blend", 0.5), "blend mixes a reranker"),
        (("--mmr-exact",), "mmr_exact"),
        (("--mmr", 1.5), "mmr is 1.5"),
        (("--mmr", "nan"), "mmr is nan"),
        (("--judge", -1, "--rerank", "planted"), "judge is -1"),
        (("--candidates", 0, "--rerank", "planted"), "candidates is 0"),
        (("--max-per-document", 0), "max_per_document is 0"),
        (("--rerank", "nonsense"), "There is no reranker 'nonsense'"),
        (("--rerank", ""), "There is no reranker ''"),
        (("--rerank", "bert:x"), "There is no reranker 'bert:x'"),
        (("--rerank", "hf:./no-such-folder"), "no-such-folder"),
        (("--rerank", "planted", "--on-rerank-error", "ignore"), "ignore"),
        (("--rerank-timeout", 0, "--rerank", "planted"), "rerank_timeout is 0"),
        (("--mmr", "high"), "high"),
    ],
)
def test_bad_options_are_one_sentence(search: Command, arguments: tuple, said: str):
    assert said in fails(search(QUERY, *arguments))


# Rerank


@pytest.fixture
def found(tmp_path: Path) -> Path:
    path = tmp_path / "found.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in CORPUS), encoding="utf-8")
    return path


def test_candidates_of_a_file_and_of_standard_input(colrank_command: Command, found: Path):
    options = ("--rerank", "planted", "--judge", 0.75, "--dedupe")
    done = colrank_command("rerank", QUERY, found, *options, "-k", 1, "--json")
    hit, summary = done.rows
    assert (done.code, done.err) == (0, "")
    assert (hit["id"], hit["tier"], hit["scores"]["rerank"]) == ("guarantee", "high", 0.9)
    assert summary["left_out"] == {"judge": ["refund", "shipping"], "dedupe": ["again"], "k": ["maker"]}
    piped = colrank_command("rerank", QUERY, "-", *options, "-k", 1, "--json", stdin=found.read_text())
    assert piped.rows[0] == hit
    shown = colrank_command("rerank", QUERY, found, *options)
    assert shown.code == 0
    assert "  1    0.9000  high  guarantee" in shown.out


def test_what_a_search_prints_can_be_piped_into_it(colrank_command: Command, built: Path):
    searched = colrank_command("search", QUERY, "--index", built, "--json")
    done = colrank_command("rerank", QUERY, "-", "--rerank", "planted", "--json", stdin=searched.out)
    assert done.code == 0
    assert done.rows[0]["scores"] == {
        "given": next(row["score"] for row in searched.rows if row["id"] == done.rows[0]["id"]),
        "rerank": 0.9,
    }
    assert sorted(row["id"] for row in done.rows[:-1]) == sorted(row["id"] for row in searched.rows)


def test_refused_unjudged_and_failed_candidates(colrank_command: Command, found: Path):
    done = colrank_command("rerank", "the weather", found, "--rerank", "planted", "--judge", 0.75)
    assert done.code == 3
    assert done.out.startswith(FALLBACKS["en"])
    broken = ("rerank", QUERY, found, "--rerank", "planted:broken")
    assert colrank_command(*broken).code == 0
    assert colrank_command(*broken, "--judge", 0.75).code == 0
    assert "cable" in fails(colrank_command(*broken, "--on-rerank-error", "fail"), 4)
    assert "judged" in fails(colrank_command(*broken, "--judge", 0.75, "--on-judge-error", "fail"), 4)


def test_mmr_encodes_candidates_without_vectors(colrank_command: Command, found: Path):
    done = colrank_command("rerank", QUERY, found, "--mmr", 0.5, "-k", 2, "--json")
    assert done.code == 0
    first, second, _ = (row.get("id") for row in done.rows)
    assert first == "guarantee"
    assert second != "again"


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        ("", (), "Nothing was asked for"),
        ('{"text": "a"}\n', ("--judge", 0.5), "judge needs a reranker"),
        ('{"text": "a"}\nhello\n', ("--dedupe",), "line 2 is not valid JSON"),
        ("[]\n", ("--dedupe",), "line 1 is not a JSON object"),
        ('{"id": "a"}\n', ("--dedupe",), "Candidate 1 has no text"),
        (
            '{"text": "a", "id": 1}\n{"text": "b", "id": "1"}\n',
            ("--dedupe",),
            "Two candidates have the id '1'",
        ),
        ('{"text": "a", "score": NaN}\n', ("--dedupe",), "score nan"),
        ('{"text": "a", "vector": [[1], []]}\n', ("--mmr", 0.5), "vector of candidate 1"),
        (None, ("--dedupe",), "Cannot read"),
        ('{"text": "a"}\n', ("--dedupe", "-k", 0), "k is 0"),
    ],
)
def test_bad_candidates_are_one_sentence(
    colrank_command: Command, tmp_path: Path, content: str | None, arguments: tuple, said: str
):
    path = tmp_path / "found.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert said in fails(colrank_command("rerank", QUERY, path, *arguments))


def test_an_empty_query_is_one_sentence(colrank_command: Command, found: Path):
    assert "query" in fails(colrank_command("rerank", " ", found, "--dedupe"))
    assert "argument" in fails(colrank_command("rerank", QUERY)).lower()


# Explain


def test_where_a_known_passage_was_lost(colrank_command: Command, built: Path):
    asked = ("explain", QUERY, "--index", built, "--rerank", "planted", "-k", 2)
    lost = colrank_command(*asked, "--gold", "refund", "--judge", 0.75)
    assert (lost.code, lost.err) == (0, "")
    assert lost.out.splitlines()[0] == "refund  refused (judge)"
    assert "is below the floor, 0.75" in lost.out
    assert "  rerank: " in lost.out
    kept = colrank_command(*asked, "--gold", "again", "--json")
    (trace,) = kept.rows
    assert set(trace) == {"query", "id", "lost", "stage", "sentence", "ranks"}
    assert (trace["lost"], trace["ranks"]["cut"] in (1, 2)) == ("", True)
    gone = colrank_command(*asked, "--gold", "nothing-here")
    assert (gone.code, "not indexed (index)" in gone.out) == (0, True)


def test_what_explain_cannot_do_is_one_sentence(colrank_command: Command, built: Path, tmp_path: Path):
    asked = ("explain", QUERY, "--index", built)
    assert "Name a passage" in fails(colrank_command(*asked))
    assert "Name a passage" in fails(colrank_command(*asked, "refund", "--gold", "refund"))
    html = ("--gold", "refund", "--html", tmp_path / "x.html")
    assert "--html" in fails(colrank_command(*asked, *html))
    assert "judge needs" in fails(colrank_command(*asked, "--gold", "refund", "--judge", 0.5))
    broken = ("--rerank", "planted:broken", "--on-rerank-error", "fail")
    assert "cable" in fails(colrank_command(*asked, "--gold", "refund", *broken), 4)


# Eval


@pytest.fixture(scope="module")
def judged_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    (folder / "qrels").mkdir()
    queries = {"a": QUERY, "b": "when do parcels leave", "c": "what is the weather"}
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in queries.items())
    )
    (folder / "qrels" / "test.tsv").write_text("a\tguarantee\t2\na\tagain\t1\nb\tshipping\t1\nc\trefund\t1\n")
    return folder


def test_eval_shows_each_stage_and_ends_with_a_verdict(
    colrank_command: Command, built: Path, judged_folder: Path, tmp_path: Path
):
    (tmp_path / "prices.toml").write_text("[planted]\nusd_per_million_tokens = 0.05\n")
    asked = ("eval", judged_folder, "--index", built, "--rerank", "planted", "--judge", 0.75, "-k", 3)
    done = colrank_command(
        *asked, "--candidates", "2,5", "--prices", tmp_path / "prices.toml", "--max-ms", 1e6
    )
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    stages = [line.split()[0] for line in lines if line.startswith(("search", "rerank", "judge", "cut"))]
    assert stages == ["search", "rerank", "judge", "cut"]
    assert any(line.startswith("candidates") and "recall" in line for line in lines)
    assert [line.split()[0] for line in lines if line.startswith(("2 ", "5 "))] == ["2", "5"]
    # Of the weather this reranker knows nothing, though what is said to be relevant is among the candidates.
    assert "The judge refused 1 queries, 1 of them with a relevant document among the candidates" in done.out
    assert "A query costs 5 pairs, 700 tokens, 0.04 USD for 1,000 queries." in done.out
    assert any(
        line.startswith("Not worth it: with 7 passages there is little to choose from") for line in lines
    )


def test_eval_for_programs(colrank_command: Command, built: Path, judged_folder: Path):
    asked = ("eval", judged_folder, "--index", built, "--json")
    (told,) = colrank_command(*asked, "--rerank", "planted:talkative", "--candidates", "3,50,5").rows
    cascade = told["cascade"]
    # The usual number, where it is among those compared.
    assert (cascade["candidates"], [row["candidates"] for row in cascade["sweep"]]) == (50, [3, 5, 50])
    assert cascade["warnings"] == ["Something is odd. (3 queries)"]
    assert cascade["verdict"] == "not worth it"
    (plain,) = colrank_command(*asked).rows
    assert plain["cascade"] is None
    (mmr,) = colrank_command(*asked, "--mmr", 0.5).rows
    assert [stage["name"] for stage in mmr["cascade"]["stages"]] == ["search", "mmr"]
    assert mmr["cascade"]["sentence"] == ""


def test_eval_of_a_failing_reranker(colrank_command: Command, built: Path, judged_folder: Path):
    asked = ("eval", judged_folder, "--index", built, "--rerank", "planted:broken")
    done = colrank_command(*asked)
    assert done.code == 0
    assert "Nothing was measured: the reranker failed for every query." in done.out
    assert done.out.count("the cable is cut") == 1
    assert "cable" in fails(colrank_command(*asked, "--on-rerank-error", "fail"), 4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--candidates", "ten"), "--candidates is 'ten'"),
        (("--candidates", "10,"), "--candidates is '10,'"),
        (("--candidates", "0,10"), "--candidates is '0,10'"),
        (("--candidates", "10,20"), "name one with rerank"),
        (("--max-ms", 100), "name one with rerank"),
        (("--judge", 0.5), "judge needs a reranker"),
        (("--rerank", "planted", "--prices", "nowhere.toml"), "nowhere.toml"),
        (("--rerank", "planted", "-k", 0), "k is 0"),
    ],
)
def test_bad_options_of_eval_are_one_sentence(
    colrank_command: Command, built: Path, judged_folder: Path, arguments: tuple, said: str
):
    assert said in fails(colrank_command("eval", judged_folder, "--index", built, *arguments))


# With what is really there


def test_a_cross_encoder_of_a_folder_and_the_index_s_own_model(search: Command, tmp_path: Path):
    folder = cross_encoder(tmp_path / "tiny")
    *hits, summary = search(QUERY, "--rerank", f"hf:{folder}", "--rerank-device", "cpu", "--json").rows
    assert summary["usage"]["pairs"] == 7
    logits = [hit["scores"]["rerank_logit"] for hit in hits]
    assert logits == sorted(logits, reverse=True)
    assert all(0 <= hit["score"] <= 1 for hit in hits)
    refused = search(QUERY, "--rerank", f"hf:{folder}", "--rerank-device", "cpu", "--judge", 1)
    assert (refused.code, refused.err) == (3, "")
    assert FALLBACKS["en"] in refused.out.splitlines()
    *hits, summary = search(QUERY, "--rerank", "exact", "--json").rows
    raw = [hit["scores"]["rerank_maxsim"] for hit in hits]
    assert raw == sorted(raw, reverse=True)


@pytest.mark.parametrize("name", ["rerank", "eval", "tune"])
def test_every_command_tells_what_each_option_does(name: str):
    done = CliRunner().invoke(main, [name, "--help"])
    assert done.exit_code == 0
    command = main.get_command(click.Context(main), name)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert parameter.opts[0] in done.output


def test_the_exit_codes_are_told():
    told = " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    for code in ("0 done", "2 bad input", "3 refused by the judge", "4 a stage failed"):
        assert code in told

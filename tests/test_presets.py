"""The files of configs/: they parse, name options that exist, and explain each one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from colrank.cli.main import main
from colrank.config import CascadeConfig
from colrank.evaluate.prices import Price, read_prices
from colrank.rerankers.languages import languages_read
from colrank.rerankers.registry import EXACT, FAMILIES

CONFIGS = Path(__file__).parent.parent / "configs"
PRESETS = sorted(path for path in CONFIGS.glob("*.toml") if path.name != "prices.toml")
FUNNELS = {
    # candidates, k, and lambda where MMR is on
    "card": (50, 5, None),
    "light": (25, 5, None),
    "tutorial": (20, 4, None),
}


def content(path: Path) -> dict[str, dict[str, Any]]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def named(path: Path) -> str:
    return path.stem


def test_the_presets_that_are_promised_are_there():
    assert {"default", *FUNNELS, "english", "multilingual", "spanish"} <= set(map(named, PRESETS))


@pytest.mark.parametrize("path", PRESETS, ids=named)
@pytest.mark.parametrize("command", ["search", "index", "eval", "rerank", "explain"])
def test_a_preset_parses_before_any_command(path: Path, command: str):
    done = CliRunner().invoke(main, ["--config", str(path), command, "--help"])
    assert done.exit_code == 0, done.output + repr(done.exception)


@pytest.mark.parametrize("path", PRESETS, ids=named)
def test_each_option_exists_and_has_its_very_type(path: Path):
    for command_name, table in content(path).items():
        command = main.get_command(click.Context(main), command_name)
        assert command is not None, command_name
        options = {parameter.name: parameter for parameter in command.params}
        assert table, command_name
        for key, value in table.items():
            option = options[key]
            assert isinstance(option, click.Option)
            if option.is_flag:
                assert isinstance(value, bool)
            elif option.type is click.INT:
                assert type(value) is int
            elif option.type is click.FLOAT:
                assert type(value) in (int, float)
            else:
                assert isinstance(value, str)
            if isinstance(option.type, click.Choice):
                assert value in option.type.choices


@pytest.mark.parametrize("path", PRESETS, ids=named)
def test_each_option_is_explained(path: Path):
    """Beside its line in one of the tables, that is; the second table of the same need not say it again."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    explained = {match.group(1) for line in lines if (match := re.match(r"(?:# )?(\w+) = .*\S\s+# \S", line))}
    for table in content(path).values():
        assert set(table) <= explained, path.name


@pytest.mark.parametrize("path", PRESETS, ids=named)
def test_the_stages_of_a_preset_are_a_cascade(path: Path):
    tables = content(path)
    search = tables.get("search", {})
    stages = {key: value for key, value in search.items() if key in CascadeConfig.__slots__}
    made = CascadeConfig(**stages)
    assert made.candidates >= search.get("k", 10)
    for table in tables.values():
        for key in table.keys() & search.keys() - {"candidates"}:
            assert table[key] == search[key]
        if "rerank" in table:
            family, _, model = table["rerank"].partition(":")
            assert family in (*FAMILIES, EXACT)
            assert model
    if "eval" in tables and "candidates" in tables["eval"]:
        assert tables["eval"]["candidates"] == str(made.candidates)


@pytest.mark.parametrize("name", FUNNELS)
def test_the_funnels(name: str):
    search = content(CONFIGS / f"{name}.toml")["search"]
    assert (search["candidates"], search["k"], search.get("mmr")) == FUNNELS[name]
    assert "judge" not in search


@pytest.mark.parametrize("path", PRESETS, ids=named)
def test_what_is_commented_out_is_right_too(path: Path):
    """A line that users uncomment has to work as it stands."""
    text = path.read_text(encoding="utf-8")
    uncommented = re.sub(r"^# (\w+ = \S.*)$", r"\1", text, flags=re.MULTILINE)
    options = {parameter.name for parameter in main.get_command(click.Context(main), "search").params}  # type: ignore[union-attr]
    search = tomllib.loads(uncommented).get("search", {})
    assert set(search) <= options
    CascadeConfig(**{key: value for key, value in search.items() if key in CascadeConfig.__slots__})


def test_models_are_of_the_languages_that_a_preset_is_for():
    for name, needed in (("spanish", {"es"}), ("multilingual", {"es", "en"})):
        tables = content(CONFIGS / f"{name}.toml")
        for model in (tables["index"]["model"], tables["search"]["rerank"].partition(":")[2]):
            read = languages_read(model)
            assert read is None or needed <= set(read), model
    assert languages_read(content(CONFIGS / "english.toml")["search"]["rerank"].partition(":")[2]) == ("en",)


def test_the_prices_are_read():
    found = read_prices(CONFIGS / "prices.toml")
    assert found
    for name, price in found.items():
        family, _, model = name.partition(":")
        assert family in FAMILIES
        assert model
        assert price != Price()
        assert price.usd_per_1000_searches or price.usd_per_million_tokens
    text = (CONFIGS / "prices.toml").read_text(encoding="utf-8")
    for key in ("usd_per_1000_searches", "documents_per_search", "usd_per_million_tokens"):
        assert re.search(rf"^#.*{key}", text, re.MULTILINE), key


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('[search]\ncandidates = "50"\n', "candidates of search is '50'; give a whole number"),
        ("[eval]\ncandidates = 50\n", "candidates of eval is 50; give a string"),
        ("[search]\nmmr = true\n", "mmr of search is True; give a number"),
        ("[search]\ndedupe = 1\n", "dedupe of search is 1; give true or false"),
        ("[search]\nrerank = 3\n", "rerank of search is 3; give a string"),
        ("[rerank]\ncandidates = 50\n", "rerank has no option 'candidates'"),
        ("[search]\nrerank-model = 'x'\n", "search has no option 'rerank-model'"),
    ],
)
def test_a_wrong_option_of_a_preset_is_one_sentence(tmp_path: Path, written: str, said: str):
    path = tmp_path / "c.toml"
    path.write_text(written)
    done = CliRunner().invoke(main, ["--config", str(path), "search", "--help"])
    assert done.exit_code != 0
    assert said in str(done.exception)


def test_an_option_may_be_written_with_hyphens(tmp_path: Path):
    path = tmp_path / "c.toml"
    path.write_text("[search]\nmax-per-document = 2\nmmr = 1\non-judge-error = 'fail'\n")
    assert CliRunner().invoke(main, ["--config", str(path), "search", "--help"]).exit_code == 0

"""`colrank search`: queries into ranked passages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from colrank.cli.options import PATH, index_option, json_option, model_options
from colrank.config import By, check_k
from colrank.errors import InputError


@click.command("search", short_help="Find the passages that answer a query.")
@click.argument("queries", nargs=-1, metavar="[QUERY]...")
@click.option(
    "--queries",
    "file",
    type=PATH,
    help="File of queries: one a line, .tsv (id, query) or .jsonl (_id, text); - is standard input.",
)
@click.option("-k", "--k", "k", type=int, default=10, show_default=True, help="How many hits.")
@click.option(
    "--by",
    type=click.Choice(["passage", "document"]),
    default="passage",
    show_default=True,
    help="What is counted; a document stands by its best passage.",
)
@index_option
@model_options
@json_option
def command(
    queries: tuple[str, ...],
    file: Path | None,
    k: int,
    by: By,
    index: Path,
    model: str | None,
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
    as_json: bool,
) -> None:
    """Find the passages that answer a query; several queries are searched at once."""
    check_k(k)
    named: list[tuple[str | None, str]] = [(None, query) for query in queries]
    if file is not None:
        named += read_queries(file)
    if not named:
        raise InputError("There is no query; give one, or a file of them with --queries.")

    from colrank.api import ColRank
    from colrank.cli.render import echo_json, hit_record, print_hits

    opened = ColRank.open(index, model=model, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    found = opened.search(
        [query for _, query in named],
        k,
        by=by,
        highlight=not as_json,
    )
    for (name, _), hits in zip(named, found, strict=True):
        if as_json:
            for rank, hit in enumerate(hits, start=1):
                echo_json(hit_record(hits.query, name, rank, hit))
            for warning in hits.warnings:
                click.echo(f"Warning: {warning}", err=True)
        else:
            print_hits(hits, several=len(named) > 1)


def read_queries(path: Path) -> list[tuple[str | None, str]]:
    """Queries of a file with their ids: JSON lines with `text` and maybe `_id`, TSV of id and query, else
    one a line; - is standard input, one a line.

    Raises:
        InputError: the file cannot be read, holds no query, or a line is not what it should be.
    """
    if path.suffix.lower() not in ("", ".txt", ".tsv", ".jsonl", ".json") and str(path) != "-":
        raise InputError(f"Queries are read from .txt, .tsv and .jsonl files, not from {path}.")
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"Cannot read the queries {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"The queries {path} are not UTF-8; save the file as UTF-8.") from error
    found: list[tuple[str | None, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        if path.suffix.lower() == ".tsv":
            name, tab, query = line.partition("\t")
            if not tab or not query.strip():
                raise InputError(f"{path} line {number} is not an id, a tab and a query.")
            found.append((name.strip(), query.strip()))
            continue
        if path.suffix.lower() not in (".jsonl", ".json"):
            found.append((None, line.strip()))
            continue
        try:
            record = json.loads(line)
            query = record["text"]
            name = record.get("_id", record.get("id"))
            if not isinstance(query, str) or not query.strip():
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{path} line {number} is not a JSON object with a text that is not empty."
            ) from error
        found.append((None if name is None else str(name), query))
    if not found:
        raise InputError(f"There is no query in {path}.")
    return found

"""`colrank search`: queries into ranked passages."""

from __future__ import annotations

from pathlib import Path

import click

from colrank.cli.options import PATH, index_option, json_option, model_options, search_options
from colrank.config import By, Scan, SearchConfig, check_k
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
@search_options
@index_option
@model_options
@json_option
def command(
    queries: tuple[str, ...],
    file: Path | None,
    k: int,
    by: By,
    scan: Scan,
    nprobe: int | None,
    shortlist: int | None,
    prune: float | None,
    index: Path,
    model: str | None,
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
    as_json: bool,
) -> None:
    """Find the passages that answer a query; several queries are searched at once."""
    check_k(k)
    SearchConfig(scan, nprobe, shortlist, prune)
    named: list[tuple[str | None, str]] = [(None, query) for query in queries]
    if file is not None:
        from colrank.evaluate import read_queries

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
        scan=scan,
        nprobe=nprobe,
        shortlist=shortlist,
        prune=prune,
    )
    for (name, _), hits in zip(named, found, strict=True):
        if as_json:
            for rank, hit in enumerate(hits, start=1):
                echo_json(hit_record(hits.query, name, rank, hit))
            for warning in hits.warnings:
                click.echo(f"Warning: {warning}", err=True)
        else:
            print_hits(hits, several=len(named) > 1)

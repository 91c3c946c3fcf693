"""`colrank search`: queries into ranked passages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from colrank.cli.options import (
    PATH,
    by_option,
    filter_options,
    index_option,
    json_option,
    k_option,
    model_options,
    search_options,
)
from colrank.cli.stage_options import candidates_option, stage_options
from colrank.config import By, check_k, query_configs
from colrank.errors import InputError


@click.command("search", short_help="Find the passages that answer a query.")
@click.argument("queries", nargs=-1, metavar="[QUERY]...")
@click.option(
    "--queries",
    "file",
    type=PATH,
    help="File of queries: one a line, .tsv (id, query) or .jsonl (_id, text); - is standard input.",
)
@k_option("How many hits.")
@by_option("What is counted; a document stands by its best passage.")
@filter_options
@search_options
@candidates_option
@stage_options
@click.option(
    "--check-reads", is_flag=True, help="Compare the checksum of every file of the index before searching."
)
@index_option
@model_options
@json_option
def command(
    queries: tuple[str, ...],
    file: Path | None,
    k: int,
    by: By,
    filter: str | None,
    path_prefix: str | None,
    ids: str | None,
    check_reads: bool,
    index: Path,
    model: str | None,
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the passages that answer a query; several queries are searched at once.

    \b
    colrank search "how long is the guarantee?" -k 5
    colrank search "how long is the guarantee?" --filter "lang = 'en' and year >= 2020"
    colrank search "how long is the guarantee?" --rerank hf:BAAI/bge-reranker-v2-m3 --judge 0.75 --mmr 0.7

    Exit code 3: the judge refused every query.
    """
    check_k(k)
    second = query_configs(options)[1]
    named: list[tuple[str | None, str]] = [(None, query) for query in queries]
    if file is not None:
        from colrank.evaluate import read_queries

        named += read_queries(file)
    if not named:
        raise InputError("There is no query; give one, or a file of them with --queries.")

    from colrank.api import ColRank
    from colrank.cli.hits import REFUSED, echo_hits, print_hits

    opened = ColRank.open(
        index,
        model=model,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
        check_reads=check_reads,
    )
    found = opened.search(
        [query for _, query in named],
        k,
        by=by,
        highlight=not as_json,
        filter=filter,
        path_prefix=path_prefix,
        ids=None if ids is None else ids.split(","),
        **options,
    )
    told: set[str] = set()
    for (name, _), hits in zip(named, found, strict=True):
        if as_json:
            echo_hits(hits, name, summary=second.active, told=told)
        else:
            print_hits(hits, several=len(named) > 1, told=told)
    if all(hits.verdict is not None and hits.verdict.status == "refused" for hits in found):
        raise click.exceptions.Exit(REFUSED)

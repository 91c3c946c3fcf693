"""`colrank tune`: the cheapest settings of the prefilter for a wanted recall."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from colrank.cli.options import PATH, index_option, json_option, model_options
from colrank.config import check_k


@click.command("tune", short_help="Find the fastest search settings for a wanted recall.")
@click.option(
    "--recall", type=float, default=0.99, show_default=True, help="Wanted recall, above 0, at most 1."
)
@click.option(
    "-k", "--k", "k", type=int, default=10, show_default=True, help="Hits that recall is measured on."
)
@click.option(
    "--queries",
    "file",
    type=PATH,
    help="File of queries, as for search. [default: drawn from the index's own passages]",
)
@click.option(
    "--drawn", type=int, default=64, show_default=True, help="How many queries are drawn, without --queries."
)
@click.option("--store", is_flag=True, help="Keep the settings in the index: searches then use them.")
@index_option
@model_options
@json_option
def command(
    recall: float,
    k: int,
    file: Path | None,
    drawn: int,
    store: bool,
    index: Path,
    model: str | None,
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
    as_json: bool,
) -> None:
    """Find the fastest settings of the prefilter whose k best passages are those of the full scan.

    Recall is the share of the full scan's k best passages that the prefilter finds too, over the same
    codes. Queries drawn from passages are easier than real ones: give a file of real ones if you can.
    """
    from colrank.api import ColRank
    from colrank.cli.render import echo_json, print_tuning
    from colrank.evaluate import read_queries

    check_k(k)
    queries = None if file is None else [text for _, text in read_queries(file)]
    opened = ColRank.open(index, model=model, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    found = opened.tune(recall, k, queries=queries, drawn=drawn, store=store)
    if as_json:
        for trial in found.trials:
            echo_json(asdict(trial) | {"best": trial is found.best})
    else:
        print_tuning(found, stored=store)

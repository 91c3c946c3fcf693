"""`colrank explain`: why a passage matched a query."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from colrank.cli.options import (
    PATH,
    by_option,
    index_option,
    json_option,
    k_option,
    model_options,
    search_options,
)
from colrank.cli.stage_options import candidates_option, stage_options
from colrank.config import By, check_k, query_configs
from colrank.errors import InputError


@click.command("explain", short_help="Show token by token why a passage matched.")
@click.argument("query")
@click.argument("id", required=False)
@click.option(
    "--gold",
    metavar="ID",
    help="Say instead where this passage or document was lost on its way to the hits.",
)
@k_option("For --gold: how many hits.")
@by_option("For --gold: what is counted.")
@click.option("--html", type=PATH, help="Write a page with the heat on the words.")
@search_options
@candidates_option
@stage_options
@index_option
@model_options
@json_option
def command(
    query: str,
    id: str | None,
    gold: str | None,
    k: int,
    by: By,
    html: Path | None,
    index: Path,
    model: str | None,
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show for each token of QUERY the token of the passage ID that is nearest.

    ID is a passage as search prints it (document#0), or a document, whose best passage is shown. With
    --gold ID instead, the options of search say how the hits are found.

    \b
    colrank explain "how long is the guarantee?" guarantee.md#0
    colrank explain "how long is the guarantee?" --gold guarantee.md -k 5
    """
    if (id is None) == (gold is None):
        raise InputError("Name a passage or document, either as ID or with --gold.")
    if gold is not None and html is not None:
        raise InputError("--html shows the words of a passage; name it as ID, without --gold.")
    check_k(k)
    query_configs(options)

    from colrank.api import ColRank
    from colrank.cli.page import explanation_page
    from colrank.cli.render import echo_json, print_explanation, print_trace

    opened = ColRank.open(index, model=model, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    if gold is not None:
        found = opened.trace(
            query,
            gold,
            k,
            by=by,
            **options,
        )
        if as_json:
            echo_json(dataclasses.asdict(found))
        else:
            print_trace(found)
        return
    assert id is not None
    explanation = opened.explain(query, id)
    if html is not None:
        try:
            html.write_text(explanation_page(explanation), encoding="utf-8")
        except OSError as error:
            raise InputError(f"Cannot write {html}: {error.strerror}.") from error
    if as_json:
        for match in explanation.tokens:
            echo_json(
                {
                    "query": explanation.query,
                    "id": explanation.id,
                    "document": explanation.document,
                    "score": explanation.score,
                    **dataclasses.asdict(match),
                    "contribution": match.contribution,
                }
            )
    else:
        print_explanation(explanation)
        if html is not None:
            click.echo(f"Wrote {html}")

"""`colrank explain`: why a passage matched a query."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from colrank.cli.options import PATH, index_option, json_option, model_options
from colrank.errors import InputError


@click.command("explain", short_help="Show token by token why a passage matched.")
@click.argument("query")
@click.argument("id")
@click.option("--html", type=PATH, help="Write a page with the heat on the words.")
@index_option
@model_options
@json_option
def command(
    query: str,
    id: str,
    html: Path | None,
    index: Path,
    model: str | None,
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
    as_json: bool,
) -> None:
    """Show for each token of QUERY the token of the passage ID that is nearest.

    ID is a passage as search prints it (document#0), or a document, whose best passage is shown.
    """
    from colrank.api import ColRank
    from colrank.cli.page import explanation_page
    from colrank.cli.render import echo_json, print_explanation

    opened = ColRank.open(index, model=model, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
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

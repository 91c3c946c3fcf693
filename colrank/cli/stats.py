"""`colrank stats`: what an index holds and costs."""

from __future__ import annotations

from pathlib import Path

import click

from colrank.cli.options import index_option, json_option


@click.command("stats", short_help="Show what an index holds and costs.")
@index_option
@json_option
def command(index: Path, as_json: bool) -> None:
    """Show documents, passages, tokens, bytes by part, model, token weights and kernels."""
    from colrank.api import ColRank
    from colrank.cli.render import echo_json, print_stats

    stats = ColRank.open(index).stats()
    if as_json:
        echo_json(stats)
    else:
        print_stats(stats)

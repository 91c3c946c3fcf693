"""`colrank verify`: whether an index is whole."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from colrank.cli.options import index_option, json_option

BROKEN = 2
"""Exit code where something is broken."""


@click.command("verify", short_help="Read every file of an index and say what is broken.")
@index_option
@json_option
def command(index: Path, as_json: bool) -> None:
    """Check every file of an index: checksums, tables, and that they fit each other.

    Exit code 0: whole. 2: something is broken, and said.
    """
    from colrank.cli.render import echo_json, one_line
    from colrank.index import verify
    from colrank.types import human_bytes

    found = verify(index)
    if as_json:
        echo_json(asdict(found))
    else:
        click.echo(
            f"{index}, generation {found.generation}: {found.files:,} files, {human_bytes(found.bytes)}, "
            f"{found.segments:,} segments, {found.documents:,} documents, {found.passages:,} passages, "
            f"{found.tokens:,} tokens."
        )
        for fault in found.faults:
            click.echo(f"Broken: {one_line(str(fault))}")
        if found.strays:
            click.echo(f"Not part of the index, and harmless: {', '.join(map(one_line, found.strays))}")
        if found.faults:
            click.echo("Restore these files from a copy, or index again with --overwrite.")
        else:
            click.echo("All of it is whole.")
    if found.faults:
        raise click.exceptions.Exit(BROKEN)

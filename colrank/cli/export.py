"""`colrank export`: an index as plain Parquet."""

from __future__ import annotations

from pathlib import Path

import click

from colrank.cli.options import PATH, index_option


@click.command("export", short_help="Write an index as plain Parquet.")
@click.argument("file", type=PATH)
@click.option("--vectors", is_flag=True, help="Write the decoded token vectors too.")
@index_option
def command(file: Path, vectors: bool, index: Path) -> None:
    """Write ids, text, metadata and, where asked for, vectors to a Parquet file, a row a passage.

    \b
    colrank export corpus.parquet
    colrank import corpus.parquet --index again.index
    """
    from colrank.api import ColRank
    from colrank.types import human_bytes

    count = ColRank.open(index).export(file, vectors=vectors)
    click.echo(f"Wrote {count:,} passages of {index} to {file}: {human_bytes(file.stat().st_size)}.")

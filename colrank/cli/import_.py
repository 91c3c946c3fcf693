"""`colrank import`: what `colrank export` wrote, into an index."""

from __future__ import annotations

from pathlib import Path

import click

from colrank.cli.options import PATH, index_option, model_options
from colrank.config import BITS, EMBEDDED_MODEL


@click.command("import", short_help="Make an index of what export wrote.")
@click.argument("file", type=PATH)
@click.option("--vectors", is_flag=True, help="Take the vectors of the file; no model is needed.")
@click.option(
    "--overwrite", is_flag=True, help="Replace the index that is there, once the new one is complete."
)
@click.option("--bits", type=int, metavar=f"[{'|'.join(map(str, BITS))}]", help="As for index.")
@index_option
@model_options
def command(
    file: Path,
    vectors: bool,
    overwrite: bool,
    bits: int | None,
    index: Path,
    model: str | None,
    device: str | None,
    dtype: str,
    trust_remote_code: bool,
) -> None:
    """Make an index of a Parquet file that export wrote: texts are encoded again, or vectors taken."""
    from colrank.api import ColRank
    from colrank.cli.progress import Bars
    from colrank.cli.render import print_update

    made = ColRank.create(
        index,
        model=None if vectors else model or EMBEDDED_MODEL,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
        bits=bits,
        overwrite=overwrite,
    )
    with Bars() as bars:
        report = made.add_exported(file, vectors=vectors, progress=bars)
    print_update(index, report)
